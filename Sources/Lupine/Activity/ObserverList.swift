internal import Foundation
internal import LupineBase
internal import LupineSession

/// Observers of the default notification center, which end with their list.
///
/// Foundation's tokens cannot be shared between threads. So the process observes each name once, for good, and the lists are told.
final class ObserverList: Sendable {
  typealias Handler = @Sendable (AnyObject?) -> Void

  /// What somebody hears of: the notifications of a name, of all objects or of one task.
  private struct Topic: Hashable {
    var name: Notification.Name
    var task: UInt64?
  }

  private struct Registry {
    var handlers: [Topic: [UInt64: Handler]] = [:]
    var lastNumber: UInt64 = 0

    /// In the order in which they came.
    func listeners(_ name: Notification.Name, _ task: UInt64?) -> [Handler] {
      var found = handlers[Topic(name: name, task: nil)] ?? [:]
      if let task, let own = handlers[Topic(name: name, task: task)] { found.merge(own) { first, _ in first } }
      return found.sorted { $0.key < $1.key }.map(\.value)
    }

    mutating func remove(_ topic: Topic, _ number: UInt64) {
      handlers[topic]?[number] = nil
      if handlers[topic]?.isEmpty == true { handlers[topic] = nil }
    }
  }

  private static let registry = Locked(Registry())
  private static let names = Locked<Set<Notification.Name>>([])
  private let observed = Locked<[(topic: Topic, number: UInt64)]>([])

  /// Calls `handler` with the object of each notification, on the thread that posts it.
  ///
  /// - Parameter task: the identifier of the only task that is of interest, so that many who follow one each are not all asked about every other. Default nil:
  ///   whatever the object is.
  func observe(_ name: Notification.Name, of task: UInt64? = nil, _ handler: @escaping Handler) {
    let topic = Topic(name: name, task: task)
    let number = Self.registry.withLock { registry in
      registry.lastNumber += 1
      registry.handlers[topic, default: [:]][registry.lastNumber] = handler
      return registry.lastNumber
    }
    observed.withLock { $0.append((topic, number)) }
    // Under its lock, so that nobody goes on before the name is observed.
    Self.names.withLock { names in
      guard names.insert(name).inserted else { return }
      _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { notification in
        Self.tell(name, notification.object as AnyObject?)
      }
    }
  }

  private static func tell(_ name: Notification.Name, _ object: AnyObject?) {
    let task = (object as? SessionTask)?.taskIdentifier
    let handlers = registry.withLock { $0.listeners(name, task) }
    for handler in handlers { handler(object) }
  }

  deinit {
    let observed = observed.withLock { $0 }
    Self.registry.withLock { registry in
      for (topic, number) in observed { registry.remove(topic, number) }
    }
  }
}
