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

  private static func authority(_ change: (inout DigestAuthority.Options) -> Void = { _ in }) -> DigestAuthority {
    var options = DigestAuthority.Options()
    options.algorithms = [nil]
    options.quality = nil
    options.opaque = nil
    change(&options)
    return DigestAuthority(user: "Mufasa", password: "Circle of Life", options: options)
  }

  /// Uses count without a count of the client's as well, and a text that is not closed is none.
  @Test func usesAndSyntax() throws {
    let authority = Self.authority { $0.usesPerNonce = 1 }
    let server = try LoopbackServer { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    #expect(try client.get("/", fields: "").status == 401)
    let right = try credentials(nonce: "nonce1")
    let open = right.replacing("\"\r\n", with: "\r\n")
    #expect(try client.get("/", fields: open).status == 401)
    #expect(authority.refusals == ["syntax"])
    #expect(try client.get("/", fields: right).text == "Welcome.")
    let stale = try client.get("/", fields: right)
    #expect(stale.status == 401 && authority.refusals == ["syntax", "stale"])
  }

  /// Right credentials with the nonce of somebody else, before any of its own was given out: as of a client that knows the realm from another path, or
  /// from a server that ran there before.
  @Test(arguments: ["nonce1", "nonce0", "nonce-1", "nonce", "other"]) func aNonceOfNobodys(_ nonce: String) throws {
    let authority = Self.authority()
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
