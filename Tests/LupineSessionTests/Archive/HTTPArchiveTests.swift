import FoundationEssentials
import Glibc
import HTTPTypes
import LupineRules
import LupineSession
import LupineTesting
import LupineWire
import Testing

@Suite(.timeLimit(.minutes(5))) struct HTTPArchiveTests {
  /// An archive with everything in it, also what is no text.
  static func full() -> HTTPArchive {
    var request = HTTPArchive.Request(method: "POST", url: "https://user:pw@a.example/p?x=1&access_token=abc#f")
    request.fields = [
      .init("Host", "a.example"), .init("Authorization", "Bearer s3cret"), .init("Cookie", "a=1; b=2"),
      .init("X-Key", "k3y", isSensitive: true), .init("X-Odd", "tab\u{9}\u{1b}[31m\u{202e}\u{9b}é"),
    ]
    request.body = [0, 255, 10, 13]
    request.trailers = [.init("X-Sum", "4"), .init("X-Note", "\u{1b}é")]
    request.headerBytes = 120
    request.bodyBytes = 4
    var response = HTTPArchive.Response(status: 200)
    response.reason = "Fine \u{1}"
    response.fields = [
      .init("Content-Type", "text/html"), .init("Content-Encoding", "gzip"),
      .init("Set-Cookie", "sid=s3cret; Path=/; HttpOnly; Secure; Domain=a.example"),
    ]
    response.body = Array("<p>\u{0}\u{7f}\"\\</p>".utf8)
    response.trailers = [.init("X-Sum", "1")]
    response.informational = [.init(status: 103, fields: [.init("Link", "</a>")])]
    response.headerBytes = 90
    response.bodyBytes = 7
    var entry = HTTPArchive.Entry(
      startedAt: Date(timeIntervalSince1970: 1_700_000_000.123), request: request, response: response)
    entry.timings.blocked = .microseconds(1)
    entry.timings.connect = .milliseconds(20)
    entry.timings.tls = .milliseconds(5)
    entry.timings.send = .microseconds(1_500)
    entry.timings.wait = .seconds(2)
    entry.timings.receive = .zero
    entry.serverAddress = "::1"
    entry.connection = "4711"
    entry.isReusedConnection = false
    entry.tls = .init(version: "TLSv1.3", cipher: "TLS_AES_128_GCM_SHA256", isResumed: true)
    entry.comment = "one"
    var failed = HTTPArchive.Entry(
      startedAt: Date(timeIntervalSince1970: 0), request: .init(method: "GET", url: "http://b.example/"), response: nil)
    failed.request.httpVersion = "HTTP/1.1"
    failed.failure = .init(code: "cannotConnect", phase: "connect", message: "no\n")
    failed.timings.send = .zero
    failed.timings.wait = .zero
    failed.timings.receive = .zero
    var archive = HTTPArchive()
    archive.comment = "all"
    archive.entries = [entry, failed]
    return archive
  }

  @Test func readsBackWhatItWrote() throws {
    var archive = Self.full()
    let read = try HTTPArchive(json: archive.json(redactingSecrets: false))
    // What a file does not say.
    archive.entries[0].request.fields[3].isSensitive = false
    let length = archive.entries[0].response?.body?.count
    archive.entries[0].response?.decodedBytes = length.map { Int64($0) }
    #expect(read.entries.count == 2)
    #expect(read.entries[0].request == archive.entries[0].request)
    #expect(read.entries[0].response == archive.entries[0].response)
    #expect(read.entries[0].timings == archive.entries[0].timings)
    #expect(read == archive)
    #expect(read.json(redactingSecrets: false) == archive.json(redactingSecrets: false))
  }

  @Test func secretsAreLeftOutUnlessAskedFor() throws {
    let archive = Self.full()
    let text = String(decoding: archive.json(), as: UTF8.self)
    for secret in ["s3cret", "k3y", "user:pw", "access_token=abc", "\"abc\"", "a=1", "\"value\":\"2\""] {
      #expect(!text.contains(secret), "\(secret)")
    }
    #expect(text.contains("Bearer [redacted]"))
    var marked = archive
    let type = HTTPArchive.Field("Content-Type", "text/x; k=m4rked", isSensitive: true)
    marked.entries[0].request.fields = [type]
    marked.entries[0].response?.fields = [type]
    try #require(marked.entries[0].request.body?.isEmpty == false)
    #expect(!String(decoding: marked.json(), as: UTF8.self).contains("m4rked"))
    #expect(text.contains("sid=[redacted]; Path=/; HttpOnly"))
    #expect(text.contains("https://a.example/p?x=1&access_token=REDACTED#f"))
    #expect(String(decoding: archive.json(redactingSecrets: false), as: UTF8.self).contains("s3cret"))
    #expect(!String(decoding: archive.json(includingBodies: false), as: UTF8.self).contains("<p>"))
  }

  /// As browsers write several fields of a name: each cookie is one, and none is seen.
  @Test func cookiesJoinedByLineFeedsAreEachLeftOut() throws {
    var archive = HTTPArchive()
    var response = HTTPArchive.Response(status: 200)
    response.fields = [.init("set-cookie", "a=s3cret; Path=/\nsid=S3CRET; Path=/x; HttpOnly")]
    archive.entries = [
      .init(startedAt: Date(), request: .init(method: "GET", url: "http://a.example/"), response: response)
    ]
    let bytes = archive.json()
    #expect(!String(decoding: bytes, as: UTF8.self).lowercased().contains("s3cret"))
    let entry = try #require(try JSONReader.read(bytes)["log"]?["entries"]?.array?.first)
    let cookies = try #require(entry["response"]?["cookies"]?.array)
    #expect(cookies.map { $0["name"]?.string } == ["a", "sid"])
    #expect(cookies.map { $0["path"]?.string } == ["/", "/x"])
    #expect(cookies.map { $0["httpOnly"]?.boolean } == [nil, true])
  }

  /// What a server sends takes no time that grows with the square of its length.
  @Test(arguments: [("Set-Cookie", "a=b; p*=1; Path=/"), ("Set-Cookie", "c*=d"), ("Cookie", "e*=f; g=h")])
  func cookiesWithManyMarks(_ name: String, _ value: String) throws {
    let marks = String(repeating: "\u{301}", count: 80_000) + String(repeating: "\u{323}", count: 80_000)
    let field = HTTPArchive.Field(name, value.split(separator: "*").joined(separator: marks))
    var archive = HTTPArchive()
    var response = HTTPArchive.Response(status: 200)
    var request = HTTPArchive.Request(method: "GET", url: "http://a.example/")
    if name == "Cookie" { request.fields = [field] } else { response.fields = [field] }
    archive.entries = [.init(startedAt: Date(), request: request, response: response)]
    // That of the processor: whoever else has it takes none of this one's.
    let start = Self.processorTime
    let text = String(decoding: archive.json(), as: UTF8.self)
    let seconds = Self.processorTime - start
    #expect(seconds < 6 && text.utf8.count > 320_000)
  }

  /// The processor time of the calling thread, in seconds.
  private static var processorTime: Double {
    var time = timespec()
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }

  /// A target that is marked as a secret is one wherever it stands; any other loses what URLs lose.
  @Test(arguments: [(true, "[redacted]"), (false, "http://b.example/?sig=REDACTED")])
  func redirectURLsAreAsSecretAsTheirFields(_ isSensitive: Bool, _ shown: String) throws {
    var archive = HTTPArchive()
    var response = HTTPArchive.Response(status: 302)
    response.fields = [.init("Location", "http://u:p@b.example/?sig=S3CRET", isSensitive: isSensitive)]
    archive.entries = [
      .init(startedAt: Date(), request: .init(method: "GET", url: "http://a.example/"), response: response)
    ]
    let entry = try #require(try JSONReader.read(archive.json())["log"]?["entries"]?.array?.first)
    #expect(entry["response"]?["redirectURL"]?.string == shown)
    #expect(entry["response"]?["headers"]?.array?.first?["value"]?.string == shown)
    let whole = String(decoding: archive.json(redactingSecrets: false), as: UTF8.self)
    #expect(whole.contains(#""redirectURL":"http://u:p@b.example/?sig=S3CRET""#))
  }

  @Test func fileIsHAR12WithoutControlCharacters() throws {
    let bytes = Self.full().json()
    #expect(bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x0A })
    let text = String(decoding: bytes, as: UTF8.self)
    #expect(!text.unicodeScalars.contains { $0 != "\n" && InvisibleText.isUnsafe($0) })
    let log = try #require(try JSONReader.read(bytes)["log"])
    #expect(log["version"]?.string == "1.2")
    #expect(log["creator"]?["name"]?.string == "Lupine")
    let entry = try #require(log["entries"]?.array?.first)
    #expect(entry["startedDateTime"]?.string == "2023-11-14T22:13:20.123Z")
    for name in ["time", "request", "response", "cache", "timings"] { #expect(entry[name] != nil) }
    for name in ["method", "url", "httpVersion", "cookies", "headers", "queryString", "headersSize", "bodySize"] {
      #expect(entry["request"]?[name] != nil)
    }
    for name in [
      "status", "statusText", "httpVersion", "cookies", "headers", "content", "redirectURL", "headersSize", "bodySize",
    ] {
      #expect(entry["response"]?[name] != nil)
    }
    let timings = try #require(entry["timings"])
    #expect(timings["connect"]?.number == 25)
    #expect(timings["ssl"]?.number == 5)
    #expect(timings["blocked"]?.number == 0.001)
    #expect(timings["dns"]?.number == -1)
    let parts = ["blocked", "connect", "send", "wait", "receive"].compactMap { timings[$0]?.number }.reduce(0, +)
    #expect(abs(parts - (entry["time"]?.number ?? 0)) < 0.001)
    #expect(entry["request"]?["postData"]?["_encoding"]?.string == "base64")
    #expect(entry["response"]?["content"]?["compression"]?.number == 4)
  }

  @Test(arguments: [
    (#"{"log":{}}"#, HTTPArchiveError.missing(path: "log.entries")),
    ("[]", .wrongType(path: "the archive", expected: "an object")),
    ("{}", .missing(path: "log")),
    (#"{"log":{"entries":{}}}"#, .wrongType(path: "log.entries", expected: "an array")),
    (#"{"log":{"entries":[{}]}}"#, .missing(path: "log.entries[0].startedDateTime")),
    (
      #"{"log":{"entries":[{"startedDateTime":"yesterday"}]}}"#,
      .invalidValue(path: "log.entries[0].startedDateTime", reason: "is no date")
    ),
    (
      #"{"log":{"entries":[{"startedDateTime":"2020-01-01T00:00:00Z","request":{"method":"GET"}}]}}"#,
      .missing(path: "log.entries[0].request.url")
    ),
    (
      #"{"log":{"entries":[{"startedDateTime":"2020-01-01T00:00:00Z","request":{"method":"GET","url":"u","headers":[{"name":1}]}}]}}"#,
      .wrongType(path: "log.entries[0].request.headers[0].name", expected: "a string")
    ),
    (
      #"{"log":{"entries":[{"startedDateTime":"2020-01-01T00:00:00Z","request":{"method":"GET","url":"u"},"response":{"status":1e99}}]}}"#,
      .invalidValue(path: "log.entries[0].response.status", reason: "is no status")
    ),
    (
      #"{"log":{"entries":[{"startedDateTime":"2020-01-01T00:00:00Z","request":{"method":"GET","url":"u"},"response":{"status":200,"content":{"text":"*","encoding":"base64"}}}]}}"#,
      .invalidValue(path: "log.entries[0].response.content.text", reason: "is not Base64")
    ),
    (
      #"{"log":{"entries":[{"startedDateTime":"2020-01-01T00:00:00Z","request":{"method":"GET","url":"u"},"response":{"status":200,"_informational":[{"status":103},{}]}}]}}"#,
      .missing(path: "log.entries[0].response._informational[1].status")
    ),
    (#"{"log":[]}"#, .wrongType(path: "log", expected: "an object")),
    ("{", .notJSON(reason: "a member's name is expected", offset: 1)),
  ]) func refusesWithItsPlace(_ text: String, _ error: HTTPArchiveError) {
    #expect(throws: error) { try HTTPArchive(json: Array(text.utf8)) }
  }

  @Test func limitsHold() throws {
    var limits = HTTPArchive.ReadingLimits()
    limits.bytes = 10
    #expect(throws: HTTPArchiveError.tooLarge(limit: 10)) {
      try HTTPArchive(json: [UInt8](repeating: 0x20, count: 11), limits: limits)
    }
    let deep = Array(("{\"log\":" + String(repeating: "[", count: 100_000)).utf8)
    let error = #expect(throws: HTTPArchiveError.self) { try HTTPArchive(json: deep) }
    guard case .notJSON? = error else { return #expect(Bool(false), "\(String(describing: error))") }
    let full = Self.full().json()
    limits = HTTPArchive.ReadingLimits()
    limits.entries = 1
    #expect(throws: HTTPArchiveError.tooManyEntries(limit: 1)) { try HTTPArchive(json: full, limits: limits) }
    limits = HTTPArchive.ReadingLimits()
    limits.fields = 4
    #expect(throws: HTTPArchiveError.tooManyFields(limit: 4, path: "log.entries[0].request.headers")) {
      try HTTPArchive(json: full, limits: limits)
    }
    limits = HTTPArchive.ReadingLimits()
    limits.values = 20
    #expect(throws: HTTPArchiveError.self) { try HTTPArchive(json: full, limits: limits) }
  }

  /// What has many combining marks, and where that is refused.
  static let marked: [(String, String?)] = [
    ("method", "log.entries[0].request.method"), ("url", "log.entries[0].request.url"),
    ("name", "log.entries[0].request.headers[0].name"), ("value", nil),
  ]

  /// Who plays an archive looks for methods and URLs, and who shows it for names: that takes the square of the number of marks. Values may have any.
  @Test(arguments: marked) func combiningMarksAreLimited(_ place: String, _ path: String?) throws {
    func text(_ own: String, _ count: Int) -> String {
      "a" + (own == place ? String(repeating: "\u{301}", count: count) : "")
    }
    func archive(_ count: Int) -> [UInt8] {
      let request = """
        {"method":"\(text("method", count))","url":"\(text("url", count))",
        "headers":[{"name":"\(text("name", count))","value":"\(text("value", count))"}]}
        """
      let entry = #"{"startedDateTime":"2026-11-21T12:00:00Z","request":\#(request)}"#
      return Array(#"{"log":{"entries":[\#(entry)]}}"#.utf8)
    }
    let allowed = try HTTPArchive(json: archive(256))
    #expect(allowed.entries.count == 1)
    let many = archive(257)
    guard let path else {
      let read = try HTTPArchive(json: many)
      #expect(read.entries.first?.request.fields.first?.value.utf8.count == 515)
      return
    }
    let reason = "has more than 256 combining marks in a row"
    #expect(throws: HTTPArchiveError.invalidValue(path: path, reason: reason)) { try HTTPArchive(json: many) }
  }

  @Test func readsWhatABrowserWrites() throws {
    let text = """
      \u{feff}{"log":{"version":"1.2","creator":{"name":"WebInspector","version":"537.36"},"pages":[],"entries":[
      {"_initiator":{"type":"other"},"cache":{},"connection":"443","request":{"method":"GET","url":"https://a.example/?q=1",
      "httpVersion":"http/2.0","headers":[{"name":":authority","value":"a.example"}],"queryString":[],"cookies":[],
      "headersSize":-1,"bodySize":0},"response":{"status":200,"statusText":"","httpVersion":"http/2.0",
      "headers":[{"name":"set-cookie","value":"a=1\\nb=2"}],"cookies":[],"content":{"size":5,"mimeType":"text/plain","text":"aGVsbG8=",
      "encoding":"base64"},"redirectURL":"","headersSize":-1,"bodySize":-1,"_transferSize":77,"_error":null},
      "serverIPAddress":"[::1]","startedDateTime":"2026-11-21T14:00:00.5+02:00","time":12.3,
      "timings":{"blocked":1.5,"dns":-1,"ssl":-1,"connect":-1,"send":0.1,"wait":10,"receive":0.7,"_blocked_queueing":1}}]}}
      """
    let entry = try #require(try HTTPArchive(json: Array(text.utf8)).entries.first)
    #expect(entry.response?.body == Array("hello".utf8))
    #expect(entry.startedAt == Date(timeIntervalSince1970: 1_795_262_400.5))
    #expect(entry.timings.wait == .milliseconds(10))
    #expect(entry.timings.connect == nil)
    #expect(entry.response?.headerBytes == nil)
  }

  @Test(arguments: [
    ("2026-11-21T12:00:00Z", 1_795_262_400_000), ("1970-01-01T00:00:00.001Z", 1),
    ("2000-02-29T23:59:59.999Z", 951_868_799_999),
    ("2026-11-21T14:00:00.123456+02:00", 1_795_262_400_123), ("1969-12-31T23:59:59Z", -1_000),
    ("0000-01-01T00:00:00Z", -62_167_219_200_000), ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
  ]) func dates(_ text: String, _ milliseconds: Int64) {
    #expect(InternetDate.milliseconds(text) == milliseconds)
    #expect(InternetDate.milliseconds(InternetDate.text(milliseconds: milliseconds)) == milliseconds)
  }

  @Test(arguments: [
    "", "2026", "2026-13-01T00:00:00Z", "2026-02-29T00:00:00Z", "2026-01-01T24:00:00Z", "2026-01-01T00:00:00.Z",
    "2026-01-01T00:00:00+2:00", "2026-01-01T00:00:00Zx", "2026-1-1T00:00:00Z",
  ]) func noDates(_ text: String) {
    #expect(InternetDate.milliseconds(text) == nil)
  }

  @Test(arguments: [
    ("http://u:p@h/x", "http://h/x"), ("http://u@p@h", "http://h"), ("//u:p@h/", "//h/"), ("/a@b", "/a@b"),
    ("http://h/?sig=1&x=2", "http://h/?sig=REDACTED&x=2"),
    ("http://h/?Access_Token=#a=b", "http://h/?Access_Token=#a=b"),
    ("http://h/?a&b=1", "http://h/?a&b=1"), ("http://h\\@evil/", "http://h\\@evil/"), ("", ""),
    ("?access%5Ftoken=x&%53ig=y&s%69=z", "?access%5Ftoken=REDACTED&%53ig=REDACTED&s%69=z"),
    ("?sig=x", "?sig=REDACTED"), ("#sig=x&a=?&id_token=y#z", "#sig=REDACTED&a=?&id_token=REDACTED"),
    ("http://h/?sig=1#sig=2&b", "http://h/?sig=REDACTED#sig=REDACTED&b"), ("/#/a?sig=1&b=2", "/#/a?sig=REDACTED&b=2"),
    ("/#/a;id=5?access_token=1&b=2", "/#/a;id=5?access_token=REDACTED&b=2"),
    ("/?sig=1?2#/?sig=3?4", "/?sig=REDACTED#/?sig=REDACTED"), ("/?a=1;sig=2", "/?a=1;sig=REDACTED"),
    ("/?a=1?sig=2", "/?a=1?sig=REDACTED"), ("#a=1;id_token=y", "#a=1;id_token=REDACTED"),
    ("/#/a?b=1#access_token=2", "/#/a?b=1#access_token=REDACTED"), ("/?a=1;b;c=;sig=2;d=3", "/?a=1;b;c=;sig=REDACTED"),
    ("/?a=1;sig=&b=2;c=3", "/?a=1;sig=&b=2;c=3"),
    ("?\u{301}sig=\u{301}x", "?\u{301}sig=\u{301}x"), ("?sig=\u{301}x", "?sig=REDACTED"), ("/a#b", "/a#b"),
  ]) func urlsLoseTheirSecrets(_ url: String, _ redacted: String) {
    #expect(SecretText.redacted(url: url) == redacted)
  }

  /// The path of a socket is no IP address, and nothing tells its connections apart.
  @Test func unixSocketsHaveNoAddress() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    try await withServer(address: .unix(path), configure: { $0.unixSocketPath = path }) { session, _ in
      let request = try Request("http://any.example/hello")
      let (body, response) = try await session.data(for: request)
      #expect(response.metrics.transactions.first?.remoteAddress == "unix:\(path)")
      var archive = HTTPArchive()
      archive.append(request, response: response, body: body)
      let entry = try #require(archive.entries.first)
      #expect(entry.response?.status == 200 && entry.serverAddress == nil && entry.connection == nil)
    }
  }

  @Test func exchangesOfATaskBecomeEntries() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 2\r\n\r\nxx"), .readHead,
        .send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"), .send(reply("end", "X-A: b\r\n")), .close,
      ]
    ]) { session, server in
      var request = try Request(server.url("/start?a=%20b"))
      request.fields[.authorization] = "Basic eDp5"
      let (body, response) = try await session.data(for: request)
      var archive = HTTPArchive()
      archive.append(request, response: response, body: body)
      let error = try await failure { try await session.data(from: "http://127.0.0.1:1/") }
      archive.append(try Request("http://127.0.0.1:1/"), error: error)
      #expect(archive.entries.count == 3)
      let (first, second, third) = (archive.entries[0], archive.entries[1], archive.entries[2])
      #expect(first.request.url == server.url("/start?a=%20b"))
      #expect(first.response?.status == 302)
      #expect(first.response?.first(named: "location") == "/next")
      #expect(first.response?.bodyBytes == 2)
      #expect(first.request.first(named: "authorization") == "Basic eDp5")
      #expect(second.request.url == server.url("/next"))
      #expect(second.response?.body == Array("end".utf8))
      #expect(second.response?.informational.map(\.status) == [103])
      #expect(second.isReusedConnection == true)
      #expect(second.serverAddress == "127.0.0.1")
      #expect(second.connection == first.connection)
      #expect(third.response == nil)
      #expect(third.failure?.code == "cannotConnect")
      #expect(abs(first.startedAt.timeIntervalSinceNow) < 60)
      #expect(first.startedAt <= second.startedAt)
      let read = try HTTPArchive(json: archive.json())
      #expect(read.entries.map(\.request.method) == ["GET", "GET", "GET"])
    }
  }
}
