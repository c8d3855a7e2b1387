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
    let names = HeadWriter.connectionFields(head.fields)
    #expect(names.isSuperset(of: ["x-one", "x-two"]) && !names.contains { $0.hasPrefix("a") })
  }
}
