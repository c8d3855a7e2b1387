import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// One `Request` sent again and again has its head written once; whatever else belongs into a head is there all the same.
@Suite(.timeLimit(.minutes(5))) struct RepeatedHeadTests {
  /// What the server was sent: request line and fields.
  private func head(_ session: Session, _ request: Request) async throws -> String {
    let (body, response) = try await session.data(for: request)
    let seen = String(decoding: body, as: UTF8.self)
    // What is said to have been sent is what came.
    let path = try #require(URL(string: request.urlString)).path
    let line = String(decoding: response.requestHead.prefix { $0 != 0x0D }, as: UTF8.self)
    #expect(line == "\(request.method.rawValue) \(path) HTTP/1.1")
    return seen
  }

  @Test func isTheSameEachTime() async throws {
    try await withServer { session, server in
      let request = try Request(server.url("/headers"))
      let first = try await head(session, request)
      #expect(first.contains("Accept-Encoding"))
      for _ in 0..<4 { #expect(try await head(session, request) == first) }
    }
  }

  /// Whatever a request, its copy or its session has of its own.
  @Test func isWrittenAnewWhereItDiffers() async throws {
    try await withServer { session, server in
      let request = try Request(server.url("/headers"))
      let plain = try await head(session, request)
      for _ in 0..<2 { _ = try await head(session, request) }

      var other = request
      other.fields[.userAgent] = "other"
      #expect(try await head(session, other).contains("other"))
      other = request
      other.acceptsCompressedContent = false
      #expect(try await head(session, other).contains("Accept-Encoding") == false)
      other = request
      other.method = .post
      other.body = .bytes(Array("x".utf8))
      #expect(try await head(session, other).contains("Content-Length"))
      other.method = .delete
      other.body = .none
      #expect(try await head(session, other) == "DELETE" + plain.dropFirst(3))

      try await withSession(configure: { $0.userAgent = "another/1" }) { session in
        for _ in 0..<2 {
          let seen = try await head(session, request)
          #expect(seen.contains("another/1"))
        }
      }
      try await withSession(configure: { $0.additionalFields[.acceptLanguage] = "eo" }) { session in
        for _ in 0..<2 {
          let seen = try await head(session, request)
          #expect(seen.contains("eo"))
        }
      }
      #expect(try await head(session, request) == plain)
    }
  }

  /// Fields that were set before a change of them failed are there.
  @Test func hasWhatWasSetBeforeAnError() async throws {
    func change(_ fields: inout HTTPFields) throws {
      fields[.userAgent] = "kept"
      throw CancellationError()
    }
    try await withServer { session, server in
      var request = try Request(server.url("/headers"))
      for _ in 0..<3 { _ = try await head(session, request) }
      #expect(throws: CancellationError.self) { try change(&request.fields) }
      #expect(try await head(session, request).contains("kept"))
    }
  }

  /// The jar is asked each time, and so is what it has no more.
  @Test func hasTheCookiesOfTheMoment() async throws {
    let jar = CookieStorage()
    try await withServer(configure: { $0.cookieStorage = jar }) { session, server in
      let request = try Request(server.url("/headers"))
      for _ in 0..<3 { #expect(try await head(session, request).contains("Cookie") == false) }
      let cookie = Cookie(name: "a", value: "secret", domain: "127.0.0.1")
      try jar.setCookie(cookie)
      for _ in 0..<2 { #expect(try await head(session, request).contains("a=secret")) }
      jar.delete(cookie)
      #expect(try await head(session, request).contains("Cookie") == false)
    }
  }
}
