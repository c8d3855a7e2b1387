import LupineSession
import LupineTesting
import Testing

@Suite struct ResumptionTests {
  /// One request on each of several connections.
  @Test(arguments: [true, false]) func sessionsAreResumedWhenAllowed(_ allowsResumption: Bool) async throws {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(tls: .minted(by: authority)) { _, connection in
      try connection.respond(200, body: Array("hello".utf8))
    }
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.maximumUsesPerConnection = 1
    configuration.tls.roots = .certificates([authority.rootDER])
    configuration.tls.allowsResumption = allowsResumption
    let session = try Session(configuration)
    let request = try Request(server.url("/"))
    var resumed: [Bool?] = []
    for _ in 0..<4 {
      let (_, response) = try await session.data(for: request)
      resumed.append(response.metrics.transactions.last?.isTLSResumed)
    }
    #expect(resumed == [false, allowsResumption, allowsResumption, allowsResumption])
  }
}
