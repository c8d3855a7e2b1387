public import Dispatch
public import Foundation
public import LupineSession
internal import LupineBase
internal import LupineIO
internal import LupineRules

extension Notification.Name {
  /// The status has changed, or has become known; the object is the manager, and the status an `NSNumber` under `networkReachabilityStatusKey`.
  /// Posted on the main queue, or on the queue that was named with the block.
  ///
  /// Source: `AFNetworkingReachabilityDidChangeNotification`.
  public static let networkReachabilityDidChange = Notification.Name("com.alamofire.networking.reachability.change")
}

/// The key of the status in the notification's `userInfo`: an `NSNumber`, the `rawValue`. Source: the constant of the same string.
public let networkReachabilityStatusKey = "AFNetworkingReachabilityNotificationStatusItem"

/// Watches whether the network reaches out, or to a host or an address, and over what: by the kernel's routes (netlink), without sending anything.
///
/// For telling people why something failed, and for trying again when there is a network. Never ask it whether to send a request: it can be
/// wrong in both ways. It knows what this machine knows, neither whether the next router works nor whether the server does.
///
/// Nothing is watched before `startMonitoring()`. Then a first status always comes, and after it every one that differs from the one before.
/// Any thread. A manager holds no reference to itself: let it go, and it stops.
///
/// Source: `AFNetworkReachabilityManager`.
public final class NetworkReachabilityManager: Sendable {
  /// What is to be reached.
  enum Subject: Sendable {
    case target(ReachabilityTarget)
    case domain(String)
  }

  private typealias Stream = AsyncStream<NetworkReachabilityStatus>.Continuation

  private struct State {
    var status = NetworkReachabilityStatus.unknown
    var subscription: NetworkSubscription?
    /// Raised by start and stop: what was begun before is not heard any more.
    var generation: UInt64 = 0
    /// Raised by every lookup: an answer to an earlier one comes too late, although it may be under way when its lookup is cancelled.
    var lookupNumber: UInt64 = 0
    var outbox = ReachabilityOutbox()
    var streams: [UInt64: Stream] = [:]
    var nextStream: UInt64 = 0
    var lookup: ResolveToken?
  }

  private let subject: Subject
  private let state = Locked(State())
  /// Held by who tells streams, one status after the other. Not `state`: telling resumes tasks, which waits for handlers of their cancellation, and those may
  /// ask for the status.
  private let telling = Locked(())
  private let makeMonitor: @Sendable () throws(IOError) -> NetworkMonitor
  private let makeResolver: @Sendable () throws(IOError) -> SystemResolver
  private let timer: any DelayTimer
  private let facts: @Sendable (String) -> LinkFacts

  /// One for the whole process: whether there is a way out. Not started. Source: `+sharedManager`.
  public static let shared = NetworkReachabilityManager()

  private static let resolver = Locked<SystemResolver?>(nil)

  /// Watches whether there is a way out: a default route. Source: `+manager`.
  public convenience init() {
    self.init(.target(.anywhere))
  }

  /// Watches a host. It is resolved at every change of the network; nobody asks it anything. Source: `+managerForDomain:`.
  ///
  /// - Parameter domain: a DNS name, in Unicode too, or an address. A name that has no address is not reachable. While the name servers do not answer the
  ///   status stays as it is, and they are asked again after 1 s, 2 s and so on up to a minute; without a default route it is not reachable meanwhile.
  public convenience init(domain: String) {
    self.init(.domain(domain))
  }

  /// Watches an address. Source: `+managerForAddress:`.
  ///
  /// - Parameter address: an IPv4 or IPv6 literal, a link-local one with its zone (`fe80::1%eth0`).
  /// - Throws: `SessionError` with `.badURL` for anything else.
  public convenience init(address: String) throws(SessionError) {
    guard let literal = SocketAddress(literal: address, port: 0), let target = ReachabilityTarget(literal) else {
      throw SessionError(.badURL, phase: .prepare, message: "\"\(address)\" is no IPv4 or IPv6 address")
    }
    self.init(.target(target))
  }

  /// `monitor`, `resolver`, `timer` and `facts` are for tests.
  init(
    _ subject: Subject, monitor: @escaping @Sendable () throws(IOError) -> NetworkMonitor = NetworkMonitor.shared,
    resolver: @escaping @Sendable () throws(IOError) -> SystemResolver = NetworkReachabilityManager.sharedResolver,
    timer: any DelayTimer = SystemDelayTimer(),
    facts: @escaping @Sendable (String) -> LinkFacts = NetworkReachabilityManager.systemFacts
  ) {
    self.subject = subject
    makeMonitor = monitor
    makeResolver = resolver
    self.timer = timer
    self.facts = facts
  }

  deinit {
    let streams = state.withLock { state in
      state.lookup?.cancel()
      return state.streams.values
    }
    for stream in streams { stream.finish() }
  }

  private static let systemFacts: @Sendable (String) -> LinkFacts = { name in
    let facts = NetworkInterfaces.facts(name)
    return LinkFacts(isWireless: facts.isWireless, deviceType: facts.deviceType)
  }

  // MARK: Status

  /// The latest status; `.unknown` before the first. After `stopMonitoring()` the last one. Source: `networkReachabilityStatus`.
  public var networkReachabilityStatus: NetworkReachabilityStatus { state.withLock { $0.status } }
  /// Whether there is a way. Source: `isReachable`.
  public var isReachable: Bool { networkReachabilityStatus.isReachable }
  /// Whether it is over a mobile network. Source: `isReachableViaWWAN`.
  public var isReachableViaWWAN: Bool { networkReachabilityStatus == .reachableViaWWAN }
  /// Whether it is over a wireless interface. Source: `isReachableViaWiFi`, which is true of cables too.
  public var isReachableViaWiFi: Bool { networkReachabilityStatus == .reachableViaWiFi }
  /// Whether it is over anything else.
  public var isReachableViaEthernet: Bool { networkReachabilityStatus == .reachableViaEthernet }
  /// The status in English. Source: `-localizedNetworkReachabilityStatusString`.
  public var localizedNetworkReachabilityStatusString: String { networkReachabilityStatus.localizedString }

  /// Calls `block` with every status, before the notification; replaces the block before. Statuses that were not told yet, because the queue before is
  /// held up, come on the new one; a first block that is set while the manager monitors is called with the status that is known. Source:
  /// `-setReachabilityStatusChangeBlock:`.
  ///
  /// - Parameters:
  ///   - queue: where the block is called and the notification is posted. Default the main queue. Give a serial one.
  ///   - block: nil: call nobody.
  public func setReachabilityStatusChangeBlock(
    queue: DispatchQueue = .main, _ block: (@Sendable (NetworkReachabilityStatus) -> Void)?
  ) {
    // The former one is let go of outside of the lock: it may hold the last reference to somebody who asks the manager when it goes.
    let former = state.withLock { state in
      let former = state.outbox.name(block, queue)
      if state.outbox.isWaiting { queue.async { [weak self] in self?.deliver(on: queue) } }
      return former
    }
    withExtendedLifetime(former) {}
  }

  /// The status, if it is known, and each one that follows while the manager monitors. `stopMonitoring()` does not end the sequence, and one that was on its
  /// way then may still come; it ends when the manager goes. Whoever is slow gets the latest 16.
  public var statuses: AsyncStream<NetworkReachabilityStatus> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: NetworkReachabilityStatus.self, bufferingPolicy: .bufferingNewest(16))
    let number = state.withLock { state in
      state.nextStream += 1
      state.streams[state.nextStream] = continuation
      if state.status != .unknown { continuation.yield(state.status) }
      return state.nextStream
    }
    continuation.onTermination = { [state] _ in state.withLock { _ = $0.streams.removeValue(forKey: number) } }
    return stream
  }

  // MARK: Monitoring

  /// Starts watching, from the beginning if it was watching already: the status is told once more. Source: `-startMonitoring`.
  ///
  /// - Throws: `SessionError` with `.system` when the system has no descriptor or thread left, or a sandbox forbids netlink.
  public func startMonitoring() throws(SessionError) {
    stopMonitoring()
    let monitor: NetworkMonitor
    do throws(IOError) {
      monitor = try makeMonitor()
    } catch {
      throw SessionError(
        .system, phase: .prepare, message: "the network cannot be watched: \(error)", underlying: error)
    }
    let generation = state.withLock { $0.generation }
    let subscription = monitor.subscribe { [weak self] table in self?.networkChanged(table, since: generation) }
    state.withLock { state in
      // Somebody else may have started or stopped meanwhile; then this one goes.
      if state.generation == generation, state.subscription == nil { state.subscription = subscription }
    }
  }

  /// Stops watching. The status stays; block and notification tell nothing any more, not even what waits on the queue. Source: `-stopMonitoring`.
  public func stopMonitoring() {
    let former = state.withLock { state in
      state.generation += 1
      state.outbox.clear()
      state.lookup?.cancel()
      state.lookup = nil
      return state.subscription.take()
    }
    withExtendedLifetime(former) {}
  }

  /// On the monitor's thread.
  func networkChanged(_ table: NetworkTable, since start: UInt64) {
    let isCurrent = state.withLock { $0.generation == start }
    guard isCurrent else { return }
    switch subject {
    case .target(let target): tell(status(table, [target]), since: start)
    case .domain(let domain): resolve(Self.lookupName(domain), table, since: start)
    }
  }

  /// What requests for the domain look up: an A-label for Unicode, which name services do not know. An address stays as it is: its zone is
  /// written otherwise than in a URL. So does what is no host, for the resolver to refuse.
  private static func lookupName(_ domain: String) -> String {
    if SocketAddress(literal: domain, port: 0) != nil { return domain }
    return (try? HostReader.read(domain))?.connectionText ?? domain
  }

  private func status(_ table: NetworkTable, _ targets: [ReachabilityTarget]) -> NetworkReachabilityStatus {
    for target in targets {
      guard let link = table.link(to: target) else { continue }
      switch link.medium(facts(link.name)) {
      case .wireless: return .reachableViaWiFi
      case .cellular: return .reachableViaWWAN
      case .wired, .loopback: return .reachableViaEthernet
      }
    }
    return .notReachable
  }

  /// - Parameters:
  ///   - delay: how long to wait before the next lookup if this one tells nothing.
  ///   - former: the lookup that told nothing; nil: the network has changed.
  private func resolve(
    _ domain: String, _ table: NetworkTable, since start: UInt64, delay: Duration = .seconds(1),
    after former: UInt64? = nil
  ) {
    let resolver: SystemResolver
    do throws(IOError) {
      resolver = try makeResolver()
    } catch {
      return tell(.unknown, since: start)
    }
    let number = state.withLock { state -> UInt64? in
      // The network has changed since, or nobody watches it any more.
      if let former, state.generation != start || state.lookupNumber != former { return nil }
      state.lookupNumber += 1
      return state.lookupNumber
    }
    guard let number else { return }
    // What was true of another network is not asked for.
    resolver.flush()
    let token = resolver.resolve(host: domain, port: 0) { [weak self] answer in
      guard let self else { return }
      switch answer {
      case .success(let addresses):
        tell(status(table, addresses.compactMap { ReachabilityTarget($0) }), since: start, of: number)
      case .failure(.notFound), .failure(.invalidName): tell(.notReachable, since: start, of: number)
      case .failure(.unavailable), .failure(.stopped): tell(nil, since: start, of: number)
      case .failure:
        // It says nothing about the host. No change of the network need come that would lead to another lookup.
        tell(status(table, [.anywhere]) == .notReachable ? .notReachable : nil, since: start, of: number)
        timer.after(delay) { [weak self] in
          self?.resolve(domain, table, since: start, delay: min(delay * 2, .seconds(60)), after: number)
        }
      }
    }
    // A later lookup, of another thread, may have come to this first: then it is this one that nobody waits for.
    let unwanted = state.withLock { state in
      guard state.generation == start, state.lookupNumber == number else { return Optional(token) }
      let former = state.lookup
      state.lookup = token
      return former
    }
    unwanted?.cancel()
  }

  private static func sharedResolver() throws(IOError) -> SystemResolver {
    try resolver.withLock { resolver throws(IOError) in
      if let resolver { return resolver }
      let made = try SystemResolver()
      resolver = made
      return made
    }
  }

  /// Sets the status, and tells everybody if it is another one or the first since the start. Nil: the one that it has. `lookup`: the one that it is the
  /// answer to.
  private func tell(_ new: NetworkReachabilityStatus?, since start: UInt64, of lookup: UInt64? = nil) {
    telling.withLock { _ in
      let told = state.withLock { state -> (status: NetworkReachabilityStatus, streams: [Stream])? in
        guard state.generation == start, lookup == nil || lookup == state.lookupNumber else { return nil }
        let status = new ?? state.status
        guard state.outbox.latest != status else { return nil }
        state.status = status
        state.outbox.add(status)
        let queue = state.outbox.queue
        queue.async { [weak self] in self?.deliver(on: queue) }
        return (status, Array(state.streams.values))
      }
      guard let told else { return }
      for stream in told.streams { stream.yield(told.status) }
    }
  }

  /// Tells all that waits, as long as this is its queue.
  private func deliver(on queue: DispatchQueue) {
    while let (item, block) = state.withLock({ $0.outbox.take(on: queue) }) {
      block?(item.status)
      guard item.isPosted else { continue }
      NotificationCenter.default.post(
        name: .networkReachabilityDidChange, object: self,
        userInfo: [networkReachabilityStatusKey: NSNumber(value: item.status.rawValue)])
    }
  }
}

extension ReachabilityTarget {
  /// Nil for a Unix-domain socket.
  init?(_ address: SocketAddress) {
    switch address {
    case .v4(let address, _): self = .address(InternetAddress(v4: address.bits))
    case .v6(let address, _, let scope):
      self = .address(InternetAddress(v6: address.high, address.low), link: scope == 0 ? nil : scope)
    case .unix, .abstract: return nil
    }
  }
}
