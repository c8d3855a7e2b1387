import LupineRules
import LupineWire
import Testing

@Suite struct TrailerRuleTests {
  static let announced: [([String], TrailerRefusal?)] = [
    ([], nil),
    (["X-Checksum"], nil),
    (["Content-Digest", "repr-digest", "Server-Timing", "ETag", "x-amz-checksum-crc32"], nil),
    (["Acceptance", "Iffy", "Hostess", "X-Content-Length", "Ranger"], nil),
    // Names that mean nothing to us may come twice, as fields may.
    (["X-A", "x-a"], nil),
    (["Content-Length"], .forbidden(name: "Content-Length")),
    (["transfer-ENCODING"], .forbidden(name: "transfer-ENCODING")),
    (["X-A", "Host"], .forbidden(name: "Host")),
    (["Trailer"], .forbidden(name: "Trailer")),
    (["TE"], .forbidden(name: "TE")),
    (["Expect"], .forbidden(name: "Expect")),
    (["Range"], .forbidden(name: "Range")),
    (["Cache-Control"], .forbidden(name: "Cache-Control")),
    (["If-Match"], .forbidden(name: "If-Match")),
    (["if-unmodified-since"], .forbidden(name: "if-unmodified-since")),
    (["Accept"], .forbidden(name: "Accept")),
    (["Accept-Encoding"], .forbidden(name: "Accept-Encoding")),
    (["Content-Type"], .forbidden(name: "Content-Type")),
    (["Referer"], .forbidden(name: "Referer")),
    (["Authorization"], .forbidden(name: "Authorization")),
    (["Cookie"], .forbidden(name: "Cookie")),
    (["Cookie2"], .secret(name: "Cookie2")),
    (["X-Api-Key"], .secret(name: "X-Api-Key")),
    (["Private-Token"], .secret(name: "Private-Token")),
    (["Proxy-Anything"], .secret(name: "Proxy-Anything")),
    (["X-Marked"], .secret(name: "X-Marked")),
    ([""], .invalid(name: "")),
    (["a b"], .invalid(name: "a b")),
    ([":path"], .invalid(name: ":path")),
    (["X-A\r\nHost"], .invalid(name: "X-A\r\nHost")),
    ((0..<128).map { "X-\($0)" }, nil),
    ((0..<129).map { "X-\($0)" }, .tooMany(limit: 128)),
  ]

  @Test(arguments: announced) func announcing(_ row: ([String], TrailerRefusal?)) {
    let refusal = TrailerRule.refusal(announcing: row.0, isMarkedSensitive: { $0 == "X-Marked" })
    #expect(refusal == row.1)
  }

  /// What our own parser leaves out of a response, or refuses there, is not sent in a request either.
  @Test(arguments: ForbiddenTrailers.refused + ForbiddenTrailers.dropped) func whatTheParserDrops(_ name: String) {
    #expect(TrailerRule.refusal(announcing: [name]) == .forbidden(name: name))
  }

  /// One field with a value of so many bytes, to which its section adds 7: `x: `, the end of the line, and the empty one.
  private static func one(_ count: Int) -> [(name: String, value: String)] {
    [("x", String(repeating: "v", count: count))]
  }

  private static let limit = WireLimits().trailers

  static let sent: [([(name: String, value: String)], [String], TrailerRefusal?)] = [
    ([], [], nil),
    ([], ["X-A"], nil),
    ([("X-A", "1")], ["X-A"], nil),
    ([("x-a", "1"), ("X-A", "2")], ["X-a", "X-B"], nil),
    ([("X-A", "")], ["X-A"], nil),
    ([("X-A", "\u{e9}\u{1f680} \t,")], ["X-A"], nil),
    ([("X-A", "1\t")], ["X-A"], .invalid(name: "X-A")),
    ([("X-A", "1"), ("X-B", "2")], ["X-A"], .notAnnounced(name: "X-B")),
    ([("X-A", "1")], [], .notAnnounced(name: "X-A")),
    ([("X-A", "1\r\nHost: b")], ["X-A"], .invalid(name: "X-A")),
    ([("X-A", "1\u{0}")], ["X-A"], .invalid(name: "X-A")),
    ([("X-A", " 1")], ["X-A"], .invalid(name: "X-A")),
    // Whatever was announced, and not looked at.
    ([("Content-Length", "1")], ["Content-Length"], .invalid(name: "Content-Length")),
    (one(limit - 7), ["X"], nil),
    (one(limit - 6), ["X"], .tooLarge(limit: limit)),
    (one(1) + one(limit - 13), ["X"], nil),
    (one(1) + one(limit - 12), ["X"], .tooLarge(limit: limit)),
    (Array(repeating: ("x", "1"), count: 128), ["X"], nil),
    (Array(repeating: ("x", "1"), count: 129), ["X"], .tooMany(limit: 128)),
  ]

  /// What may be sent is what our own parser takes, to the byte.
  @Test(arguments: sent.indices) func sending(_ index: Int) throws {
    let (fields, names, expected) = Self.sent[index]
    let refusal = TrailerRule.refusal(sending: fields, announced: names)
    #expect(refusal == expected)
    var wire: [UInt8] = []
    guard (try? ChunkEncoder.end(trailers: fields, into: &wire)) != nil else { return }
    var decoder = ChunkedDecoder()
    var count = 0
    var isTaken = true
    do throws(WireError) {
      var offset = 0
      reading: while true {
        switch try decoder.next(wire.span, &offset) {
        case .trailers(let section): count = section.count
        case .end: break reading
        case .data, .needMore: break reading
        }
      }
    } catch {
      isTaken = false
    }
    switch expected {
    case nil: #expect(isTaken && count == fields.count)
    case .tooMany, .tooLarge: #expect(!isTaken)
    default: break
    }
  }
}
