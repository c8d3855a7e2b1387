public import Foundation
public import LupineSession

/// Makes text of a body.
///
/// Source: the string variant of `loadRequest` of AFNetworking's web views.
public struct StringResponseSerializer: HTTPResponseSerializing {
  /// Default: 200 to 299, any media type.
  public var validation: ResponseValidation
  /// The encoding, whatever the response says; nil takes `Response.textEncoding`. Default nil.
  public var encoding: String.Encoding?

  /// A serializer of what `validation` accepts.
  public init(encoding: String.Encoding? = nil, validation: ResponseValidation = ResponseValidation()) {
    self.encoding = encoding
    self.validation = validation
  }

  /// The text, empty if there is no body. A byte order mark of UTF-8 is left out.
  ///
  /// - Throws: `SerializationError`: those of `validation`, a wrong status with the text as its value; `.cannotParseResponse` if the body is no
  ///   text in its encoding.
  public func serialize(_ response: Response?, data: Data?) throws -> String {
    let encoding = encoding ?? response?.textEncoding ?? .utf8
    return try validation.serialize(response, data) { data throws(SerializationError) in
      let content = encoding == .utf8 && data.starts(with: [0xEF, 0xBB, 0xBF]) ? data.dropFirst(3) : data
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
