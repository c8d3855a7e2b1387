internal import Dispatch
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
  /// Suspends until the waiter that `body` is given at once has been woken.
  ///
  /// - Parameter afterCallbacks: behind what delegates are told.
  @inline(__always)
  func wait(afterCallbacks: Bool, _ body: (Waiter) -> Void) async {
    let queue = afterCallbacks ? delegateQueue : nil
    #if DEBUG || LUPINE_THREAD_SANITIZER
    await withCheckedContinuation { body(Waiter($0, engine?.loop, queue)) }
    #else
    await unsafe withUnsafeContinuation { unsafe body(Waiter($0, engine?.loop, queue)) }
    #endif
  }
}
