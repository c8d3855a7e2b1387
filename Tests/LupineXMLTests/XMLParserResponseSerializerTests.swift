import Foundation
import FoundationXML
import LupineXML
import Testing

/// The facts of AFXMLParserResponseSerializerTests.
@Suite struct XMLParserResponseSerializerTests {
  private let serializer = XMLParserResponseSerializer()

  private final class Listener: NSObject, XMLParserDelegate {
    var names: [String] = []
    var errors = 0
    /// Comments and text.
    var text = ""

    func parser(
      _ parser: XMLParser, didStartElement elementName: String, namespaceURI: String?, qualifiedName: String?,
      attributes: [String: String]
    ) { names.append(elementName) }

    func parser(_ parser: XMLParser, foundComment comment: String) { text += comment }
    func parser(_ parser: XMLParser, foundCharacters string: String) { text += string }
    func parser(_ parser: XMLParser, parseErrorOccurred parseError: any Error) { errors += 1 }
  }

  private func parse(_ text: String) throws -> Listener { try parse(Data(text.utf8)) }

  private func parse(_ data: Data) throws -> Listener {
    let input = try serializer.serialize(try xmlResponse(), data: data)
    let (parser, listener) = (input.makeParser(), Listener())
    parser.delegate = listener
    _ = parser.parse()
    return listener
  }

  @Test(arguments: ["application/xml", "text/xml", "text/xml; charset=utf-8"])
  func testThatXMLParserResponseSerializerAcceptsXMLMimeTypes(type: String) throws {
    _ = try serializer.serialize(try xmlResponse(type: type), data: Data("<a/>".utf8))
  }

  @Test func testThatXMLParserResponseSerializerDoesNotAcceptNonstandardXMLMimeType() {
    let error = #expect(throws: SerializationError.self) {
      try serializer.serialize(try xmlResponse(type: "nonstandard/xml"), data: Data("<a/>".utf8))
    }
    #expect(error?.code == .unacceptableContentType)
  }

  /// A parser, not started; a new one whenever asked.
  @Test func testThatXMLParserResponseSerializerReturnsXMLParserObjectForValidXML() throws {
    let listener = try parse("<foo><bar a=\"1\"/></foo>")
    #expect(listener.names == ["foo", "bar"] && listener.errors == 0)
    let input = try serializer.serialize(nil, data: Data("<a/>".utf8))
    #expect(input.makeParser() !== input.makeParser())
  }

  /// What is malformed, or nothing, is for the parser to say.
  @Test(arguments: ["<foo", "", "text", "<a></b>", "<", "x", "<a>"]) func malformedBodiesGiveAParserToo(text: String)
    throws
  {
    #expect(try parse(text).errors > 0)
  }

  @Test func declarationsAreRefused() {
    for text in [
      "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>",
      "<!-- --><!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "<!-- -- --><!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>",
      // What is quoted for one reader is none for another, which takes quotes in their place alone.
      "<!DOCTYPE a '[<!ENTITY x \"boom\">]><!--'><b/>--><a>&x;</a>",
    ] {
      let error = #expect(throws: SerializationError.self) { try parse(text) }
      #expect(error?.code == .cannotParseResponse)
    }
    #expect(throws: Never.self) { try parse("<!DOCTYPE html><a/>") }
  }

  /// Where they are names, comments or instructions, Foundation's parser ends the process.
  @Test(arguments: [
    "", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>", " <?xml version=\"1.0\" encoding=\"iso-8859-99\"?>",
  ])
  func bytesThatAreNoTextAreRefused(_ declaration: String) {
    for text in ["<a><!-- ~ abcd --></a>", "<~tat>abcdef</~tat>", "<a ~b=\"1\">abcd</a>", "<a><?p~ q?>abcd</a>"] {
      let body = Data((declaration + text).utf8.map { $0 == UInt8(ascii: "~") ? 0xE9 : $0 })
      let error = #expect(throws: SerializationError.self) { try parse(body) }
      #expect(error?.code == .cannotParseResponse)
      let refusal = #expect(throws: SerializationError.self) {
        try XMLDocumentResponseSerializer().serialize(nil, data: body)
      }
      #expect(refusal?.code == .cannotParseResponse)
    }
  }

  struct Encoded: Sendable {
    var name: String
    var bytes: [UInt8]
    var text: String
  }

  /// Every family that is read, in names, comments and text.
  @Test(
    arguments: [
      Encoded(name: "iso-8859-1", bytes: [0xE9], text: "é"), Encoded(name: "ISO-8859-15", bytes: [0xA4], text: "€"),
      Encoded(name: "iso-8859-5", bytes: [0xD6], text: "ж"), Encoded(name: "windows-1251", bytes: [0xE6], text: "ж"),
      Encoded(name: "Windows-1252", bytes: [0x80], text: "€"),
      Encoded(name: "windows-1258", bytes: [0x61, 0xEC], text: "á"),
      Encoded(name: "utf-8", bytes: [0xC3, 0xA9], text: "é"),
      Encoded(name: "us-ascii", bytes: [0x61], text: "a"),
    ]) func otherEncodingsAreConverted(_ row: Encoded) throws
  {
    for declaration in ["version=\"1.0\" encoding=\"\(row.name)\"", "version='1.0'  encoding = '\(row.name)' "] {
      let text = "<?xml \(declaration)?>\n<a><!--~-->~</a>"
      let body = Data(text.utf8.flatMap { $0 == UInt8(ascii: "~") ? row.bytes : [$0] })
      let listener = try parse(body)
      #expect(listener.errors == 0 && listener.names == ["a"])
      #expect(listener.text.precomposedStringWithCanonicalMapping == row.text + row.text)
      let parsed = try XMLDocumentResponseSerializer().serialize(nil, data: body)
      let document = try #require(parsed.take())
      #expect(document.rootElement()?.children?.last?.stringValue?.precomposedStringWithCanonicalMapping == row.text)
    }
  }

  /// Nothing that a converter has no character for, and nothing that would be instructions to it.
  @Test(arguments: ["windows-1252", "iso-8859-1//IGNORE", "iso-8859-99", "windows-125", "windows-1250,UTF-7"])
  func otherEncodingsAreRefused(_ name: String) {
    let text = "<?xml version=\"1.0\" encoding=\"\(name)\"?><a>~</a>"
    let body = Data(text.utf8.map { $0 == UInt8(ascii: "~") ? 0x81 : $0 })
    #expect(throws: SerializationError.self) { try parse(body) }
    #expect(throws: SerializationError.self) { try XMLDocumentResponseSerializer().serialize(nil, data: body) }
  }

  /// Names of attributes become keys of a dictionary, which takes minutes to look for one of very many combining marks.
  @Test func namesOfManyMarksAreRefused() {
    let error = #expect(throws: SerializationError.self) {
      try parse("<a b\(String(repeating: "\u{301}\u{323}", count: 500))=\"1\"/>")
    }
    #expect(error?.code == .cannotParseResponse)
  }

  /// A parser goes on in the encoding that is declared: what follows the declaration would be other text to it than to the check.
  @Test(arguments: ["ISO-8859-1", "windows-1252", "UTF-8", "UTF-16BE"])
  func declarationsAreRefusedBehindAChangeOfEncoding(name: String) throws {
    let head = "\u{FEFF}<?xml version=\"1.0\" encoding=\"\(name)\"?>\n"
    let tail = "<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>"
    let data =
      try #require(head.data(using: .utf16LittleEndian))
      + #require(tail.data(using: name == "UTF-16BE" ? .utf16BigEndian : .isoLatin1))
    let error = #expect(throws: SerializationError.self) { try serializer.serialize(try xmlResponse(), data: data) }
    #expect(error?.code == .cannotParseResponse)
    let whole = try #require((head + "<a/>").data(using: .utf16LittleEndian))
    #expect(throws: SerializationError.self) { try XMLDocumentResponseSerializer().serialize(nil, data: whole) }
  }

  /// A text in UTF-16 is read if it says nothing of its encoding, or that.
  @Test(arguments: ["", " encoding=\"UTF-16\"", " encoding=\"utf-16le\""]) func utf16IsRead(declared: String) throws {
    let text = "\u{FEFF}<?xml version=\"1.0\"\(declared)?><a><b/></a>"
    let data = try #require(text.data(using: .utf16LittleEndian))
    let input = try serializer.serialize(try xmlResponse(), data: data)
    let (parser, listener) = (input.makeParser(), Listener())
    parser.delegate = listener
    #expect(parser.parse() && listener.names == ["a", "b"])
  }

  @Test func testThatXMLParserResponseSerializerCanBeCopied() {
    var copy = serializer
    copy.acceptableStatusCodes = [1]
    copy.acceptableContentTypes = ["a/b"]
    #expect(serializer.acceptableStatusCodes?.count == 100 && serializer.acceptableContentTypes?.count == 2)
  }

  /// A wrong status comes with the input.
  @Test func statusFailuresCarryTheBody() {
    let error = #expect(throws: SerializationError.self) {
      try serializer.serialize(try xmlResponse(500), data: Data("<a/>".utf8))
    }
    #expect(error?.code == .unacceptableStatusCode && error?.value is XMLParserInput)
  }
}
