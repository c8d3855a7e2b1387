import HTTPTypes
import LupineCommandLine
import LupineRules
import LupineSession
import Testing

@Suite struct BatchLineTests {
  private func read(_ text: String) throws -> BatchLine {
    try BatchLine(try BatchLine.json(Array(text.utf8)), inheritedExceptions: "inherited")
  }

  private func refusal(_ text: String) -> BatchRefusal? {
    do {
      _ = try read(text)
      return nil
    } catch {
      return error as? BatchRefusal
    }
  }

  /// Readers differ in which of two members with one name they take.
  @Test(
    arguments: [
      (#""url":"http://other/""#, "\"url\" is there twice"),
      (#""method":"PUT","method":"PUT""#, "\"method\" is there twice"),
      (#""id":1,"id":2"#, "\"id\" is there twice"),
      (#""proxy":{"url":"http://p/","tunnel":true,"tunnel":false}"#, "\"proxy.tunnel\" is there twice"),
      (#""auth":{"user":"a","user":"b"}"#, "\"auth\" has \"user\" twice"),
      (#""resolve":{"a:1":"b:2","a:1":"c:3"}"#, "\"resolve\" has \"a:1\" twice"),
      (#""multipart":[{"name":"a","value":"b","value":"c"}]"#, "\"multipart[0]\" has \"value\" twice"),
    ] as [(String, String)]) func membersThatAreThereTwiceAreRefused(_ members: String, _ message: String)
  {
    #expect(refusal(#"{"url":"http://h/",\#(members)}"#)?.message == message)
  }

  /// U+212A is the same as the letter K to Unicode, and so to `String`.
  @Test func anotherSpellingIsAnotherMember() {
    #expect(
      refusal("{\"url\":\"http://h/\",\"client\u{212A}ey\":\"k\",\"clientCert\":\"c\"}")?.message
        == "\"client\u{212A}ey\" is no member of a request")
  }

  /// `HTTPFields` ends the process where there are too many, and every request of the batch with it.
  @Test(arguments: ["", "proxy."]) func moreFieldsThanALimitAreRefused(_ path: String) throws {
    func json(_ count: Int) -> JSONValue {
      let headers = JSONValue.Member("headers", .pairs(Array(repeating: (name: "a", value: "b"), count: count)))
      let url = JSONValue.Member("url", .string("http://h/"))
      return path.isEmpty
        ? .object([url, headers]) : .object([url, JSONValue.Member("proxy", .object([url, headers]))])
    }
    let fits = try BatchLine(json(BatchLine.fieldLimit), inheritedExceptions: "")
    #expect(fits.request.fields.count == (path.isEmpty ? BatchLine.fieldLimit : 0))
    for count in [BatchLine.fieldLimit + 1, 70_000] {
      let error = #expect(throws: BatchRefusal.self) { try BatchLine(json(count), inheritedExceptions: "") }
      #expect(error?.message == "\"\(path)headers\" has more than 1000 fields")
    }
  }

  /// Each of them takes far more memory than its two bytes, and many lines are read at a time.
  @Test func valuesAreLimited() throws {
    func text(_ count: Int) -> String { "[" + String(repeating: "0,", count: count - 2) + "0]" }
    #expect(refusal(text(BatchLine.valueLimit))?.message == "a request is an object, not an array")
    let error = #expect(throws: JSONError.self) {
      try BatchLine.json(Array(text(BatchLine.valueLimit + 1).utf8))
    }
    #expect(error?.reason == "too many values")
  }

  /// A line may be as long as a body, and a result is shown on a terminal.
  @Test func messagesAreShortAndPlain() throws {
    let long = String(repeating: "x", count: 5_000)
    for members in [
      #""\#(long)":1"#, #""method":"\#(long) ""#, #""headers":[["\#(long) ","a"]]"#, #""headers":[["\#(long)","\n"]]"#,
      #""resolve":{"\#(long)":1}"#, #""proxy":{"url":"\#(long)://h"}"#,
    ] {
      let message = try #require(refusal(#"{"url":"http://h/",\#(members)}"#)).message
      #expect(message.utf8.count <= BatchRefusal.lengthLimit, "\(members.prefix(20))")
    }
    #expect(
      refusal(#"{"url":"http://h/","method":"a\u001b[2J\u202e"}"#)?.message
        == #""method" is no token: "a\u001b[2J\u202e""#)
    #expect(
      refusal(#"{"url":"http://h/","headers":[["Authorization: Bearer secret",""]]}"#)?.message
        == #""headers": "Authorization:" is no name for a header field"#)
  }

  /// What is nested is named with what it stands in.
  @Test(
    arguments: [
      (#""proxy":{"url":"http://p/","auth":{"type":"none"}}"#, "\"proxy.auth.type\" is any, basic, digest or bearer"),
      (#""proxy":{"url":"http://p/","tunnel":1}"#, "\"proxy.tunnel\" must be a boolean, not a number"),
      (#""cookieFile":"a\u0000b""#, "\"cookieFile\" has a NUL, which no path has"),
      (#""multipart":[{"name":"a","file":"\u0000"}]"#, "a \"file\" of \"multipart\" has a NUL, which no path has"),
      (
        #""multipart":[{"name":"a","file":"b","type":"c/d\nX: y"}]"#,
        "a \"type\" of \"multipart\" has a line end, which no media type has"
      ),
      (#""timeout":1e400"#, "\"timeout\" must be a number of seconds above 0 and below 1000000000"),
      (#""maxRedirects":9223372036854775808"#, "\"maxRedirects\" must be an integer from 0 on"),
      (#""maxRedirects":-1"#, "\"maxRedirects\" must be an integer from 0 on"),
      (#""maxBodyBytes":1.\#(String(repeating: "0", count: 70))"#, "\"maxBodyBytes\" has more than 64 digits"),
    ] as [(String, String)]) func refusalsNameTheirMember(_ members: String, _ message: String)
  {
    #expect(refusal(#"{"url":"http://h/",\#(members)}"#)?.message == message)
  }

  /// As a `Double` it would be one less.
  @Test func integersAreExact() throws {
    let request = try read(#"{"url":"http://h/","maxBodyBytes":9007199254740993,"maxRedirects":1e1}"#).request
    #expect(request.maximumBufferedBodySize == 9_007_199_254_740_993 && request.redirects?.limit == 10)
  }

  @Test func aWholeLine() throws {
    let line = try read(
      #"{"url":"http://h/p?q","method":"PUT","headers":[["X-A"," 1 "],["Expect","100-continue"]],"secrets":["x-a"],"#
        + #""multipart":[{"name":"a","value":"b"},{"name":"c","file":"d","type":"e/f"}],"chunked":true,"#
        + #""cookieFile":"jar","pins":["p"],"auth":{"type":"digest","user":"u","password":"w"},"#
        + #""proxy":{"url":"http://p:81","tunnel":true},"outputFile":"o"}"#)
    let request = line.request
    #expect(request.urlString == "http://h/p?q" && request.method == .put && request.expectsContinue)
    #expect(request.fields.map { "\($0.name.rawName)=\($0.value)" } == ["X-A=1"])
    #expect(request.sensitiveFields.map(\.canonicalName) == ["x-a"])
    #expect(request.credential?.user == "u" && request.credential?.schemes == .digest)
    #expect(
      line.body
        == .form([.value(name: "a", "b"), .file(name: "c", path: "d", fileName: nil, type: "e/f")]))
    #expect(line.isChunked && line.file?.path == "o")
    #expect(line.settings.cookies == .file(path: "jar") && line.settings.pins == ["p"])
    guard case .proxy(let proxy, let exceptions) = request.proxy else {
      Issue.record("no proxy")
      return
    }
    #expect(proxy.urlString.hasSuffix("//p:81") && proxy.tunnelsPlaintext && exceptions == "inherited")
  }

  /// Memory stays bounded while a line that is too long goes by, whatever the pieces.
  @Test(arguments: [1, 2, 3, 100]) func lines(_ size: Int) {
    let text = Array("one\r\n\n \t\nlonger than 8\n12345678\n1234567\r\n12345678\r\nlast".utf8)
    var lines = BatchLines(limit: 8)
    var found: [BatchLines.Line] = []
    for start in stride(from: 0, to: text.count, by: size) {
      let piece = Array(text[start..<min(text.count, start + size)])
      var index = 0
      while let line = lines.next(in: piece, from: &index) { found.append(line) }
    }
    if let line = lines.rest() { found.append(line) }
    #expect(
      found == [
        .text(number: 1, Array("one".utf8)), .tooLong(number: 4), .text(number: 5, Array("12345678".utf8)),
        .text(number: 6, Array("1234567".utf8)), .tooLong(number: 7), .text(number: 8, Array("last".utf8)),
      ])
    let rest = lines.rest()
    #expect(rest == nil)
  }

  /// Nothing is rounded to an integer, and no integer to another one.
  @Test(
    arguments: [
      ("9007199254740993.0", 9_007_199_254_740_993), ("9007199254740993e0", 9_007_199_254_740_993),
      ("9007199254740992.4", nil), ("1.00000000000000000001", nil), ("1e3", 1_000), ("1.50E+1", 15), ("1.5", nil),
      ("1200e-2", 12), ("120e-2", nil), ("0e-9", 0), ("-0.0", 0), ("1e19", nil), ("1e999999999999999999999", nil),
      ("0.0000012e7", 12), ("9223372036854775807.0", .max), ("-1.0", nil),
    ] as [(String, Int?)]) func integersAreWhatTheyAre(_ number: String, _ expected: Int?) throws
  {
    let line = try? read(#"{"url":"http://h/","maxBodyBytes":\#(number)}"#)
    #expect(line?.request.maximumBufferedBodySize == expected)
  }
}
