public import Dispatch
internal import Foundation
internal import LupineBase
public import LupineSession

/// Follows the state of one task of a manager: what spins a wheel while the task runs.
///
/// The callbacks come one after another on one queue, even if that is concurrent. Binding another task, or nil, ends what was bound before; so does the end of the
/// binder. Any thread.
///
/// Source: `UIActivityIndicatorView+AFNetworking`, `UIRefreshControl+AFNetworking`. Changed: a task may be bound before it is resumed for a
/// refresh control too.
public final class TaskStateBinder: Sendable {
  /// What is done when a task changes its state.
  public struct Callbacks: Sendable {
    /// The task runs: begins, or goes on; also at once for one that runs when it is bound.
    public var resumed: @Sendable () -> Void
    /// The task stands still; also at once for one that does when it is bound.
    public var suspended: @Sendable () -> Void
    /// The task is over.
    public var completed: @Sendable () -> Void

    /// Three of them.
    public init(
      resumed: @escaping @Sendable () -> Void, suspended: @escaping @Sendable () -> Void,
      completed: @escaping @Sendable () -> Void
    ) {
      self.resumed = resumed
      self.suspended = suspended
      self.completed = completed
    }

    /// Two: a suspended task and one that is over are the same to a wheel.
    public init(start: @escaping @Sendable () -> Void, stop: @escaping @Sendable () -> Void) {
      self.init(resumed: start, suspended: stop, completed: stop)
    }
  }

  /// One binding: an old one does nothing any more, whatever it hears.
  private final class Binding: Sendable {
    let task: SessionTask
    let observers = ObserverList()

    init(_ task: SessionTask) {
      self.task = task
    }
  }

  private let queue: DispatchQueue
  private let callbacks: Callbacks
  private let binding = Locked<Binding?>(nil)

  /// Makes a binder without a task.
  ///
  /// - Parameters:
  ///   - queue: where the callbacks are called. Default nil: the main queue, which a program has to run.
  ///   - callbacks: what is done.
  public init(queue: DispatchQueue? = nil, callbacks: Callbacks) {
    self.queue = .serial("lupine.binder", on: queue ?? .main)
    self.callbacks = callbacks
  }

  /// Follows a task from now on, instead of the one before; nil for none. Nothing is called for a task that is over.
  public func bind(_ task: SessionTask?) {
    guard let task, task.state != .completed else { return replace(with: nil) }
    let new = Binding(task)
    replace(with: new)
    // Observed first and asked then, on the queue: a change in between is told twice rather than never, and the older state never last.
    observe(.taskDidResume, new) { $0.resumed }
    observe(.taskDidSuspend, new) { $0.suspended }
    observe(.taskDidComplete, new) { $0.completed }
    call(new) { callbacks in
      switch task.state {
      case .running: callbacks.resumed
      case .suspended, .canceling: callbacks.suspended
      case .completed: callbacks.completed
      }
    }
  }

  private func replace(with new: Binding?) {
    let former = binding.withLock { binding in
      defer { binding = new }
      return binding
    }
    // Not under the lock: it may hold the last reference to a task, whose handler holds somebody who binds anew when it goes.
    withExtendedLifetime(former) {}
  }

  private func observe(
    _ name: Notification.Name, _ binding: Binding, _ callback: @escaping @Sendable (Callbacks) -> @Sendable () -> Void
  ) {
    binding.observers.observe(name, of: binding.task.taskIdentifier) { [weak self, weak binding] _ in
      guard let self, let binding else { return }
      call(binding, callback)
    }
  }

  private func call(_ binding: Binding, _ callback: @escaping @Sendable (Callbacks) -> @Sendable () -> Void) {
    queue.async { [weak self] in
      guard let self, self.binding.withLock({ $0 === binding }) else { return }
      callback(callbacks)()
    }
  }
}
