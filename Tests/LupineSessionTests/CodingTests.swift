import FoundationEssentials
import HTTPTypes
import LupineEngine
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Content codings of responses, and their limits.
@Suite(.timeLimit(.minutes(5))) struct CodingTests {
  @Test(arguments: ["/gzip?n=500000", "/gzip?n=500000&members=7", "/deflate?n=500000", "/deflate?n=500000&raw=1"])
  func codingsAreUndone(_ path: String) async throws {
    try await withServer { session, server in
      let (body, response) = try await session.data(from: server.url(path))
      #expect(body.count == 500_000)
      #expect(PatternBody.matches(body, from: 0))
      let transaction = try #require(response.metrics.transactions.last)
      #expect(transaction.responseDecodedBytes == 500_000)
      #expect(server.recordedRequests.first?.fields.first("Accept-Encoding")?.contains("gzip") == true)
    }
  }

  @Test func callersOwnOfferMeansTheBodyAsItCame() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/gzip?n=5000"))
      request.fields[.acceptEncoding] = "gzip"
      let (body, _) = try await session.data(for: request)
      #expect(body.prefix(2).elementsEqual([0x1F, 0x8B]))
      #expect(server.recordedRequests.first?.fields.values("Accept-Encoding") == ["gzip"])
      var plain = try Request(server.url("/gzip?n=5000"))
      plain.acceptsCompressedContent = false
      #expect(try await session.data(for: plain).0.prefix(2).elementsEqual([0x1F, 0x8B]))
      #expect(server.recordedRequests.last?.fields.first("Accept-Encoding") == nil)
    }
  }

  @Test func rangesAskForTheIdentity() async throws {
    try await withServer { session, server in
      var request = try Request(server.url("/bytes?n=1000"))
      request.fields[.range] = "bytes=100-199"
      let (body, response) = try await session.data(for: request)
      #expect(response.statusCode == 206)
      #expect(body.count == 100 && PatternBody.matches(body, from: 100))
      #expect(server.recordedRequests.first?.fields.first("Accept-Encoding") == "identity")
    }
  }

  /// Where nothing is said any coding will do (RFC 9110 section 12.5.3), and a part of what is coded is of no use.
  @Test(arguments: [true, false]) func rangesAskForTheIdentityWhereNoCodingIsOffered(
    _ isOfTheSession: Bool
  ) async throws {
    try await withServer(configure: { $0.acceptsCompressedContent = !isOfTheSession }) { session, server in
      var request = try Request(server.url("/bytes?n=1000"))
      if !isOfTheSession { request.acceptsCompressedContent = false }
      _ = try await session.data(for: request)
      request.fields[.range] = "bytes=100-199"
      #expect(try await session.data(for: request).1.statusCode == 206)
      request.fields[.acceptEncoding] = "br"
      _ = try await session.data(for: request)
      #expect(server.recordedRequests.map { $0.fields.values("Accept-Encoding") } == [[], ["identity"], ["br"]])
    }
  }

  @Test(arguments: ["br", "x-unknown", "gzip, br", "gzip deflate", "\"gzip\""]) func unknownCodingPasses(
    _ coding: String
  ) async throws {
    try await withScript([[.readHead, .send(reply("raw", "Content-Encoding: \(coding)\r\n")), .waitForClose]]) {
      session, server in
      let response = try await session.expect("raw", from: server.url())
      #expect(response.head.fields.first(named: "content-encoding") == coding)
    }
  }

  @Test(arguments: [
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 204 No\r\nContent-Encoding: gzip\r\n\r\n", "HTTP/1.1 304 No\r\nContent-Encoding: gzip\r\n\r\n",
  ]) func emptyBodyNeedsNoDecoding(_ response: String) async throws {
    try await withScript([[.readHead, .send(ScriptBytes(response)), .readHead, .send(reply("next")), .waitForClose]]) {
      session, server in
      try await session.expect("", from: server.url())
      #expect(try await session.text(server.url()).1.wasReused)
    }
  }

  /// A server that echoes what it chose of `Accept-Encoding` sends its weight with it.
  @Test func aWeightBelongsToNoCoding() async throws {
    let packed = try Compression.gzip.encode(Array("unpacked".utf8))
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip;q=1.0\r\nContent-Length: \(packed.count)\r\n\r\n"
    try await withScript([[.readHead, .send(ScriptBytes(head) + ScriptBytes(packed)), .waitForClose]]) {
      session, server in
      try await session.expect("unpacked", from: server.url())
    }
  }

  @Test(arguments: [1, 10, 30]) func brokenCodingIsATypedError(_ cut: Int) async throws {
    var packed = try Compression.gzip.encode(PatternBody.bytes(200))
    if cut == 1 { packed[0] = 0 } else { packed.removeLast(cut) }
    try await withScript([
      [
        .readHead,
        .send(
          ScriptBytes("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(packed.count)\r\n\r\n")
            + ScriptBytes(packed)), .waitForClose,
      ],
      [.readHead, .send(reply("well")), .waitForClose],
    ]) { session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .cannotDecodeContent)
      #expect(error.response?.statusCode == 200)
      try await session.expect("well", from: server.url())
    }
  }

  @Test func tooManyCodingsAreRefused() async throws {
    try await withScript([
      [.readHead, .send(reply("raw", "Content-Encoding: gzip, gzip, gzip, gzip, gzip, gzip\r\n")), .waitForClose]
    ]) { session, server in
      try await expectFailure(.cannotDecodeContent) { try await session.data(from: server.url()) }
    }
  }

  /// Less than 1 is 1, more than 16 is 16.
  @Test(arguments: [(0, 1), (1, 1), (2, 2), (16, 16), (100, 16)])
  func howManyCodingsAreUndoneIsASetting(_ limit: Int, _ accepted: Int) async throws {
    func answer(_ count: Int) throws -> ScriptBytes {
      var packed = Array("unpacked".utf8)
      for _ in 0..<count { packed = try Compression.gzip.encode(packed) }
      let codings = Array(repeating: "gzip", count: count).joined(separator: ", ")
      let head = "HTTP/1.1 200 OK\r\nContent-Encoding: \(codings)\r\nContent-Length: \(packed.count)\r\n\r\n"
      return ScriptBytes(head) + ScriptBytes(packed)
    }
    let script: [ScriptStep] = [
      .readHead, .send(try answer(accepted)), .readHead, .send(try answer(accepted + 1)), .waitForClose,
    ]
    try await withScript([script], configure: { $0.maximumContentCodings = limit }) { session, server in
      try await session.expect("unpacked", from: server.url())
      try await expectFailure(.cannotDecodeContent) { try await session.data(from: server.url()) }
    }
  }

  /// A bomb stops at the ratio limit or at the buffer's limit, whichever comes first, long before it has unfolded.
  @Test func bombsAreDefused() async throws {
    try await withServer { session, server in
      let error = try await failure { try await session.data(from: server.url("/gzip?n=200000000&zeros=1")) }
      #expect(error.code == .cannotDecodeContent)
      let kept = error.partialBody?.count ?? .max
      #expect(kept <= 2 << 20)
      var request = try Request(server.url("/gzip?n=2000000"))
      request.maximumBufferedBodySize = 1_000_000
      let tooLarge = try await failure { [request] in try await session.data(for: request) }
      #expect(tooLarge.code == .bodyTooLarge)
      let (bytes, _) = try await session.bytes(for: Request(server.url("/gzip?n=200000000&zeros=1")))
      let streamed = try await failure {
        for try await _ in bytes.chunks {}
      }
      #expect(streamed.code == .cannotDecodeContent)
    }
  }

  /// 8 MiB of one byte are close to what gzip can do, 1,032 to 1.
  @Test(arguments: [100, 1000, 1100, nil] as [Int?]) func ratioLimitIsASetting(_ limit: Int?) async throws {
    try await withServer(configure: { if limit != 100 { $0.maximumDecompressionRatio = limit } }) { session, server in
      let url = server.url("/gzip?n=8388608&zeros=1")
      guard let limit, limit <= 1000 else {
        #expect(try await session.data(from: url).0.count == 8_388_608)
        return
      }
      let error = try await failure { try await session.data(from: url) }
      #expect(error.code == .cannotDecodeContent)
      #expect(
        error.message.contains("more than \(limit) times as many; see SessionConfiguration.maximumDecompressionRatio"))
    }
  }

  struct OwnRatio: Sendable, CustomTestStringConvertible {
    var session: Int?
    var request: Int?
    /// Nil: the body passes.
    var refusal: Int?
    var testDescription: String { "\(Self.text(request)) in a session of \(Self.text(session))" }

    private static func text(_ ratio: Int?) -> String {
      guard let ratio else { return "nil" }
      return "\(ratio)"
    }
  }

  static let ownRatios = [
    OwnRatio(session: 100, request: .max), OwnRatio(session: 100, request: 1100),
    OwnRatio(session: 100, request: 500, refusal: 500), OwnRatio(session: 100, request: nil, refusal: 100),
    OwnRatio(session: nil, request: 100, refusal: 100), OwnRatio(session: 1100, request: 0, refusal: 1),
    OwnRatio(session: .max, request: -1, refusal: 1), OwnRatio(session: .max, request: nil),
  ]

  /// What a request says takes the place of what the session does, either way, and for that request alone.
  @Test(arguments: ownRatios) func aRequestHasItsOwnRatio(_ one: OwnRatio) async throws {
    try await withServer(configure: { $0.maximumDecompressionRatio = one.session }) { session, server in
      let plain = try Request(server.url("/gzip?n=8388608&zeros=1"))
      var request = plain
      request.maximumDecompressionRatio = one.request
      try await expectRatio(one.refusal, of: request, in: session)
      let sessionRefuses = one.session == 100
      try await expectRatio(sessionRefuses ? 100 : nil, of: plain, in: session)
    }
  }

  /// It holds for what a redirect leads to.
  @Test func theRatioOfARequestIsThatOfItsRedirects() async throws {
    let packed = try Compression.gzip.encode([UInt8](repeating: 0, count: 8_388_608))
    let server = try LoopbackServer { request, connection in
      if request.path == "/packed" {
        try connection.respond(fields: ["Content-Encoding": "gzip"], body: packed)
      } else {
        try connection.respond(302, fields: ["Location": "/packed"])
      }
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      var request = try Request(server.url("/first"))
      try await expectRatio(100, of: request, in: session)
      request.maximumDecompressionRatio = .max
      try await expectRatio(nil, of: request, in: session)
    }
  }

  private func expectRatio(_ refusal: Int?, of request: Request, in session: Session) async throws {
    guard let refusal else {
      let count = try await session.data(for: request).0.count
      #expect(count == 8_388_608)
      return
    }
    let error = try await failure { try await session.data(for: request) }
    #expect(error.code == .cannotDecodeContent)
    #expect(error.message.contains("more than \(refusal) times as many"), "\(error)")
    #expect(error.message.contains("Request.maximumDecompressionRatio"))
  }

  @Test func bufferLimitNamesItsSetting() async throws {
    try await withServer(configure: { $0.maximumBufferedBodySize = 1000 }) { session, server in
      #expect(try await session.data(from: server.url("/bytes?n=1000")).0.count == 1000)
      let error = try await failure { try await session.data(from: server.url("/bytes?n=1001")) }
      #expect(error.code == .bodyTooLarge)
      #expect(error.message.contains("maximumBufferedBodySize"))
    }
  }

  /// A length beyond the limit ends the request when the body begins, with what may be an explanation, and not after all that fits. What is announced only,
  /// as of HEAD, is no body.
  @Test func anAnnouncedExcessIsNotReceived() async throws {
    let head: ScriptBytes = "HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n"
    try await withScript(
      [[.readHead, .send(head), .readHead, .send(head), .sendPattern(100_000), .waitForClose]],
      configure: { $0.maximumBufferedBodySize = 10_000_000 }
    ) { session, server in
      let (body, _) = try await session.data(for: Request(server.url(), method: .head))
      #expect(body.isEmpty)
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .bodyTooLarge && error.response?.statusCode == 200)
      #expect(error.partialBody?.count == 64 << 10)
    }
  }

  /// A coded length says nothing of the body.
  @Test func aCodedLengthIsNoExcess() async throws {
    // Without compression: the coded form is longer than what it holds.
    let packed: [UInt8] = [0x78, 0x01, 1, 2, 0, 0xFD, 0xFF, 0x68, 0x69, 0x01, 0x3B, 0x00, 0xD2]
    try await withScript(
      [
        [
          .readHead,
          .send("HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: 13\r\n\r\n" + ScriptBytes(packed)),
          .waitForClose,
        ]
      ],
      configure: { $0.maximumBufferedBodySize = 2 }
    ) { session, server in
      try await session.expect("hi", from: server.url())
    }
  }
}
