import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// Fields behind the body of a request, where something stands between it and its server.
@Suite(.timeLimit(.minutes(5))) struct RequestTrailerWayTests {
  private static let sum = HTTPField.Name("X-Sum") ?? .eTag

  /// Each stream of the body says with its trailer which one it is.
  private static func request(_ url: String, _ method: HTTPRequest.Method) throws -> Request {
    let made = Counter()
    var request = try Request(
      url, method: method,
      body: .stream(length: nil, isReplayable: true) {
        let number = made.next() + 1
        return BodyStream([Array("body".utf8)]).withTrailers { [Self.sum: "\(number)"] }
      })
    request.trailerNames = [Self.sum]
    return request
  }

  private func withProxy(
    _ script: [ScriptStep], tunnels: Bool = false, _ body: (Session, ScriptedServer) async throws -> Void
  ) async throws {
    let server = try ScriptedServer([script])
    defer { server.shutdown() }
    var proxy = try Proxy("http://user:pass@127.0.0.1:\(server.port)")
    proxy.tunnelsPlaintext = tunnels
    let chosen = proxy
    try await withSession(
      ports: [server.port], configure: { $0.proxy = .proxy(chosen) }, { session in try await body(session, server) })
    server.shutdown()
    #expect(server.problems == [])
  }

  private static let challenge = ScriptBytes(
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=\"p\"\r\nContent-Length: 3\r\n\r\nwho")

  /// A proxy that asks who is asking is sent the body anew, with what follows it then.
  @Test func proxiesThatForward() async throws {
    try await withProxy([
      .readHead, .readBody, .send(Self.challenge), .readHead, .readBody, .send(reply("in")), .waitForClose,
    ]) { session, proxy in
      try await session.expect("in", from: Self.request("http://a.example/", .put))
      let requests = proxy.recordedRequests
      #expect(requests.map(\.text) == ["body", "body"])
      #expect(requests.map { $0.trailers.values("X-Sum") } == [["1"], ["2"]])
      #expect(requests.map { $0.fields.values("Trailer") } == [["X-Sum"], ["X-Sum"]])
    }
  }

  /// What opens a tunnel has no body, and announces nothing.
  @Test func tunnels() async throws {
    try await withProxy(
      [
        .readHead, .send(Self.challenge), .readHead,
        .send("HTTP/1.1 200 Connection established\r\n\r\n"), .readHead, .readBody, .send(reply("in")), .waitForClose,
      ], tunnels: true
    ) { session, proxy in
      try await session.expect("in", from: Self.request("http://a.example/", .put))
      let requests = proxy.recordedRequests
      #expect(requests.map(\.method) == ["CONNECT", "CONNECT", "PUT"])
      #expect(requests.map { $0.fields.values("Trailer") } == [[], [], ["X-Sum"]])
      #expect(requests.map { $0.trailers.values("X-Sum") } == [[], [], ["1"]])
    }
  }

  /// A request with a body is not answered from what is stored, nor is its answer kept for others.
  @Test func caches() async throws {
    let route = ServerRoute(nil, "/a") { _, connection in
      _ = try connection.readBody()
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "a")
    }
    try await withServer([route], configure: { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }) {
      session, server in
      for _ in 0..<2 { try await session.expect("a", from: Self.request(server.url("/a"), .get)) }
      for _ in 0..<2 { try await session.expect("a", from: server.url("/a")) }
      for method in [HTTPRequest.Method.get, .put] {
        try await session.expect("a", from: Self.request(server.url("/a"), method))
      }
      let requests = server.recordedRequests
      #expect(requests.map(\.method) == ["GET", "GET", "GET", "GET", "PUT"])
      #expect(requests.map { $0.trailers.values("X-Sum") } == [["1"], ["1"], [], ["1"], ["1"]])
    }
  }
}
