import FoundationEssentials
import LupineEngine
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// The strictness matrix of the engine comparison, end to end: bytes of a response → what the caller gets. A refused response closes its
/// connection, and the session goes on with another one.
struct StrictnessCase: Sendable, CustomTestStringConvertible {
  enum Outcome: Sendable {
    case body(Int)
    case refused(WireError.Reason)
  }

  let name: String
  let response: ScriptBytes
  let outcome: Outcome
  var testDescription: String { name }

  init(_ name: String, _ response: String, _ outcome: Outcome) {
    self.init(name, ScriptBytes(response), outcome)
  }

  init(_ name: String, _ response: ScriptBytes, _ outcome: Outcome) {
    self.name = name
    self.response = response
    self.outcome = outcome
  }

  private static func head(_ fields: String, _ body: String = "hi") -> ScriptBytes {
    ScriptBytes("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\n\(body)")
  }

  private static func sized(_ field: String) -> ScriptBytes { head("\(field)\r\nContent-Length: 2") }

  private static func chunks(_ body: String) -> ScriptBytes { head("Transfer-Encoding: chunked", body) }

  private static func many(_ count: Int) -> ScriptBytes {
    sized((0..<count).map { "X-\($0): v" }.joined(separator: "\r\n"))
  }

  private static func long(_ count: Int) -> String { String(repeating: "e", count: count) }

  static let heads: [StrictnessCase] = [
    .init("bare LF everywhere", "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", .refused(.bareLineFeed)),
    .init("one bare LF", "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 2\r\n\r\nhi", .refused(.bareLineFeed)),
    .init("bare CR in a value", sized("A: b\rc"), .refused(.bareCarriageReturn)),
    .init("obs-fold", sized("A: b\r\n c"), .refused(.obsoleteLineFolding)),
    .init("space before colon", sized("A : b"), .refused(.spaceBeforeColon)),
    .init("space before the first field", sized(" A: b"), .refused(.whitespaceBeforeFirstField)),
    .init("empty name", sized(": b"), .refused(.emptyFieldName)),
    .init("name that is no token", sized("A@: b"), .refused(.invalidFieldNameByte(0x40))),
    .init("NUL in a value", sized("A: b\0c"), .refused(.invalidFieldValueByte(0))),
    .init("0x01 in a value", sized("A: b\u{1}c"), .refused(.invalidFieldValueByte(1))),
    .init("line without colon", sized("nonsense"), .refused(.missingColon)),
    .init("no status line (HTTP/0.9)", "<html>hi</html>\r\n\r\n", .refused(.invalidStatusLine)),
    .init("HTTP/2.0", "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", .refused(.unsupportedVersion)),
    .init("HTTP/1.9", "HTTP/1.9 200 OK\r\nContent-Length: 2\r\n\r\nhi", .body(2)),
    .init("no reason phrase and no space", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", .body(2)),
    .init("status 20x", "HTTP/1.1 20x OK\r\nContent-Length: 2\r\n\r\nhi", .refused(.invalidStatusCode)),
    .init("status 1000", "HTTP/1.1 1000 OK\r\nContent-Length: 2\r\n\r\nhi", .refused(.invalidStatusCode)),
    .init("leading CRLF", "\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", .refused(.leadingEmptyLine)),
    .init("lowercase http", "http/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", .refused(.invalidStatusLine)),
    .init(
      "1000 x 103",
      ScriptBytes(String(repeating: "HTTP/1.1 103 E\r\n\r\n", count: 1000)) + head("Content-Length: 2"),
      .refused(.tooManyInformationalHeads(limit: 32))),
    .init("150 fields", many(150), .body(2)),
    .init("6000 fields", many(6000), .refused(.tooManyFields(limit: 512))),
    .init("field of 60 KB", sized("A: \(long(60_000))"), .body(2)),
    .init("field of 100 KB", sized("A: \(long(100_000))"), .refused(.fieldLineTooLong(limit: 65_536))),
    .init("field of 400 KB", sized("A: \(long(400_000))"), .refused(.fieldLineTooLong(limit: 65_536))),
    .init("101 nobody asked for", "HTTP/1.1 101 X\r\n\r\n", .refused(.unsolicitedUpgrade)),
  ]

  static let framing: [StrictnessCase] = [
    .init("CL twice, equal", head("Content-Length: 2\r\nContent-Length: 2"), .body(2)),
    .init("CL list 2, 2", head("Content-Length: 2, 2"), .body(2)),
    .init("CL twice, different", head("Content-Length: 2\r\nContent-Length: 3"), .refused(.conflictingContentLengths)),
    .init("CL +2", head("Content-Length: +2"), .refused(.invalidContentLength)),
    .init("CL -1", head("Content-Length: -1"), .refused(.invalidContentLength)),
    .init("CL empty", head("Content-Length: "), .refused(.invalidContentLength)),
    .init("CL 0x2", head("Content-Length: 0x2"), .refused(.invalidContentLength)),
    .init("CL over 64 bits", head("Content-Length: 18446744073709551618"), .refused(.contentLengthTooLarge)),
    .init(
      "CL then TE", head("Content-Length: 2\r\nTransfer-Encoding: chunked", "2\r\nhi\r\n0\r\n\r\n"),
      .refused(.contentLengthWithTransferEncoding)),
    .init(
      "TE then CL", head("Transfer-Encoding: chunked\r\nContent-Length: 2", "2\r\nhi\r\n0\r\n\r\n"),
      .refused(.contentLengthWithTransferEncoding)),
    .init(
      "TE gzip, chunked", head("Transfer-Encoding: gzip, chunked", "2\r\nhi\r\n0\r\n\r\n"),
      .refused(.unsupportedTransferEncoding)),
    .init(
      "TE xchunked", head("Transfer-Encoding: xchunked", "2\r\nhi\r\n0\r\n\r\n"), .refused(.unsupportedTransferEncoding)
    ),
    .init(
      "TE twice", head("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "2\r\nhi\r\n0\r\n\r\n"),
      .refused(.unsupportedTransferEncoding)),
    .init(
      "TE chunked, identity", head("Transfer-Encoding: chunked, identity", "2\r\nhi\r\n0\r\n\r\n"),
      .refused(.unsupportedTransferEncoding)),
    .init(
      "TE on HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
      .refused(.transferEncodingOnHTTP10)),
    .init("204 with a body", "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nhi", .body(0)),
    .init("extra bytes after the body", head("Content-Length: 2", "hi there"), .body(2)),
    .init("CL body cut short", head("Content-Length: 5"), .refused(.truncatedBody(missing: 3))),
    .init("until close", head("A: b"), .body(2)),
    .init("empty reply", "", .refused(.closedBeforeResponse)),
    .init("head cut short", "HTTP/1.1 200 OK\r\nA:", .refused(.truncatedHead)),
  ]

  static let chunked: [StrictnessCase] = [
    .init(
      "extension of 100 KB", chunks("2;\(long(100_000))\r\nhi\r\n0\r\n\r\n"), .refused(.chunkLineTooLong(limit: 4096))),
    .init(
      "extensions of 20 KB in all", chunks(String(repeating: "1;\(long(2000))\r\nh\r\n", count: 10) + "0\r\n\r\n"),
      .refused(.chunkExtensionsTooLarge(limit: 16_384))),
    .init("small extension", chunks("2;a=b\r\nhi\r\n0\r\n\r\n"), .body(2)),
    .init("space after chunk size", chunks("2 \r\nhi\r\n0\r\n\r\n"), .refused(.whitespaceAfterChunkSize)),
    .init("chunk size 0x2", chunks("0x2\r\nhi\r\n0\r\n\r\n"), .refused(.invalidChunkSizeByte(0x78))),
    .init("chunk size +2", chunks("+2\r\nhi\r\n0\r\n\r\n"), .refused(.invalidChunkSizeByte(0x2B))),
    .init("chunk size of 17 digits", chunks("00000000000000002\r\nhi\r\n0\r\n\r\n"), .refused(.chunkSizeTooLarge)),
    .init("LF-terminated chunks", chunks("2\nhi\n0\n\n"), .refused(.bareLineFeed)),
    .init("LF inside an extension", chunks("2;a\nb\r\nhi\r\n0\r\n\r\n"), .refused(.bareLineFeed)),
    .init("chunk data without CRLF", chunks("2\r\nhiX\r\n0\r\n\r\n"), .refused(.missingChunkEnd(0x58))),
    .init("cut short", chunks("5\r\nhi"), .refused(.truncatedChunkedBody)),
    .init("no final CRLF", chunks("2\r\nhi\r\n0\r\n"), .refused(.truncatedChunkedBody)),
    .init("legal trailer", chunks("2\r\nhi\r\n0\r\nA: b\r\n\r\n"), .body(2)),
    .init(
      "trailer of 100 KB", chunks("2\r\nhi\r\n0\r\nA: \(long(100_000))\r\n\r\n"),
      .refused(.trailersTooLarge(limit: 16_384))),
    .init(
      "Content-Length as trailer", chunks("2\r\nhi\r\n0\r\nContent-Length: 2\r\n\r\n"), .refused(.forbiddenTrailerField)
    ),
  ]
}

@Suite(.timeLimit(.minutes(5))) struct StrictnessTests {
  @Test(arguments: StrictnessCase.heads + StrictnessCase.framing + StrictnessCase.chunked)
  func matrix(_ row: StrictnessCase) async throws {
    try await withScript(
      [
        [.readHead, .sendAndFinish(row.response), .waitForClose],
        [.readHead, .send(reply("well")), .waitForClose],
      ], expectsProblems: true
    ) { session, server in
      switch row.outcome {
      case .body(let count):
        let (body, _) = try await session.data(from: server.url())
        #expect(body.count == count)
      case .refused(let reason):
        let error = try await failure { try await session.data(from: server.url()) }
        if reason == .closedBeforeResponse {
          #expect(error.code == .connectionLost)
        } else {
          let wire = try #require(error.wireError, "\(error)")
          #expect(wire.reason == reason)
          #expect(wire.offset >= 0 && wire.offset <= row.response.bytes.count)
          #expect(error.phase == .receive)
        }
      }
      let (body, response) = try await session.text(server.url())
      #expect(body == "well")
      #expect(!response.wasReused || response.metrics.transactions.last?.retryCount == 1)
    }
  }

  /// The client closes by itself; it does not wait for the peer to do so.
  @Test func offsetIsExactAndTheConnectionIsClosedByUs() async throws {
    try await withScript([[.readHead, .send("HTTP/1.1 200 OK\r\nOk: 1\r\nBad Name: 2\r\n\r\n"), .waitForClose]]) {
      session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .badResponse)
      #expect(error.wireError?.offset == 27)
      #expect(await server.hasPlayed(1))
    }
  }

  @Test func parallelRequestsAreUnharmed() async throws {
    let good = try LoopbackServer(routes: ServerRoute.standard())
    defer { good.shutdown() }
    try await withScript(
      [[.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), .waitForClose]], surplus: .repeatLast
    ) { session, bad in
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for index in 0..<20 {
          let url = index % 2 == 0 ? bad.url() : good.url("/bytes?n=100000")
          group.addTask {
            do {
              let (body, _) = try await session.data(from: url)
              return PatternBody.matches(body, from: 0) && body.count == 100_000 && index % 2 == 1
            } catch let error as SessionError {
              return index % 2 == 0 && error.code == .badResponse
            }
          }
        }
        for try await isRight in group { #expect(isRight) }
      }
    }
  }
}
