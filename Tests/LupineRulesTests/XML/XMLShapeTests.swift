import LupineRules
import Testing

@Suite struct XMLShapeTests {
  @Test(
    arguments: [
      "<a/>", "<a ></a >", " \n<?xml version='1.0'?><a/>", "<!-- - --><a/><?p q?>\n",
      "<a:b c=\"d>'\" e='&lt;&#x41;&#65;'>&amp;</a:b>",
      "<!DOCTYPE a SYSTEM \"[\" ><a/>", "<a><![CDATA[<b>]]]]>]]&gt;</a>", "\u{FEFF}<a/>", "<é/>",
    ]
  ) func shapes(text: String) throws {
    try XMLShape.check(Array(text.utf8))
  }

  static let refused: [(text: String, reason: XMLShapeError.Reason, offset: Int)] = [
    ("", .noRootElement, 0), (" x", .noRootElement, 1), ("<a", .endsInside("a start tag"), 2),
    ("<a>", .endsInside("an element"), 3), ("<a></b>", .mismatchedEnd, 6), ("<a/>x", .contentAfterRoot, 4),
    ("<!DOCTYPE a [", .internalSubset, 12), ("<a>&b;", .undefinedEntity, 3),
    ("<!-- -- -->", .malformed("a comment"), 7),
    ("<a>&#x;</a>", .malformed("a character reference"), 6), ("<a>&#A;</a>", .malformed("a character reference"), 5),
    ("<a>&#1A;</a>", .malformed("a character reference"), 6), ("<a>&#xg;</a>", .malformed("a character reference"), 6),
    ("<!DOCTYPE a \"", .malformed("the document type"), 12),
    ("<!DOCTYPE a SYSTEM \"", .endsInside("the document type"), 20),
    ("<!DOCTYPE a '[<!ENTITY x \"y\">]><!--'><b/>-->", .malformed("the document type"), 12),
    ("<!DOCTYPE a PUBLIC 'p' \"[", .endsInside("the document type"), 25),
    ("<!DOCTYPE", .endsInside("the document type"), 9),
    ("<!DOCTYPE a PUBLIC 'p'><a/>", .malformed("the document type"), 22),
    ("<!DOCTYPE>", .malformed("the document type"), 9),
    ("<!DOCTYPE a SYSTEM'x'><a/>", .malformed("the document type"), 18),
    ("<!DOCTYPE a SYSTEM 'x' [", .internalSubset, 23),
    ("<!DOCTYPE a 'x'><a/>", .malformed("the document type"), 12),
    ("<!DOCTYPE a SYSTEM x><a/>", .malformed("the document type"), 19),
    ("<a b", .endsInside("a start tag"), 4),
    (String(repeating: "<a>", count: 201), .tooDeep(limit: 200), 603),
  ]

  @Test(arguments: refused) func refusals(text: String, reason: XMLShapeError.Reason, offset: Int) {
    #expect(throws: XMLShapeError(reason: reason, offset: offset)) { try XMLShape.check(Array(text.utf8)) }
  }

  /// libxml2 compares each attribute with all before it, and each prefix with all that are declared.
  @Test func attributesAndNamespacesAreLimited() throws {
    func element(_ name: String, _ count: Int, in body: String = "") -> [UInt8] {
      Array("<a\((0..<count).map { " \(name)\($0)='x'" }.joined())>\(body)</a>".utf8)
    }
    try XMLShape.check(element("b", 256))
    #expect(throws: XMLShapeError.self) { try XMLShape.check(element("b", 257)) }
    let declaring = String(decoding: element("xmlns:b", 256), as: UTF8.self)
    // Those of elements that are closed are nobody's any more.
    try XMLShape.check(Array("<a>\(String(repeating: declaring, count: 9))</a>".utf8))
    func nested(_ levels: Int, _ more: String) -> [UInt8] {
      let start = declaring.dropLast(4)
      return Array(
        (String(repeating: String(start), count: levels) + more + String(repeating: "</a>", count: levels)).utf8)
    }
    try XMLShape.check(nested(4, "<b c='d'/>"))
    let error = #expect(throws: XMLShapeError.self) { try XMLShape.check(nested(4, "<b xmlns:c='d'/>")) }
    #expect(error?.reason == .tooManyNamespaces(limit: 1024))
  }

  /// A good text cut anywhere is refused, and none of it is a trap.
  @Test func everyCutIsRefused() throws {
    let text = Array("<?xml version='1.0'?><!DOCTYPE a><!-- c --><a b='&lt;'><![CDATA[x]]>&#65;<b/></a>".utf8)
    try XMLShape.check(text)
    for end in text.indices {
      #expect(throws: XMLShapeError.self) { try XMLShape.check(Array(text[..<end])) }
      try? XMLShape.checkDeclarations(Array(text[end...]))
    }
  }

  static let declared: [([UInt8], XMLEncoding)] = [
    (Array("<a/>".utf8), .asciiCompatible), ([], .asciiCompatible), ([0xEF, 0xBB, 0xBF, 0x3C], .asciiCompatible),
    (Array("<?xml version='1.0'?>".utf8), .asciiCompatible), ([0xFE, 0xFF, 0, 0x3C], .utf16BigEndian),
    (Array("<?xml version='1.0' encoding = \"ISO-8859-15\" ?>".utf8), .asciiCompatible),
    (Array("<?xml version='1.0' encoding='UTF-7'?>".utf8), .unsupported),
    (Array("<?xml version='1.0' encoding='utf-8".utf8), .unsupported),
    (Array("<?xml encoding".utf8) + [0x3E], .unsupported), ([0xFF, 0xFE, 0x3C, 0], .utf16LittleEndian),
    ([0, 0x3C, 0, 0x61], .utf16BigEndian), ([0x3C, 0, 0x61, 0], .utf16LittleEndian),
    ([0, 0, 0xFE, 0xFF], .unsupported),
    ([0xFF, 0xFE, 0, 0], .unsupported), ([0x3C, 0, 0, 0], .unsupported), ([0x4C, 0x6F, 0xA7, 0x94], .unsupported),
  ]

  /// A declaration that two readers may read in two ways is believed by nobody, and of a text in UTF-16 only one that says so.
  @Test func declarationsMustSayWhatTheBytesSay() {
    for text in ["<?xml a='>' encoding='utf-8'?>", "<?xml a='encoding' encoding='utf-8'?>", "<?xml version='1.0'>"] {
      #expect(XMLEncoding.declared(in: Array(text.utf8)) == .unreadable)
    }
    let rows: [(String, Bool, Bool)] = [
      ("<a/>", true, true), ("\u{FEFF}<?xml version='1.0'?>", true, true),
      ("\u{FEFF}<?xml version='1.0' encoding='UTF-16'?>", true, true), ("<?xml encoding='utf-16be'?>", true, false),
      ("<?xml encoding='utf-16le'?>", false, true), ("\u{FEFF}<?xml encoding='utf-8'?>", false, false),
      ("<?xml encoding='iso-8859-1'?>", false, false), ("<?xml encoding='utf-16", false, false),
    ]
    for (text, big, little) in rows {
      #expect(XMLEncoding.utf16BigEndian.isConsistent(with: text.utf8) == big, "\(text)")
      #expect(XMLEncoding.utf16LittleEndian.isConsistent(with: text.utf8) == little, "\(text)")
    }
    #expect(!XMLEncoding.unsupported.isConsistent(with: "<a/>".utf8))
    #expect(XMLEncoding.asciiCompatible.isConsistent(with: "<?xml encoding='iso-8859-1'?>".utf8))
  }

  @Test func encodingsOfOneByteForEachCharacter() {
    let rows: [(String, String?)] = [
      ("<a/>", nil), ("<?xml encoding='utf-8'?>", nil), ("<?xml encoding='us-ascii'?>", nil),
      ("<?xml encoding='ISO-8859-15'?>", "iso-8859-15"), ("\u{FEFF}<?xml encoding='iso-8859-1'?>", nil),
      ("<?xml-stylesheet encoding='iso-8859-1'?>", nil),
      ("<?xml encoding='windows-1252'?>", "windows-1252"), ("<?xml encoding='utf-16'?>", nil),
    ]
    for (text, name) in rows { #expect(XMLEncoding.declaredOfBytes(Array(text.utf8)) == name, "\(text)") }
    for name in ["iso-8859-", "iso-8859-100", "iso-8859-1//IGNORE", "iso-8859-8-i", "windows-12", "windows-12522"] {
      #expect(XMLEncoding(of: Array("<?xml encoding='\(name)'?>".utf8)) == .unsupported, "\(name)")
    }
  }

  @Test func aTextInUTF8SaysSo() throws {
    let rows = [
      ("<a/>", "<a/>"), ("<?xml version='1.0'?><a b='encoding'/>", "<?xml version='1.0'?><a b='encoding'/>"),
      ("<?xml encoding='UTF8'?>", "<?xml encoding='UTF8'?>"),
      (
        "\u{FEFF}<?xml version=\"1.0\" Encoding = \"UTF-16\" ?><a/>",
        "\u{FEFF}<?xml version=\"1.0\" Encoding = \"utf-8\" ?><a/>"
      ),
      ("<?xml encoding='iso-8859-1' standalone='no'?>é", "<?xml encoding='utf-8' standalone='no'?>é"),
    ]
    for (text, expected) in rows {
      let made = try #require(XMLEncoding.declaringUTF8(Array(text.utf8)))
      #expect(String(decoding: made, as: UTF8.self) == expected)
    }
    let doubtful = "<?xml version='1.0' encodin\u{67}\u{301}='x' encoding='iso-8859-1'?>"
    #expect(XMLEncoding.declaringUTF8(Array(doubtful.utf8)) == nil)
  }

  /// Before anything that is no tag, a document type is refused as in every malformed text.
  @Test func declarationsBehindTextAreFound() {
    #expect(throws: XMLShapeError.self) { try XMLShape.checkDeclarations(Array("x<!DOCTYPE a [".utf8)) }
    #expect(throws: Never.self) { try XMLShape.checkDeclarations(Array("text".utf8)) }
  }

  @Test(arguments: declared.indices) func encodings(_ index: Int) {
    #expect(XMLEncoding(of: Self.declared[index].0) == Self.declared[index].1)
  }
}
