internal import Dispatch
internal import HTTPTypes
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineTLS
internal import LupineWire
internal import Synchronization

/// A cache in front of a transport. Without a cache there is none of it.
final class CachingTransport: Transport {
  let inner: any Transport
  /// The same, if it is the network.
  private let engine: EngineTransport?
  let cache: ResponseCache
  /// Of the configuration alone.
  private let partition: String
  private let asksNow: @Sendable () -> Bool
  private let policy: RequestCachePolicy
  let merges: Bool
  /// As long, and as much, as the engine waits for a body that nobody wants.
  let drainNanoseconds: Int64
  let drainedBytes: Int
  private let state = LockedStorage(State())

  private struct Flight {
    /// Who waits for it, and as which of them.
    private var waiters: [ObjectIdentifier: (number: Int, exchange: CacheExchange)] = [:]
    private var joined = 0
    /// When something of it came last.
    var movedAt = EventLoop.monotonicNow()

    mutating func join(_ exchange: CacheExchange) {
      joined += 1
      waiters[ObjectIdentifier(exchange)] = (joined, exchange)
    }

    mutating func leave(_ exchange: CacheExchange) { waiters[ObjectIdentifier(exchange)] = nil }

    /// In the order in which they came.
    var inOrder: [CacheExchange] { waiters.values.sorted { $0.number < $1.number }.map { $0.exchange } }
  }

  private struct State {
    /// By the first key of what is being fetched.
    var flights: [String: Flight] = [:]
    /// What is asked about behind answers that were given already.
    var revalidations: Set<String> = []
    /// See `Place.domain`.
    var domain = CachingTransport.newDomain()
    /// Changes under way of who decides about trust.
    var changes = 0
  }

  /// Where an exchange looks and stores: apart from sessions with other rules of trust, and from what came before those of its own were changed.
  struct Place: Hashable, Sendable {
    /// See `CacheKey.first`.
    var partition: String
    /// Somebody of this process decides about servers, and no file can say who did.
    var isInMemoryOnly: Bool
    /// Renewed with each change of who decides. 0: it is being changed, and nothing is stored.
    var domain: UInt64
  }

  /// Domains given out in this process, to all sessions.
  private static let domains = Locked<UInt64>(0)

  private static func newDomain() -> UInt64 {
    domains.withLock { last in
      last += 1
      return last
    }
  }

  private init(
    _ inner: any Transport, _ cache: ResponseCache, _ configuration: SessionConfiguration,
    asksNow: @escaping @Sendable () -> Bool
  ) {
    self.inner = inner
    engine = inner as? EngineTransport
    self.cache = cache
    self.asksNow = asksNow
    partition = Self.partition(configuration)
    policy = configuration.requestCachePolicy
    merges = configuration.mergesCacheMisses
    drainNanoseconds = max(0, configuration.drainTimeout.saturatedNanoseconds)
    drainedBytes = max(0, configuration.maximumDrainedBodySize)
  }

  /// - Parameter decider: who is asked about servers, if anybody.
  static func wrap(
    _ transport: any Transport, _ configuration: SessionConfiguration, decider: (any SessionDelegate)?
  ) -> any Transport {
    guard let cache = configuration.responseCache else { return transport }
    guard let late = decider as? any LateTrustDelegate else {
      let asks = decider != nil
      return CachingTransport(transport, cache, configuration) { asks }
    }
    // Once it is gone nobody knows what it had decided.
    return CachingTransport(transport, cache, configuration) { [weak late] in
      late?.handledCallbacks.contains(.sessionChallenge) ?? true
    }
  }

  /// What of the configuration decides who answers for a URL: responses that came under other rules are not given to it (curl
  /// CVE-2025-14819).
  private static func partition(_ configuration: SessionConfiguration) -> String {
    // The network that a caller has made goes by the configuration that it was made with.
    let configuration = (configuration.transport as? NetworkTransport)?.configuration ?? configuration
    let tls = configuration.tls
    guard
      tls != TLSConfiguration() || configuration.unixSocketPath != nil || !configuration.nameOverrides.isEmpty
    else { return "" }
    let overrides = configuration.nameOverrides.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    let pins = tls.publicKeyPins.map { "\($0)" }.sorted()
    let text =
      "\(tls.roots) \(tls.verifiesServer) \(tls.clientIdentity?.fingerprint ?? "") \(pins) "
      + "\(tls.revocationListPath ?? "") \(tls.minimumVersion) \(tls.maximumVersion) "
      + "\(configuration.unixSocketPath ?? "") \(overrides)"
      // What there was before this setting keeps its name on the disk.
      + (tls.additionalRoots.isEmpty ? "" : " \(tls.additionalRoots)")
    let hash = MessageDigest.hash(.sha256, Array(text.utf8)) ?? Array(text.utf8)
    return hash.prefix(16).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  /// Where a request to `url` looks and stores now.
  func place(for url: ParsedURL) -> Place {
    state.withLock { state in
      guard state.changes == 0 else { return Place(partition: "changing", isInMemoryOnly: true, domain: 0) }
      // Without TLS nobody is asked.
      guard url.scheme == .https, asksNow() else {
        return Place(partition: partition, isInMemoryOnly: false, domain: state.domain)
      }
      return Place(partition: "asked\(state.domain)", isInMemoryOnly: true, domain: state.domain)
    }
  }

  /// Whether it may still be stored what was asked for there.
  func isCurrent(_ place: Place, for url: ParsedURL) -> Bool { place.domain != 0 && place == self.place(for: url) }

  /// Where an answer to an unsafe method that was asked for there makes `url` forgotten: there, and where is looked by now. While who decides
  /// changes, it is not known where will be looked next, but of what is there already that is where nobody is asked.
  func partitions(forgetting url: ParsedURL, askedForAt place: Place) -> Set<String> {
    let current = self.place(for: url)
    return current.domain == 0 ? [place.partition, partition] : [place.partition, current.partition]
  }

  /// What is stored by the word of whoever decided so far is not used any more.
  func renewDomain() { state.withLock { $0.domain = Self.newDomain() } }

  /// Who decides changes from here on, until `endChange`: what is asked for meanwhile goes past the cache.
  func beginChange() { state.withLock { $0.changes += 1 } }

  func endChange() {
    state.withLock { state in
      state.changes -= 1
      state.domain = Self.newDomain()
    }
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    var facts = Self.facts(request)
    facts.compareHost(with: request.url.authority)
    let mode = (request.composition.request.cachePolicy ?? policy).mode
    if !facts.mayUseStored, !facts.invalidates, mode == .protocolRules { return inner.start(request, receiver) }
    let exchange = CacheExchange(self, request, receiver, facts, mode, place(for: request.url))
    exchange.begin()
    return exchange
  }

  private static func facts(_ request: TransportRequest) -> CacheRequest {
    let hasBody = if case .none = request.body { false } else { true }
    guard !request.composition.isDefault else { return CacheRequest(method: request.method, hasBody: hasBody) }
    let marked = request.composition.sensitiveFields
    return CacheRequest(method: request.method, hasBody: hasBody, fields: request.fields) { name in
      marked.contains { $0.canonicalName == name }
    }
  }

  func invalidate(cancelling: Bool) { inner.invalidate(cancelling: cancelling) }

  /// Of several engines the one on whose thread an exchange does its own work; see `EngineGroup.nextLane`.
  var nextLane: UInt8? { engine?.group?.nextLane() }

  /// Runs `work` on the thread of an engine, if the transport has one; on some thread, if it has none or that has been shut down: somebody waits for it.
  ///
  /// - Parameter lane: which of several engines.
  func schedule(on lane: UInt8?, _ work: @escaping @Sendable () -> Void) {
    if let engine, engine.submit(to: lane, work) { return }
    DispatchQueue.global().async(execute: work)
  }

  /// What is to run later; for tests.
  let scheduled = Locked(0)

  /// Runs `work` on some thread, later. It cannot be taken back.
  func schedule(after time: DispatchTimeInterval, _ work: @escaping @Sendable () -> Void) {
    let scheduled = scheduled
    scheduled.withLock { $0 += 1 }
    DispatchQueue.global().asyncAfter(deadline: .now() + time) {
      work()
      scheduled.withLock { $0 -= 1 }
    }
  }

  // MARK: Flights

  /// False: nobody fetches it, and from now on the exchange does.
  func joins(_ exchange: CacheExchange, _ first: String) -> Bool {
    state.withLock { state in
      guard state.flights[first] != nil else {
        state.flights[first] = Flight()
        return false
      }
      state.flights[first]?.join(exchange)
      return true
    }
  }

  /// Something of it has come.
  func moved(_ first: String) {
    let now = EventLoop.monotonicNow()
    state.withLock { $0.flights[first]?.movedAt = now }
  }

  /// When something of it came last; nil if nobody fetches it any more.
  func lastMovement(of first: String) -> Instant? { state.withLock { $0.flights[first]?.movedAt } }

  /// It waits no longer, if it does.
  func leave(_ exchange: CacheExchange, _ first: String) {
    state.withLock { $0.flights[first]?.leave(exchange) }
  }

  /// What was being fetched is stored, or will not be.
  func land(_ first: String) {
    let flight = state.withLock { $0.flights.removeValue(forKey: first) }
    for waiter in flight?.inOrder ?? [] { waiter.landed() }
  }

  // MARK: Asking behind an answer

  /// Asks the server whether a response that was served stale still holds; once at a time for each.
  ///
  /// - Parameter settled: with the cookies that the response was found for, if it varies by them; who asks for it must not change on the way.
  func revalidate(
    _ request: TransportRequest, _ settled: SettledRequest, _ facts: CacheRequest, _ stored: StoredResponse,
    _ place: Place, first: String
  ) {
    guard state.withLock({ $0.revalidations.insert(first).inserted }) else { return }
    let receiver = SilentReceiver { [weak self] in
      self?.state.withLock { _ = $0.revalidations.remove(first) }
    }
    let exchange = CacheExchange(
      self, request, receiver, facts, .revalidating, place, settled: settled, isBehind: true)
    schedule(on: exchange.lane) { exchange.validate(stored) }
  }
}

/// Hears of the end only.
private final class SilentReceiver: TransportReceiver {
  private let ended: @Sendable () -> Void

  init(_ ended: @escaping @Sendable () -> Void) { self.ended = ended }

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {}
  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {}
  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {}
  func receive(trailers: FieldSection, of exchange: any TransportExchange) {}
  func sent(bodyBytes count: Int, of exchange: any TransportExchange) {}
  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) { ended() }
}
