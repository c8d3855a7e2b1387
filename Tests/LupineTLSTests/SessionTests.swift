import Glibc
import LupineTesting
import Testing

@testable import LupineTLS

@Suite("Resumption")
struct SessionTests {
  /// A full handshake that leaves tickets in `cache`.
  static func prime(
    _ cache: TLSSessionCache, _ policy: TLSPolicy, _ server: TLSContext,
    options change: (inout TLSClientOptions) -> Void = { _ in }
  ) throws {
    let pair = try connect(client: policy, server: server) {
      $0.sessions = cache
      change(&$0)
    }
    #expect(pair.client.failure == nil)
    #expect(!pair.client.connection.info.isResumed)
    #expect(cache.count > 0)
  }

  @Test("A session is resumed and carries the verdict of the first", arguments: TLSVersion.allCases, Feeding.allCases)
  func resumes(version: TLSVersion, feeding: Feeding) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    for _ in 0..<5 {
      let pair = try connect(client: policy, server: server, feeding: feeding) { $0.sessions = cache }
      #expect(pair.client.connection.info.isResumed)
      #expect(pair.client.connection.info.version == version)
      #expect(pair.client.connection.trustReport?.isVerified == true)
      #expect(pair.client.connection.trustReport?.verdict == nil)
      #expect(pair.client.connection.peerChain == Mint.shared.leaf.chainDER)
      try pair.client.send([1, 2, 3])
      pair.settle()
      #expect(pair.server.received == [1, 2, 3])
    }
  }

  @Test("A ticket of TLS 1.3 is used once, RFC 8446, C.4")
  func once() throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, .tls13)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let tickets = cache.count
    // All are made before any of them runs: each takes a ticket of its own, and the last finds none.
    let pairs = try (0...tickets).map { _ in try makePair(client: policy, server: server) { $0.sessions = cache } }
    #expect(cache.count == 0)
    pairs.forEach { $0.run() }
    #expect(pairs.map { $0.client.connection.info.isResumed } == Array(repeating: true, count: tickets) + [false])
  }

  @Test("A trust domain is forgotten without the others")
  func domains() throws {
    let cache = TLSSessionCache()
    let server = try serverContext()
    let (one, two) = (TLSTrustDomain(identifier: 1), TLSTrustDomain(identifier: 2))
    try Self.prime(cache, .trusting(), server) { $0.trustDomain = one }
    let count = cache.count
    try Self.prime(cache, .trusting(), server) { $0.trustDomain = two }
    cache.removeAll(of: one)
    #expect(cache.count == count)
    for (domain, isResumed) in [(one, false), (two, true)] {
      let pair = try connect(client: .trusting(), server: server) {
        $0.sessions = cache
        $0.trustDomain = domain
      }
      #expect(pair.client.connection.info.isResumed == isResumed)
    }
  }

  @Test("A session of TLS 1.2 serves several connections at once")
  func several() throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, .tls12)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let pairs = try (0..<4).map { _ in try makePair(client: policy, server: server) { $0.sessions = cache } }
    pairs.forEach { $0.run() }
    #expect(pairs.allSatisfy { $0.client.connection.info.isResumed })
  }

  struct Change: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var policy: @Sendable (inout TLSPolicy) -> Void = { _ in }
    var checksRevocation = false
    var options: @Sendable (inout TLSClientOptions) -> Void = { _ in }
  }

  static let changes: [Change] = [
    Change(
      testDescription: "roots added (Go CVE-2025-68121)",
      policy: { $0.roots = .certificates([Mint.shared.root.rootDER, Mint.shared.otherRoot.rootDER]) }),
    Change(testDescription: "additional roots", policy: { $0.additionalRoots = [Mint.shared.otherRoot.rootDER] }),
    Change(
      testDescription: "revocation asked for (curl CVE-2024-0853: the check was skipped)",
      checksRevocation: true),
    Change(testDescription: "verification off", policy: { $0.verification = .none }),
    Change(
      testDescription: "pins", policy: { $0.pins = [(try? Mint.shared.leaf.publicKeySHA256()) ?? []] }),
    Change(
      testDescription: "client identity (curl CVE-2016-5420)",
      policy: {
        $0.clientIdentity = (try? Mint.shared.root.issue(CertificateOrder(usage: .client))).map(TLSIdentity.init)
      }
    ),
    Change(
      testDescription: "versions (curl CVE-2026-8286, CVE-2022-27782)",
      policy: { if $0.minimumVersion == .tls13 { $0.minimumVersion = .tls12 } else { $0.maximumVersion = .tls13 } }),
    Change(testDescription: "cipher list", policy: { $0.cipherList = "ECDHE+AESGCM" }),
    Change(testDescription: "port", options: { $0.port = 8443 }),
    Change(testDescription: "way to the server", options: { $0.partition = 7 }),
    Change(testDescription: "zone of an address (curl CVE-2022-27775)", options: { $0.zone = "eth1" }),
    Change(testDescription: "trust domain", options: { $0.trustDomain = TLSTrustDomain(identifier: 7) }),
    Change(testDescription: "who decides", options: { $0.trustEvaluation = .deferred }),
  ]

  @Test("Never across a change of what decides trust", arguments: changes, TLSVersion.allCases)
  func changed(change: Change, version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    var other = policy
    change.policy(&other)
    let pair = try withRevocationLists { path in
      if change.checksRevocation { other.revocationListPath = path }
      return try connect(client: other, server: server) {
        $0.sessions = cache
        change.options(&$0)
      }
    }
    if pair.client.result == .trustPending {
      try pair.client.connection.resolveTrust(.accept)
      pair.client.feed([])
      pair.settle()
    }
    #expect(pair.client.failure == nil)
    #expect(!pair.client.connection.info.isResumed)
    // The sessions of the first are untouched.
    #expect(try connect(client: policy, server: server) { $0.sessions = cache }.client.connection.info.isResumed)
  }

  @Test("Never for roots that no longer trust the server", arguments: TLSVersion.allCases)
  func rootsRemoved(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let server = try serverContext()
    try Self.prime(cache, .trusting(Mint.shared.root, version), server)
    let pair = try connect(client: .trusting(Mint.shared.otherRoot, version), server: server) { $0.sessions = cache }
    #expect(pair.client.failure == .untrusted(.unknownIssuer))
  }

  @Test("Never for another host, even of the same certificate", arguments: TLSVersion.allCases)
  func host(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let pair = try connect(client: policy, server: server, host: "127.0.0.1") { $0.sessions = cache }
    #expect(pair.client.failure == nil)
    #expect(!pair.client.connection.info.isResumed)
    // The same host in another spelling.
    #expect(
      try connect(client: policy, server: server, host: "LOCALHOST.") { $0.sessions = cache }
        .client.connection.info.isResumed)
  }

  @Test("What somebody accepted is resumed only in their trust domain, with the verdict as it was")
  func decided() throws {
    let cache = TLSSessionCache()
    let server = try serverContext(try Mint.shared.otherRoot.issue())
    let domain = TLSTrustDomain(identifier: 3)
    func deferred(_ options: inout TLSClientOptions) {
      options.sessions = cache
      options.trustEvaluation = .deferred
      options.trustDomain = domain
    }
    let first = try connect(server: server, options: deferred)
    #expect(first.client.result == .trustPending)
    try first.client.connection.resolveTrust(.accept)
    first.client.feed([])
    first.settle()
    #expect(first.client.result == .open)
    let second = try connect(server: server, options: deferred)
    #expect(second.client.connection.info.isResumed)
    #expect(second.client.connection.trustReport?.verdict == .unknownIssuer)
    let stranger = try connect(server: server) { $0.sessions = cache }
    #expect(stranger.client.failure == .untrusted(.unknownIssuer))
  }

  @Test("A refused server leaves no session", arguments: TLSVersion.allCases)
  func refused(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let pair = try connect(
      client: .trusting(Mint.shared.root, version), server: serverContext(try Mint.shared.otherRoot.issue())
    ) { $0.sessions = cache }
    #expect(pair.client.failure == .untrusted(.unknownIssuer))
    #expect(cache.count == 0)
  }

  @Test("A connection that died of an error is not resumed, RFC 5246, 7.2.2", arguments: TLSVersion.allCases)
  func failed(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let pair = try connect(client: policy, server: server) { $0.sessions = cache }
    #expect(pair.client.connection.info.isResumed)
    #expect(cache.count > 0)
    pair.client.feed([23, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32))
    #expect(pair.client.failure == .badRecord)
    #expect(cache.count == 0)
  }

  @Test(
    "A server that aborts on a session it gave out is asked without one for an hour", arguments: TLSVersion.allCases)
  func refusedByTheServer(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    let now = Int64(time(nil))
    func pair(after seconds: Int64) throws -> Pair {
      try makePair(client: policy, server: server) {
        $0.sessions = cache
        $0.now = now + seconds
      }
    }
    try pair(after: 0).run()
    #expect(cache.count > 0)
    let refused = try pair(after: 1)
    _ = try refused.client.connection.handshake()
    // Fatal, internal_error: what OpenSSL says that wants client certificates and has no session id context.
    refused.client.feed([21, 3, 3, 0, 2, 2, 80])
    #expect(refused.client.failure == .alert(.internalError))
    #expect(cache.count == 0)
    for seconds in [2, 3, TLSSessionCache.refusalSeconds, TLSSessionCache.refusalSeconds + 1] {
      let pair = try pair(after: seconds)
      pair.run()
      #expect(pair.client.failure == nil)
      #expect(pair.client.connection.info.isResumed == (seconds > TLSSessionCache.refusalSeconds))
      #expect(cache.count > 0)
    }
  }

  @Test("A server that hangs up on a session it gave out is asked without one, too", arguments: TLSVersion.allCases)
  func hungUpByTheServer(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let cut = try makePair(client: policy, server: server) { $0.sessions = cache }
    _ = try cut.client.connection.handshake()
    #expect(throws: TLSError.truncated) { try cut.client.connection.endOfInput() }
    #expect(cache.count == 0 && cache.refusalCount == 1)
    let next = try connect(client: policy, server: server) { $0.sessions = cache }
    #expect(!next.client.connection.info.isResumed)
  }

  @Test("Silence counts for longer each time, and once for all connections of a moment", arguments: TLSVersion.allCases)
  func silences(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    var now = Int64(time(nil))
    func pair() throws -> Pair {
      try makePair(client: policy, server: server) {
        $0.sessions = cache
        $0.now = now
      }
    }
    func isResumed() throws -> Bool {
      let pair = try pair()
      pair.run()
      #expect(pair.client.failure == nil)
      return pair.client.connection.info.isResumed
    }
    #expect(try !isResumed())
    for seconds in [60, 480, 3600, 3600] as [Int64] {
      // A full handshake has given a ticket of TLS 1.3 for each.
      let cut = try [pair(), pair()]
      for pair in cut { _ = try pair.client.connection.handshake() }
      for pair in cut { #expect(throws: TLSError.truncated) { try pair.client.connection.endOfInput() } }
      now += seconds - 1
      #expect(try !isResumed())
      now += 1
    }
    #expect(try isResumed())
    let cut = try pair()
    _ = try cut.client.connection.handshake()
    #expect(throws: TLSError.truncated) { try cut.client.connection.endOfInput() }
    now += 59
    #expect(try !isResumed())
    now += 1
    #expect(try isResumed())
  }

  @Test("Whoever showed its certificates did not stumble over a session", arguments: TLSVersion.allCases)
  func hungUpLater(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    func deferred(_ options: inout TLSClientOptions) {
      options.sessions = cache
      options.trustEvaluation = .deferred
    }
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let first = try connect(client: policy, server: serverContext(), options: deferred)
    try first.client.connection.resolveTrust(.accept)
    first.client.feed([])
    first.settle()
    #expect(cache.count > 0)
    // With other keys for its tickets.
    let second = try connect(client: policy, server: serverContext(), options: deferred)
    #expect(second.client.result == .trustPending)
    #expect(throws: TLSError.truncated) { try second.client.connection.endOfInput() }
    #expect(cache.refusalCount == 0)
  }

  @Test("Refusals are bounded, and go with their trust domain")
  func refusalsAreBounded() throws {
    let cache = TLSSessionCache()
    func key(_ host: Int, _ domain: UInt64) -> TLSSessionKey {
      TLSSessionKey(
        context: 1, host: "\(host)", port: 443, trustDomain: TLSTrustDomain(identifier: domain), isDeferred: false)
    }
    for host in 0..<TLSSessionCache.refusalLimit { cache.refuse(key(host, 1), now: 0) }
    #expect(cache.refusalCount == TLSSessionCache.refusalLimit)
    cache.refuse(key(-1, 2), now: 0)
    #expect(cache.refusalCount == 1)
    cache.removeAll(of: TLSTrustDomain(identifier: 1))
    #expect(cache.refusalCount == 1)
    cache.removeAll(of: TLSTrustDomain(identifier: 2))
    #expect(cache.refusalCount == 0)
  }

  @Test("A connection that was dropped without a goodbye may be resumed", arguments: TLSVersion.allCases)
  func dropped(version: TLSVersion) throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    let pair = try connect(client: policy, server: server) { $0.sessions = cache }
    #expect(throws: TLSError.truncated) { try pair.client.connection.endOfInput() }
    #expect(try connect(client: policy, server: server) { $0.sessions = cache }.client.connection.info.isResumed)
  }

  @Test("Contexts and caches may be shared by threads", arguments: TLSVersion.allCases)
  func threads(version: TLSVersion) async throws {
    let cache = TLSSessionCache(limit: 16)
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    let resumed = try await withThrowingTaskGroup(of: Int.self) { group in
      for task in 0..<8 {
        group.addTask {
          var resumed = 0
          for round in 0..<20 {
            let pair = try connect(client: policy, server: server) {
              $0.sessions = cache
              $0.port = UInt16((task + round) % 3)
            }
            #expect(pair.client.failure == nil)
            try pair.client.send([1])
            pair.settle()
            #expect(pair.server.received == [1])
            if pair.client.connection.info.isResumed { resumed += 1 }
          }
          return resumed
        }
      }
      return try await group.reduce(0, +)
    }
    #expect(resumed > 0)
    #expect(cache.count <= 16)
  }

  @Test("A ticket past its time is not offered", arguments: TLSVersion.allCases)
  func lifetime(version: TLSVersion) throws {
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let server = try serverContext()
    let start = Int64(time(nil))
    // OpenSSL's tickets serve for two hours; the certificate is valid all the time.
    for (seconds, isResumed) in [(Int64(7100), true), (7201, false)] {
      let cache = TLSSessionCache()
      try Self.prime(cache, policy, server) { $0.now = start }
      let pair = try connect(client: policy, server: server) {
        $0.sessions = cache
        $0.now = start + seconds
      }
      #expect(pair.client.failure == nil)
      #expect(pair.client.connection.info.isResumed == isResumed, "after \(seconds) seconds")
    }
  }

  @Test("The limit holds, and the least recently used goes first")
  func limit() throws {
    let cache = TLSSessionCache(limit: 3)
    let policy = TLSPolicy.trusting(Mint.shared.root, .tls12)
    let server = try serverContext()
    for port in 1...3 { try Self.prime(cache, policy, server) { $0.port = UInt16(port) } }
    func isKnown(_ port: UInt16) throws -> Bool {
      try connect(client: policy, server: server) {
        $0.sessions = cache
        $0.port = port
      }.client.connection.info.isResumed
    }
    #expect(try isKnown(1))
    try Self.prime(cache, policy, server) { $0.port = 4 }
    #expect(cache.count == 3)
    #expect(try isKnown(1))
    #expect(try isKnown(4))
    #expect(try isKnown(3))
    cache.removeAll()
    #expect(cache.count == 0)
    #expect(try !isKnown(1))
  }

  @Test("Bytes have a limit too, and the least recently used goes first")
  func byteLimit() throws {
    let policy = TLSPolicy.trusting(Mint.shared.root, .tls12)
    let server = try serverContext()
    let one = TLSSessionCache()
    try Self.prime(one, policy, server)
    // A ticket, and the certificates of the server.
    #expect(one.byteCount > 1_000 && one.byteCount < 16_384)
    let cache = TLSSessionCache(byteLimit: one.byteCount * 5 / 2)
    for port in 1...5 {
      try Self.prime(cache, policy, server) { $0.port = UInt16(port) }
      #expect(cache.count == min(port, 2) && cache.byteCount <= cache.byteLimit)
    }
    for port in [5, 4, 3] as [UInt16] {
      let pair = try connect(client: policy, server: server) {
        $0.sessions = cache
        $0.port = port
      }
      #expect(pair.client.connection.info.isResumed == (port > 3))
    }
    cache.removeAll()
    #expect(cache.byteCount == 0)
  }

  @Test("A replaced CA file makes a new context, and old sessions are not resumed")
  func replacedFile() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    var policy = TLSPolicy()
    policy.roots = .file(files.certificatePath)
    let cache = TLSSessionCache()
    let server = try serverContext()
    try Self.prime(cache, policy, server)
    let before = try TLSContext.client(for: policy)
    #expect(try TLSContext.client(for: policy) === before)
    let fresh = try Mint.shared.otherRoot.writeRoot()
    defer { fresh.remove() }
    try replaceFile(files.certificatePath, with: fresh.certificatePath)
    #expect(try TLSContext.client(for: policy) !== before)
    let pair = try connect(client: policy, server: server) { $0.sessions = cache }
    #expect(pair.client.failure == .untrusted(.unknownIssuer))
  }

  @Test("One key has a limit of its own")
  func limitOfAKey() throws {
    let cache = TLSSessionCache()
    let policy = TLSPolicy.trusting(Mint.shared.root, .tls13)
    let server = try serverContext()
    // All are made before any of them runs: none takes a ticket of another.
    let pairs = try (0...TLSSessionCache.limitPerKey).map { _ in
      try makePair(client: policy, server: server) { $0.sessions = cache }
    }
    pairs.forEach { $0.run() }
    #expect(cache.count == TLSSessionCache.limitPerKey)
  }
}
