public import Dispatch
internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// Says when a sign of network activity is to show: not for what is over in a moment, and without flicker between two requests.
///
/// It counts the tasks of managers that run, by their notifications, and operations; each once, however often it is resumed, suspended and
/// completed. `async` calls that give a value post no notifications and are not counted: `incrementActivityCount()` and its counterpart around them do
/// that. Disabled until you enable it; it counts all the same. Any thread.
///
/// Source: `AFNetworkActivityIndicatorManager`. Changed: enabling looks at the count at once; a task that is suspended and then cancelled is
/// taken off once.
public final class NetworkActivityIndicatorManager: Sendable {
  /// Shows or hides the sign.
  public typealias Action = @Sendable (_ isVisible: Bool) -> Void

  /// One for the whole process, which calls its action on the main queue.
  public static let shared = NetworkActivityIndicatorManager()

  private struct State {
    var machine = ActivityIndicatorMachine()
    var activationDelay = Duration.seconds(1)
    var completionDelay = Duration.milliseconds(170)
    var action: Action?
    var running: Set<ObjectKey> = []
  }

  /// What is counted: a task has several handles, an operation one.
  private enum ObjectKey: Hashable {
    case task(UInt64)
    case operation(ObjectIdentifier)
  }

  private let queue: DispatchQueue
  private let timer: any DelayTimer
  private let state = LockedStorage(State())
  private let observers = ObserverList()

  /// Makes a manager that listens from now on.
  ///
  /// - Parameters:
  ///   - queue: where the action is called, one call at a time even if it is concurrent. Default nil: the main queue, which a program has to run.
  ///   - timer: measures the delays. Default the system's clock.
  public init(queue: DispatchQueue? = nil, timer: any DelayTimer = SystemDelayTimer()) {
    self.queue = .serial("lupine.activity", on: queue ?? .main)
    self.timer = timer
    for (name, isRunning) in Self.notifications {
      observers.observe(name) { [weak self] object in self?.note(object, isRunning) }
    }
  }

  private static let notifications: [(Notification.Name, Bool)] = [
    (.taskDidResume, true), (.taskDidSuspend, false), (.taskDidComplete, false),
    (.operationDidStart, true), (.operationDidFinish, false),
  ]

  // MARK: Settings

  /// Whether the sign may show. Default false. Disabling hides it at once.
  public var isEnabled: Bool {
    get { state.withLock { $0.machine.isEnabled } }
    set { change { $0.setEnabled(newValue) } }
  }

  /// How long there must be activity before the sign shows. Default 1 s; holds for what begins later.
  public var activationDelay: Duration {
    get { state.withLock { $0.activationDelay } }
    set { state.withLock { $0.activationDelay = newValue } }
  }

  /// How long there must be none before the sign hides. Default 0.17 s; holds for what ends later.
  public var completionDelay: Duration {
    get { state.withLock { $0.completionDelay } }
    set { state.withLock { $0.completionDelay = newValue } }
  }

  /// What shows and hides the sign, called whenever that changes. Default nil. Source: `setNetworkingActivityActionWithBlock:`.
  public var action: Action? {
    get { state.withLock { $0.action } }
    set {
      // The former one is let go of outside of the lock: it may hold the last reference to somebody who asks the manager when it goes.
      let former = state.withLock { state in
        defer { state.action = newValue }
        return state.action
      }
      withExtendedLifetime(former) {}
    }
  }

  // MARK: State

  /// Whether the sign shows.
  public var isNetworkActivityIndicatorVisible: Bool { state.withLock { $0.machine.isVisible } }

  /// What is counted now.
  public var activityCount: Int { state.withLock { $0.machine.count } }

  /// Counts one activity of yours.
  public func incrementActivityCount() {
    change { $0.change(by: 1) }
  }

  /// Takes one activity off; nothing happens if there is none.
  public func decrementActivityCount() {
    change { $0.change(by: -1) }
  }

  // MARK: Events

  private func note(_ object: AnyObject?, _ isRunning: Bool) {
    let key: ObjectKey
    switch object {
    case let task as SessionTask: key = .task(task.taskIdentifier)
    case let operation as Operation: key = .operation(ObjectIdentifier(operation))
    default: return
    }
    let isNew = state.withLock { state in
      isRunning ? state.running.insert(key).inserted : state.running.remove(key) != nil
    }
    if isNew { change { $0.change(by: isRunning ? 1 : -1) } }
  }

  private func change(_ event: (inout ActivityIndicatorMachine) -> [ActivityIndicatorMachine.Action]) {
    let timers = state.withLock { state in
      event(&state.machine).compactMap { perform($0, &state) }
    }
    // A timer of others may call back at once, on this thread. Timers are known by their numbers: one that begins late does no harm.
    for (duration, number) in timers {
      timer.after(duration) { [weak self] in self?.change { $0.timerFired(number) } }
    }
  }

  /// Under the lock, so that what is shown comes in the order in which it was decided: nothing of others is called, only queued.
  ///
  /// - Returns: the timer that is to begin when the lock is free.
  private func perform(
    _ action: ActivityIndicatorMachine.Action, _ state: inout State
  ) -> (duration: Duration, number: UInt64)? {
    switch action {
    case .startTimer(let delay, let number):
      return (delay == .activation ? state.activationDelay : state.completionDelay, number)
    // Timers are known by their numbers: one that comes late has no effect.
    case .stopTimer: return nil
    case .setVisible(let isVisible):
      if let action = state.action { queue.async { action(isVisible) } }
      return nil
    }
  }
}
