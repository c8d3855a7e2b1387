import LupineCommandLine
import LupineSession
import Testing

@testable import lupine

/// What is taken over from curl's command line, and what only looks like it.
@Suite struct CurlFormsTests {
  @Test func overrides() throws {
    #expect(
      try NameOverrides.read(["api.example:443:127.0.0.1", "B.example:80:::1", "[::2]:81:[fe80::1]"]) == [
        "api.example:443": "127.0.0.1:443", "b.example:80": "[::1]:80", "[::2]:81": "[fe80::1]:81",
      ])
    #expect(try NameOverrides.read([]) == [:])
    #expect(try NameOverrides.read(["a:1:127.0.0.1", "A:1:127.0.0.1"]) == ["a:1": "127.0.0.1:1"])
    for text in [
      "", "a", "a:80", "a:80:", "a:80:b.example", "a::127.0.0.1", ":80:127.0.0.1", "a:0x50:127.0.0.1", "a:65536:::1",
      "*:80:127.0.0.1,::1", "a:80:127.0.0.1:8080", "a b:80:::1", "-a:80", "[::1:80:::1",
    ] {
      #expect(throws: CommandFailure.self, "\(text)") { try NameOverrides.read([text]) }
    }
    #expect(throws: CommandFailure.self) { try NameOverrides.read(["a:1:127.0.0.1", "A:1:127.0.0.2"]) }
  }

  @Test func formats() throws {
    #expect(try WriteOut("").parts == [])
    #expect(try WriteOut(#"a%%b\n\t\r\\\x%x"#).parts == [.text("a%b\n\t\r\\\\x%x")])
    #expect(
      try WriteOut("%{http_code} %{time_total}\\n").parts
        == [.variable(.httpCode), .text(" "), .variable(.timeTotal), .text("\n")])
    for format in ["%{", "%{http_code", "%{nope}", "%{}", "%{HTTP_CODE}"] {
      #expect(throws: WriteOut.Refusal.self, "\(format)") { try WriteOut(format) }
      #expect(throws: CommandFailure.self, "\(format)") { try WriteOut.read(format) }
    }
    let unknown = #expect(throws: WriteOut.Refusal.self) { try WriteOut("%{nope}") }
    for variable in WriteOut.Variable.allCases {
      #expect(unknown?.message.contains("%{\(variable.rawValue)}") == true)
    }
    // With a mark behind it a sign is one character together with it, and still a sign.
    #expect(
      try WriteOut("%%\u{301}%{http_code}\u{301}\\n\u{301}").parts
        == [.text("%\u{301}"), .variable(.httpCode), .text("\u{301}\n\u{301}")])
    let long = #expect(throws: WriteOut.Refusal.self) {
      try WriteOut("%{\u{1B}\(String(repeating: "x", count: 10_000))}")
    }
    #expect(long.map { $0.message.utf8.count < 1_000 && !$0.message.contains("\u{1B}") } == true)
  }

  @Test func valuesOfATransferThatHasFailed() throws {
    let all = WriteOut.Variable.allCases.map { "%{\($0.rawValue)}" }.joined(separator: "|")
    let text = try WriteOut(all).text(WriteOut.Facts(url: "http://a/\u{1B}"), isForTerminal: false)
    #expect(text == "000|000|0.000000|0.000000|0.000000|0.000000|0.000000|0|0|http://a/\u{1B}||")
    let shown = try WriteOut("%{url_effective}").text(WriteOut.Facts(url: "http://a/\u{1B}"), isForTerminal: true)
    #expect(!shown.contains("\u{1B}"))
  }

  /// The letters that are warned of, by the command line.
  @Test(arguments: [
    ("-b sid=1 https://a.example", "-b"), ("https://a.example -b a=1;b=2", "-b"), ("https://a.example -b", ""),
    ("-b https://a.example/?a=1", ""), ("-b cookies.txt", ""), ("https://a.example -b X-A:1", ""),
    ("-F f=@x https://a.example", "-F"), ("https://a.example -F name=value", "-F"),
    ("-F https://a.example/?q=1", ""), ("https://a.example -F q==1", ""), ("https://a.example -F n:=1", ""),
    ("-d a=b https://a.example", "-d"), (#"-d {"a":1} https://a.example"#, "-d"), ("-d @file a.example", "-d"),
    ("-d [1] a.example", "-d"), ("-d https://a.example/f?a=b", ""), ("-d :8080/f=1", ""), ("-d a.example/x=1", ""),
    ("a.example -d -o x=y", ""), ("-d =x", ""), ("-d", ""), ("-- -d a=b", ""),
    ("-F a=b -F c=d -b e=f -d g=h u", "-F-b-d"), ("-dF a=b", ""), ("--download a=b", ""),
  ]) func habitsOfCurl(_ line: String, _ letters: String) {
    let warnings = CurlHabits.warnings(line.split(separator: " ").map(String.init))
    #expect(warnings.map { String($0.prefix(2)) }.joined() == letters, "\(warnings)")
    #expect(!warnings.contains { $0.contains("a=1") || $0.contains("sid=1") || $0.contains("{\"") })
  }

  @Test func valuesOfHabitsAreNotRepeated() {
    let warnings = CurlHabits.warnings(["-b", "sid=s3cret", "-d", "pw=s3cret", "-F", "pw=s3cret"])
    #expect(warnings.count == 3 && !warnings.joined().contains("s3cret"))
  }
}
