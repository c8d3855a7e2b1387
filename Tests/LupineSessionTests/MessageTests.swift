import LupineSession
import LupineTesting
import Testing

/// What people read of an error.
@Suite(.timeLimit(.minutes(5))) struct MessageTests {
  private func message(of bytes: String) async throws -> String {
    var message = ""
    try await withScript([[.readHead, .send(ScriptBytes(bytes)), .close]]) { session, server in
      message = try await failure { try await session.data(from: server.url()) }.message
    }
    return message
  }

  @Test func responsesThatEndEarly() async throws {
    #expect(
      try await message(of: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfour")
        == "the response ended early: 6 bytes of the body are missing, at byte 43")
  }

  /// What frames a body is announced as well: a list or several fields that say the same (RFC 9112 section 6.3).
  @Test(arguments: ["Content-Length: 2, 2", "Content-Length: 2\r\nContent-Length: 2", "Content-Length:  002"])
  func lengthsThatAreSaidTwice(_ fields: String) async throws {
    let answer = ScriptBytes("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\nok")
    try await withScript([[.readHead, .send(answer), .close]]) { session, server in
      let (body, response) = try await session.data(from: server.url())
      #expect(body.count == 2 && response.expectedContentLength == 2)
    }
  }

  @Test func responsesThatBreakTheProtocol() async throws {
    #expect(
      try await message(of: "HTTP/1.1 999 Denied\r\nContent-Length: 0\r\n\r\n")
        == "the response breaks HTTP/1.1: the status code is not one of 100 to 599 "
        + "(WireLeniency.statusCodesAbove599 accepts 600 to 999), at byte 9")
  }

  /// A server that wants TLS and was asked without says so in its own way.
  @Test func serversThatWantTLS() async throws {
    #expect(
      try await message(of: "\u{15}\u{3}\u{3}\0\u{2}\u{2}F")
        == "the response breaks HTTP/1.1: it is an alert of TLS (is this an https port?), at byte 0")
  }

  /// A limit of ours is no breach of the protocol.
  @Test func responsesThatExceedALimit() async throws {
    let interim = String(repeating: "HTTP/1.1 103 E\r\n\r\n", count: 33)
    #expect(
      try await message(of: interim + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .hasPrefix(
          "the response exceeds a limit (SessionConfiguration.wireLimits): more than 32 interim heads "
            + "(WireLimits.informationalHeads), at byte "))
  }

  @Test func requestsThatContradictThemselves() async throws {
    var request = try Request("http://127.0.0.1:1/", method: .post, body: .bytes([1]))
    request.fields[.contentLength] = "7"
    let error = try await failure { [request] in try await Session().data(for: request) }
    #expect(
      error.message.hasPrefix(
        "the request would break HTTP framing: Content-Length or Transfer-Encoding contradicts the body, at byte "))
  }
}
