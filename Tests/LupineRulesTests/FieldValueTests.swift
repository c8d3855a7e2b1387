import LupineRules
import Testing

@Suite struct ContentCodingTests {
  static let lists: [([String], [ContentCoding])] = [
    ([], []), ([""], []), (["gzip"], [.gzip]), (["x-gzip"], [.gzip]), (["GZip"], [.gzip]), (["identity"], []),
    (["deflate, gzip"], [.deflate, .gzip]), (["deflate", "gzip"], [.deflate, .gzip]),
    ([" gzip\t,, identity ,deflate, "], [.gzip, .deflate]),
    (["gzip,gzip,gzip,gzip,gzip,identity"], Array(repeating: .gzip, count: 5)),
    (["gzip;q=1"], [.gzip]), (["identity ; q=0.5, Deflate\t;"], [.deflate]),
  ]

  @Test(arguments: lists) func reads(_ values: [String], _ expected: [ContentCoding]) throws {
    #expect(try ContentCodings.parse(values) == expected)
  }

  static let refused: [([String], ContentCodingRefusal)] = [
    (["br"], .unknown("br")), (["gzip, Zstd"], .unknown("Zstd")), (["*"], .unknown("*")),
    (["gzip deflate"], .unknown("gzip deflate")), (["\"gzip\""], .unknown("\"gzip\"")), ([";q=1"], .unknown(";q=1")),
    (["br;q=1"], .unknown("br;q=1")),
    // curl CVE-2022-32206 and urllib3 CVE-2025-66418: a chain without end; curl CVE-2023-23916: over several fields, each of them short.
    (["gzip,gzip,gzip,gzip,gzip,gzip"], .tooMany(limit: 5)),
    (Array(repeating: "gzip", count: 6), .tooMany(limit: 5)),
  ]

  @Test(arguments: refused) func refuses(_ values: [String], _ refusal: ContentCodingRefusal) {
    #expect(throws: refusal) { try ContentCodings.parse(values) }
  }

  @Test func howManyThereMayBeIsASetting() throws {
    #expect(try ContentCodings.parse(["gzip, identity"], atMost: 1) == [.gzip])
    #expect(throws: ContentCodingRefusal.tooMany(limit: 1)) { try ContentCodings.parse(["gzip, gzip"], atMost: 1) }
  }
}

@Suite struct MediaTypeTests {
  static let rows: [(String, String, String?)] = [
    ("text/html", "text/html", nil), ("Text/HTML; Charset=UTF-8", "text/html", "utf-8"),
    ("text/html;charset=\"utf-8\"", "text/html", "utf-8"), ("text/html; charset=\"u\\tf-8\"", "text/html", "utf-8"),
    (" application/problem+json ;charset=x", "application/problem+json", "x"),
    ("text/html; charset=a; charset=b", "text/html", "a"), ("text/html; charset", "text/html", nil),
    ("text/html; charset=", "text/html", nil), ("text/html; =x; charset=y", "text/html", "y"),
    ("text/html; a=\"; charset=no\"; charset=yes", "text/html", "yes"),
    ("text/html; a=\"\\\"; charset=no\"; charset=yes", "text/html", "yes"),
    ("text/html; a=\"unclosed; charset=no", "text/html", nil), ("text/html;;; charset=z;", "text/html", "z"),
    ("text/html; bad \"; charset=no\"; charset=yes", "text/html", "yes"),
  ]

  @Test(arguments: rows) func reads(_ text: String, _ essence: String, _ charset: String?) throws {
    let type = try #require(MediaType(text))
    #expect(type.essence == essence)
    #expect(type.charset == charset)
  }

  @Test(arguments: ["", "text", "/html", "text/", "text /html", "text/html x", "text/html, text/plain", "te(xt/html"])
  func refuses(_ text: String) {
    #expect(MediaType(text) == nil)
  }

  @Test func suffixAndParameters() throws {
    let type = try #require(MediaType("multipart/Form-Data; Boundary=\"A b\"; x=1"))
    #expect(type["boundary"] == "A b")
    #expect(type.parameters.map(\.name) == ["boundary", "x"])
    #expect(type.suffix == nil)
    #expect(MediaType("application/vnd.a+b+json")?.suffix == "json")
  }

  static let readings: [(type: String, reader: Set<String>, isReadable: Bool)] = [
    ("application/json", ["application/json"], true), ("Application/JSON; charset=utf-8", ["application/json"], true),
    ("application/problem+json", ["application/json"], true),
    ("Application/HAL+JSON", ["text/json", "application/json"], true),
    ("application/geo+json; charset=utf-8", ["application/json"], true),
    ("model/gltf+json", ["application/json"], true),
    ("application/vnd.a+xml+json", ["application/json"], true),
    ("application/vnd.a+json+xml", ["application/json"], false),
    ("application/json+zip", ["application/json"], false), ("application/json-seq", ["application/json"], false),
    ("application/vnd.json", ["application/json"], false), ("application/a+json5", ["application/json"], false),
    ("nonstandard/json", ["application/json"], false), ("application/a+", ["application/json"], false),
    ("application/problem+json", ["text/json"], false), ("application/problem+json", ["application/xml"], false),
    ("application/problem+json", [], false), ("application/json", ["application/problem+json"], false),
    ("application/problem+json", ["application/problem+json"], true),
    ("image/svg+xml", ["application/xml"], true), ("application/atom+xml", ["application/xml", "text/xml"], true),
    ("application/atom+xml", ["text/xml"], false), ("application/atom+xml", ["application/json"], false),
    ("application/a+cbor", ["application/cbor"], false),
  ]

  @Test(arguments: readings) func readability(_ row: (type: String, reader: Set<String>, isReadable: Bool)) throws {
    #expect(try #require(MediaType(row.type)).isReadable(as: row.reader) == row.isReadable)
  }

  @Test(.timeLimit(.minutes(1)), arguments: [";", "\"", "a=\"", "\\", ";a=b", "\"\\"])
  func workIsBounded(_ piece: String) throws {
    let text = "a/b;" + String(repeating: piece, count: 60_000 / piece.utf8.count)
    #expect(try #require(MediaType(text)).parameters.count <= 64)
  }
}

@Suite struct ContentDispositionTests {
  static let rows: [(String, String?)] = [
    ("attachment", nil), ("attachment; filename=a.txt", "a.txt"), ("ATTACHMENT; FileName=\"a b.txt\"", "a b.txt"),
    ("attachment; filename=a b.txt", "a b.txt"), ("inline; filename=\"q\\\"uote.txt\"", "q\"uote.txt"),
    ("attachment; filename=\"x\"; filename*=UTF-8''%e2%82%ac%20rates", "€ rates"),
    ("attachment; filename*=utf-8'en'%C3%BC.txt; filename=x", "ü.txt"),
    ("attachment; filename*=iso-8859-1'en'%A3%20rates", "£ rates"),
    ("attachment; filename*=UTF-8''%FF; filename=x", "x"), ("attachment; filename*=utf-7''a; filename=x", "x"),
    ("attachment; filename*=bare; filename=x", "x"),
    ("attachment; filename=\"x\"; filename*=UTF-8''f%oo.html", "x"),
    ("attachment; filename=x; filename*=iso-8859-1''f%oo", "x"), ("attachment; filename*=UTF-8''foo%", nil),
    ("attachment; filename*=UTF-8''foo%2", nil), ("attachment; filename*=UTF-8''%%41", nil),
    ("attachment; filename*=UTF-8''a b.html; filename=x", "x"),
    ("attachment; filename*=UTF-8''ü.html; filename=x", "x"),
    ("attachment; filename*=UTF-8''a%20'1'(2)*~.html; filename=x", "a '1'(2)*~.html"),
    ("attachment; filename*=\"UTF-8''a%20b.html\"; filename=x", "a b.html"),
    ("attachment; filename*=\"UTF-8''a b.html\"; filename=x", "x"),
    ("attachment; filename=\"../../etc/passwd\"", "passwd"), ("attachment; filename=\"/etc/passwd\"", "passwd"),
    ("attachment; filename=\"C:\\\\dir\\\\file.txt\"", "file.txt"), ("attachment; filename=\"..\"", nil),
    ("attachment; filename=\".\"", nil), ("attachment; filename=\"a/\"", nil), ("attachment; filename=\"\"", nil),
    ("attachment; filename=\".bashrc\"", "bashrc"), ("attachment; filename=\"... a. \"", "a"),
    ("attachment; filename*=UTF-8''a%2F..%2Fb", "b"), ("attachment; filename*=UTF-8''a%00b%0D%0A.txt", "ab.txt"),
    ("attachment; filename*=UTF-8''exe.%E2%80%AEtxt", "exe.txt"), ("attachment; filename*=UTF-8''%2e%2e", nil),
    ("attachment; filename*=UTF-8''%2e%2e; filename=x", "x"),
    ("attachment; filename=\"a\u{1B}[31mb\"", "a[31mb"),
  ]

  @Test(arguments: rows) func fileNames(_ text: String, _ expected: String?) throws {
    #expect(try #require(ContentDisposition(text)).fileName == expected)
  }

  @Test func lengthIsCut() throws {
    let long = String(repeating: "é", count: 400)
    let name = try #require(SafeFileName.component(long + ".tar.gz"))
    #expect(name.utf8.count <= 255)
    #expect(name.hasSuffix(".gz"))
    let noExtension = try #require(SafeFileName.component(long))
    #expect(noExtension.utf8.count == 254)
    let cutInBlanks = SafeFileName.component(String(repeating: "a", count: 250) + "          b")
    #expect(cutInBlanks == String(repeating: "a", count: 250))
    let longExtension = try #require(SafeFileName.component("a." + long))
    #expect(longExtension.utf8.count <= 255)
  }

  /// The last segment of a URL's path, and the name that is made of it.
  static let segments: [(String, String?)] = [
    ("a.txt", "a.txt"), ("Annual%20Report%202024.pdf", "Annual Report 2024.pdf"), ("caf%C3%A9.txt", "café.txt"),
    ("100%", "100%"), ("a%2", "a%2"), ("%zz.txt", "%zz.txt"), ("a+b", "a+b"), ("%FF.bin", "%FF.bin"),
    ("a%2Fb.txt", "a%2Fb.txt"), ("..%2f..%2fx", "%2f..%2fx"), ("a%5Cb", "a%5Cb"), ("%2e%2e", nil),
    ("%2Ebashrc", "bashrc"),
    ("a%00b%0D%0A.txt", "ab.txt"), ("exe.%E2%80%AEtxt", "exe.txt"), ("%2541", "%41"), ("", nil), ("%20", nil),
  ]

  @Test(arguments: segments) func namesOfSegments(_ segment: String, _ expected: String?) {
    #expect(SafeFileName.name(ofSegment: segment) == expected)
  }

  @Test(arguments: ["", ";filename=x", "\"a\"", "a b; filename=x"]) func refuses(_ text: String) {
    #expect(ContentDisposition(text) == nil)
  }
}

@Suite struct HTTPDateTests {
  /// 2026-11-21.
  static let now = HTTPDate(seconds: 1_795_219_200)

  static let rows: [(String, Int64, String)] = [
    ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("Sun Nov  6 08:49:37 1994", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("Wed Nov 16 08:49:37 1994", 784_975_777, "Wed, 16 Nov 1994 08:49:37 GMT"),
    ("Thu, 01 Jan 1970 00:00:00 GMT", 0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Wed, 31 Dec 1969 23:59:59 GMT", -1, "Wed, 31 Dec 1969 23:59:59 GMT"),
    ("Thu, 29 Feb 2024 12:00:00 GMT", 1_709_208_000, "Thu, 29 Feb 2024 12:00:00 GMT"),
    ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
    ("Fri, 31 Dec 9999 23:59:59 GMT", 253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ("Sat, 01 Jan 0000 00:00:00 GMT", -62_167_219_200, "Sat, 01 Jan 0000 00:00:00 GMT"),
    ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_800, "Sun, 01 Jan 2017 00:00:00 GMT"),
    ("Saturday, 21-Nov-76 00:00:00 GMT", 3_373_142_400, "Sat, 21 Nov 2076 00:00:00 GMT"),
    ("Friday, 20-Nov-76 23:59:59 GMT", 3_373_142_399, "Fri, 20 Nov 2076 23:59:59 GMT"),
    ("Sunday, 21-Nov-76 00:00:01 GMT", 217_382_401, "Sun, 21 Nov 1976 00:00:01 GMT"),
    ("Friday, 31-Dec-76 00:00:00 GMT", 220_838_400, "Fri, 31 Dec 1976 00:00:00 GMT"),
    ("Monday, 21-Nov-77 00:00:00 GMT", 248_918_400, "Mon, 21 Nov 1977 00:00:00 GMT"),
    ("Mon, 06 Nov 1994 08:49:37 GMT", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("SUN, 06 nOV 1994 08:49:37 GmT", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("sunday, 06-NOV-94 08:49:37 gmt", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
    ("suN nov  6 08:49:37 1994", 784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
  ]

  @Test(arguments: rows) func reads(_ text: String, _ seconds: Int64, _ fixed: String) throws {
    let date = try #require(HTTPDate(text, now: Self.now))
    #expect(date.seconds == seconds)
    #expect(date.text == fixed)
    #expect(HTTPDate(date.text, now: Self.now) == date)
  }

  @Test(arguments: [
    "", "now", "Sun, 06 Nov 1994 08:49:37", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 GMT1",
    "Sun, 06 Nov 1994 08:49:37 GMTs", "Su\u{4E}\u{303}, 06 Nov 1994 08:49:37 GMT", "Sun, 06 No\u{16} 1994 08:49:37 GMT",
    "Sun, 6 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 94 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Tue, 29 Feb 1900 00:00:00 GMT",
    "Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT", "Sun, 06 Nov 1994 08:49:61 GMT",
    "Xxx, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Xxx 1994 08:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
    "Sun, 06 Nov 1994 08:49:37 GMT ", "Sun, 06 Nov -994 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
    "Sun, +6 Nov 1994 08:49:37 GMT", "784111777",
  ])
  func refuses(_ text: String) {
    #expect(HTTPDate(text, now: Self.now) == nil)
  }

  /// What mail allows is a date for who is not strict about it; the other forms stay as they are.
  @Test(
    arguments: [
      ("Sun, 6 Nov 1994 08:49:37 GMT", 784_111_777), ("Sun, 06 Nov 1994 08:49:37 UTC", 784_111_777),
      ("Sun, 6 Nov 1994 11:49:37 +0300", 784_111_777), ("Sun, 06 Nov 1994 00:19:37 -0830", 784_111_777),
      ("Mon, 07 Nov 1994 00:49:37 +1600", 784_111_777), ("Sun, 06 Nov 1994 08:49:37 -0000", 784_111_777),
      ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777), ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
      ("Sun Nov  6 08:49:37 1994", 784_111_777), ("Sunday, 6-Nov-94 08:49:37 GMT", nil),
      ("Sunday, 06-Nov-94 08:49:37 UTC", nil), ("Sun, 06 Nov 1994 08:49:37 EST", nil),
      ("Sun, 06 Nov 1994 08:49:37", nil),
      ("Sun, 06 Nov 1994 08:49:37 +2400", nil), ("Sun, 06 Nov 1994 08:49:37 +0060", nil),
      ("Sun, 06 Nov 1994 08:49:37 +", nil),
      ("Sun, 06 Nov 1994 08:49:37 +00:00", nil), ("Sun,  6 Nov 1994 08:49:37 GMT", nil),
      ("Sun, 006 Nov 1994 08:49:37 GMT", nil),
    ] as [(String, Int64?)]) func readsWhatMailAllows(_ text: String, _ seconds: Int64?)
  {
    #expect(HTTPDate(lenient: text, now: Self.now)?.seconds == seconds)
  }

  @Test func everyDayOfFourCenturiesSurvives() throws {
    for day in stride(from: Int64(-135_140), to: 146_097, by: 13) {
      let date = HTTPDate(seconds: day * 86_400 + 12_345)
      #expect(HTTPDate(date.text, now: Self.now) == date)
    }
  }

  /// The limit of 50 years moves by the second, over the end of a century too.
  @Test(arguments: [
    ("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-44 08:49:37 GMT", "Sun, 06 Nov 2044 08:49:37 GMT"),
    ("Sun, 06 Nov 1994 08:49:36 GMT", "Sunday, 06-Nov-44 08:49:37 GMT", "Mon, 06 Nov 1944 08:49:37 GMT"),
    ("Tue, 06 Nov 1951 08:49:36 GMT", "Sunday, 06-Nov-01 08:49:36 GMT", "Tue, 06 Nov 2001 08:49:36 GMT"),
    ("Tue, 06 Nov 1951 08:49:36 GMT", "Sunday, 06-Nov-01 08:49:37 GMT", "Wed, 06 Nov 1901 08:49:37 GMT"),
    ("Thu, 29 Feb 2024 00:00:00 GMT", "Thursday, 01-Mar-74 00:00:00 GMT", "Fri, 01 Mar 1974 00:00:00 GMT"),
    ("Thu, 29 Feb 2024 00:00:00 GMT", "Thursday, 28-Feb-74 00:00:00 GMT", "Wed, 28 Feb 2074 00:00:00 GMT"),
  ])
  func fiftyYearsAheadAreOfTheCenturyBefore(_ now: String, _ text: String, _ expected: String) throws {
    let now = try #require(HTTPDate(now, now: Self.now))
    #expect(HTTPDate(text, now: now)?.text == expected)
  }

  @Test(arguments: [Int64.min, Int64.min + 1, -62_167_219_201, 253_402_300_800, Int64.max]) func extremes(
    _ seconds: Int64
  ) {
    let date = HTTPDate(seconds: seconds)
    #expect(date.text.hasSuffix(" GMT"))
    #expect(HTTPDate("Sunday, 06-Nov-94 08:49:37 GMT", now: date).map { $0.text.hasSuffix("GMT") } != false)
  }
}

@Suite struct NumericFieldTests {
  static let now = HTTPDate(seconds: 784_111_000)

  static let retries: [(String, Int64?)] = [
    ("120", 120), ("0", 0), (" 5 ", 5), ("Sun, 06 Nov 1994 08:49:37 GMT", 777), ("Sat, 05 Nov 1994 08:49:37 GMT", 0),
    ("9223372036854775807", .max), ("9223372036854775808", .max), ("-1", nil), ("+1", nil), ("", nil), ("soon", nil),
    ("Sun, 6 Nov 1994 08:49:37 UTC", 777), ("Sun, 06 Nov 1994 09:49:37 +0100", 777), ("2.0", 2), ("1.5", 2),
    ("0.493", 1), ("0.000", 0), ("9223372036854775807.1", .max), ("1.", nil), (".5", nil),
    ("1.2.3", nil), ("1,5", nil), ("1e3", nil), (".", nil),
  ]

  @Test(arguments: retries) func retryAfter(_ text: String, _ delay: Int64?) {
    #expect(RetryAfter(text, now: Self.now)?.delay(from: Self.now) == delay)
  }

  static let ranges: [(String, ContentRange?)] = [
    ("bytes 0-99/1234", .part(0...99, total: 1234)), ("Bytes 5-5/6", .part(5...5, total: 6)),
    ("bytes 0-99/*", .part(0...99, total: nil)), ("bytes */1234", .unsatisfied(total: 1234)),
    ("bytes */0", .unsatisfied(total: 0)), ("bytes */*", nil), ("bytes 9-5/10", nil), ("bytes 0-10/10", nil),
    ("bytes 0-/10", nil), ("bytes -5/10", nil), ("bytes 0-5", nil), ("bytes=0-5/10", nil), ("items 0-5/10", nil),
    ("bytes 0-5/99999999999999999999", nil), ("bytes 0 - 5/10", nil), ("bytes +0-5/10", nil), ("", nil),
    ("bytes 0-5/10/11", nil),
  ]

  @Test(arguments: ranges) func contentRange(_ text: String, _ expected: ContentRange?) {
    #expect(ContentRange(text) == expected)
  }
}
