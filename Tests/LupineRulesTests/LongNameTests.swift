import LupineWire
import Testing

@testable import LupineRules

/// Text of servers that is compared and looked for takes no time that grows with the square of its length.
@Suite struct LongNameTests {
  private static let marks = String(repeating: "\u{301}\u{323}", count: 500)

  @Test func namesInJSONAreLimited() {
    let error = #expect(throws: JSONError.self) { try JSONReader.read(#"{ "a": 1, "a\#(Self.marks)": 1}"#) }
    #expect(error?.offset == 10)
  }

  @Test func challengesAreLimited() {
    let list = ChallengeReader.read([Array(#"Basic realm="a\#(Self.marks)", Bearer realm="b""#.utf8)])
    #expect(list.challenges.map(\.scheme) == ["bearer"] && list.faults.count == 1)
  }

  /// Byte by byte (RFC 6265bis section 5.7): two spellings of a letter are two names and two paths.
  @Test func cookiesAreToldApartByTheirBytes() throws {
    var store = CookieStore(suffixes: .builtIn)
    let context = CookieContext(url: try URLReader.read("http://example.com/"))
    for cookie in ["\u{E9}=1", "e\u{301}=2", "a=1; Path=/\u{E9}", "a=2; Path=/e\u{301}", "e\u{301}=3"] {
      store.receive([Array(cookie.utf8)], from: context, now: HTTPDate(seconds: 0))
    }
    #expect(store.count == 4)
  }

  @Test func connectionOptionsAreTokens() throws {
    let head = try ResponseHead(status: 200, fields: [("Connection", "X-One, a\(Self.marks), X-Two")])
    let names = try #require(HeadWriter.connectionFields(head.fields))
    #expect(names.isSuperset(of: ["x-one", "x-two"]) && !names.contains { $0.hasPrefix("a") })
  }

  /// In the order that takes longest.
  private static func text(_ count: Int) -> String {
    "a" + String(repeating: "\u{301}", count: count) + String(repeating: "\u{323}", count: count)
  }

  /// As much as a field of a head may have.
  private static let field = text(16_000)

  /// As characters it takes longer than the limit by far: some 15 s for a look at 80,000 marks of each kind, 0.6 s at what a head may have.
  /// By bytes it is quick also where a sanitizer makes it twenty times slower.
  private func expectQuick(
    _ what: String, times: Int = 1, within limit: Duration = .seconds(6), _ body: () throws -> Void
  ) rethrows {
    let time = try ContinuousClock().measure {
      for _ in 0..<times { try body() }
    }
    #expect(time < limit, "\(what)")
  }

  @Test func valuesOfFieldsAreComparedByTheirBytes() throws {
    let text = Self.text(80_000)
    expectQuick("codings") { #expect(throws: ContentCodingRefusal.self) { try ContentCodings.parse(["g\(text)"]) } }
    expectQuick("directives") {
      let directives = CacheDirectives(["no-s\(text), m\(text)=1", "no-store"])
      #expect(directives.noStore && directives.maximumAge == nil)
    }
    expectQuick("character sets") {
      #expect(ExtendedValue.decode("u\(text)''a") == nil)
      let charset = MediaType("text/plain; charset=u\(text)")?.charset
      #expect(charset?.utf8.count ?? .max < 70 && charset != "utf-8")
    }
    expectQuick("secrets") {
      #expect(SecretText.redacted(url: "/?s\(text)=1&sig=2") == "/?s\(text)=1&sig=REDACTED")
      #expect(SecretText.redacted(field: "Cookie", value: "\(text)=1; b=2") == "\(text)=[redacted]; b=[redacted]")
      #expect(SecretText.redacted(field: "Authorization", value: text) == "[redacted]")
    }
  }

  @Test(arguments: ["ETag", "Age", "Expires", "Cache-Control", "Pragma"])
  func termsOfCaching(_ name: String) throws {
    for value in [Self.field, "W\(Self.field)", "\"\(Self.field)\"", "1\(Self.field),"] {
      let head = try ResponseHead(status: 200, fields: [(name, value), ("Expires", "0\(Self.field)")])
      expectQuick(name, times: 5, within: .seconds(2)) { _ = CacheTerms(head, requestTime: 0, responseTime: 0) }
    }
  }

  @Test func resumedDownloads() throws {
    let text = Self.field
    let url = try URLReader.read("http://h/")
    let offer = RangeOffer(offset: 10, total: 20, validator: .entityTag("\"a\""), source: nil)
    let fields = [
      ("Content-Range", "bytes 10-19/20"), ("ETag", "\"\(text)\""), ("Accept-Ranges", "n\(text)"),
      ("Content-Encoding", "i\(text)"),
    ]
    let answer = RangeAnswer(status: 206, url: url, fields: try ResponseHead(status: 206, fields: fields).fields)
    expectQuick("resumption", times: 20, within: .seconds(5)) {
      #expect(ResumeRule.decide(answer, to: offer) == .askAgain(.otherVersion))
      #expect(answer.isCoded && !answer.refusesRanges)
    }
  }
}
