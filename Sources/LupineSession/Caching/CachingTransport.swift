internal import Dispatch
internal import LupineBase
internal import LupineRules
internal import LupineTLS
internal import LupineWire
internal import Synchronization

/// A cache in front of a transport. Without a cache there is none of it.
final class CachingTransport: Transport {
  let inner: any Transport
  let cache: ResponseCache
  let partition: String
  private let policy: RequestCachePolicy
  let merges: Bool
  private let state = LockedStorage(State())

  private struct State {
    /// By the first key of what is being fetched: who waits for it.
    var flights: [String: [CacheExchange]] = [:]
    /// What is asked about behind answers that were given already.
    var revalidations: Set<String> = []
  }

  private init(_ inner: any Transport, _ cache: ResponseCache, partition: String, _ configuration: SessionConfiguration)
  {
    self.inner = inner
    self.cache = cache
    self.partition = partition
    policy = configuration.requestCachePolicy
    merges = configuration.mergesCacheMisses
  }

  /// - Parameter asks: somebody besides the configuration decides about trust.
  static func wrap(
    _ transport: any Transport, _ configuration: SessionConfiguration, asks: Bool
  ) -> any Transport {
    guard let cache = configuration.responseCache else { return transport }
    return CachingTransport(transport, cache, partition: partition(configuration, asks: asks), configuration)
  }

  /// What decides who answers for a URL: responses that came under other rules are not for this session (curl CVE-2025-14819).
  private static func partition(_ configuration: SessionConfiguration, asks: Bool) -> String {
    let tls = configuration.tls
    guard
      tls != TLSConfiguration() || asks || configuration.unixSocketPath != nil || !configuration.nameOverrides.isEmpty
    else { return "" }
    let overrides = configuration.nameOverrides.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
    let pins = tls.publicKeyPins.map { "\($0)" }.sorted()
    let text =
      "\(tls.roots) \(tls.verifiesServer) \(tls.clientIdentity.map { "\($0)" } ?? "") \(pins) \(asks) "
      + "\(configuration.unixSocketPath ?? "") \(overrides)"
    let hash = MessageDigest.hash(.sha256, Array(text.utf8)) ?? Array(text.utf8)
    return hash.prefix(16).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
  }

  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let facts = Self.facts(request)
    let mode = (request.composition.request.cachePolicy ?? policy).mode
    if !facts.mayUseStored, !facts.invalidates, mode == .protocolRules { return inner.start(request, receiver) }
    let exchange = CacheExchange(self, request, receiver, facts, mode)
    exchange.begin()
    return exchange
  }

  private static func facts(_ request: TransportRequest) -> CacheRequest {
    let hasBody = if case .none = request.body { false } else { true }
    guard !request.composition.isDefault else { return CacheRequest(method: request.method, hasBody: hasBody) }
    return CacheRequest(method: request.method, hasBody: hasBody, fields: request.fields)
  }

  func invalidate(cancelling: Bool) { inner.invalidate(cancelling: cancelling) }

  /// Runs `work` where the transport calls its receivers.
  func schedule(_ work: @escaping @Sendable () -> Void) {
    if let engine = inner as? EngineTransport {
      engine.submit(work)
    } else {
      DispatchQueue.global().async(execute: work)
    }
  }

  // MARK: Flights

  /// False: nobody fetches it, and from now on the exchange does.
  func joins(_ exchange: CacheExchange, _ first: String) -> Bool {
    state.withLock { state in
      guard state.flights[first] != nil else {
        state.flights[first] = []
        return false
      }
      state.flights[first]?.append(exchange)
      return true
    }
  }

  /// What was being fetched is stored, or will not be.
  func land(_ first: String) {
    let waiters = state.withLock { $0.flights.removeValue(forKey: first) } ?? []
    for waiter in waiters { waiter.landed() }
  }

  // MARK: Asking behind an answer

  /// Asks the server whether a response that was served stale still holds; once at a time for each.
  func revalidate(_ request: TransportRequest, _ facts: CacheRequest, _ stored: StoredResponse, first: String) {
    guard state.withLock({ $0.revalidations.insert(first).inserted }) else { return }
    let receiver = SilentReceiver { [weak self] in
      self?.state.withLock { _ = $0.revalidations.remove(first) }
    }
    let exchange = CacheExchange(self, request, receiver, facts, .revalidating, isBehind: true)
    schedule { exchange.validate(stored) }
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
