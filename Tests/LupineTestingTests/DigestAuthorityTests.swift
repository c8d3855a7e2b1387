import Testing

@testable import LupineTesting

@Suite struct DigestAuthorityTests {
  private func hash(_ text: String) throws -> String {
    let digest = try Digest(.md5)
    digest.add(Array(text.utf8)[...])
    return digest.finish()
  }

  /// The field of RFC 2069, of a client that knows the password.
  private func credentials(nonce: String) throws -> String {
    let response = try hash("\(hash("Mufasa:lupine:Circle of Life")):\(nonce):\(hash("GET:/"))")
    return "Authorization: Digest username=\"Mufasa\", realm=\"lupine\", nonce=\"\(nonce)\", uri=\"/\", "
      + "response=\"\(response)\"\r\n"
  }

  /// Right credentials with the nonce of somebody else, before any of its own was given out: as of a client that knows the realm from another path, or
  /// from a server that ran there before.
  @Test(arguments: ["nonce1", "nonce0", "nonce-1", "nonce", "other"]) func aNonceOfNobodys(_ nonce: String) throws {
    var options = DigestAuthority.Options()
    options.algorithms = [nil]
    options.quality = nil
    options.opaque = nil
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life", options: options)
    let server = try LoopbackServer { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    let refused = try client.get("/", fields: credentials(nonce: nonce))
    #expect(refused.status == 401)
    #expect(authority.refusals == ["nonce"])
    // The challenge that came of it is good.
    let admitted = try client.get("/", fields: credentials(nonce: "nonce1"))
    #expect(admitted.text == "Welcome." && server.problems == [])
  }
}
