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

  /// The field for a PUT whose body the credentials cover (`qop=auth-int`).
  private func credentials(count: String, covering body: String) throws -> String {
    let secret = try hash("Mufasa:lupine:Circle of Life")
    let what = try hash("PUT:/:\(hash(body))")
    let response = try hash("\(secret):nonce1:\(count):c:auth-int:\(what)")
    return "Authorization: Digest username=\"Mufasa\", realm=\"lupine\", nonce=\"nonce1\", uri=\"/\", "
      + "qop=auth-int, nc=\(count), cnonce=\"c\", response=\"\(response)\"\r\n"
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

  /// A body that credentials cover was read before the handler asks for it, who gets all of it whatever is kept for the recording.
  @Test func aCoveredBodyIsForTheHandlerToo() throws {
    let authority = Self.authority { $0.quality = "auth-int" }
    let server = try LoopbackServer(recording: .none) { request, connection in
      guard try authority.admit(request, connection) else { return }
      let body = try connection.readBody()
      let again = try connection.readBody()
      try connection.respond(body: body + again)
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    #expect(try client.get("/").status == 401)
    for (count, body) in [("00000001", "x"), ("00000002", "y")] {
      let field = try credentials(count: count, covering: body)
      try client.send("PUT / HTTP/1.1\r\nContent-Length: 1\r\n\(field)\r\n\(body)")
      #expect(try client.response().text == body + body)
    }
    #expect(authority.refusals == [] && server.problems == [])
  }
}
