import Testing

@testable import LupineRules

/// `Link` fields (RFC 8288 section 3), and what comes in their place.
@Suite struct LinkValueTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let field: String
    /// Target, then relation types.
    let links: [[String]]

    init(_ field: String, _ links: [[String]]) {
      self.field = field
      self.links = links
    }

    var testDescription: String { field }
  }

  static let cases: [Case] = [
    Case("", []), Case(" , ,", []), Case("next", []), Case("https://a.test/", []),
    Case("<https://a.test/?page=2>; rel=\"next\"", [["https://a.test/?page=2", "next"]]),
    Case("</a>;rel=next,</b>;rel=last", [["/a", "next"], ["/b", "last"]]),
    Case("  </a>  ;  rel  =  \"next\"  ,  </b>  ", [["/a", "next"], ["/b"]]),
    Case("</a,b;c>; rel=next, <d>; rel=prev", [["/a,b;c", "next"], ["d", "prev"]]),
    Case("< /a >; rel=next", [["/a", "next"]]), Case("<>; rel=self", [["", "self"]]),
    Case("</a>; rel=\"NEXT  Last next\"", [["/a", "next", "last"]]),
    Case("</a>; rel=next; rel=prev", [["/a", "next"]]), Case("</a>; REL=next", [["/a", "next"]]),
    Case("</a>; title=\"x, <y>; rel=z\"; rel=next, </b>; rel=b", [["/a", "next"], ["/b", "b"]]),
    Case("</a>; title=\"\\\", </x>\"; rel=next, </b>; rel=b", [["/a", "next"], ["/b", "b"]]),
    Case("</a>; crossorigin; rel=preload", [["/a", "preload"]]), Case("</a>; =; ;; rel=next", [["/a", "next"]]),
    Case("</a> rel=next, </b>; rel=b", [["/a"], ["/b", "b"]]), Case("x, </a>; rel=next", [["/a", "next"]]),
    Case("\"x, </a>\", </b>; rel=next", [["/b", "next"]]), Case("</a; rel=next", []),
    Case("</a, </b>; rel=b", [["/a, </b", "b"]]),
    Case("</a>; title=\"open, </b>; rel=b", [["/a"]]), Case("</a>; title=\"open\\", [["/a"]]),
    Case("<</a>>; rel=next", [["</a", "next"]]), Case("</ü>; rel=\"ü next\"", [["/ü", "next"]]),
  ]

  @Test(arguments: cases) func targetsAndRelations(_ one: Case) {
    #expect(LinkValue.read(one.field).map { [$0.target] + $0.relations } == one.links)
  }

  @Test func parameters() throws {
    let field =
      "</a>; Title=plain; title*=UTF-8'de'n%c3%a4chste; Type=\"text/html\"; anchor=\"#x\"; hreflang=de; hreflang=en"
    let link = try #require(LinkValue.read(field).first)
    #expect(link.title == "nächste" && link["type"] == "text/html" && link["anchor"] == "#x")
    #expect(link["hreflang"] == "de" && link["rel"] == nil && link.relations == [])
    #expect(LinkValue.read("</a>; title*=UTF-8''%FF; title=x").first?.title == "x")
  }

  /// The work is linear in the length, and what is kept is bounded.
  @Test(arguments: ["</a>,", "<", "<,", "\",", "</a>;\"", "</a>;a=\"\\\",\"<>,", ","]) func manyOf(_ piece: String) {
    let links = LinkValue.read(String(repeating: piece, count: 100_000))
    #expect(links.count <= LinkValue.maximumCount)
    if piece == "</a>," { #expect(links.count == LinkValue.maximumCount) }
  }

  /// So many types that comparing each with all before it took seconds; and one whose comparison does, as its marks are sorted for that.
  @Test func relationsAreLimited() {
    let many = (0..<20_000).map { String($0, radix: 36) }
    let links = LinkValue.read("</a>; rel=\"\(many.joined(separator: " "))\"")
    #expect(links.first?.relations == Array(many.prefix(LinkValue.maximumRelations)))
    let long = String(repeating: "a", count: LinkValue.maximumRelationLength)
    #expect(LinkValue.read("</a>; rel=\"\(long) \(long)a next\"").first?.relations == [long, "next"])
    let marks = String(repeating: "\u{301}\u{316}", count: 8_000)
    #expect(LinkValue.read("</a>; rel=\"n\(marks) x\(marks) next\"").first?.relations == ["next"])
  }
}
