internal import Dispatch
internal import FoundationEssentials
internal import LupineIO

/// Who waits in an `async` call, to be woken exactly once. What it waits for is left elsewhere, and taken from there.
///
/// Checked in debug builds, and for ThreadSanitizer, which does not see the order that an unchecked continuation makes. In others the check
/// is left out, an object for each request: that a task completes exactly once is its own invariant (`TaskRun`, `BufferConsumer`).
@safe
struct Waiter: Sendable {
  #if DEBUG || LUPINE_THREAD_SANITIZER
  private let continuation: CheckedContinuation<Void, Never>
  #else
  private let continuation: UnsafeContinuation<Void, Never>
  #endif
  /// Of a `TaskPriority`, whose layout is not known here: with one, whatever holds a waiter is moved and copied by way of its metadata.
  private let priority: UInt8
  /// Wakes at the end of its turn.
  private let loop: EventLoop?
  /// Where delegates are told before.
  private let queue: DispatchQueue?

  #if DEBUG || LUPINE_THREAD_SANITIZER
  fileprivate init(_ continuation: CheckedContinuation<Void, Never>, _ loop: EventLoop?, _ queue: DispatchQueue?) {
    self.continuation = continuation
    (self.loop, self.queue, priority) = (loop, queue, Task.currentPriority.rawValue)
  }

  private func resume() { continuation.resume() }
  #else
  fileprivate init(_ continuation: UnsafeContinuation<Void, Never>, _ loop: EventLoop?, _ queue: DispatchQueue?) {
    unsafe self.continuation = continuation
    (self.loop, self.queue, priority) = (loop, queue, Task.currentPriority.rawValue)
  }

  private func resume() { unsafe continuation.resume() }
  #endif

  func wake() {
    if let queue {
      queue.async { resume() }
    } else if let loop {
      loop.atEndOfTurn(priority: TaskPriority(rawValue: priority)) { resume() }
    } else {
      resume()
    }
  }
}

extension Session {
  /// Begins a task, and suspends until its consumer has the outcome. Cancelling the Swift task cancels it.
  ///
  /// Inlined, and with nothing between it and the continuation: each function that suspends asks the runtime for its executor, which costs
  /// 200 instructions and more.
  @inline(__always)
  func answer(
    of run: TaskRun, _ consumer: BufferConsumer, _ delegate: (any SessionTaskDelegate)?
  ) async throws -> (Data, Response) {
    let queue = run.callbacks == nil ? nil : delegateQueue
    await withTaskCancellationHandler {
      #if DEBUG || LUPINE_THREAD_SANITIZER
      await withCheckedContinuation { begin(run, consumer, delegate, Waiter($0, engine?.loop, queue)) }
      #else
      await unsafe withUnsafeContinuation { unsafe begin(run, consumer, delegate, Waiter($0, engine?.loop, queue)) }
      #endif
    } onCancel: {
      run.cancel()
    }
    return try consumer.take()
  }

  private func begin(
    _ run: TaskRun, _ consumer: BufferConsumer, _ delegate: (any SessionTaskDelegate)?, _ waiter: Waiter
  ) {
    // In this order: of a task that was cancelled before it began, delegates hear that it was created before the call ends.
    launch(run, delegate)
    consumer.attach(waiter)
  }
}
