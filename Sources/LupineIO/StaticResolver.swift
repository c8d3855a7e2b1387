/// Answers from a table, and asks another resolver for what is not in it.
package struct StaticResolver: HostResolver {
  /// A name and a port, as a URL gives them.
  package struct Endpoint: Hashable, Sendable {
    package var host: String
    package var port: UInt16

    package init(host: String, port: UInt16) {
      self.host = HostLiteral.canonical(host)
      self.port = port
    }
  }

  private let overrides: [Endpoint: [SocketAddress]]
  private let fallback: (any HostResolver)?

  /// Makes a resolver. The addresses of an override carry the port to connect to, which need not be the endpoint's. Without `fallback`,
  /// names that are not in the table are `notFound`; literals are answered all the same.
  package init(_ overrides: [Endpoint: [SocketAddress]], fallback: (any HostResolver)? = nil) {
    self.overrides = overrides
    self.fallback = fallback
  }

  package func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
    if let addresses = overrides[Endpoint(host: host, port: port)] { return .success(addresses) }
    if let fallback { return fallback.immediateAnswer(host: host, port: port) }
    return HostLiteral.answer(host: host, port: port) ?? .failure(.notFound)
  }

  package func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
  ) -> ResolveToken {
    if overrides[Endpoint(host: host, port: port)] == nil, let fallback {
      return fallback.resolve(host: host, port: port, completion: completion)
    }
    completion(immediateAnswer(host: host, port: port) ?? .failure(.notFound))
    return ResolveToken()
  }
}
