internal import Foundation
internal import LupineBase

/// Observers of the default notification center, which end with their list.
///
/// Foundation's tokens cannot be shared between threads. So the process observes each name once, for good, and the lists are told.
final class ObserverList: Sendable {
  typealias Handler = @Sendable (AnyObject?) -> Void

  private struct Registry {
    var handlers: [Notification.Name: [UInt64: Handler]] = [:]
    var lastNumber: UInt64 = 0
  }

  private static let registry = Locked(Registry())
  private static let names = Locked<Set<Notification.Name>>([])
  private let observed = Locked<[(name: Notification.Name, number: UInt64)]>([])

  /// Calls `handler` with the object of each notification, on the thread that posts it.
  func observe(_ name: Notification.Name, _ handler: @escaping Handler) {
    let number = Self.registry.withLock { registry in
      registry.lastNumber += 1
      registry.handlers[name, default: [:]][registry.lastNumber] = handler
      return registry.lastNumber
    }
    observed.withLock { $0.append((name, number)) }
    // Under its lock, so that nobody goes on before the name is observed.
    Self.names.withLock { names in
      guard names.insert(name).inserted else { return }
      _ = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { notification in
        Self.tell(name, notification.object as AnyObject?)
      }
    }
  }

  private static func tell(_ name: Notification.Name, _ object: AnyObject?) {
    let handlers = registry.withLock { registry in
      (registry.handlers[name] ?? [:]).sorted { $0.key < $1.key }.map(\.value)
    }
    for handler in handlers { handler(object) }
  }

  deinit {
    let observed = observed.withLock { $0 }
    Self.registry.withLock { registry in
      for (name, number) in observed { registry.handlers[name]?[number] = nil }
    }
  }
}
