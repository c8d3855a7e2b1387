import LupineEngine
import LupineIO
import LupineRules
import LupineTLS
import Testing

/// What tells one connection from another. curl has left out one thing after another: CVE-2021-22924 (letter case of paths, an issuer's certificate),
/// CVE-2022-27775 (zones), CVE-2022-27782, CVE-2023-27535, CVE-2026-5545, CVE-2026-8286, CVE-2026-8932 and more.
@Suite struct PoolKeyTests {
  /// One change of what is compared.
  struct Difference<Value>: Sendable, CustomTestStringConvertible {
    /// The stored property that differs.
    var property: String
    var change: @Sendable (inout Value) -> Void

    init(_ property: String, _ change: @escaping @Sendable (inout Value) -> Void) {
      self.property = property
      self.change = change
    }

    var testDescription: String { property }
  }

  private static func policy() -> TLSPolicy {
    var policy = TLSPolicy()
    policy.roots = .file("/etc/roots.pem")
    policy.clientIdentity = TLSIdentity(.files(chain: "/etc/own.pem", privateKey: "/etc/own.key"), passphrase: "p")
    return policy
  }

  private static let secret = ProxyCredentials(.password(user: "u", password: "p"))
  private static let field = ProxyRoute.Field(name: "User-Agent", value: "me")

  private static func route() -> ProxyRoute {
    var route = ProxyRoute(kind: .http, endpoint: .unixSocket(path: "/run/proxy"), tunnels: true)
    route.credentials = secret
    route.connectFields = [field]
    return route
  }

  private static func identity() -> ConnectionIdentity {
    var identity = ConnectionIdentity(host: "fe80::1%lo", serverName: "fe80::1", port: 443, tls: policy())
    identity.route = .proxy(route())
    return identity
  }

  static let identities: [Difference<ConnectionIdentity>] = [
    Difference("host") { $0.host = "fe80::1%eth0" },
    Difference("serverName") { $0.serverName = "localhost" },
    Difference("port") { $0.port = 444 },
    Difference("tls") { $0.tls = nil },
    Difference("trustDomain") { $0.trustDomain = 7 },
    Difference("route") { $0.route = .direct },
    Difference("route") { $0.route = .unixSocket(path: "/run/proxy") },
    Difference("localAddress") { $0.localAddress = .v4(.loopback, port: 0) },
    Difference("addressOverride") { $0.addressOverride = .v4(.loopback, port: 443) },
    Difference("traffic") { $0.traffic = ConnectionIdentity.Traffic(codePoint: 8, allowsCellular: false) },
  ]

  static let policies: [Difference<TLSPolicy>] = [
    Difference("roots") { $0.roots = .system },
    Difference("roots") { $0.roots = .file("/etc/Roots.pem") },
    Difference("roots") { $0.roots = .directory("/etc/roots.pem") },
    Difference("additionalRoots") { $0.additionalRoots = [[1]] },
    Difference("verification") { $0.verification = .none },
    Difference("minimumVersion") { $0.minimumVersion = .tls13 },
    Difference("maximumVersion") { $0.maximumVersion = .tls12 },
    Difference("clientIdentity") { $0.clientIdentity = nil },
    Difference("clientIdentity") {
      $0.clientIdentity?.source = .files(chain: "/etc/own.pem", privateKey: "/etc/Own.key")
    },
    Difference("clientIdentity") { $0.clientIdentity?.passphrase = "P" },
    Difference("pins") { $0.pins = [[2]] },
    Difference("revocationListPath") { $0.revocationListPath = "/etc/lists.pem" },
    Difference("keyLogPath") { $0.keyLogPath = "/tmp/keys" },
    Difference("cipherList") { $0.cipherList = "ECDHE+AESGCM" },
    Difference("cipherSuites") { $0.cipherSuites = "TLS_AES_128_GCM_SHA256" },
    Difference("groups") { $0.groups = "X25519" },
  ]

  static let routes: [Difference<ProxyRoute>] = [
    Difference("kind") { $0.kind = .https },
    Difference("endpoint") { $0.endpoint = .unixSocket(path: "/run/Proxy") },
    Difference("credentials") { $0.credentials = nil },
    Difference("credentials") { $0.credentials?.secret = .password(user: "u", password: "P") },
    Difference("tls") { $0.tls = TLSPolicy() },
    Difference("resumesTLS") { $0.resumesTLS = false },
    Difference("allowsTLSTruncation") { $0.allowsTLSTruncation = true },
    Difference("tunnels") { $0.tunnels = false },
    Difference("connectFields") { $0.connectFields = [] },
  ]

  static let credentials: [Difference<ProxyCredentials>] = [
    Difference("secret") { $0.secret = .token("p") },
    Difference("allowsBasic") { $0.allowsBasic = false },
    Difference("allowsDigest") { $0.allowsDigest = false },
    Difference("policy") { $0.policy.allowsMD5.toggle() },
    Difference("isPreemptive") { $0.isPreemptive = true },
    Difference("realm") { $0.realm = "r" },
  ]

  static let fields: [Difference<ProxyRoute.Field>] = [
    Difference("name") { $0.name = "user-agent" },
    Difference("value") { $0.value = "Me" },
  ]

  static let traffics: [Difference<ConnectionIdentity.Traffic>] = [
    Difference("codePoint") { $0.codePoint = 8 },
    Difference("allowsCellular") { $0.allowsCellular = false },
  ]

  private func expectDifference(from other: ConnectionIdentity) {
    let (one, two) = (PoolKey(Self.identity()), PoolKey(other))
    #expect(one != two)
    #expect(Set([one, two]).count == 2)
  }

  @Test func whatIsEqualIsOne() {
    #expect(PoolKey(Self.identity()) == PoolKey(Self.identity()))
    #expect(Set([PoolKey(Self.identity()), PoolKey(Self.identity())]).count == 1)
  }

  /// No server name has it: what is kept by that name needs it besides.
  @Test(
    arguments: [
      ("fe80::1%lo", "lo"), ("fe80::1", nil), ("192.0.2.1", nil), ("a.example", nil), ("a.example.", nil),
    ] as [(String, String?)]) func theZoneOfAHost(_ host: String, _ zone: String?)
  {
    #expect(ConnectionIdentity(host: host, serverName: "", port: 443, tls: nil).zone == zone)
  }

  @Test(arguments: identities) func identitiesDiffer(_ difference: Difference<ConnectionIdentity>) {
    var identity = Self.identity()
    difference.change(&identity)
    expectDifference(from: identity)
  }

  @Test(arguments: policies) func policiesDiffer(_ difference: Difference<TLSPolicy>) {
    var policy = Self.policy()
    difference.change(&policy)
    var identity = Self.identity()
    identity.tls = policy
    expectDifference(from: identity)
  }

  @Test(arguments: routes) func routesDiffer(_ difference: Difference<ProxyRoute>) {
    var route = Self.route()
    difference.change(&route)
    var identity = Self.identity()
    identity.route = .proxy(route)
    expectDifference(from: identity)
  }

  @Test(arguments: credentials) func credentialsDiffer(_ difference: Difference<ProxyCredentials>) {
    var credentials = Self.secret
    difference.change(&credentials)
    expectDifference(from: Self.changedRoute { $0.credentials = credentials })
  }

  @Test(arguments: fields) func fieldsDiffer(_ difference: Difference<ProxyRoute.Field>) {
    var field = Self.field
    difference.change(&field)
    expectDifference(from: Self.changedRoute { $0.connectFields = [field] })
  }

  @Test(arguments: traffics) func trafficsDiffer(_ difference: Difference<ConnectionIdentity.Traffic>) {
    var traffic = ConnectionIdentity.Traffic()
    difference.change(&traffic)
    expectDifference(from: Self.changed { $0.traffic = traffic })
  }

  /// A new option has a row above. Of a client certificate, which shows nothing of itself, the rows stand with its policy.
  @Test func nothingIsForgotten() {
    func properties(of value: some Any) -> Set<String> {
      // What a wrapper holds has an underscore before it.
      Set(Mirror(reflecting: value).children.compactMap(\.label).map { String($0.drop { $0 == "_" }) })
    }
    #expect(properties(of: Self.identity()) == Set(Self.identities.map(\.property)))
    #expect(properties(of: Self.policy()) == Set(Self.policies.map(\.property)))
    #expect(properties(of: Self.route()) == Set(Self.routes.map(\.property)))
    #expect(properties(of: Self.secret) == Set(Self.credentials.map(\.property)))
    #expect(properties(of: Self.field) == Set(Self.fields.map(\.property)))
    #expect(properties(of: ConnectionIdentity.Traffic()) == Set(Self.traffics.map(\.property)))
  }

  /// Everywhere that text of the caller's stands in a key.
  private static let places: [@Sendable (String) -> ConnectionIdentity] = [
    { text in changed { $0.route = .unixSocket(path: text) } },
    { text in changedRoute { $0.endpoint = .unixSocket(path: text) } },
    { text in changedRoute { $0.credentials?.secret = .password(user: text, password: "p") } },
    { text in changedRoute { $0.credentials?.secret = .password(user: "u", password: text) } },
    { text in changedRoute { $0.credentials?.secret = .token(text) } },
    { text in changedRoute { $0.credentials?.realm = text } },
    { text in changedRoute { $0.connectFields[0].name = text } },
    { text in changedRoute { $0.connectFields[0].value = text } },
    { text in changed { $0.tls?.roots = .file(text) } },
    { text in changed { $0.tls?.roots = .directory(text) } },
    { text in changed { $0.tls?.clientIdentity?.source = .files(chain: text, privateKey: "k") } },
    { text in changed { $0.tls?.clientIdentity?.source = .files(chain: "c", privateKey: text) } },
    { text in changed { $0.tls?.clientIdentity?.passphrase = text } },
    { text in changed { $0.tls?.revocationListPath = text } },
    { text in changed { $0.tls?.keyLogPath = text } },
    { text in changed { $0.tls?.cipherList = text } },
    { text in changed { $0.tls?.cipherSuites = text } },
    { text in changed { $0.tls?.groups = text } },
  ]

  private static func changed(_ change: (inout ConnectionIdentity) -> Void) -> ConnectionIdentity {
    var identity = identity()
    change(&identity)
    return identity
  }

  private static func changedRoute(_ change: (inout ProxyRoute) -> Void) -> ConnectionIdentity {
    var route = route()
    change(&route)
    return changed { $0.route = .proxy(route) }
  }

  /// CVE-2021-22924 again: letter case, and the two spellings of a letter in Unicode, which Swift's strings do not tell apart.
  @Test(arguments: [("/run/a", "/run/A"), ("/run/\u{E9}", "/run/e\u{301}")])
  func textIsComparedByItsBytes(_ text: String, _ other: String) {
    for (index, place) in Self.places.enumerated() {
      #expect(PoolKey(place(text)) == PoolKey(place(text)), "\(index)")
      #expect(PoolKey(place(text)) != PoolKey(place(other)), "\(index)")
    }
  }
}
