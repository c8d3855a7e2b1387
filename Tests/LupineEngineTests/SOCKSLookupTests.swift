import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineTesting
import LupineWire
import Testing

/// A name that is looked up here for a SOCKS proxy: how long that may take.
@Suite(.timeLimit(.minutes(2))) struct SOCKSLookupTests {
  /// Knows addresses, and answers for a name late or not at all; counts who gave up.
  private final class SlowResolver: HostResolver {
    let cancelled = Locked(0)
    private let answer: [SocketAddress]?

    init(_ answer: [SocketAddress]?) { self.answer = answer }

    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
      SocketAddress(literal: host, port: port).map { .success([$0]) }
    }

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      if let answer { completion(.success(answer)) }
      return ResolveToken { [cancelled] in cancelled.withLock { $0 += 1 } }
    }
  }

  /// - Returns: how a request through a proxy that says nothing ends.
  private func failure(
    _ resolver: SlowResolver, resolveNanoseconds: Int64?, proxyNanoseconds: Int64?
  ) async throws -> (error: EngineError, phase: TransferPhase) {
    let server = try ScriptedServer([[.stall(nil)]])
    defer { server.shutdown() }
    var configuration = PoolConfiguration()
    configuration.resolver = resolver
    configuration.resolveNanoseconds = resolveNanoseconds
    configuration.proxyNanoseconds = proxyNanoseconds
    let route = ProxyRoute(
      kind: .socks5, endpoint: try ProxyURLReader.read("socks5://127.0.0.1:\(server.port)").endpoint, tunnels: true)
    let made = Locked<(EngineError, TransferPhase)?>(nil)
    try await withPool(configuration) { pool in
      let failure = await pool.run(try request(through: route)).failure
      made.withLock { $0 = failure.map { ($0.error, $0.phase) } }
    }
    return try #require(made.withLock { $0 })
  }

  private func request(through route: ProxyRoute) throws -> TransferRequest {
    var head: [UInt8] = []
    try RequestEncoder.head(method: "GET", target: "/", fields: [("Host", "slow.example")], into: &head)
    var identity = ConnectionIdentity(host: "slow.example", serverName: "slow.example", port: 80, tls: nil)
    identity.route = .proxy(route)
    return TransferRequest(
      key: PoolKey(identity), method: "GET", head: head, context: RequestContext(), body: .none, deadlines: Deadlines(),
      priority: .default)
  }

  /// The limit of a lookup holds wherever names are looked up; also where that of the proxy passes at the same time, as by default.
  @Test(arguments: [Int64(60_000_000_000), 30_000_000, nil]) func theLookupHasItsDeadline(_ proxy: Int64?) async throws
  {
    let resolver = SlowResolver(nil)
    let (error, phase) = try await failure(resolver, resolveNanoseconds: 30_000_000, proxyNanoseconds: proxy)
    guard case .deadline(.resolve) = error else {
      Issue.record("\(error)")
      return
    }
    #expect(phase == .resolve && resolver.cancelled.withLock { $0 } == 1)
  }

  /// The lookup is part of what the proxy has time for.
  @Test func theProxyHasItsDeadline() async throws {
    let resolver = SlowResolver(nil)
    let (error, phase) = try await failure(
      resolver, resolveNanoseconds: 60_000_000_000, proxyNanoseconds: 30_000_000)
    guard case .deadline(.proxy) = error else {
      Issue.record("\(error)")
      return
    }
    #expect(phase == .proxy && resolver.cancelled.withLock { $0 } == 1)
  }

  /// It ends with the answer.
  @Test func anAnsweredLookupHasNone() async throws {
    let resolver = SlowResolver([try #require(SocketAddress(literal: "192.0.2.1", port: 80))])
    let (error, phase) = try await failure(resolver, resolveNanoseconds: 20_000_000, proxyNanoseconds: 100_000_000)
    guard case .deadline(.proxy) = error else {
      Issue.record("\(error)")
      return
    }
    #expect(phase == .proxy)
  }
}
