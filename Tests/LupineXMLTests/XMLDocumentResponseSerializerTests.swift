import Foundation
import FoundationXML
import LupineXML
import Testing

/// The facts of AFXMLDocumentResponseSerializerTests.
@Suite struct XMLDocumentResponseSerializerTests {
  private let serializer = XMLDocumentResponseSerializer()

  private func document(_ data: Data, _ status: Int = 200) throws -> XMLDocument {
    try #require(try serializer.serialize(try xmlResponse(status), data: data).take())
  }

  @Test(arguments: ["application/xml", "text/xml", "application/atom+xml", "image/svg+xml"])
  func testThatXMLDocumentResponseSerializerAcceptsXMLMimeTypes(type: String) throws {
    _ = try serializer.serialize(try xmlResponse(type: type), data: Data("<a/>".utf8))
  }

  @Test func testThatXMLDocumentResponseSerializerDoesNotAcceptNonstandardXMLMimeType() {
    let error = #expect(throws: SerializationError.self) {
      try serializer.serialize(try xmlResponse(type: "nonstandard/xml"), data: Data("<a/>".utf8))
    }
    #expect(error?.code == .unacceptableContentType && error?.value == nil)
  }

  @Test func testThatXMLDocumentResponseSerializerReturnsNSXMLDocumentForValidXML() throws {
    let document = try document(Data("<?xml version=\"1.0\"?><foo a='1'>b<!-- c --><![CDATA[<&]]></foo>\n".utf8))
    #expect(document.rootElement()?.name == "foo" && document.rootElement()?.stringValue?.hasPrefix("b") == true)
    let utf16 = try #require("\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-16\"?><ü/>".data(using: .utf16LittleEndian))
    #expect(try self.document(utf16).rootElement()?.name == "ü")
    #expect(
      try self.document(Data("<!DOCTYPE html PUBLIC \"a\" \"http://h/x.dtd\"><html/>".utf8)).rootElement()?.name
        == "html")
  }

  /// A document may be taken once.
  @Test func documentsAreHandedOver() throws {
    let parsed = try serializer.serialize(nil, data: Data("<a/>".utf8))
    #expect(parsed.rootElementName == "a")
    #expect(parsed.take() != nil)
    #expect(parsed.take() == nil)
  }

  /// Foundation's parser on Linux accepts most of these.
  @Test(
    arguments: [
      "<foo", "<foo>", "", " ", "text", "<a></b>", "<a/><b/>", "<a/>text", "<a b=c/>", "<a b/>", "<a b='<'/>",
      "<a b='1'c='2'/>",
      "<a>&x;</a>", "<a>&#;</a>", "<a>&#0;</a>", "<a b='&x;'/>", "<a", "<a b='", "<a><!-- </a>", "<a><![CDATA[</a>",
      "<a><?p </a>",
      "<1/>", "</a>", "<a b='1' b='2'/>", "<a>\u{1}</a>", "<!DOCTYPE a><!DOCTYPE a><a/>", "<!ELEMENT a><a/>",
    ]
  )
  func testThatXMLDocumentResponseSerializerReturnsErrorForInvalidXML(text: String) {
    let error = #expect(throws: SerializationError.self) { try document(Data(text.utf8)) }
    #expect(error?.code == .cannotParseResponse && error?.data == Data(text.utf8))
  }

  /// Entities that name files, that grow, that are hidden in an encoding; and depth.
  @Test func attacksAreRefused() throws {
    var laughs = "<!DOCTYPE a [<!ENTITY a0 \"ha\">"
    for level in 1...20 { laughs += "<!ENTITY a\(level) \"" + String(repeating: "&a\(level - 1);", count: 10) + "\">" }
    laughs += "]><a>&a20;</a>"
    let entity = "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]><a>&x;</a>"
    let utf16 = try #require("\u{FEFF}\(entity)".data(using: .utf16BigEndian))
    let hidden =
      "<?xml version='1.0' encoding='UTF-7'?>+ADwAIQ-DOCTYPE a [+ADwAIQ-ENTITY x SYSTEM 'file:///etc/passwd'+AD4]+AD4<a/>"
    let deep = String(repeating: "<a>", count: 100_000)
    for data in [
      Data(laughs.utf8), Data(entity.utf8), utf16, Data(utf16.dropFirst(2)), Data(hidden.utf8), Data(deep.utf8),
      Data("<!DOCTYPE a [<!ENTITY % p SYSTEM \"file:///etc/passwd\"> %p;]><a/>".utf8), Data([0, 0, 0, 0x3C]),
    ] {
      let error = #expect(throws: SerializationError.self) { try document(data) }
      #expect(error?.code == .cannotParseResponse)
    }
  }

  @Test func testThatXMLDocumentSerializerCanBeCopied() {
    var copy = XMLDocumentResponseSerializer(options: .documentTidyXML)
    #expect(copy.options == .documentTidyXML)
    copy.acceptableStatusCodes = [1]
    #expect(serializer.acceptableStatusCodes?.count == 100 && serializer.options == [])
  }

  @Test func statusFailuresCarryTheBody() throws {
    let failed = #expect(throws: SerializationError.self) { try document(Data("<a/>".utf8), 404) }
    #expect(failed?.code == .unacceptableStatusCode && (failed?.value as? ParsedXMLDocument)?.rootElementName == "a")
    let malformed = #expect(throws: SerializationError.self) { try document(Data("<a".utf8), 404) }
    #expect(malformed?.code == .cannotParseResponse && malformed?.contains(.unacceptableStatusCode) == true)
  }
}
