import LupineWire
import Testing

/// The multipart encoder: boundaries, heads of parts, delimiters and lengths.
@Suite struct MultipartTests {
  /// The one of the inventory of AFNetworking.
  private static let boundary = MultipartBoundary(number: 0x0123_4567_89AB_CDEF)

  private static func encode(
    _ parts: [(MultipartPartHead, String)], _ boundary: MultipartBoundary = boundary
  ) -> [UInt8] {
    var body: [UInt8] = []
    for (index, part) in parts.enumerated() {
      MultipartEncoder.opening(of: part.0, isFirst: index == 0, boundary: boundary, into: &body)
      body += Array(part.1.utf8)
    }
    if !parts.isEmpty { MultipartEncoder.end(boundary: boundary, into: &body) }
    return body
  }

  private static func text(_ head: MultipartPartHead) -> String { String(decoding: head.bytes, as: UTF8.self) }

  // MARK: Golden bytes

  /// A field and a file: 236 bytes, the total of the inventory.
  @Test func golden() throws {
    let parts = [
      (MultipartPartHead(name: "key"), "value"),
      (MultipartPartHead(name: "f", fileName: "a.txt", mediaType: "text/plain"), "Data"),
    ]
    let body = Self.encode(parts)
    #expect(
      String(decoding: body, as: UTF8.self) == """
        --Boundary+0123456789ABCDEF\r
        Content-Disposition: form-data; name="key"\r
        \r
        value\r
        --Boundary+0123456789ABCDEF\r
        Content-Disposition: form-data; name="f"; filename="a.txt"\r
        Content-Type: text/plain\r
        \r
        Data\r
        --Boundary+0123456789ABCDEF--\r

        """)
    #expect(body.count == 236)
    let sizes = parts.map { (head: $0.0, contentLength: Int64($0.1.utf8.count)) }
    #expect(try MultipartEncoder.length(of: sizes, boundary: Self.boundary) == 236)
  }

  @Test func noParts() throws {
    #expect(try MultipartEncoder.length(of: [], boundary: Self.boundary) == 0)
  }

  @Test(arguments: 1...4) func lengthIsThatOfTheBytes(_ count: Int) throws {
    let parts = (0..<count).map { index in
      (MultipartPartHead(name: "n\(index)", fileName: "\"é\"", mediaType: "a/b"), String(repeating: "x", count: index))
    }
    let sizes = parts.map { (head: $0.0, contentLength: Int64($0.1.utf8.count)) }
    #expect(
      try MultipartEncoder.length(of: sizes, boundary: Self.boundary) == Int64(Self.encode(parts).count))
  }

  @Test func lengthsThatAreNone() {
    let head = MultipartPartHead(name: "n")
    func length(_ contents: [Int64]) throws(WireError) -> Int64 {
      try MultipartEncoder.length(of: contents.map { (head: head, contentLength: $0) }, boundary: Self.boundary)
    }
    #expect(throws: WireError(.lengthMismatch, at: 1)) { try length([0, -1]) }
    #expect(throws: WireError(.lengthTooLarge, at: 1)) { try length([.max / 2 + 1, .max / 2 + 1]) }
    #expect(throws: WireError(.lengthTooLarge, at: 0)) { try length([.max]) }
    // What surrounds the content of the last part does not fit either.
    #expect(throws: WireError(.lengthTooLarge, at: 1)) { try length([.max - 80]) }
  }

  // MARK: Boundaries

  @Test(arguments: [
    "a", "0", "'()+_,-./:=?", "a b", "-", "gc0pJq0M:08jU534c0p", String(repeating: "x", count: 70),
  ]) func boundaries(_ text: String) throws {
    let boundary = try MultipartBoundary(text)
    #expect(boundary.text == text)
    #expect(
      String(decoding: Self.encode([(MultipartPartHead(name: "n"), "")], boundary), as: UTF8.self)
        == "--\(text)\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n\r\n--\(text)--\r\n")
  }

  @Test(arguments: [
    ("", 0), (" ", 0), ("a ", 1), ("a\r\nb", 1), ("a\nb", 1), ("a\0", 1), ("ab\"", 2), ("ü", 0), ("a;b", 1), ("a\\", 1),
    ("a\u{7F}", 1), ("a*b", 1), ("[", 0), ("@", 0), (String(repeating: "x", count: 71), 70),
  ]) func refusedBoundaries(_ text: String, _ offset: Int) {
    #expect(throws: WireError(.invalidBoundary, at: offset)) { try MultipartBoundary(text) }
  }

  @Test(arguments: [
    ("Boundary+0123456789ABCDEF", "Boundary+0123456789ABCDEF"), ("a.b-c_d'", "a.b-c_d'"), ("a b", "\"a b\""),
    ("a:b", "\"a:b\""), ("a=b", "\"a=b\""), ("(a)", "\"(a)\""), ("a/b?", "\"a/b?\""), ("a,b", "\"a,b\""),
  ]) func parameter(_ text: String, _ value: String) throws {
    #expect(try MultipartBoundary(text).parameterValue == value)
  }

  @Test(arguments: [(UInt64(0), "0000000000000000"), (0xA, "000000000000000A"), (.max, "FFFFFFFFFFFFFFFF")])
  func numbers(_ number: UInt64, _ digits: String) {
    let boundary = MultipartBoundary(number: number)
    #expect(boundary.text == "Boundary+" + digits)
    #expect(throws: Never.self) { try MultipartBoundary(boundary.text) }
  }

  @Test func randomBoundariesDiffer() {
    #expect(Set((0..<1000).map { _ in MultipartBoundary.random().text }).count == 1000)
  }

  /// Against the plain search, with boundaries that repeat themselves: a skip that is too long would miss some.
  @Test(arguments: ["a", "aa", "ab", "aab", "aba", "abab", "aabaa", "abcabd", "a-a-a", "Boundary+0123456789ABCDEF"])
  func occurrences(_ text: String) throws {
    let boundary = try MultipartBoundary(text)
    let pattern = Array(text.utf8)
    let alphabet = Array(Set(pattern)).sorted() + [0, 255]
    var state: UInt64 = 42
    for round in 0..<4000 {
      var content = (0..<(round % 40)).map { _ in
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return alphabet[Int(state >> 33) % alphabet.count]
      }
      if round.isMultiple(of: 3) { content.insert(contentsOf: pattern, at: content.count / 2) }
      let isThere =
        content.count >= pattern.count
        && (0...(content.count - pattern.count)).contains { start in
          content[start..<(start + pattern.count)].elementsEqual(pattern)
        }
      #expect(boundary.occurs(in: content.span) == isThere, "\(content)")
    }
  }

  // MARK: Heads of parts

  @Test(arguments: [
    ("plain", "plain"), ("", ""), ("key[sub]", "key[sub]"), ("na\"me", "na%22me"), ("a\r\nb", "a%0D%0Ab"),
    ("a\rb\nc", "a%0Db%0Ac"), ("é🐺", "é🐺"), ("100%22", "100%22"), ("a\\b", "a\\b"), ("a;b=c", "a;b=c"),
    ("a\0b", "a%00b"),
    ("\"\r\nX-Evil: 1\r\n\r\n", "%22%0D%0AX-Evil: 1%0D%0A%0D%0A"),
  ]) func escaping(_ name: String, _ written: String) {
    #expect(
      Self.text(MultipartPartHead(name: name)) == "Content-Disposition: form-data; name=\"\(written)\"\r\n\r\n")
    #expect(
      Self.text(MultipartPartHead(name: "n", fileName: name, mediaType: "a/b"))
        == "Content-Disposition: form-data; name=\"n\"; filename=\"\(written)\"\r\nContent-Type: a/b\r\n\r\n")
  }

  @Test func mediaTypes() {
    #expect(
      Self.text(MultipartPartHead(name: "n", mediaType: "text/plain; charset=\"utf-8\"\r\nX: 1\0"))
        == "Content-Disposition: form-data; name=\"n\"\r\n"
        + "Content-Type: text/plain; charset=\"utf-8\"%0D%0AX: 1%00\r\n\r\n")
    #expect(
      Self.text(MultipartPartHead(name: "n", mediaType: "")) == "Content-Disposition: form-data; name=\"n\"\r\n\r\n")
  }

  @Test func fieldsOfTheCaller() throws {
    let fields = [(name: "X-A", value: "1"), (name: "content-id", value: ""), (name: "X-A", value: "é; \"q\"")]
    #expect(Self.text(try MultipartPartHead(fields: fields)) == "X-A: 1\r\ncontent-id: \r\nX-A: é; \"q\"\r\n\r\n")
    #expect(Self.text(try MultipartPartHead(fields: [])) == "\r\n")
  }

  @Test(arguments: [
    ("", "v", WireError(.invalidFieldName, at: 0)), ("a b", "v", WireError(.invalidFieldName, at: 1)),
    ("a:", "v", WireError(.invalidFieldName, at: 1)), ("a\r\nb", "v", WireError(.invalidFieldName, at: 1)),
    ("a", "v\r\nb: c", WireError(.invalidFieldValue, at: 1)), ("a", "\nv", WireError(.invalidFieldValue, at: 0)),
    ("a", "v\0", WireError(.invalidFieldValue, at: 1)), ("a", " v", WireError(.invalidFieldValue, at: 0)),
  ]) func refusedFields(_ name: String, _ value: String, _ error: WireError) {
    #expect(throws: error) { try MultipartPartHead(fields: [(name: name, value: value)]) }
  }
}
