import Dispatch
import Foundation
import Lupine
import LupineBase
import Testing

/// Parity with AFNetworkReachabilityManagerTests: against the network of this machine, of which only the loopback interface is asked for.
@Suite(.timeLimit(.minutes(1))) struct NetworkReachabilityManagerTests {
  private func managers() throws -> [NetworkReachabilityManager] {
    [
      try NetworkReachabilityManager(address: "127.0.0.1"), NetworkReachabilityManager(domain: "localhost"),
      NetworkReachabilityManager(domain: "127.0.0.1"),
    ]
  }

  /// `-init` and `+new` throw in AFNetworking: a manager has to know what to reach. Here `init()` is `+manager`, and what is no address is refused.
  @Test(arguments: ["", "localhost", "300.1.1.1", "127.0.0.1:80", "fe80::1%nonexistent0"])
  func whatIsNoAddressIsRefused(_ address: String) {
    let error = #expect(throws: SessionError.self) { try NetworkReachabilityManager(address: address) }
    #expect(error?.code == .badURL)
  }

  /// Managers for an address and for a domain start unknown.
  @Test func startsUnknown() throws {
    for manager in try managers() + [NetworkReachabilityManager()] {
      #expect(manager.networkReachabilityStatus == .unknown)
      #expect(!manager.isReachable && !manager.isReachableViaWiFi && !manager.isReachableViaWWAN)
      #expect(manager.localizedNetworkReachabilityStatusString == "Unknown")
      manager.stopMonitoring()
    }
    #expect(NetworkReachabilityManager.shared === NetworkReachabilityManager.shared)
  }

  /// After the start a notification with a reachable status arrives, its object is the manager, and the block is called with the status before.
  @Test func tellsBlockAndNotification() async throws {
    for manager in try managers() {
      let events = Locked<[String]>([])
      let queue = DispatchQueue(label: "reachability")
      let token = NotificationCenter.default.addObserver(
        forName: .networkReachabilityDidChange, object: manager, queue: nil
      ) { [weak manager] notification in
        let number = notification.userInfo?["AFNetworkingReachabilityNotificationStatusItem"] as? NSNumber
        let isOwn = (notification.object as? NetworkReachabilityManager) === manager
        dispatchPrecondition(condition: .onQueue(queue))
        events.withLock { $0.append("notification \(number?.intValue ?? -9) \(isOwn)") }
      }
      defer { NotificationCenter.default.removeObserver(token) }
      manager.setReachabilityStatusChangeBlock(queue: queue) { status in
        dispatchPrecondition(condition: .onQueue(queue))
        events.withLock { $0.append("block \(status.rawValue)") }
      }
      try manager.startMonitoring()
      try await waitUntil { events.withLock { $0.count >= 2 } }
      #expect(events.withLock { $0 } == ["block 3", "notification 3 true"])
      #expect(manager.isReachable && manager.isReachableViaEthernet)
      manager.stopMonitoring()
      #expect(manager.networkReachabilityStatus == .reachableViaEthernet)
      // Once more from the beginning: the first event comes also if nothing has changed.
      try manager.startMonitoring()
      try await waitUntil { events.withLock { $0.count >= 4 } }
      manager.stopMonitoring()
    }
    #expect(Notification.Name.networkReachabilityDidChange.rawValue == "com.alamofire.networking.reachability.change")
    #expect(networkReachabilityStatusKey == "AFNetworkingReachabilityNotificationStatusItem")
  }

  /// The main queue, unless another is named.
  @Test func tellsOnTheMainQueue() async throws {
    let manager = try NetworkReachabilityManager(address: "127.0.0.1")
    let told = Locked<[NetworkReachabilityStatus]>([])
    manager.setReachabilityStatusChangeBlock { status in
      dispatchPrecondition(condition: .onQueue(.main))
      told.withLock { $0.append(status) }
    }
    try manager.startMonitoring()
    try await waitUntil { told.withLock { !$0.isEmpty } }
    #expect(told.withLock { $0.first?.isReachable } == true)
    manager.stopMonitoring()
  }

  /// A sequence begins with what is known, or with the first event; it ends with its manager.
  @Test func statusesAreASequence() async throws {
    var manager: NetworkReachabilityManager? = try NetworkReachabilityManager(address: "::1")
    let statuses = try #require(manager?.statuses)
    try manager?.startMonitoring()
    var seen: [NetworkReachabilityStatus] = []
    for await status in statuses {
      seen.append(status)
      #expect(manager?.networkReachabilityStatus == status)
      // Late subscribers hear what is known.
      var late = try #require(manager?.statuses).makeAsyncIterator()
      #expect(await late.next() == status)
      manager = nil
    }
    #expect(seen.count == 1)
  }

  /// A domain without an address is not reachable.
  @Test func unknownDomains() async throws {
    let manager = NetworkReachabilityManager(domain: "127.1")
    var statuses = manager.statuses.makeAsyncIterator()
    try manager.startMonitoring()
    #expect(await statuses.next() == .notReachable)
    #expect(manager.localizedNetworkReachabilityStatusString == "Not Reachable")
  }

  @Test func numbersAndTexts() {
    let rows: [(NetworkReachabilityStatus, Int, String, Bool)] = [
      (.unknown, -1, "Unknown", false), (.notReachable, 0, "Not Reachable", false),
      (.reachableViaWWAN, 1, "Reachable via WWAN", true), (.reachableViaWiFi, 2, "Reachable via WiFi", true),
      (.reachableViaEthernet, 3, "Reachable via Ethernet", true),
    ]
    #expect(rows.map(\.0) == NetworkReachabilityStatus.allCases)
    for (status, number, text, isReachable) in rows {
      #expect(status.rawValue == number && status.localizedString == text && status.isReachable == isReachable)
    }
  }

  /// The thread and its descriptors go with the last manager that monitors.
  @Test func nothingIsLeft() async throws {
    do {
      let all = try managers()
      for manager in all { try manager.startMonitoring() }
      #expect(Self.netlinkSockets() > 0)
      for manager in all { manager.stopMonitoring() }
    }
    try await waitUntil { Self.netlinkSockets() == 0 }
  }

  /// Sockets of this process that the kernel lists under netlink.
  private static func netlinkSockets() -> Int {
    let listed = (try? String(contentsOfFile: "/proc/self/net/netlink", encoding: .utf8)) ?? ""
    let inodes = Set(
      listed.split(separator: "\n").dropFirst().compactMap { $0.split(separator: " ").last.map(String.init) })
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    return names.count { name in
      let target = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")) ?? ""
      return target.hasPrefix("socket:[") && inodes.contains(String(target.dropFirst(8).dropLast()))
    }
  }

  private func waitUntil(_ condition: () -> Bool) async throws {
    let deadline = ContinuousClock.now + .seconds(60)
    while !condition() {
      try #require(ContinuousClock.now < deadline, "it did not come to that")
      await Task.yield()
    }
  }

  /// A manager has the shared one unless it is given another.
  @Test func managersHaveOne() throws {
    let manager = try SessionManager()
    #expect(manager.reachabilityManager === NetworkReachabilityManager.shared)
    let own = NetworkReachabilityManager()
    manager.reachabilityManager = own
    #expect(manager.reachabilityManager === own)
  }
}

extension NetworkReachabilityManagerTests {
  /// Asks the manager when it goes, as a screen does that shows the status.
  private final class Screen: Sendable {
    let manager: NetworkReachabilityManager
    let asked: Locked<[NetworkReachabilityStatus]>

    init(_ manager: NetworkReachabilityManager, _ asked: Locked<[NetworkReachabilityStatus]>) {
      self.manager = manager
      self.asked = asked
    }

    deinit {
      let status = manager.networkReachabilityStatus
      asked.withLock { $0.append(status) }
    }

    /// Gives the screen to the block, and keeps nothing.
    static func watch(_ manager: NetworkReachabilityManager, _ asked: Locked<[NetworkReachabilityStatus]>) {
      let screen = Screen(manager, asked)
      manager.setReachabilityStatusChangeBlock { [screen] _ in _ = screen }
    }
  }

  /// The last reference to somebody who asks the manager goes outside of its lock.
  @Test func aFormerBlockMayAskTheManager() {
    let manager = NetworkReachabilityManager(domain: "127.0.0.1")
    let asked = Locked<[NetworkReachabilityStatus]>([])
    Screen.watch(manager, asked)
    manager.setReachabilityStatusChangeBlock(nil)
    #expect(asked.withLock { $0 } == [.unknown])
  }
}
