internal import CLupineLinux

/// Why a name has no address.
package enum ResolveError: Error, Hashable, Sendable {
  /// The name is none: empty, longer than 253 bytes, with a NUL, or a number that is not an IP address.
  case invalidName
  /// There is no such host, or it has no address (EAI_NONAME, EAI_NODATA).
  case notFound
  /// The name servers did not answer or are overloaded; trying again may help (EAI_AGAIN).
  case temporary
  /// The lookup took too long.
  case timedOut
  /// Too many lookups wait already.
  case overloaded
  /// There is no name service here, as in an executable linked statically; give addresses, or a resolver with overrides.
  case unavailable
  /// The resolver was shut down.
  case stopped
  /// The process or the system has too many open descriptors to ask anybody (EMFILE, ENFILE). The C library calls it `notFound`.
  case descriptors
  /// There was no thread to look it up on: the process or its container has too many (EAGAIN). Trying again may help.
  case thread(IOError)
  /// Anything else: getaddrinfo's code, and errno where the code is EAI_SYSTEM.
  case system(code: Int32, errno: Int32)
}

extension ResolveError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .invalidName: "not a host name"
    case .notFound: "no such host"
    case .temporary: "the name servers did not answer"
    case .timedOut: "the lookup took too long"
    case .overloaded: "too many lookups wait"
    case .unavailable: "no name service in this executable"
    case .stopped: "the resolver was shut down"
    case .descriptors: "too many open descriptors to look it up"
    case .thread(let error): "no thread to look it up on: \(error)"
    case .system(_, let errno) where errno != 0: SystemCalls.message(errno)
    case .system(let code, _): SystemCalls.resolverMessage(code)
    }
  }
}

/// Gives up an answer.
package struct ResolveToken: Sendable {
  private let action: (@Sendable () -> Void)?

  /// Makes a token that runs `action` when it is cancelled; nil for an answer that was there at once.
  package init(_ action: (@Sendable () -> Void)? = nil) {
    self.action = action
  }

  /// Nobody waits for the answer any more: the completion is not called, unless it is being called right now. Never blocks.
  package func cancel() {
    action?()
  }
}

/// Turns host names into addresses.
package protocol HostResolver: Sendable {
  /// Looks up `host`; IP literals are answered without a lookup.
  ///
  /// The completion is called once, on any thread, possibly before this method returns; never after the token was cancelled (save
  /// for a call that is under way). Addresses are in order of preference and carry `port`.
  func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
  ) -> ResolveToken

  /// The answer if it is known without waiting, nil otherwise: saves the caller a hop.
  func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>?

  /// Forgets what it knows: the network may be another one. Any thread; never blocks.
  func flush()

  /// The same for somebody who takes no answer that was found so long ago, or longer; nanoseconds. Default: itself, as nothing is known.
  func limited(toAge maximumAge: Int64) -> any HostResolver
}

extension HostResolver {
  /// Nothing is known.
  package func flush() {}

  /// Nothing is known.
  package func limited(toAge maximumAge: Int64) -> any HostResolver { self }
}

/// What needs no name service: literals, `localhost`, and names that cannot be.
package enum HostLiteral {
  /// - Returns: nil if `host` has to be looked up.
  package static func answer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
    if let literal = SocketAddress(literal: host, port: port) { return .success([literal]) }
    let name = canonical(host)
    guard !name.isEmpty, name.utf8.count <= 253, !name.utf8.contains(0),
      !name.utf8.contains(where: { $0 == UInt8(ascii: ":") })
    else { return .failure(.invalidName) }
    // RFC 6761 section 6.3: never ask a name server for these.
    if name == "localhost" || name.hasSuffix(".localhost") {
      return .success([.v6(.loopback, port: port), .v4(.loopback, port: port)])
    }
    // getaddrinfo would read `127.1`, `0x7f.1` and `2130706433` as addresses.
    let last = name.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false).last ?? [][...]
    if last.isEmpty || isNumber(last) { return .failure(.invalidName) }
    return nil
  }

  /// Lower case, without the dot of a fully qualified name. Not for a lookup: without the dot, the domains of a search list are tried.
  private static func canonical(_ host: String) -> String {
    var name = host.lowercased()
    if name.hasSuffix("."), name.utf8.count > 1 { name.removeLast() }
    return name
  }

  private static func isNumber(_ label: some Collection<UInt8>) -> Bool {
    if label.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) { return true }
    guard label.starts(with: [UInt8(ascii: "0"), UInt8(ascii: "x")]) else { return false }
    return label.dropFirst(2).allSatisfy {
      (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
    }
  }
}
