import LupineTLS
import Testing

@Suite("Name constraints, RFC 5280, 4.2.1.10, held against a host")
struct NameConstraintsTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var host: String
    var permitted: [String]
    var excluded: [String]
    var isAllowed: Bool

    init(_ host: String, permitted: [String] = [], excluded: [String] = [], _ isAllowed: Bool) {
      self.host = host
      self.permitted = permitted
      self.excluded = excluded
      self.isAllowed = isAllowed
    }

    var testDescription: String { "\(host), permitted \(permitted), excluded \(excluded)" }
  }

  /// A subtree, and whether it holds a host: then it excludes it, and else the only permitted one does.
  static let subtrees: [(String, String, Bool)] = [
    ("a.example.test", "a.example.test", true),
    ("a.example.test", "example.test", true),
    ("a.example.test", "test", true),
    ("b.a.example.test", "a.example.test", true),
    ("a.example.test", "b.example.test", false),
    ("example.test", "a.example.test", false),
    // Letters have no case.
    ("a.example.test", "A.Example.TEST", true),
    ("A.EXAMPLE.test", "a.example.test", true),
    // Whole labels.
    ("ba.example.test", "a.example.test", false),
    ("aexample.test", "example.test", false),
    ("a.example.test", "ample.test", false),
    ("a.example.test", "est", false),
    ("a.example.test", "a.example", false),
    // All names.
    ("a.example.test", "", true),
    ("a.example.test", ".", true),
    ("localhost", "", true),
    // At least one label more.
    ("a.example.test", ".example.test", true),
    ("b.a.example.test", ".example.test", true),
    ("example.test", ".example.test", false),
    ("aexample.test", ".example.test", false),
    // The end of a name.
    ("a.example.test.", "a.example.test", true),
    ("a.example.test", "a.example.test.", true),
    ("a.example.test", ".example.test.", true),
    ("example.test", ".example.test.", false),
    // A-labels.
    ("xn--bcher-kva.test", "xn--bcher-kva.test", true),
    ("www.xn--bcher-kva.test", "XN--bcher-kva.test", true),
    ("xn--bcher-kva.test", "kva.test", false),
    // Names that only the DNS has.
    ("under_score.a-.test", "a-.test", true),
    ("a.example.test", "127.0.0.1", false),
  ]

  @Test("Subtrees", arguments: subtrees)
  func subtree(host: String, subtree: String, holds: Bool) throws {
    let name = try ServerName(host)
    let bytes = Array(subtree.utf8)
    #expect(NameConstraints(excluded: [bytes]).allows(name) == !holds)
    #expect(NameConstraints(permitted: [bytes]).allows(name) == holds)
    // What excludes counts, whatever permits.
    #expect(NameConstraints(permitted: [[]], excluded: [bytes]).allows(name) == !holds)
    #expect(!NameConstraints(permitted: [bytes], excluded: [bytes]).allows(name))
  }

  @Test(
    "What is no name permits nothing, and may exclude anything",
    arguments: [
      "*.example.test", "*", "*.", "w*.example.test", "..", "...", "a..test", "..example.test", "example.test..",
      "bücher.test", "a.example.test\0", "a.example.test\0.b.test", " a.example.test", "a.example.test:443",
      "https://a.example.test", String(repeating: "a", count: 64) + ".test", String(repeating: "a.", count: 127) + "aa",
    ])
  func unreadable(subtree: String) throws {
    let bytes = Array(subtree.utf8)
    for host in ["a.example.test", "b.test", "localhost"] {
      let name = try ServerName(host)
      #expect(!NameConstraints(excluded: [bytes]).allows(name))
      #expect(!NameConstraints(permitted: [bytes]).allows(name))
      #expect(NameConstraints(permitted: [bytes, Array(host.utf8)]).allows(name))
    }
  }

  static let lists: [Case] = [
    Case("a.example.test", true),
    Case("a.example.test", permitted: ["b.test", "example.test"], true),
    Case("a.example.test", permitted: ["b.test", "c.test"], false),
    Case("a.example.test", excluded: ["b.test", "example.test"], false),
    Case("a.example.test", excluded: ["b.test", "c.test"], true),
    Case("a.example.test", permitted: ["example.test"], excluded: ["a.example.test"], false),
    Case("b.example.test", permitted: ["example.test"], excluded: ["a.example.test"], true),
    Case("c.test", permitted: ["example.test"], excluded: ["a.example.test"], false),
    // Other forms of names have constraints of their own.
    Case("127.0.0.1", permitted: ["example.test"], excluded: [""], true),
    Case("127.0.0.1", excluded: ["127.0.0.1", "*", "0.0.1"], true),
    Case("[::1]", permitted: ["example.test"], excluded: [""], true),
  ]

  @Test("Several subtrees", arguments: lists)
  func several(example: Case) throws {
    let constraints = NameConstraints(
      permitted: example.permitted.map { Array($0.utf8) }, excluded: example.excluded.map { Array($0.utf8) })
    #expect(constraints.allows(try ServerName(example.host)) == example.isAllowed)
  }
}
