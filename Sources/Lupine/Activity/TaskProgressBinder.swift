public import Dispatch
internal import LupineBase
public import LupineSession

/// Follows the progress of one task: what moves a bar.
///
/// The callback gets the latest state only, if it is slower than the task; the last one is that of the task's end. Binding another task, or nil,
/// ends what was bound before; so does the end of the binder. Any thread.
///
/// Source: `UIProgressView+AFNetworking`. Changed: a task without a known length reports too, with bytes and no fraction.
public final class TaskProgressBinder: Sendable {
  private let queue: DispatchQueue
  private let update: @Sendable (TaskProgress) -> Void
  private let binding = Locked<(number: UInt64, follower: Task<Void, Never>?)>((0, nil))

  /// Makes a binder without a task.
  ///
  /// - Parameters:
  ///   - queue: where the callback is called. Default nil: the main queue, which a program has to run.
  ///   - update: what is done; see `TaskProgress.fractionReceived` and `fractionSent`.
  public init(queue: DispatchQueue? = nil, update: @escaping @Sendable (TaskProgress) -> Void) {
    self.queue = .serial("lupine.binder", on: queue ?? .main)
    self.update = update
  }

  deinit {
    binding.withLock { $0.follower }?.cancel()
  }

  /// Follows a task from now on, instead of the one before; nil for none. Nothing is called for a task that is over.
  public func bind(_ task: SessionTask?) {
    let updates = task.flatMap { $0.state == .completed ? nil : $0.progressUpdates }
    let (number, old) = binding.withLock { binding in
      defer { binding.follower = nil }
      binding.number += 1
      return (binding.number, binding.follower)
    }
    old?.cancel()
    guard let updates else { return }
    let follower = Task { [weak self, queue] in
      for await progress in updates {
        // One at a time: meanwhile the stream keeps the latest alone.
        await withCheckedContinuation { continuation in
          queue.async { [weak self] in
            self?.deliver(progress, number)
            continuation.resume()
          }
        }
      }
    }
    let isCurrent = binding.withLock { binding in
      guard binding.number == number else { return false }
      binding.follower = follower
      return true
    }
    if !isCurrent { follower.cancel() }
  }

  /// On the queue.
  private func deliver(_ progress: TaskProgress, _ number: UInt64) {
    guard binding.withLock({ $0.number == number }) else { return }
    update(progress)
  }
}
