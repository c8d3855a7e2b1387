import FoundationEssentials
import HTTPTypes
import LupineEngine
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// Bodies that go out compressed, over real sockets.
@Suite(.timeLimit(.minutes(5))) struct CompressedBodyTests {
  /// What the server makes of a request by its fields alone.
  private static func plain(_ request: ServerRequest) throws -> [UInt8] {
    #expect(request.fields.values("Content-Length") == [String(request.body.count)])
    #expect(request.fields.values("Transfer-Encoding") == [])
    var decoder = try ContentDecoder(codings: try ContentCodings.parse(request.fields.values("Content-Encoding")))
    var plain: [UInt8] = []
    try decoder.decode(request.body.span) { bytes in for index in bytes.indices { plain.append(bytes[index]) } }
    try decoder.finish()
    return plain
  }

  private static let text = Array(String(repeating: "The quick brown fox. ", count: 20_000).utf8)

  @Test(arguments: Request.ContentCoding.allCases) func serversDecodeIt(_ coding: Request.ContentCoding) async throws {
    let server = try LoopbackServer { request, connection in
      // Back as it came: the client decodes it as well.
      let fields: ServerFields = ["Content-Encoding": request.fields.first("Content-Encoding") ?? "identity"]
      try connection.respond(fields: fields, body: try connection.readBody())
    }
    defer { server.shutdown() }
    let random = (0..<30_000).map { _ in UInt8.random(in: 0...255) }
    try await withSession(ports: [server.port]) { session in
      for bytes in [Self.text, random, [7]] {
        var request = try Request(server.url("/"), method: .post, body: .bytes(bytes))
        request.fields[.contentLength] = "\(bytes.count)"
        try request.compressBody(coding)
        let (data, _) = try await session.data(for: request)
        // Not by `#expect`, which looks long for what differs in long arrays.
        let isEchoed = [UInt8](data) == bytes
        #expect(isEchoed, "\(data.count) of \(bytes.count)")
        let received = try #require(server.recordedRequests.last)
        #expect(received.fields.values("Content-Encoding") == [coding.rawValue])
        let isDecoded = try Self.plain(received) == bytes
        #expect(isDecoded, "\(received.body.count) of \(received.bodyLength) bytes were kept")
      }
    }
    #expect(server.recordedRequests[0].body.count < Self.text.count / 50)
  }

  @Test func redirectsAndChallengesSendItAgain() async throws {
    let server = try LoopbackServer { request, connection in
      _ = try connection.readBody()
      switch (request.path, request.fields.first("Authorization")) {
      case ("/moved", _): try connection.respond(307, fields: ["Location": "/private"])
      case ("/seeOther", _): try connection.respond(303, fields: ["Location": "/page"])
      case ("/private", nil): try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"r\""])
      default: try connection.respond(text: "done")
      }
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      var request = try Request(server.url("/moved"), method: .post, body: .bytes(Self.text))
      request.credential = .password(user: "u", password: "p")
      try request.compressBody()
      try await session.expect("done", from: request)
      #expect(server.recordedRequests.count == 3)
      for received in server.recordedRequests {
        let isDecoded = try Self.plain(received) == Self.text
        #expect(isDecoded)
      }
      // Without the body, none of what described it.
      request = try Request(server.url("/seeOther"), method: .post, body: .bytes(Self.text))
      try request.compressBody()
      try await session.expect("done", from: request)
      let last = try #require(server.recordedRequests.last)
      #expect(last.method == "GET" && last.body == [] && last.fields.values("Content-Encoding") == [])
    }
  }

  @Test func codingsAreAppended() async throws {
    let server = try LoopbackServer { _, connection in
      _ = try connection.readBody()
      try connection.respond(text: "done")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      var request = try Request(server.url("/"), method: .put, body: .bytes(Self.text))
      try request.compressBody(.deflate)
      try request.compressBody()
      try await session.expect("done", from: request)
      let received = try #require(server.recordedRequests.last)
      #expect(received.fields.values("Content-Encoding") == ["deflate, gzip"])
      let isDecoded = try Self.plain(received) == Self.text
      #expect(isDecoded)
    }
  }

  @Test func bodiesThatAreNotInMemory() throws {
    let bodies: [Request.Body] = [
      .file(path: "/nowhere"), .sequence(AsyncStream<[UInt8]> { $0.finish() }), .segments([.bytes([1])]),
    ]
    for body in bodies {
      var request = try Request("http://a.example/", method: .post, body: body)
      let error = #expect(throws: SessionError.self) { try request.compressBody() }
      #expect(error?.code == .badRequest && error?.phase == .prepare)
      #expect(request.fields.isEmpty)
    }
    for body in [Request.Body.none, .bytes([])] {
      var request = try Request("http://a.example/", method: .post, body: body)
      try request.compressBody()
      #expect(request.fields.isEmpty && request.body.knownLength == 0)
    }
  }

  /// Requests that are compared, recorded or signed are the same every time.
  @Test func theSameBytesEveryTime() {
    for coding in [LupineRules.ContentCoding.gzip, .deflate] {
      let encoded = Deflater.encode(Self.text.span, coding)
      let again = Deflater.encode(Self.text.span, coding)
      #expect(encoded != nil && encoded == again)
      // No name, no time.
      if coding == .gzip { #expect(encoded?.starts(with: [0x1F, 0x8B, 8, 0, 0, 0, 0, 0]) == true) }
      let empty = Deflater.encode([UInt8]().span, coding)
      #expect(empty?.isEmpty == false)
    }
  }
}
