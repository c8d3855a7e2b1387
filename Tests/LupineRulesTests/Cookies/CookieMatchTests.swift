import Foundation
import LupineRules
import Testing

@Suite struct CookieMatchTests {
  @Test func table() throws {
    var count = 0
    for line in try CaseFile.lines("cookie-matching.txt") where !line.isEmpty && !line.hasPrefix("#") {
      let words = line.split(separator: " ").map(String.init)
      switch words[0] {
      case "domain":
        let host = try URLReader.read("http://\(words[1])/").host
        #expect(CookieMatch.domain(host, isWithin: words[2]) == (words[3] == "yes"), "\(line)")
      case "path":
        #expect(CookieMatch.path(words[1].utf8, isWithin: words[2]) == (words[3] == "yes"), "\(line)")
      case "default": #expect(CookieMatch.defaultPath(of: words[1]) == words[2], "\(line)")
      default: Issue.record("\(line)")
      }
      count += 1
    }
    #expect(count >= 60)
  }
}

@Suite struct PublicSuffixTests {
  static let list = Result {
    PublicSuffixList(reading: Array(try CaseFile.lines("public-suffixes.dat").joined(separator: "\n").utf8).span)
  }

  @Test func vectors() throws {
    let list = try Self.list.get()
    var count = 0
    for line in try CaseFile.lines("public-suffix-vectors.txt") where line.contains("|") && !line.hasPrefix("#") {
      let parts = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
      let host = try URLReader.read("http://\(parts[0])/").host
      #expect(list.registrableDomain(of: host) == (parts[1] == "-" ? nil : parts[1]), "\(line)")
      #expect(list.isPublic(host) == (parts[1] == "-"), "\(line)")
      count += 1
    }
    #expect(count >= 70)
    #expect(list.skippedLines == 6)
  }

  /// Without a list: names of one label, the usual second labels of countries, a few hosts of strangers.
  @Test(
    arguments: [
      ("com", nil), ("example.com", "example.com"), ("a.b.example.com", "example.com"), ("co.uk", nil),
      ("bbc.co.uk", "bbc.co.uk"), ("www.bbc.co.uk", "bbc.co.uk"), ("CO.UK.", nil), ("com.au", nil), ("or.jp", nil),
      ("x.gov.br", "x.gov.br"), ("t.co", "t.co"), ("web.de", "web.de"), ("co.com", "co.com"), ("github.io", nil),
      ("me.github.io", "me.github.io"), ("www.me.github.io", "me.github.io"), ("localhost", nil),
      ("127.0.0.1", "127.0.0.1"),
    ] as [(String, String?)]) func builtIn(_ row: (String, String?)) throws
  {
    let host = try URLReader.read("http://\(row.0)/").host
    #expect(PublicSuffixList.builtIn.registrableDomain(of: host) == row.1)
  }

  @Test func linesAreReadWhateverTheyAre() {
    let texts = ["", "\n\n", "com", "com\r\nnet\r\n", "\u{0}\u{1}", "com net", "\tcom", "//", "/com", "!", "*", "*."]
    for text in texts {
      let list = PublicSuffixList(reading: Array(text.utf8).span)
      #expect(list.count <= 2)
    }
    let long = Array(repeating: UInt8(ascii: "a"), count: 5 << 20)
    #expect(PublicSuffixList(reading: long.span).count == 0)
  }

  /// The list of the system, where there is one: every line is understood.
  @Test(
    .enabled(
      if: FileManager.default.fileExists(atPath: "/usr/share/publicsuffix/public_suffix_list.dat"),
      "there is no list of public suffixes: apt-get install -y publicsuffix"))
  func theSystemsList() throws {
    let bytes = Array(try Data(contentsOf: URL(filePath: "/usr/share/publicsuffix/public_suffix_list.dat")))
    let list = PublicSuffixList(reading: bytes.span)
    #expect(list.count > 8000)
    #expect(list.skippedLines == 0)
    for (name, expected) in [
      ("www.bbc.co.uk", "bbc.co.uk"), ("co.uk", nil), ("a.b.kobe.jp", "a.b.kobe.jp"), ("city.kobe.jp", "city.kobe.jp"),
      ("me.github.io", "me.github.io"), ("www.ck", "www.ck"), ("x.example.com", "example.com"),
    ] as [(String, String?)] {
      #expect(list.registrableDomain(of: try URLReader.read("http://\(name)/").host) == expected, "\(name)")
    }
  }
}
