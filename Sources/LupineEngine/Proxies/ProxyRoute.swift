package import LupineBase
package import LupineIO
package import LupineRules
package import LupineTLS

/// The way through a proxy, with everything that tells one from another: part of a connection's identity (curl CVE-2026-3784: a proxy
/// connection was reused with other credentials).
package struct ProxyRoute: Hashable, Sendable {
  /// A field of CONNECT.
  package struct Field: Hashable, Sendable {
    @ByteExact package var name: String
    @ByteExact package var value: String

    package init(name: String, value: String) {
      self.name = name
      self.value = value
    }
  }

  package var kind: ProxyKind
  package var endpoint: ProxyEndpoint
  package var credentials: ProxyCredentials?
  /// How the proxy itself is trusted; for `https` alone.
  package var tls: TLSPolicy?
  /// Keep sessions of the proxy's TLS, and resume them.
  package var resumesTLS = true
  /// Accept that what the proxy forwards ends, without a length, with a TCP close that its TLS did not announce.
  package var allowsTLSTruncation = false
  /// Through CONNECT or SOCKS; else requests go to the proxy in absolute form (RFC 9112 3.2.2), and its connections serve all origins.
  package var tunnels: Bool
  /// Sent with CONNECT besides `Host` and `Proxy-Authorization`.
  package var connectFields: [Field] = []

  package init(kind: ProxyKind, endpoint: ProxyEndpoint, tunnels: Bool) {
    self.kind = kind
    self.endpoint = endpoint
    self.tunnels = tunnels || kind.isSOCKS
  }

  /// The zone of its address, as `ConnectionIdentity.zone`.
  var zone: String? {
    if case .host(let host, _) = endpoint { host.zone } else { nil }
  }

  /// What its credentials belong to, whatever they are used for.
  var party: ProxyRoute {
    var party = self
    party.tunnels = false
    party.connectFields = []
    return party
  }
}

/// Why a proxy was of no use. Nothing of it comes from the origin.
package enum ProxyFailure: Error, Sendable {
  /// The proxy's host has no address.
  case resolve(ResolveError)
  /// Nobody answers where the proxy should be.
  case connect(ConnectError)
  case io(IOError)
  /// The proxy's own TLS.
  case tls(TLSError)
  /// It hung up in the middle of the handshake.
  case closed
  /// It said more than it was asked for: these bytes belong to nobody.
  case unsolicitedBytes
  case tunnel(TunnelError)
  case socks(SOCKS5Error)
  /// The origin's host, which `socks5` looks up here, has no address.
  case target(ResolveError)
  /// The credentials cannot be sent; the text holds no secret.
  case credentials(String)
}

/// What proxies accepted, so that they need not ask again. Lives on the loop, goes with its pool.
struct ProxyMemory {
  private var answers: [ProxyRoute: ChallengeAnswer] = [:]
  /// The last count of each nonce that was given out, or that a tunnel was made with. By where the proxy is: it counts for all who ask it.
  private var nonces = NonceCounts<ProxyEndpoint>(limit: AuthenticationMemory.maximumNonces)
  /// Parties whose answers are known.
  static let limit = 64

  static let tools = ProxyAuthenticationTools { hash, bytes in
    let kind: MessageDigestKind =
      switch hash {
      case .md5: .md5
      case .sha256: .sha256
      case .sha512Truncated: .sha512Truncated
      }
    return MessageDigest.hash(kind, bytes)
  } clientNonce: {
    SecureRandom.bytes(16).map { String(decoding: AuthenticationText.hexadecimal($0), as: UTF8.self) }
  }

  /// A new request's word to the proxy; counts as a use of the nonce.
  mutating func authentication(for route: ProxyRoute) -> ProxyAuthentication {
    ProxyAuthentication(route.credentials, isSecure: route.kind == .https, remembered: use(route), tools: Self.tools)
  }

  /// A request goes out once more: what it says next takes its turn among those of all others.
  ///
  /// What it was not asked for is what a new request would say: the proxy may want another nonce by now. The answer to a challenge keeps the
  /// nonce of that, and takes the next count of it.
  mutating func countAnew(_ authentication: inout ProxyAuthentication, for route: ProxyRoute) {
    guard var answer = authentication.next, let nonce = answer.nonce else { return }
    if answer.isRemembered, let known = use(route) { return authentication.goesOutAgain(with: known) }
    answer.count = nextCount(of: nonce, route)
    authentication.goesOutAgain(with: answer.count > 0 ? answer : nil)
  }

  /// What was accepted, with the next count of its nonce; nil: nothing, or the nonce has no more.
  private mutating func use(_ route: ProxyRoute) -> ChallengeAnswer? {
    guard route.credentials != nil, var answer = answers[route.party] else { return nil }
    if let nonce = answer.nonce {
      answer.count = nextCount(of: nonce, route)
      guard answer.count > 0 else { return nil }
      answers[route.party] = answer
    }
    answer.isRemembered = true
    return answer
  }

  /// 0 if the nonce has no more.
  private mutating func nextCount(of nonce: String, _ route: ProxyRoute) -> UInt32 {
    var known: UInt32 = 0
    if let answer = answers[route.party], answer.nonce.hasBytes(of: nonce) { known = answer.count }
    return nonces.next(of: nonce, party: route.endpoint, after: known)
  }

  /// This was accepted, and the proxy may have named the nonce that it wants next.
  mutating func accepted(_ answer: ChallengeAnswer, nextNonce: String?, _ route: ProxyRoute) {
    learn(answer, route)
    if let nextNonce { replaceNonce(of: answer, by: nextNonce, route) }
  }

  /// Answers come in any order: only that to the nonce which is known says what follows it, as in `AuthenticationMemory`. The key of a `-sess`
  /// algorithm stays.
  private mutating func replaceNonce(of answer: ChallengeAnswer, by nonce: String, _ route: ProxyRoute) {
    guard !answer.nonce.hasBytes(of: nonce), var known = answers[route.party], known.nonce.hasBytes(of: answer.nonce),
      known.secret == answer.secret, case .digest(var challenge) = known.challenge
    else { return }
    challenge.nonce = nonce
    known.challenge = .digest(challenge)
    // Where the proxy has named it before, its counts go on.
    known.count = 0
    answers[route.party] = known
  }

  /// This was accepted.
  ///
  /// Answers come in any order: of Digest, one that was remembered teaches nothing, as in `AuthenticationMemory`.
  mutating func learn(_ answer: ChallengeAnswer, _ route: ProxyRoute) {
    if answer.isRemembered, answer.nonce != nil { return }
    var answer = answer
    answer.isRemembered = false
    if let nonce = answer.nonce { nonces.note(answer.count, of: nonce, party: route.endpoint) }
    if let known = answers[route.party], known.nonce.hasBytes(of: answer.nonce) {
      answer.count = max(answer.count, known.count)
    }
    if answers.count >= Self.limit, answers[route.party] == nil { answers.removeAll() }
    answers[route.party] = answer
  }

  mutating func forget(_ route: ProxyRoute) {
    answers[route.party] = nil
  }
}
