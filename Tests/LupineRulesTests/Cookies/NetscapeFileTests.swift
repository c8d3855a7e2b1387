import LupineRules
import Testing

@Suite struct NetscapeFileTests {
  private func read(_ text: String) -> NetscapeCookieFile.Content {
    NetscapeCookieFile.read(Array(text.utf8).span, now: cookieNow)
  }

  @Test func aFileOfCurl() {
    let content = read(
      """
      # Netscape HTTP Cookie File
      # https://curl.se/docs/http-cookies.html

      .example.com\tTRUE\t/\tTRUE\t1798761600\tsid\tabc
      #HttpOnly_www.example.com\tFALSE\t/x\tFALSE\t0\ttoken\t
      example.com\tFALSE\t/\tFALSE\t1798761600.25\tempty
      localhost\tFALSE\t/\tFALSE\t-1\tgone\tx\r
      a.com\tFALSE\t/\tFALSE\t99999999999999999999\tfar\ta\tb
      """)
    #expect(content.problemCount == 0, "\(content.problems)")
    #expect(content.records.map(\.line) == [4, 5, 6, 7, 8])
    let records = content.records.map(\.record)
    #expect(records.map(\.name) == ["sid", "token", "empty", "gone", "far"])
    #expect(records.map(\.value) == ["abc", "", "", "x", "a\tb"])
    #expect(records.map(\.domain) == ["example.com", "www.example.com", "example.com", "localhost", "a.com"])
    #expect(records.map(\.isHostOnly) == [false, true, true, true, true])
    #expect(records.map(\.isSecure) == [true, false, false, false, false])
    #expect(records.map(\.isHTTPOnly) == [false, true, false, false, false])
    #expect(records.map { $0.expiry?.seconds } == [1_798_761_600, nil, 1_798_761_600, 1, .max])
    #expect(records[3].isExpired(cookieNow))
  }

  /// Python's `MozillaCookieJar` leaves the expiry of a session's cookie empty.
  @Test func anEmptyExpiryIsTheSessions() throws {
    let content = read("a.com\tFALSE\t/\tFALSE\t\tname\tvalue")
    let record = try #require(content.records.first?.record)
    #expect(content.problems.isEmpty && record.expiry == nil && record.value == "value")
  }

  /// Of what stands before a domain nothing but the dot goes: with a mark upon that it is no domain.
  @Test func aMarkUponTheDotStays() throws {
    let content = read(".\u{301}example.com\tTRUE\t/\tFALSE\t0\ta\t1")
    let record = try #require(content.records.first?.record)
    #expect(Array(record.domain.utf8) == Array("\u{301}example.com".utf8))
    var store = CookieStore(suffixes: try PublicSuffixTests.list.get())
    #expect(throws: CookieRefusal.invalidDomain) { try store.insert(record, now: cookieNow) }
  }

  @Test(arguments: [
    ("a.com\tTRUE\t/", "3 fields with tabs between, where 7 belong"),
    ("a.com TRUE / FALSE 0 a b", "1 fields with tabs between, where 7 belong"),
    ("a.com\tMAYBE\t/\tFALSE\t0\ta\tb", "a flag is neither TRUE nor FALSE"),
    ("a.com\tTRUE\t/\t\t0\ta\tb", "a flag is neither TRUE nor FALSE"),
    ("a.com\tTRUE\t/\tFALSE\tsoon\ta\tb", "the expiry is no number of seconds"),
    ("a.com\tTRUE\t/\tFALSE\t-\ta\tb", "the expiry is no number of seconds"),
    ("a.com\tTRUE\t/\tFALSE\t--1\ta\tb", "the expiry is no number of seconds"),
    ("a.com\tTRUE\t/\tFALSE\t1e9\ta\tb", "the expiry is no number of seconds"),
  ]) func problems(_ row: (String, String)) throws {
    let content = read("# header\n\(row.0)\na.com\tFALSE\t/\tFALSE\t0\tgood\t1\n")
    #expect(content.records.map(\.record.name) == ["good"])
    let problem = try #require(content.problems.first)
    #expect(problem.line == 2 && problem.message == row.1)
    #expect("\(problem)" == "line 2: \(row.1)")
  }

  @Test func limits() {
    let long = "a.com\tFALSE\t/\tFALSE\t0\ta\t" + String(repeating: "x", count: NetscapeCookieFile.lineLimit)
    #expect(read(long).problems.map(\.reason) == [.lineTooLong(limit: 8192)])
    let bytes = Array("a.com\tFALSE\t/\tFALSE\t0\ta\t".utf8) + [0xFF]
    #expect(NetscapeCookieFile.read(bytes.span, now: cookieNow).problems.map(\.reason) == [.notUTF8])
    let bad = read(String(repeating: "x\n", count: 5000))
    #expect(bad.problems.count == 100 && bad.problemCount == 5000)
    let many = read(String(repeating: "a.com\tFALSE\t/\tFALSE\t0\ta\t1\n", count: 10_005))
    #expect(many.records.count == 10_000)
    #expect(many.problems.map(\.reason) == [.fileTooLong(limit: 10_000)])
  }

  @Test func writtenFilesReadBack() throws {
    let records = [
      CookieRecord(
        name: "a", value: "1 =\t\"x\"", domain: "a.com", isHostOnly: false, path: "/x", isSecure: true,
        isHTTPOnly: true,
        expiry: HTTPDate(seconds: 1_798_761_600), created: cookieNow),
      CookieRecord(name: "", value: "nameless", domain: "::1", created: cookieNow),
      CookieRecord(name: "#b", value: "", domain: "b.com", isHTTPOnly: true, created: cookieNow),
    ]
    let tabbed = [
      CookieRecord(name: "t\tb", value: "1", domain: "a.com", created: cookieNow),
      CookieRecord(name: "t", value: "1", domain: "a.com", path: "/\t", created: cookieNow),
    ]
    let (text, omitted) = NetscapeCookieFile.write(records + tabbed)
    #expect(omitted == 2)
    #expect(text.hasPrefix("# Netscape HTTP Cookie File\n"))
    let content = read(text)
    #expect(content.problemCount == 0)
    #expect(content.records.map(\.record) == records)
  }
}
