public import Foundation
internal import LupineRules
public import LupineSession

/// What a `DecodableResponseSerializer` gives for a body that nobody wants to look at: a body of any media type will do, JSON or not, and none too. Only
/// the status counts.
public struct EmptyResponse: Decodable, Sendable, Hashable {
  /// The one value.
  public init() {}
  /// The one value, whatever there is.
  public init(from decoder: any Decoder) {}
}

/// Makes a value of a program's own type of a body in JSON.
///
/// An empty body, or one of white space, is nil if `Value` is an optional, and `EmptyResponse()` if it is that; otherwise an error.
public struct DecodableResponseSerializer<Value: Decodable & Sendable>: HTTPResponseSerializing {
  /// Default: that of `JSONResponseSerializer`.
  public var validation: ResponseValidation
  /// Set up before it came here, and not changed any more.
  private let decoder: JSONDecoder

  /// A serializer for a type.
  ///
  /// - Parameter configure: sets up the decoder; called once, here. The decoder must not be kept.
  public init(_ type: Value.Type = Value.self, configure: (JSONDecoder) -> Void = { _ in }) {
    validation = ResponseValidation(acceptableContentTypes: JSONResponseSerializer.contentTypes)
    decoder = JSONDecoder()
    configure(decoder)
  }

  /// A serializer with a decoder that others have too, and nobody changes.
  init(validation: ResponseValidation, decoder: JSONDecoder) {
    self.validation = validation
    self.decoder = decoder
  }

  /// The value of the body.
  ///
  /// - Throws: `SerializationError`: `.unacceptableContentType` and `.unacceptableStatusCode` of `validation`; a wrong status stays the error
  ///   whether or not the body can be decoded, and its `value` is a `Value`, or the `JSONValue` of an error page that is none. Otherwise
  ///   `.cannotParseResponse`, with Foundation's `DecodingError` behind it; also for text with more than 256 combining marks in a row, which as a name
  ///   would take very long to look for.
  public func serialize(_ response: Response?, data: Data?) throws -> Value {
    let data = data ?? Data()
    guard let error = validation.validate(response, data: data) else { return try value(data, response) }
    if let value = try unread(error) { return value }
    throw explained(error, data, response)
  }

  // The value of a body that nobody looks at, whatever its media type.
  @inline(never)
  private func unread(_ error: SerializationError) throws(SerializationError) -> Value? {
    guard error.contains(.unacceptableContentType) else { return nil }
    guard let value = EmptyResponse() as? Value else { return nil }
    var statuses = validation
    statuses.acceptableContentTypes = nil
    if let refusal = statuses.validate(error.response, data: error.data ?? Data()) { throw refusal }
    return value
  }

  // What is not needed for a good answer is out of line, for the metadata of `Value?`, which every call would look for otherwise.
  @inline(never)
  private func explained(_ error: SerializationError, _ data: Data, _ response: Response?) -> SerializationError {
    guard !error.contains(.unacceptableContentType) else { return error }
    var error = error
    if let value = try? value(data, response) {
      error.value = isNothing(value) ? nil : value
    } else {
      error.value = try? JSONValue(parsing: data)
    }
    return error
  }

  private func value(_ data: Data, _ response: Response?) throws(SerializationError) -> Value {
    // Before the decoder is asked: one with settings of its own may take a blank body for an object.
    if JSONValue.isBlank(data) { return try PlainJSON.emptyValue(data, response) }
    do {
      try PlainJSON.checkMarks(data)
      return try decoder.decode(Value.self, from: data)
    } catch {
      return try PlainJSON.unread(error, data, response)
    }
  }
}

/// The decoder as it comes, and what its errors become.
enum PlainJSON {
  static let decoder = JSONDecoder()

  /// The value of a body, which may be blank: most decoders refuse that before they make anything, so it is looked for only then. `Data` takes hundreds of
  /// instructions to show its first byte.
  static func decode<Value: Decodable & Sendable>(
    _ data: Data, _ response: Response, _ decoder: JSONDecoder
  ) throws(SerializationError) -> Value {
    // Such a decoder takes a blank body for an object.
    if decoder.assumesTopLevelDictionary, JSONValue.isBlank(data) { return try emptyValue(data, response) }
    do {
      try checkMarks(data)
      return try decoder.decode(Value.self, from: data)
    } catch {
      if JSONValue.isBlank(data) { return try emptyValue(data, response) }
      return try unread(error, data, response)
    }
  }

  /// A decoder makes dictionaries of objects. Small bodies, which are most, cannot have a name that takes long.
  ///
  /// - Throws: `JSONError` for more than `CombiningMarks.limit` combining marks in a row, in a name or in text: who looks at the bytes need not tell them
  ///   apart, for no text has as many.
  static func checkMarks(_ data: Data) throws {
    if data.count > 2 * CombiningMarks.limit { try checkLargeMarks(data) }
  }

  @inline(never)
  private static func checkLargeMarks(_ data: Data) throws {
    let bytes = data.span
    // The first character of a JSON text is ASCII.
    let isUTF8 = bytes[0] != 0 && bytes[1] != 0 && bytes[0] < 0xFE
    let offset: Int?
    if isUTF8 {
      offset = CombiningMarks.excess(in: bytes, .json)
    } else {
      let text = try JSONValue.utf8(data)
      offset = CombiningMarks.excess(in: text.span, .json)
    }
    guard let offset else { return }
    throw JSONError(reason: "more than \(CombiningMarks.limit) combining marks in a row", offset: offset)
  }

  /// What a body that cannot be decoded comes to: nothing, unless nobody wants to look at it.
  @inline(never)
  fileprivate static func unread<Value: Sendable>(
    _ error: any Error, _ data: Data, _ response: Response?
  ) throws(SerializationError) -> Value {
    if let value = EmptyResponse() as? Value { return value }
    throw refused(error, Value.self, data, response)
  }

  /// What a body that is no `Value` is refused with.
  @inline(never)
  static func refused<Value>(
    _ error: any Error, _ type: Value.Type, _ data: Data, _ response: Response?
  ) -> SerializationError {
    SerializationError(
      .cannotParseResponse, message: "The body is no \(Value.self): \(error)", response: response, data: data,
      underlying: error)
  }

  // Out of line, for the metadata of `Value?`, which every call would look for otherwise.
  @inline(never)
  fileprivate static func emptyValue<Value: Sendable>(
    _ data: Data, _ response: Response?
  ) throws(SerializationError) -> Value {
    if let optional = Value.self as? any ExpressibleByNilLiteral.Type,
      let value = optional.init(nilLiteral: ()) as? Value
    {
      return value
    }
    if let value = EmptyResponse() as? Value { return value }
    throw SerializationError(
      .cannotParseResponse, message: "The body is empty, and a \(Value.self) is expected.", response: response,
      data: data)
  }
}

extension JSONDecoder {
  /// Another one with the same settings.
  func copied() -> JSONDecoder {
    let copy = JSONDecoder()
    copy.dateDecodingStrategy = dateDecodingStrategy
    copy.dataDecodingStrategy = dataDecodingStrategy
    copy.nonConformingFloatDecodingStrategy = nonConformingFloatDecodingStrategy
    copy.keyDecodingStrategy = keyDecodingStrategy
    copy.userInfo = userInfo
    copy.allowsJSON5 = allowsJSON5
    copy.assumesTopLevelDictionary = assumesTopLevelDictionary
    return copy
  }
}
