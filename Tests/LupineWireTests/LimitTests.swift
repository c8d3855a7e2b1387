import LupineWire
import Testing

/// Each limit below, at and above, whole and byte by byte: the verdict must depend on the size alone.
struct LimitTests {
  struct Limit: CustomTestStringConvertible, Sendable {
    var name: String
    /// A response whose limited part has exactly this size.
    var response: @Sendable (Int) -> String
    var set: @Sendable (inout WireLimits, Int) -> Void
    var reason: @Sendable (Int) -> WireError.Reason
    /// Sizes tried around each of these limits.
    var sizes = [20, 64, 1000, 1024, 1040, 5000]
    var testDescription: String { name }
  }

  private static let start = "HTTP/1.1 200 OK\r\n"
  private static let chunked = start + "Transfer-Encoding: chunked\r\n\r\n"

  static let limits: [Limit] = [
    Limit(
      name: "statusLine",
      response: { "HTTP/1.1 200 " + String(repeating: "a", count: $0 - 13) + "\r\nContent-Length: 0\r\n\r\n" },
      set: { $0.statusLine = $1 }, reason: { .statusLineTooLong(limit: $0) }),
    Limit(
      name: "fieldLine",
      response: { start + "X: " + String(repeating: "a", count: $0 - 3) + "\r\nContent-Length: 0\r\n\r\n" },
      set: { $0.fieldLine = $1 }, reason: { .fieldLineTooLong(limit: $0) }),
    Limit(
      name: "head",
      response: { start + "Content-Length: 0\r\nX:" + String(repeating: " ", count: $0 - 42) + "\r\n\r\n" },
      set: { $0.head = $1 }, reason: { .headTooLarge(limit: $0) }, sizes: [64, 1000, 1024, 1040, 5000]),
    Limit(
      name: "fields",
      response: { start + "Content-Length: 0\r\n" + String(repeating: "X: y\r\n", count: $0 - 1) + "\r\n" },
      set: { $0.fields = $1 }, reason: { .tooManyFields(limit: $0) }, sizes: [2, 23, 24, 25, 48, 500]),
    Limit(
      name: "informationalHeads",
      response: { String(repeating: "HTTP/1.1 103 E\r\n\r\n", count: $0) + start + "Content-Length: 0\r\n\r\n" },
      set: { $0.informationalHeads = $1 }, reason: { .tooManyInformationalHeads(limit: $0) }, sizes: [1, 2, 32]),
    Limit(
      name: "chunkLine",
      response: { chunked + "1;" + String(repeating: "a", count: $0 - 2) + "\r\nx\r\n0\r\n\r\n" },
      set: { $0.chunkLine = $1 }, reason: { .chunkLineTooLong(limit: $0) }),
    Limit(
      name: "chunkExtensions",
      response: { chunked + "1;" + String(repeating: "a", count: $0 - 11) + "\r\nx\r\n0;123456789\r\n\r\n" },
      set: { $0.chunkExtensions = $1 }, reason: { .chunkExtensionsTooLarge(limit: $0) }, sizes: [20, 1024, 4000]),
    Limit(
      name: "trailers",
      response: { chunked + "0\r\nX: " + String(repeating: "a", count: $0 - 7) + "\r\n\r\n" },
      set: { $0.trailers = $1 }, reason: { .trailersTooLarge(limit: $0) }),
    Limit(
      name: "trailerFields", response: { chunked + "0\r\n" + String(repeating: "X: y\r\n", count: $0) + "\r\n" },
      set: { $0.trailerFields = $1 }, reason: { .tooManyTrailerFields(limit: $0) }, sizes: [1, 23, 24, 25, 128]),
  ]

  @Test(arguments: limits)
  func holds(_ limit: Limit) {
    for allowed in limit.sizes {
      for size in (allowed - 1)...(allowed + 1) {
        var one = WireCase(file: limit.name, name: "\(size) of \(allowed)")
        one.input = Array(limit.response(size).utf8)
        limit.set(&one.limits, allowed)
        let whole = Feeder.feed(one, [one.input[...]])
        if size <= allowed {
          #expect(whole.log.last?.hasPrefix("end") == true, "\(one): \(whole.log)")
        } else {
          #expect(whole.log.last?.hasPrefix("error \(limit.reason(allowed)) @") == true, "\(one): \(whole.log)")
        }
        for step in [1, 3, 1000] {
          let pieces = stride(from: 0, to: one.input.count, by: step).map {
            one.input[$0..<min($0 + step, one.input.count)]
          }
          #expect(Feeder.feed(one, pieces) == whole, "\(one), in pieces of \(step)")
        }
      }
    }
  }

  @Test func extremeLimitsDoNotTrap() {
    for value in [Int.min, -1, 0, 1, Int.max] {
      for limit in Self.limits {
        var one = WireCase(file: limit.name, name: "\(value)")
        one.input = Array((limit.response(200)).utf8)
        limit.set(&one.limits, value)
        let whole = Feeder.feed(one, [one.input[...]])
        #expect(Feeder.feed(one, one.input.indices.map { one.input[$0...$0] }) == whole, "\(one)")
      }
    }
  }

  /// Where a line is refused, its length is looked at once more.
  @Test(arguments: [
    ("HTTP/1.1 200 OK\n", WireError.Reason.bareLineFeed), (start + "foo\r\n", .missingColon),
    (start + "A: b\n", .bareLineFeed), (chunked + "0\r\nfoo\r\n", .missingColon),
  ]) func extremeLimitsDoNotTrapOnWhatIsRefused(_ text: String, _ reason: WireError.Reason) {
    var one = WireCase(file: "all limits", name: "Int.max")
    one.input = Array(text.utf8)
    for limit in Self.limits { limit.set(&one.limits, .max) }
    let whole = Feeder.feed(one, [one.input[...]])
    #expect(whole.log.last?.hasPrefix("error \(reason) @") == true, "\(whole.log)")
    #expect(Feeder.feed(one, one.input.indices.map { one.input[$0...$0] }) == whole)
  }
}
