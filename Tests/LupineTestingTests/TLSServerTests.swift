import Testing

@testable import LupineTesting

@Suite struct TLSServerTests {
  private static let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

  @Test func servesOverTLSAndNotifiesTheClose() throws {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(tls: .minted(by: authority)) { request, connection in
      try connection.respond(text: connection.tls?.serverName ?? "none")
    }
    defer { server.shutdown() }
    let client = try RawTLSClient(RawClient(server), trusting: authority)
    try client.send(Self.request)
    let (text, records, end) = try client.receiveAll()
    #expect(text.hasSuffix("\r\n\r\nlocalhost"))
    #expect(records == 1)
    #expect(end == .notified)
    let summary = try #require(server.tlsSummaries[1])
    #expect(summary.version == "TLSv1.3" && summary.cipher.hasPrefix("TLS_"))
    #expect(summary.applicationProtocol == "http/1.1")
    #expect(!summary.resumed)
    #expect(server.url("/x") == "https://localhost:\(server.port)/x")
  }

  @Test(arguments: [ServerTLS.Version.tls12, .tls13], [true, false])
  func resumesOnlyWhenAllowed(_ version: ServerTLS.Version, _ allowed: Bool) throws {
    let authority = try CertificateAuthority()
    var tls = try ServerTLS.minted(by: authority)
    tls.minimumVersion = version
    tls.maximumVersion = version
    tls.allowsResumption = allowed
    let server = try LoopbackServer(tls: tls) { _, connection in try connection.respond() }
    defer { server.shutdown() }
    let first = try RawTLSClient(RawClient(server), trusting: authority)
    try first.send(Self.request)
    _ = try first.receiveAll()
    let session = first.session()
    let second = try RawTLSClient(RawClient(server), trusting: authority, resuming: session)
    try second.send(Self.request)
    _ = try second.receiveAll()
    #expect(server.tlsSummaries[1]?.resumed == false)
    #expect(server.tlsSummaries[2]?.resumed == allowed)
  }

  @Test(arguments: [(.server, .client), (.serverAndClient, .serverAndClient)] as [(MintedUsage, MintedUsage)])
  func asksForAClientCertificate(_ serverUsage: MintedUsage, _ clientUsage: MintedUsage) throws {
    let authority = try CertificateAuthority()
    var order = CertificateOrder.loopback
    order.usage = serverUsage
    var tls = try ServerTLS.minted(by: authority, order)
    tls.clientAuthorities = authority.rootPEM
    tls.maximumVersion = .tls12  // so that a refusal is part of the client's handshake
    let server = try LoopbackServer(tls: tls) { _, connection in
      try connection.respond(text: connection.tls?.clientSubject ?? "none")
    }
    defer { server.shutdown() }
    let identity = try authority.issue(CertificateOrder(commonName: "alice", usage: clientUsage))
    let client = try RawTLSClient(RawClient(server), trusting: authority, identity: identity)
    try client.send(Self.request)
    #expect(try client.receiveAll().text.hasSuffix("/CN=alice"))
    #expect(throws: LoopbackError.self) { try RawTLSClient(RawClient(server), trusting: authority) }
    server.shutdown()
    #expect(server.problems.count == 1)
    #expect(server.tlsSummaries.count == 1)
  }

  @Test func refusesAnIdentityThatIsNone() {
    #expect(throws: LoopbackError.tls("no certificate in the chain")) {
      try LoopbackServer(tls: ServerTLS(certificateChain: "", privateKey: "")) { _, _ in }
    }
  }

  @Test func truncatesOnRequest() throws {
    let authority = try CertificateAuthority()
    let server = try ScriptedServer(
      [
        [.readHead, .sendAndFinishWithoutNotify("ab")], [.readHead, .send("a"), .closeWithoutNotify],
        [.readHead, .sendAndFinish("ab")],
      ],
      tls: .minted(by: authority))
    defer { server.shutdown() }
    var ends: [RawTLSEnd] = []
    for _ in 1...3 {
      let client = try RawTLSClient(RawClient(server.address, port: server.port), trusting: authority)
      try client.send(Self.request)
      ends.append(try client.receiveAll().end)
    }
    #expect(ends == [.truncated, .truncated, .notified])
    #expect(server.problems == [])
  }

  @Test func dripsOneByteARecord() throws {
    let authority = try CertificateAuthority()
    let server = try ScriptedServer([[.readHead, .drip("hello")]], tls: .minted(by: authority))
    defer { server.shutdown() }
    let client = try RawTLSClient(RawClient(server.address, port: server.port), trusting: authority)
    try client.send(Self.request)
    let (text, records, end) = try client.receiveAll()
    #expect(text == "hello")
    #expect(records == 5)
    #expect(end == .notified)
  }
}
