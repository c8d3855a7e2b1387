import FoundationEssentials
import HTTPTypes
import LupineEngine
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Whatever would break the framing of a request is refused before a byte leaves: swift-nio CVE-2022-3215 (values), AsyncHTTPClient
/// CVE-2023-0040 (names and values), CVE-2026-28970 (target, method, reason).
@Suite(.timeLimit(.minutes(5))) struct InjectionTests {
  private static let poison = [
    "\r\nX-Injected: 1", "\nX-Injected: 1", "\rX", "\0", "\r\n\r\nGET /evil HTTP/1.1\r\nHost: x\r\n\r\n",
  ]

  @Test(arguments: poison) func urls(_ poison: String) throws {
    for url in [
      "http://127.0.0.1/\(poison)", "http://127.0.0.1/?q=\(poison)", "http://127.0.0.1\(poison)/",
      "http://user\(poison)@127.0.0.1/", "http://127.0.0.1:80\(poison)/",
    ] {
      let error = #expect(throws: SessionError.self) { try Request(url) }
      #expect(error?.code == .badURL)
      #expect(error?.message.utf8.contains { $0 < 0x20 } == false)
    }
  }

  @Test func methodsAndNames() {
    for text in ["GET /evil HTTP/1.1\r\nX", "G\nT", "GE T", "", "G\0T"] { #expect(HTTPRequest.Method(text) == nil) }
    for text in ["X\r\nY", "X: y", "X\n", "", "X\0"] { #expect(HTTPField.Name(text) == nil) }
  }

  /// Names, values, methods and targets that got past the types of the caller, at the floor that writes them.
  @Test(arguments: poison) func valuesNeverReachTheWire(_ poison: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    for configure in [
      { $0.userAgent = "a" + poison }, { $0.userAgent = poison + "a" },
      { $0.accept = "a" + poison }, { $0.accept = poison + "a" },
    ] as [(inout SessionConfiguration) -> Void] {
      var configuration = SessionConfiguration()
      configure(&configuration)
      let error = try await failure { [configuration] in
        _ = try await Session(configuration).data(from: server.url("/hello"))
      }
      #expect(error.code == .badRequest)
      #expect(error.phase == .prepare)
      #expect(!error.requestBytesSent)
    }
    #expect(server.connectionCount == 0)
    for part in [
      ("GET" + poison, "/", "X", "v"), ("GET", "/" + poison, "X", "v"), ("GET", "/", "X" + poison, "v"),
      ("GET", "/", "X", "v" + poison),
    ] {
      var head: [UInt8] = []
      #expect(throws: WireError.self) {
        try RequestEncoder.head(
          method: part.0, target: part.1, fields: [("Host", "x"), (part.2, part.3)], framing: .none, into: &head)
      }
    }
  }

  /// `HTTPField` replaces what it may not hold; whatever it makes of it, no field and no request is added.
  @Test(arguments: poison) func fieldValues(_ poison: String) async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/hello"))
      request.fields[.acceptLanguage] = "de\(poison)en"
      let result = await Task { [request] in try await session.data(for: request) }.result
      for recorded in server.recordedRequests {
        #expect(recorded.target == "/hello")
        #expect(recorded.fields.first("X-Injected") == nil)
      }
      #expect(server.requestCount <= 1)
      if case .failure(let error) = result { #expect((error as? SessionError)?.code == .badRequest) }
      try await session.expect("Hello, world!", from: server.url("/hello"))
    }
  }

  /// Framing fields of the caller that contradict the body.
  @Test(arguments: [
    ("Content-Length", "5"), ("Transfer-Encoding", "chunked"), ("Content-Length", "2, 2"),
    ("Transfer-Encoding", "gzip"),
  ])
  func contradictoryFraming(_ field: (String, String)) async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/echo"), method: .post, body: .bytes(Array("hi".utf8)))
      request.fields[try #require(HTTPField.Name(field.0))] = field.1
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .badRequest)
      #expect(server.connectionCount == 0)
    }
  }

  @Test func agreeingLengthIsSentOnce() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/echo"), method: .post, body: .bytes(Array("hi".utf8)))
      request.fields[.contentLength] = "2"
      try await session.expect("hi", from: request)
      #expect(server.recordedRequests.first?.fields.values("Content-Length") == ["2"])
    }
  }

  /// Some servers want a length with every request, and say 411 without one.
  @Test(arguments: [HTTPRequest.Method.get, .delete, .post]) func lengthOfNothingIsSentOnce(
    _ method: HTTPRequest.Method
  ) async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/echo"), method: method)
      request.fields[.contentLength] = "0"
      try await session.expect("", from: request)
      #expect(server.recordedRequests.first?.fields.values("Content-Length") == ["0"])
    }
  }
}
