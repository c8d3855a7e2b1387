import LupineRules
import Testing

@testable import lupine

@Suite struct ItemTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var text: String
    var item: RequestItem

    var testDescription: String { text }
  }

  static let cases = [
    Case(text: "X-A:1", item: .header(name: "X-A", value: "1")),
    Case(text: "Accept:", item: .header(name: "Accept", value: "")),
    Case(text: "Accept;", item: .emptyHeader(name: "Accept")),
    Case(text: "Referer:http://a/b==c", item: .header(name: "Referer", value: "http://a/b==c")),
    Case(text: "q==a=b", item: .query(name: "q", value: "a=b")),
    Case(text: "q==", item: .query(name: "q", value: "")),
    Case(text: "name=value:x@y", item: .field(name: "name", value: "value:x@y")),
    Case(text: "age:=29", item: .json(name: "age", value: .number("29"))),
    Case(text: "f:=[1,true]", item: .json(name: "f", value: .array([.number("1"), .boolean(true)]))),
    Case(text: "text=@note", item: .field(name: "text", value: "<note>")),
    Case(text: "doc:=@json", item: .json(name: "doc", value: .string("json"))),
    Case(text: "photo@cat.png", item: .file(name: "photo", path: "cat.png", type: nil)),
    Case(text: "photo@cat;type=image/png", item: .file(name: "photo", path: "cat", type: "image/png")),
    Case(text: #"photo@a\;type=b"#, item: .file(name: "photo", path: "a;type=b", type: nil)),
    Case(text: #"photo@a\;type=b;type=c\;d"#, item: .file(name: "photo", path: "a;type=b", type: "c;d")),
    Case(text: #"photo@a\b\\;type=c"#, item: .file(name: "photo", path: #"a\b\;type=c"#, type: nil)),
    Case(text: "@body.bin", item: .body(path: "body.bin")),
    Case(text: #"a\:b:c"#, item: .header(name: "a:b", value: "c")),
    Case(text: #"a\=b=c\:d"#, item: .field(name: "a=b", value: "c:d")),
    Case(text: #"path=C:\x"#, item: .field(name: "path", value: #"C:\x"#)),
    Case(text: "ключ=значение", item: .field(name: "ключ", value: "значение")),
    // A mark that a value begins with is one character with the sign before it.
    Case(text: "tone=\u{1F3FD}", item: .field(name: "tone", value: "\u{1F3FD}")),
    Case(text: "q=\u{301}a:b=c", item: .field(name: "q", value: "\u{301}a:b=c")),
    Case(text: "q==\u{301}", item: .query(name: "q", value: "\u{301}")),
    Case(text: "X-A:\u{301}", item: .header(name: "X-A", value: "\u{301}")),
    Case(text: "@\u{301}.bin", item: .body(path: "\u{301}.bin")),
    Case(text: "a\\=\u{301}=b", item: .field(name: "a=\u{301}", value: "b")),
  ]

  @Test(arguments: cases) func reads(_ example: Case) throws {
    let item = try RequestItem(example.text) { path in
      Array((path == "json" ? #""json""# : "<\(path)>").utf8)
    }
    #expect(item == example.item)
  }

  @Test func refusesBytesThatAreNoText() {
    #expect(
      throws: CommandFailure.misuse("bin is no UTF-8 text, which a field has to be; name@file sends a file as it is")
    ) { try RequestItem("n=@bin") { _ in [0xFF, 0xFE] } }
  }

  /// As other tools take them: nothing behind the colon is a sign.
  @Test(
    arguments: [
      (#"X-A: \:\=\@\;"#, .header(name: "X-A", value: #" \:\=\@\;"#)), ("X-A:=1", .header(name: "X-A", value: "=1")),
      ("X-A:=@-", .header(name: "X-A", value: "=@-")), ("X-A:a==b", .header(name: "X-A", value: "a==b")),
      ("X-A:", .header(name: "X-A", value: "")), ("X-A;", .emptyHeader(name: "X-A")),
      ("X-A:\u{301}", .header(name: "X-A", value: "\u{301}")), ("X-A", nil), ("a=@-", nil), (":x", nil), ("", nil),
    ] as [(String, RequestItem?)]) func headersOfTheOption(_ text: String, _ item: RequestItem?) throws
  {
    if let item {
      #expect(try RequestItem(header: text) == item)
    } else {
      #expect(throws: CommandFailure.self) { try RequestItem(header: text) }
    }
  }

  @Test func partsAreReadByScalars() throws {
    #expect(try RequestItem(part: "tone=\u{1F3FD}=") == .field(name: "tone", value: "\u{1F3FD}="))
    #expect(try RequestItem(part: "f@\u{301}=x") == .file(name: "f", path: "\u{301}=x", type: nil))
  }

  @Test(arguments: [("@\u{301}x", "\u{301}x"), ("@", ""), ("x@", nil), ("", nil)] as [(String, String?)])
  func pathsFollowTheSign(_ text: String, _ path: String?) {
    #expect(text.pathBehindAt == path)
  }

  /// Also the Greek question mark, which equals a semicolon to Swift.
  @Test(arguments: ["plain", "", "Accept\u{37E}", ":x", "=x", "==x", "a:=nope", "a:=1 2", "a@", "@"])
  func refuses(_ text: String) {
    #expect { try RequestItem(text) } throws: { ($0 as? CommandFailure)?.status == .misuse }
  }
}

@Suite struct TargetTests {
  @Test(arguments: [
    (":8080/path", "http://localhost:8080/path"), (":/path", "http://localhost/path"), (":", "http://localhost"),
    (":8080", "http://localhost:8080"), ("example.com", "http://example.com"),
    ("example.com:81/a?b=http://c", "http://example.com:81/a?b=http://c"), ("//h/p", "http://h/p"),
    ("https://h/p", "https://h/p"), ("HTTPS://h", "HTTPS://h"), ("[::1]:80/", "http://[::1]:80/"),
    ("localhost/x", "http://localhost/x"), ("ftp://h/", "ftp://h/"),
  ]) func expandsShorthand(_ text: String, _ url: String) {
    #expect(Target.expanded(text) == url)
  }

  @Test(
    arguments: [
      (["h"], nil, "http://h", []), (["GET", "h"], "GET", "http://h", []),
      (["get", "h", "a=b"], "GET", "http://h", ["a=b"]),
      (["localhost", "a=b"], nil, "http://localhost", ["a=b"]), (["PURGE", "h"], "PURGE", "http://h", []),
      (["GET"], nil, "http://GET", []), (["h", "X:1", "q==2"], nil, "http://h", ["X:1", "q==2"]),
    ] as [([String], String?, String, [String])])
  func tellsMethodFromURL(_ arguments: [String], _ method: String?, _ url: String, _ items: [String]) throws {
    let target = try Target(arguments)
    #expect(target.method == method)
    #expect(target.url == url)
    #expect(target.items == items)
  }

  @Test func refusesNothing() {
    #expect(throws: CommandFailure.self) { try Target([]) }
  }

  @Test(arguments: [
    ("http://h/", "http://h/?a%20b=c%26d"), ("http://h/?x=1", "http://h/?x=1&a%20b=c%26d"),
    ("http://h/?", "http://h/?a%20b=c%26d"), ("http://h/?\u{301}", "http://h/?\u{301}&a%20b=c%26d"),
    ("http://h/#\u{301}", "http://h/?a%20b=c%26d#\u{301}"), ("http://h/p#f", "http://h/p?a%20b=c%26d#f"),
  ]) func addsQueries(_ url: String, _ result: String) {
    #expect(Target.adding([("a b", "c&d")], to: url) == result)
  }
}
