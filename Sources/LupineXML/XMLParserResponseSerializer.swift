public import Foundation
public import FoundationXML
public import Lupine

/// A body that waits to be parsed.
///
/// A parser belongs to one thread, so that a value which may cross threads can only make one.
public struct XMLParserInput: Sendable {
  /// The body, in UTF-8: of one in another encoding that it was converted into, with a declaration that says so.
  public var data: Data

  /// A new parser of the body, not started. It resolves no external entities, and the body declares none.
  ///
  /// What is limited in documents is not here, as the parser finds what is malformed: a body of many megabytes whose elements have thousands of attributes
  /// keeps it busy for minutes. Limit the body (`Request.maximumBufferedBodySize`) of servers that you do not trust.
  ///
  /// Foundation's parser on Linux may return true from `parse()` for a text that is malformed: ask `parserError` too, or the delegate.
  public func makeParser() -> XMLParser {
    // The parser of Foundation on Linux crashes on no bytes at all, and never looks at fewer than four, which are no document: this is an error
    // like them.
    let parser = XMLParser(data: data.count < 4 ? Data("none".utf8) : data)
    parser.shouldResolveExternalEntities = false
    return parser
  }
}

/// Gives a parser for a body in XML.
///
/// A malformed body is for the parser to find. A document type with declarations of its own is refused before: its entities could name files and
/// grow without bound.
///
/// Source: `AFXMLParserResponseSerializer`.
public struct XMLParserResponseSerializer: HTTPResponseSerializing, ArchivableSerializer {
  /// Default: 200 to 299; `application/xml`, and with it what ends in `+xml`; `text/xml`.
  public var validation: ResponseValidation

  /// `xmlParser`.
  public static var archiveName: String { "xmlParser" }

  /// A serializer for what servers call XML.
  public init() {
    validation = ResponseValidation(acceptableContentTypes: ["application/xml", "text/xml"])
  }

  /// What makes parsers of the body; also of an empty one.
  ///
  /// - Throws: `SerializationError`: `.unacceptableContentType`; `.cannotParseResponse` for declarations, for encodings other than UTF-8,
  ///   UTF-16 and the families of ISO-8859 and Windows-125x, and for bytes that are no text in their encoding; `.unacceptableStatusCode`, with the value.
  public func serialize(_ response: Response?, data: Data?) throws -> XMLParserInput {
    try validation.serialize(response, data) { data throws(SerializationError) in
      XMLParserInput(data: try XMLChecks.withoutDeclarations(data))
    }
  }
}
