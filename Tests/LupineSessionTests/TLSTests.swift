import FoundationEssentials
import Glibc
import LupineEngine
import LupineIO
import LupineSession
import LupineTLS
import LupineTestSupport
import LupineTesting
import Testing

/// Trust, versions, identities and resumption, over real sockets.
@Suite(.timeLimit(.minutes(5))) struct TLSTests {
  struct Refusal: Sendable, CustomTestStringConvertible {
    let name: String
    let order: CertificateOrder
    var isSelfSigned = false
    var isForeign = false
    var testDescription: String { name }

    static let all: [Refusal] = [
      Refusal(name: "expired", order: CertificateOrder(dnsNames: ["localhost"], validity: .expired)),
      Refusal(name: "not yet valid", order: CertificateOrder(dnsNames: ["localhost"], validity: .notYetValid)),
      Refusal(name: "wrong host", order: CertificateOrder(commonName: "localhost", dnsNames: ["other.example"])),
      Refusal(name: "wrong purpose", order: CertificateOrder(dnsNames: ["localhost"], usage: .client)),
      Refusal(name: "self-signed", order: .loopback, isSelfSigned: true),
      Refusal(name: "unknown issuer", order: .loopback, isForeign: true),
    ]
  }

  @Test(arguments: Refusal.all) func untrustedServerIsRefusedBeforeAByteOfTheRequest(_ row: Refusal) async throws {
    let identity =
      row.isSelfSigned
      ? ServerTLS(try CertificateAuthority.selfSigned(row.order))
      : row.isForeign
        ? try ServerTLS.minted(by: CertificateAuthority(commonName: "Foreign root"))
        : try TestIdentity.server(row.order)
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: identity)
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .serverCertificateUntrusted, "\(error)")
      #expect(error.phase == .tls)
      #expect(!error.requestBytesSent)
    }
    try await withSession(ports: [server.port], configure: { $0.tls.verifiesServer = false }) { session in
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
    #expect(server.requestCount == 1)
  }

  /// What a handshake waits for is not read behind files of users, which may be on a server that is gone.
  @Test func slowFilesHoldUpNoHandshake() async throws {
    let latch = try Latch()
    defer { latch.release() }
    let threads = try Engine.processFiles.get()
    for _ in 0..<2 { threads.run({ _ = latch.wait(seconds: 120) }, completion: { _ in }) }
    let authority = try TestIdentity.authority.get()
    let files = try authority.writeRoot()
    defer { files.remove() }
    let configure: (inout SessionConfiguration) -> Void = {
      $0.tls.roots = .file(files.certificatePath)
      $0.cookieStorage = CookieStorage()
    }
    try await withServer(isSecure: true, configure: configure) { session, server in
      try await session.expect("Hello, world!", from: server.url("/hello"))
      // The first cookie has the list of public suffixes read.
      #expect(try await session.data(from: server.url("/cookies/set?a=b")).1.statusCode == 200)
    }
  }

  @Test func rootsFromFileDirectoryAndSystem() async throws {
    let authority = try TestIdentity.authority.get()
    let files = try authority.writeRoot()
    defer { files.remove() }
    try await withServer(isSecure: true, configure: { $0.tls.roots = .file(files.certificatePath) }) {
      session, server in
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
    try await withServer(isSecure: true, configure: { $0.tls.roots = .system }) { session, server in
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .serverCertificateUntrusted)
    }
    try await withServer(isSecure: true, configure: { $0.tls.roots = .file("/nonexistent.pem") }) { session, server in
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .secureConnectionFailed, "\(error)")
      #expect(error.message.hasSuffix("/nonexistent.pem: No such file or directory"), "\(error.message)")
      #expect(server.requestCount == 0)
    }
  }

  /// Roots that come from a pipe nobody writes to: the TLS deadline passes, and nobody else on the engine notices.
  @Test func slowRootsDoNotStallTheLoop() async throws {
    let directory = try ScratchDirectory()
    let pipe = directory.path + "/roots.pem"
    try #require(unsafe mkfifo(pipe, 0o600) == 0)
    let plain = try LoopbackServer(routes: ServerRoute.standard())
    defer { plain.shutdown() }
    try await withServer(
      isSecure: true,
      configure: {
        $0.tls.roots = .file(pipe)
        $0.tlsTimeout = .milliseconds(700)
      }
    ) { session, server in
      let secure = Task { try await failure { try await session.data(from: server.url("/hello")) } }
      #expect(await eventually { server.connectionCount == 1 })
      for _ in 0..<3 { try await session.expect("Hello, world!", from: plain.url("/hello")) }
      let error = try await secure.value
      #expect(error.code == .timedOut && error.phase == .tls, "\(error)")
      // Whoever opens it for reading is let go.
      let writer = unsafe open(pipe, O_WRONLY | O_CLOEXEC | O_NONBLOCK)
      if writer >= 0 { close(writer) }
    }
  }

  @Test func addressesAreCheckedAsAddresses() async throws {
    try await withServer(isSecure: true) { session, server in
      try await session.expect("Hello, world!", from: "https://127.0.0.1:\(server.port)/hello")
    }
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try TestIdentity.server(CertificateOrder(dnsNames: ["127.0.0.1"])))
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let error = try await failure { try await session.data(from: "https://127.0.0.1:\(server.port)/hello") }
      #expect(error.code == .serverCertificateUntrusted)
    }
  }

  @Test(arguments: [true, false]) func clientCertificate(_ isRequired: Bool) async throws {
    let authority = try TestIdentity.authority.get()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: isRequired))
    defer { server.shutdown() }
    let files = try authority.issue(CertificateOrder(commonName: "client", usage: .client)).write()
    defer { files.remove() }
    try await withSession(
      ports: [server.port],
      configure: {
        $0.tls.clientIdentity = TLSConfiguration.ClientIdentity(
          certificatePath: files.chainPath, privateKeyPath: files.privateKeyPath)
      }
    ) { session in
      try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(server.tlsSummaries.values.first?.clientSubject?.contains("client") == true)
    }
    try await withSession(ports: [server.port]) { session in
      if isRequired {
        let error = try await failure { try await session.data(from: server.url("/hello")) }
        #expect([.secureConnectionFailed, .connectionLost].contains(error.code), "\(error)")
      } else {
        try await session.expect("Hello, world!", from: server.url("/hello"))
      }
    }
  }

  /// A key with a passphrase; without the right one the request fails, and nobody is asked on the terminal.
  @Test func encryptedClientKey() async throws {
    let authority = try TestIdentity.authority.get()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: TestIdentity.asking(insists: true))
    defer { server.shutdown() }
    let files = try authority.issue(CertificateOrder(commonName: "client", usage: .client)).write()
    defer { files.remove() }
    let key = files.directory + "/encrypted.pem"
    try EncryptedKey.write(files.privateKeyPath, to: key, passphrase: "open sesame")
    for passphrase in ["open sesame", "wrong", nil] {
      let identity = TLSConfiguration.ClientIdentity(
        certificatePath: files.chainPath, privateKeyPath: key, passphrase: passphrase)
      #expect(!"\(identity)\(String(reflecting: identity))".contains("sesame"))
      try await withSession(ports: [server.port], configure: { $0.tls.clientIdentity = identity }) { session in
        if passphrase == "open sesame" {
          try await session.expect("Hello, world!", from: server.url("/hello"))
        } else {
          let error = try await failure { try await session.data(from: server.url("/hello")) }
          #expect(error.code == .secureConnectionFailed)
          #expect(error.message.hasPrefix("the client identity cannot be read: "), "\(error.message)")
        }
      }
    }
  }

  @Test(arguments: [TLSConfiguration.Version.tls12, .tls13]) func sessionsAreResumed(
    _ version: TLSConfiguration.Version
  ) async throws {
    try await withServer(
      isSecure: true,
      configure: {
        $0.tls.minimumVersion = version
        $0.tls.maximumVersion = version
      }
    ) { session, server in
      for index in 0..<4 {
        let (_, response) = try await session.text(server.url("/close"))
        let transaction = try #require(response.metrics.transactions.first)
        #expect(transaction.isTLSResumed == (index > 0), "request \(index)")
        #expect(transaction.tlsVersion == (version == .tls12 ? "TLSv1.2" : "TLSv1.3"))
      }
      #expect(server.tlsSummaries.values.count { $0.resumed } == 3)
    }
  }

  @Test func versionsThatDoNotMeet() async throws {
    var tls = try TestIdentity.server()
    tls.maximumVersion = .tls12
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: tls)
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.tls.minimumVersion = .tls13 }) { session in
      let error = try await failure { try await session.data(from: server.url("/hello")) }
      #expect(error.code == .secureConnectionFailed)
      #expect(error.phase == .tls)
    }
    var impossible = SessionConfiguration()
    impossible.tls.minimumVersion = .tls13
    impossible.tls.maximumVersion = .tls12
    #expect(throws: SessionError.self) { try Session(impossible) }
  }

  @Test func keyLogIsWritten() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/keys"
    try await withServer(isSecure: true, configure: { $0.tls.keyLogPath = path }) { session, server in
      _ = try await session.data(from: server.url("/hello"))
      // At once, unless the machine had no time for the file thread for a second.
      #expect(await eventually { TextFile.read(path).contains("CLIENT_TRAFFIC_SECRET_0 ") })
    }
  }

  @Test func pins() async throws {
    let identity = try TestIdentity.authority.get().issue()
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(identity))
    defer { server.shutdown() }
    let pin = try identity.publicKeySHA256()
    try await withSession(ports: [server.port], configure: { $0.tls.publicKeyPins = [pin] }) { session in
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
    let wrong = [UInt8](repeating: 7, count: 32)
    try await withSession(ports: [server.port], configure: { $0.tls.publicKeyPins = [wrong] }) { session in
      try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url("/hello")) }
    }
  }

  @Test func plainServerBehindAnHTTPSURL() async throws {
    try await withScript([[.send("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"), .waitForClose]]) { session, server in
      let error = try await failure { try await session.data(from: "https://localhost:\(server.port)/") }
      #expect(error.code == .secureConnectionFailed)
      #expect(error.message.contains("does not speak TLS"), "\(error.message)")
    }
  }

  @Test func secureServerBehindAnHTTPURL() async throws {
    try await withServer(isSecure: true) { session, server in
      let error = try await failure { try await session.data(from: "http://127.0.0.1:\(server.port)/") }
      #expect([.badResponse, .connectionLost, .truncatedResponse].contains(error.code))
    }
  }

  /// Whether it is a FIN or a reset, and before or after the server's first bytes: a reset is often only a FIN with bytes unread.
  @Test(arguments: [ScriptStep.close, .reset, .sendAndFinish("\u{16}\u{3}\u{3}")])
  func closeDuringTheHandshake(_ end: ScriptStep) async throws {
    try await withScript([[.read(5), end]], expectsProblems: true) { session, server in
      let error = try await failure { try await session.data(from: "https://127.0.0.1:\(server.port)/") }
      #expect(error.code == .connectionLost, "\(error)")
      #expect(error.phase == .tls)
      #expect(error.message.contains("during the TLS handshake"), "\(error.message)")
      #expect(!error.requestBytesSent)
    }
  }

  /// The server asks for the name in the URL, whatever its case and final dot.
  @Test func serverNameIndication() async throws {
    try await withServer(isSecure: true) { session, server in
      try await session.expect("Hello, world!", from: "https://LOCALHOST:\(server.port)/hello")
      #expect(server.tlsSummaries.values.first?.serverName == "localhost")
      #expect(server.tlsSummaries.values.first?.applicationProtocol == "http/1.1")
    }
  }
}
