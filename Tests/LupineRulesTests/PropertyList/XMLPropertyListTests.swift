import Foundation
import LupineRules
import Testing

@Suite struct XMLPropertyListTests {
  private static func read(_ text: String, depthLimit: Int = 128) throws -> PropertyListContent {
    try XMLPropertyListReader.read(Array(text.utf8), depthLimit: depthLimit)
  }

  private static func wrapped(_ body: String) -> String {
    "<?xml version=\"1.0\"?>\n<!DOCTYPE plist PUBLIC \"-//x\" \"http://x/y.dtd\">\n<plist version=\"1.0\">\n\(body)\n</plist>\n"
  }

  static let values: [(String, PropertyListContent)] = [
    ("<true/>", .boolean(true)), ("<false></false>", .boolean(false)), ("<true ><!-- c --></true>", .boolean(true)),
    ("<integer>0</integer>", .integer(0)), ("<integer> +12\n</integer>", .integer(12)),
    ("<integer>-9223372036854775808</integer>", .integer(.min)),
    ("<integer>9223372036854775808</integer>", .unsigned(1 << 63)),
    ("<integer>18446744073709551615</integer>", .unsigned(.max)), ("<integer>-0x1f</integer>", .integer(-31)),
    ("<real>1.5</real>", .real(1.5)), ("<real>-1e-3</real>", .real(-0.001)),
    ("<real>+infinity</real>", .real(.infinity)),
    ("<date>2001-01-01T00:00:00Z</date>", .date(0)), ("<date>1970-01-01T00:00:01Z</date>", .date(-978_307_199)),
    ("<data> AAEC\n\tAw== </data>", .data([0, 1, 2, 3])), ("<data>/+8</data>", .data([0xFF, 0xEF])),
    ("<data></data>", .data([])), ("<data/>", .data([])),
    ("<string/>", .string("")),
    ("<string>a &lt;&#65;&#x1F600;&amp;&quot;&apos;&gt; é]]></string>", .string("a <A😀&\"'> é]]>")),
    ("<string><![CDATA[<b>]]]]>c<!-- d --></string>", .string("<b>]]c")), ("<string a=\">\">x</string >", .string("x")),
    ("<key>k</key>", .string("k")), ("<array/>", .array([])), ("<dict/>", .dictionary([])),
    ("<dict></dict>", .dictionary([])),
    ("<array> <true/><?p q?><array/></array>", .array([.boolean(true), .array([])])),
    (
      "<dict><key>a</key><integer>1</integer><key>b</key><true/><key>a</key><string>2</string></dict>",
      .dictionary([.init(name: "a", value: .string("2")), .init(name: "b", value: .boolean(true))])
    ),
  ]

  @Test(arguments: values.indices) func isRead(_ index: Int) throws {
    let (text, value) = Self.values[index]
    for whole in [text, Self.wrapped(text), "\u{FEFF} <!-- c -->" + text] {
      #expect(try Self.read(whole) == value, "\(whole)")
    }
  }

  static let refused: [(String, XMLPropertyListError.Reason)] = [
    ("", .noElement), ("  ", .noElement), ("word", .noElement), ("</a>", .noElement), ("<plist/>", .noElement),
    ("<plist></plist>", .noElement), ("<plist><true/><true/></plist>", .misplaced), ("<true/>x", .contentAfterRoot),
    ("<plist><plist><true/></plist></plist>", .unknownElement), ("<Array/>", .malformed("a start tag")),
    ("<set/>", .unknownElement), ("<string1>x</string>", .malformed("a start tag")),
    ("<true:x/>", .malformed("a start tag")),
    ("<string>\u{0}</string>", .malformed("text")), ("<array>x</array>", .misplaced), ("<true>x</true>", .misplaced),
    ("<array></dict>", .malformed("an end tag")), ("<array>", .endsInside("an element")),
    ("<array", .endsInside("a start tag")),
    ("<array a=\">", .endsInside("a start tag")), ("<array <true/>", .malformed("a start tag")),
    ("<string>a", .endsInside("an element")), ("<string><b/></string>", .misplaced),
    ("<string>&foo;</string>", .malformed("a reference")), ("<string>a & b</string>", .malformed("a reference")),
    ("<string>&#0;</string>", .malformed("a reference")), ("<string>&#xD800;</string>", .malformed("a reference")),
    ("<string>&#x110000;</string>", .malformed("a reference")), ("<string>&#+5;</string>", .malformed("a reference")),
    ("<string><![CDATA[x</string>", .endsInside("a CDATA section")), ("<!-- x", .endsInside("a comment")),
    ("<!DOCTYPE plist [<!ENTITY x \"y\">]><true/>", .internalSubset),
    ("<!ELEMENT x><true/>", .malformed("a start tag")),
    ("<dict><key>a</key></dict>", .keyWithoutValue), ("<dict><string>a</string></dict>", .misplaced),
    ("<integer></integer>", .malformed("an integer")), ("<integer>1.5</integer>", .malformed("an integer")),
    ("<integer>--5</integer>", .malformed("an integer")),
    ("<integer>18446744073709551616</integer>", .malformed("an integer")),
    ("<integer>-9223372036854775809</integer>", .malformed("an integer")),
    ("<integer>0x</integer>", .malformed("an integer")),
    ("<real></real>", .malformed("a real")), ("<real>1,5</real>", .malformed("a real")),
    ("<real>0x10</real>", .malformed("a real")),
    ("<date>2001-01-01</date>", .malformed("a date")), ("<date>2001-02-31T00:00:00Z</date>", .malformed("a date")),
    ("<data>A!</data>", .malformed("data")), ("<data>AA==AA==</data>", .malformed("data")),
    ("<dict><key>a\(String(repeating: "\u{301}", count: 300))</key><true/></dict>", .tooManyMarks),
  ]

  @Test(arguments: refused.indices) func isRefused(_ index: Int) {
    let (text, reason) = Self.refused[index]
    let error = #expect(throws: XMLPropertyListError.self) { try Self.read(text) }
    #expect(error?.reason == reason && error.map { (0...text.utf8.count).contains($0.offset) } == true, "\(text)")
  }

  @Test func depthIsLimited() throws {
    func nested(_ levels: Int) -> String {
      String(repeating: "<array>", count: levels) + String(repeating: "</array>", count: levels)
    }
    _ = try Self.read(nested(5), depthLimit: 4)
    let error = #expect(throws: XMLPropertyListError.self) { try Self.read(nested(6), depthLimit: 4) }
    #expect(error?.reason == .tooDeep(limit: 4))
    #expect(throws: XMLPropertyListError.self) { try Self.read(String(repeating: "<array>", count: 100_000)) }
  }

  /// A good list cut anywhere is refused, and bytes that are no UTF-8 are.
  @Test func everyCutIsRefused() throws {
    let text = Array(
      Self.wrapped("<dict><key>a</key><array><string>b&lt;</string><data>AA==</data></array></dict>").utf8)
    let end = text.lastIndex(of: UInt8(ascii: ">")) ?? 0
    _ = try XMLPropertyListReader.read(text, depthLimit: 9)
    for cut in 0..<end {
      #expect(throws: XMLPropertyListError.self) { try XMLPropertyListReader.read(Array(text[..<cut]), depthLimit: 9) }
    }
    let broken = Array("<string>".utf8) + [0xFF] + Array("</string>".utf8)
    #expect(throws: XMLPropertyListError.self) { try XMLPropertyListReader.read(broken, depthLimit: 9) }
  }

  /// What Foundation writes is read as what it was.
  @Test func whatFoundationWrites() throws {
    let list: [String: Any] = [
      "text": "a <&> \"b\" é😀\n", "number": -5, "large": UInt64.max, "real": 0.1, "yes": true,
      "data": Data([0, 255, 7]),
      "date": Date(timeIntervalSinceReferenceDate: 86_400), "list": [1, "two", [String: Any]()] as [Any],
    ]
    let data = try PropertyListSerialization.data(fromPropertyList: list, format: .xml, options: 0)
    guard case .dictionary(let members) = try XMLPropertyListReader.read([UInt8](data), depthLimit: 9) else {
      Issue.record("no dictionary")
      return
    }
    let values = Dictionary(uniqueKeysWithValues: members.map { ($0.name, $0.value) })
    #expect(
      values == [
        "text": .string("a <&> \"b\" é😀\n"), "number": .integer(-5), "large": .unsigned(.max), "real": .real(0.1),
        "yes": .boolean(true), "data": .data([0, 255, 7]), "date": .date(86_400),
        "list": .array([.integer(1), .string("two"), .dictionary([])]),
      ])
  }

  /// Keys that have one hash in CoreFoundation, which looks at the first, the middle and the last 32 characters of a long one only.
  @Test(.timeLimit(.minutes(1))) func keysThatCollideElsewhere() throws {
    let (front, back) = (String(repeating: "f", count: 34), String(repeating: "b", count: 116))
    let keys = (0..<50_000).map { front + String(1_000_000_000 + $0) + back }
    let text = "<dict>\(keys.map { "<key>\($0)</key><true/>" }.joined())</dict>"
    guard case .dictionary(let members) = try Self.read(text) else {
      Issue.record("no dictionary")
      return
    }
    #expect(members.count == keys.count)
  }
}
