import LupineRules
import Testing

@Suite struct URLResolutionTests {
  /// RFC 3986 section 5.4.1 and 5.4.2 against `http://a/b/c/d;p?q`. An authority without a path is written with `/` here.
  static let vectors: [(String, String)] = [
    ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"), ("/g", "http://a/g"),
    ("//g", "http://g/"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
    ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
    (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"),
    ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
    ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
    ("../../g", "http://a/g"),
    ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"), ("/./g", "http://a/g"), ("/../g", "http://a/g"),
    ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"), ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"),
    ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"),
    ("g/../h", "http://a/b/c/h"), ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"),
    ("g?y/./x", "http://a/b/c/g?y/./x"), ("g?y/../x", "http://a/b/c/g?y/../x"),
    ("g#s/./x", "http://a/b/c/g#s/./x"), ("g#s/../x", "http://a/b/c/g#s/../x"),
    // Not in the RFC:
    ("//g?q", "http://g/?q"), ("//g:81#f", "http://g:81/#f"), ("https://h/../x", "https://h/x"),
    ("/a/..//../b", "http://a/b"), ("..//", "http://a/b//"), ("a:b", "a:b"), ("./a:b", "http://a/b/c/a:b"),
    ("g h", "http://a/b/c/g%20h"), ("?", "http://a/b/c/d;p?"), ("#", "http://a/b/c/d;p?q#"),
  ]

  @Test(arguments: vectors) func resolves(_ reference: String, _ expected: String) throws {
    let base = try URLReader.read("http://a/b/c/d;p?q")
    guard !expected.hasPrefix("a:") else {
      #expect(throws: URLRefusal.unsupportedScheme("a")) { try URLReader.resolve(reference, against: base) }
      return
    }
    #expect(try URLReader.resolve(reference, against: base).absoluteString == expected)
  }

  @Test func schemesOfReferencesAreNeverIgnored() throws {
    let base = try URLReader.read("http://a/b/c/d;p?q")
    #expect(throws: URLRefusal.unsupportedScheme("g")) { try URLReader.resolve("g:h", against: base) }
    #expect(throws: URLRefusal.missingAuthority) { try URLReader.resolve("http:g", against: base) }
  }

  @Test func userinfoGoesWithItsAuthority() throws {
    let base = try URLReader.read("http://u:p@a/b")
    #expect(try URLReader.resolve("/c", against: base).userinfo == "u:p")
    #expect(try URLReader.resolve("//a/c", against: base).userinfo == nil)
  }

  /// Whom a URL addresses is known of the base; userinfo goes with the base, and is no part of that.
  @Test func whatIsResolvedSharesTheSiteOfItsBase() throws {
    let base = try URLReader.read("http://user@a:8080/b/c")
    for reference in ["", "d", "/d?e#f", "?x"] {
      let url = try URLReader.resolve(reference, against: base)
      #expect(url.site === base.site)
      #expect(url.origin == base.origin && url.authority == base.authority && url.userinfo == base.userinfo)
    }
    for other in ["http://a:8081/", "https://a:8080/", "//user@b:8080/"] {
      let url = try URLReader.resolve(other, against: base)
      #expect(url.site !== base.site && url.origin != base.origin)
    }
    #expect(base.userinfo == "user" && base.withoutUserinfo.userinfo == nil)
    #expect(base.withoutUserinfo.origin == base.origin)
  }

  @Test func partsStayApart() throws {
    let base = try URLReader.read("http://a/b?c")
    let url = try URLReader.resolve("?x/y?z", against: base)
    #expect(url.path == "/b")
    #expect(url.query == "x/y?z")
    #expect(try URLReader.resolve("", against: base) == base)
  }

  @Test(arguments: ["/..\r\nHost: evil", "a\u{0}b", "//h\r/", "?\n"]) func refusesControls(_ reference: String) throws {
    let base = try URLReader.read("http://a/")
    #expect(throws: URLRefusal.self) { try URLReader.resolve(reference, against: base) }
  }

  /// Go CVE-2025-61724 and CVE-2026-56860. Quadratic work on these lengths would take minutes, not milliseconds.
  @Test(.timeLimit(.minutes(1)), arguments: ["../", "./", "a/../", "b//", "a/b/../../", "..", "a/"])
  func workIsLinear(_ piece: String) throws {
    let base = try URLReader.read("http://a/" + String(repeating: "x/", count: 32_000))
    let reference = String(repeating: piece, count: 60_000 / piece.utf8.count)
    for _ in 0..<10 {
      do {
        let url = try URLReader.resolve(reference, against: base)
        #expect(url.target.hasPrefix("/"))
      } catch {
        guard case .tooLong = error else { throw error }
      }
    }
  }
}
