import LupineWire
import Testing

struct EncoderTests {
  private static let host = [(name: "Host", value: "example.org")]

  private func head(
    _ method: String = "GET", _ target: String = "/", _ fields: [(name: String, value: String)] = host,
    _ framing: RequestFraming = .none
  ) throws(WireError) -> String {
    var output: [UInt8] = []
    try RequestEncoder.head(method: method, target: target, fields: fields, framing: framing, into: &output)
    return String(decoding: output, as: UTF8.self)
  }

  @Test func writesHeads() throws {
    #expect(try head() == "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n")
    #expect(
      try head("POST", "/a?b=c", Self.host + [("X-Empty", ""), ("X", "a\tb é")], .length(3))
        == "POST /a?b=c HTTP/1.1\r\nHost: example.org\r\nX-Empty: \r\nX: a\tb é\r\nContent-Length: 3\r\n\r\n")
    #expect(
      try head("PUT", "*", Self.host, .chunked)
        == "PUT * HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n")
    #expect(try head("POST", "/", Self.host, .length(0)).hasSuffix("Content-Length: 0\r\n\r\n"))
    #expect(try head("CONNECT", "example.org:443").hasPrefix("CONNECT example.org:443 HTTP/1.1\r\n"))
    #expect(try head("M-SEARCH~", "/").hasPrefix("M-SEARCH~ / "))
  }

  /// The short way writes what the long one does.
  @Test(
    arguments: ["GET", "M-SEARCH~", "OPTIONS"], ["/", "*", "/a?b=c", "/" + String(repeating: "long", count: 5000)])
  func writesPreparedHeads(_ method: String, _ target: String) throws {
    for host in ["h", "example.org:8080", "[::1]:1"] {
      for fields in [[], [(name: "Accept", value: "*/*"), (name: "User-Agent", value: "a b")]] {
        let head = try RequestEncoder.head(method: method, target: target, host: host, fields: PreparedFields(fields))
        #expect(
          try String(decoding: head, as: UTF8.self) == self.head(method, target, [(name: "Host", value: host)] + fields)
        )
        let prepared = try PreparedFields(fields)
        let size = RequestEncoder.headSize(method: method, target: target, host: host, fields: prepared)
        var memory = [UInt8](repeating: 0xFF, count: size)
        var output = memory.mutableSpan
        try RequestEncoder.head(method: method, target: target, host: host, fields: prepared, into: &output)
        #expect(memory == head)
      }
    }
  }

  @Test(arguments: [
    ("", "/", "h", WireError.Reason.invalidMethod), ("G ET", "/", "h", .invalidMethod),
    ("GET\n", "/", "h", .invalidMethod),
    ("GET", "", "h", .invalidTarget), ("GET", "/ b", "h", .invalidTarget), ("GET", "/\r\n", "h", .invalidTarget),
    ("GET", "/", "", .invalidHost), ("GET", "/", "h ", .invalidHost), ("GET", "/", "h\r\nX: y", .invalidHost),
    ("GET", "/", "h\0", .invalidHost), ("GET", "/", "é", .invalidHost),
  ])
  func refusesPreparedHeads(_ method: String, _ target: String, _ host: String, _ reason: WireError.Reason) throws {
    let fields = try PreparedFields([])
    #expect(
      performing: { try RequestEncoder.head(method: method, target: target, host: host, fields: fields) },
      throws: { ($0 as? WireError)?.reason == reason })
  }

  @Test func leavesOutFramingThatAgrees() throws {
    #expect(
      try head("POST", "/", Self.host + [("content-length", "3")], .length(3))
        == "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\n")
    #expect(
      try head("POST", "/", Self.host + [("TRANSFER-ENCODING", "Chunked")], .chunked)
        == "POST / HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n")
  }

  /// undici CVE-2026-1525: names that differ in letter case were two fields, and went out with two lengths.
  @Test func announcesOneLengthHoweverItIsSpelt() throws {
    let same = [(name: "Content-Length", value: "3"), (name: "content-length", value: "3")]
    #expect(
      try head("POST", "/", Self.host + same, .length(3))
        == "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\r\n")
    let others = [(name: "Content-Length", value: "3"), (name: "content-length", value: "4")]
    #expect(throws: WireError(.contradictoryFraming, at: 0)) { try head("POST", "/", Self.host + others, .length(3)) }
  }

  /// A request without a body has one of no bytes, and may say so.
  @Test(arguments: [1, 2]) func announcesNothingWhereTheCallerDoes(_ times: Int) throws {
    let announced = [(name: String, value: String)](repeating: ("content-length", "0"), count: times)
    #expect(
      try head("DELETE", "/", Self.host + announced)
        == "DELETE / HTTP/1.1\r\nHost: example.org\r\nContent-Length: 0\r\n\r\n")
    #expect(throws: WireError(.contradictoryFraming, at: 0)) { try PreparedFields(announced) }
  }

  @Test(arguments: [
    ("Content-Length", "3", RequestFraming.none), ("Content-Length", "3", .length(4)), ("Content-Length", "00", .none),
    ("Content-Length", "0", .chunked), ("Content-Length", "0", .length(4)),
    ("Content-Length", "+3", .length(3)), ("Content-Length", "3, 3", .length(3)), ("Content-Length", "03", .length(3)),
    ("Content-Length", "3", .chunked), ("Transfer-Encoding", "chunked", .none),
    ("Transfer-Encoding", "chunked", .length(3)), ("Transfer-Encoding", "gzip, chunked", .chunked),
    ("transfer-encoding", "identity", .none),
  ])
  func refusesContradictoryFraming(_ name: String, _ value: String, _ framing: RequestFraming) {
    #expect(throws: WireError(.contradictoryFraming, at: 0)) {
      try head("POST", "/", Self.host + [(name: name, value: value)], framing)
    }
  }

  /// CVE-2022-3215, CVE-2023-0040, CVE-2026-28970, CVE-2017-18587, CVE-2023-29406: every serialised part is judged.
  @Test(arguments: [
    "", " ", "GET ", "G ET", "GET\r\nX: y", "G\nET", "G\rET", "G\0ET", "G\tET", "GÉT", "GET/", "G(ET", "GET:",
  ])
  func refusesMethods(_ method: String) {
    #expect(performing: { try head(method) }, throws: { ($0 as? WireError)?.reason == .invalidMethod })
  }

  @Test(arguments: [
    "", " ", "/a b", "/ HTTP/1.1\r\nX: y", "/\n", "/\r", "/\0", "/\t", "/é", "/\u{7F}", "/a\r\n\r\nGET /b",
  ])
  func refusesTargets(_ target: String) {
    #expect(performing: { try head("GET", target) }, throws: { ($0 as? WireError)?.reason == .invalidTarget })
  }

  /// CVE-2026-28898 (swift-nio) as well: a pseudo field of HTTP/2 is no name.
  @Test(arguments: [
    "", " ", "X Y", "X:", ":X", ":path", "X\r\nY", "X\n", "X\r", "X\0", "X\t", "É", "X\u{7F}", "(X)", "X ",
  ])
  func refusesNames(_ name: String) {
    #expect(
      performing: { try head("GET", "/", Self.host + [(name: name, value: "v")]) },
      throws: { ($0 as? WireError)?.reason == .invalidFieldName })
  }

  @Test(arguments: [
    "a\r\nX: y", "a\nb", "a\rb", "a\0b", "\u{1}", "a\u{7F}", "\u{1B}[31m", " a", "a ", "\ta", "a\t", " ", "\r\n", "\n",
  ])
  func refusesValues(_ value: String) {
    for name in ["X", "Host", "Cookie"] {
      #expect(
        performing: { try head("GET", "/", [(name: "Host", value: "h"), (name: name, value: value)]) },
        throws: { ($0 as? WireError)?.reason == .invalidFieldValue })
    }
  }

  @Test func saysWhere() {
    #expect(throws: WireError(.invalidMethod, at: 1)) { try head("G ET") }
    #expect(throws: WireError(.invalidTarget, at: 2)) { try head("GET", "/a b") }
    #expect(throws: WireError(.invalidFieldName, at: 1)) { try head("GET", "/", Self.host + [("X Y", "z")]) }
    #expect(throws: WireError(.invalidFieldValue, at: 3)) { try head("GET", "/", Self.host + [("X", "abc\r\n")]) }
    #expect(throws: WireError(.lengthMismatch, at: 0)) { try head("GET", "/", Self.host, .length(-1)) }
  }

  @Test func wantsExactlyOneHost() {
    #expect(throws: WireError(.invalidHost, at: 0)) { try head("GET", "/", []) }
    #expect(throws: WireError(.invalidHost, at: 0)) { try head("GET", "/", Self.host + [("host", "other")]) }
  }

  @Test func leavesTheOutputAloneWhenItThrows() {
    var output: [UInt8] = [1, 2, 3]
    #expect(throws: WireError.self) {
      try RequestEncoder.head(
        method: "GET", target: "/", fields: Self.host + [(name: "X", value: "\n")], into: &output)
    }
    #expect(output == [1, 2, 3])
    #expect(throws: WireError.self) { try ChunkEncoder.end(trailers: [("X", "\n")], into: &output) }
    #expect(output == [1, 2, 3])
  }

  @Test func writesChunks() throws {
    var output: [UInt8] = []
    try ChunkEncoder.header(1, into: &output)
    try ChunkEncoder.header(0xABCDEF, into: &output)
    try ChunkEncoder.end(trailers: [(name: "X", value: "y")], into: &output)
    #expect(String(decoding: output, as: UTF8.self) == "1\r\nabcdef\r\n0\r\nX: y\r\n\r\n")
    for size in [0, -1, Int.min] {
      #expect(throws: WireError(.lengthMismatch, at: 0)) { try ChunkEncoder.header(size, into: &output) }
    }
  }

  @Test(arguments: ForbiddenTrailers.refused + ForbiddenTrailers.dropped)
  func refusesTrailers(_ name: String) {
    var output: [UInt8] = []
    #expect(throws: WireError(.invalidTrailerField, at: 0)) {
      try ChunkEncoder.end(trailers: [(name: name.uppercased(), value: "x")], into: &output)
    }
  }

  /// What the chunk encoder writes, the decoder reads, however it is cut.
  @Test(arguments: [[], [1], [5, 0x1000, 3], [16, 15, 17, 1]])
  func chunksRoundTrip(_ sizes: [Int]) throws {
    var wire: [UInt8] = []
    var data: [UInt8] = []
    for size in sizes {
      try ChunkEncoder.header(size, into: &wire)
      let chunk = (0..<size).map { UInt8(truncatingIfNeeded: $0 * 7) }
      data += chunk
      wire += chunk + ChunkEncoder.lineEnd
    }
    try ChunkEncoder.end(trailers: [(name: "A", value: "1"), (name: "B", value: "2")], into: &wire)
    for step in [1, 2, 3, 7, wire.count] {
      var decoder = ChunkedDecoder()
      var read: [UInt8] = []
      var trailers: FieldSection?
      var ended = false
      for start in stride(from: 0, to: wire.count, by: step) {
        let piece = Array(wire[start..<min(start + step, wire.count)])
        var offset = 0
        feeding: while true {
          switch try decoder.next(piece.span, &offset) {
          case .needMore: break feeding
          case .data(let range): read += piece[range]
          case .trailers(let section): trailers = section
          case .end:
            ended = true
            break feeding
          }
        }
      }
      #expect(ended)
      #expect(read == data)
      #expect(trailers?.pairs.map(\.value) == ["1", "2"])
      #expect(decoder.consumed == wire.count)
    }
  }

  /// By the grammar (RFC 9110 sections 5.5 and 5.6.2, RFC 9112 section 3.2), and not by the tables.
  @Test(arguments: UInt8(0)..<0x80) func everyByteStandsWhereItMay(_ byte: UInt8) throws {
    let sign = String(UnicodeScalar(byte))
    let tokens = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"
    let (isToken, isVisible) = (tokens.utf8.contains(byte), (0x21...0x7E).contains(byte))
    #expect(((try? head("A\(sign)B")) != nil) == isToken)
    #expect(((try? head("GET", "/\(sign)b")) != nil) == isVisible)
    #expect(((try? head("GET", "/", Self.host + [(name: "A\(sign)B", value: "v")])) != nil) == isToken)
    let isValue = isVisible || byte == 0x20 || byte == 0x09
    #expect(((try? head("GET", "/", Self.host + [(name: "X", value: "a\(sign)b")])) != nil) == isValue)
    let fields = try PreparedFields([])
    let prepared = try? RequestEncoder.head(method: "GET", target: "/", host: "a\(sign)b", fields: fields)
    #expect((prepared != nil) == isVisible)
  }
}
