public import Foundation
public import LupineSession

/// Makes text of a body.
///
/// Source: the string variant of `loadRequest` of AFNetworking's web views.
public struct StringResponseSerializer: HTTPResponseSerializing {
  /// Default: 200 to 299, any media type.
  public var validation: ResponseValidation
  /// The encoding, whatever response and body say; nil takes that of the body's byte order mark, else `Response.textEncoding`. Default nil.
  public var encoding: String.Encoding?

  /// A serializer of what `validation` accepts.
  public init(encoding: String.Encoding? = nil, validation: ResponseValidation = ResponseValidation()) {
    self.encoding = encoding
    self.validation = validation
  }

  /// The text, empty if there is no body. A byte order mark is left out.
  ///
  /// - Throws: `SerializationError`: those of `validation`, a wrong status with the text as its value; `.cannotParseResponse` if the body is no
  ///   text in its encoding.
  public func serialize(_ response: Response?, data: Data?) throws -> String {
    try validation.serialize(response, data) { data throws(SerializationError) in
      let (marked, unmarked) = ByteOrderMark.split(data)
      let encoding = self.encoding ?? marked ?? response?.textEncoding ?? .utf8
      let content = self.encoding.map { ByteOrderMark.skip(in: data, of: $0) } ?? unmarked
      guard let text = String(data: content, encoding: encoding) else {
        throw SerializationError(.cannotParseResponse, message: "The body is no text in \(encoding).")
      }
      return text
    }
  }
}

extension Response {
  /// The encoding of the body's text, from the `charset` of `Content-Type` by its IANA name in any case; UTF-8 if it is missing or unknown.
  public var textEncoding: String.Encoding {
    textEncodingName.flatMap { String.Encoding(ianaName: $0) } ?? .utf8
  }
}
