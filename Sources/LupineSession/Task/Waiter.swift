internal import Dispatch
internal import FoundationEssentials
internal import LupineIO

/// Who waits in an `async` call, to be woken exactly once. What it waits for is left elsewhere, and taken from there.
///
/// Checked in debug builds, and for ThreadSanitizer, which does not see the order that an unchecked continuation makes. In others the check
/// is left out, an object for each request: that a task completes exactly once is its own invariant (`BufferedRun`).
@safe
struct Waiter: Sendable {
  #if DEBUG || LUPINE_THREAD_SANITIZER
  private let continuation: CheckedContinuation<Void, Never>
  #else
  private let continuation: UnsafeContinuation<Void, Never>
  #endif
  /// Of a `TaskPriority`, whose layout is not known here: with one, whatever holds a waiter is moved and copied by way of its metadata.
  private let priority: UInt8

  /// Where waiters are resumed.
  enum Place: Sendable {
    /// By whoever brings the end. So is whoever waits on an engine's executor: on that of the engine which brings it nobody need be woken, and of another one the
    /// thread is woken by the executor itself.
    case here
    /// At the end of the turn of the session's engine that brings it.
    case endOfTurn
    /// Where delegates are told before.
    case queue(DispatchQueue)
  }

  #if DEBUG || LUPINE_THREAD_SANITIZER
  fileprivate init(_ continuation: CheckedContinuation<Void, Never>) {
    self.continuation = continuation
    priority = Task.currentPriority.rawValue
  }

  func resume() { continuation.resume() }
  #else
  fileprivate init(_ continuation: UnsafeContinuation<Void, Never>) {
    unsafe self.continuation = continuation
    priority = Task.currentPriority.rawValue
  }

  func resume() { unsafe continuation.resume() }
  #endif

  /// Has `run`, which holds the waiter, resume it in its time. By way of the run, because a closure over one reference needs no memory.
  func wake(of run: BufferedRun, at place: Place) {
    switch place {
    case .here: run.resumeWaiter()
    case .endOfTurn:
      guard let loop = run.session.turningLoop else { return run.resumeWaiter() }
      loop.atEndOfTurn(priority: TaskPriority(rawValue: priority)) { run.resumeWaiter() }
    case .queue(let queue): queue.async { run.resumeWaiter() }
    }
  }
}

extension Session {
  /// Begins a task, and suspends until it has its outcome. Cancelling the Swift task cancels it.
  ///
  /// Inlined, and with nothing between it and the continuation: each function that suspends asks the runtime for its executor, which costs
  /// 200 instructions and more.
  @inline(__always)
  func answer(
    of run: BufferedRun, _ delegate: (any SessionTaskDelegate)?
  ) async throws -> (Data, Response) {
    await withTaskCancellationHandler {
      #if DEBUG || LUPINE_THREAD_SANITIZER
      await withCheckedContinuation { begin(run, delegate, Waiter($0)) }
      #else
      await unsafe withUnsafeContinuation { unsafe begin(run, delegate, Waiter($0)) }
      #endif
    } onCancel: {
      run.cancel()
    }
    return try run.takeOutcome()
  }

  private func begin(_ run: BufferedRun, _ delegate: (any SessionTaskDelegate)?, _ waiter: Waiter) {
    // In this order: of a task that was cancelled before it began, delegates hear that it was created before the call ends.
    launch(run, delegate)
    run.attach(waiter)
  }
}
