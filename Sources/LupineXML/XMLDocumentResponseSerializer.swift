public import Foundation
public import FoundationXML
public import Lupine
internal import LupineBase

/// A parsed document, to be taken by whoever needs it.
///
/// A document may be used by one thread at a time, so that it is handed out once.
public final class ParsedXMLDocument: Sendable {
  private let document: Locked<XMLDocument?>
  /// The name of the root element.
  public let rootElementName: String?

  init(_ document: sending XMLDocument) {
    rootElementName = document.rootElement()?.name
    self.document = Locked(document)
  }

  /// The document, the first time; nil after that.
  public func take() -> sending XMLDocument? {
    document.withLock { document in
      let taken = document
      document = nil
      return taken
    }
  }
}

/// Makes a document of a body in XML.
///
/// Refused before a parser sees them are texts whose tags do not match or are not complete (Foundation's parser on Linux accepts `<foo`), that nest
/// deeper than 200 levels, have more than 256 attributes at an element or 1,024 namespaces in scope, for which libxml2 needs the square of the time, or have a
/// document type with declarations of its own: its entities could name files and grow without bound. So are bytes that are no text in their encoding.
///
/// A body in UTF-16 or of the families of ISO-8859 and Windows-125x is given to the parser in UTF-8, and `characterEncoding` of the document says so.
///
/// Source: `AFXMLDocumentResponseSerializer`.
public struct XMLDocumentResponseSerializer: HTTPResponseSerializing {
  /// Default: 200 to 299; `application/xml`, and with it what ends in `+xml`; `text/xml`.
  public var validation: ResponseValidation
  /// What Foundation does while it reads. Default none.
  public var options: XMLNode.Options

  /// A serializer for what servers call XML.
  public init(options: XMLNode.Options = []) {
    validation = ResponseValidation(acceptableContentTypes: ["application/xml", "text/xml"])
    self.options = options
  }

  /// The document.
  ///
  /// - Throws: `SerializationError`: `.unacceptableContentType`; `.cannotParseResponse`, with an error of the status behind it if that is wrong
  ///   too; `.unacceptableStatusCode`, with the document.
  public func serialize(_ response: Response?, data: Data?) throws -> ParsedXMLDocument {
    let options = options
    return try validation.serialize(response, data) { data throws(SerializationError) in
      let data = try XMLChecks.document(data)
      do {
        try Self.checkStrictly(data)
        return ParsedXMLDocument(try XMLDocument(data: data, options: options))
      } catch {
        throw SerializationError(.cannotParseResponse, message: "The data is no XML.", underlying: error)
      }
    }
  }

  /// What is left to find, as attributes of one name and characters that are none, the document's parser would repair.
  private static func checkStrictly(_ data: Data) throws {
    let listener = ErrorListener()
    let parser = XMLParser(data: data)
    parser.shouldResolveExternalEntities = false
    parser.delegate = listener
    _ = parser.parse()
    if let error = listener.error ?? parser.parserError { throw error }
  }

  private final class ErrorListener: NSObject, XMLParserDelegate {
    var error: (any Error)?

    func parser(_ parser: XMLParser, parseErrorOccurred parseError: any Error) {
      error = error ?? parseError
    }
  }
}

extension XMLDocumentResponseSerializer: ArchivableSerializer {
  /// `xmlDocument`.
  public static var archiveName: String { "xmlDocument" }

  private enum CodingKeys: String, CodingKey {
    case validation, options
  }

  /// Reads an archive.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    self.init(options: XMLNode.Options(rawValue: try container.decode(UInt.self, forKey: .options)))
    validation = try container.decode(ResponseValidation.self, forKey: .validation)
  }

  /// Writes an archive.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(options.rawValue, forKey: .options)
    try container.encode(validation, forKey: .validation)
  }
}
