public import Foundation
public import LupineSession

/// Parameters that cannot be sent, or a response that is not what was asked for.
///
/// Source: the domains `com.alamofire.error.serialization.request` and `.response`; design: errors carry response, body and value.
public struct SerializationError: Error, Sendable {
  /// What is wrong. More may come: compare, do not switch over all.
  public struct Code: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    /// The name of the code.
    public var rawValue: String

    /// A code of this name.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The name.
    public var description: String { rawValue }

    /// Parameters that the serializer cannot express.
    public static let requestSerializationFailed = Code(rawValue: "requestSerializationFailed")
    /// The status is not among the acceptable ones. Source: `NSURLErrorBadServerResponse` of AFNetworking's response domain.
    public static let unacceptableStatusCode = Code(rawValue: "unacceptableStatusCode")
    /// The media type is not among the acceptable ones. Source: `NSURLErrorCannotDecodeContentData` of AFNetworking's response domain.
    public static let unacceptableContentType = Code(rawValue: "unacceptableContentType")
    /// The body is not what its type promises.
    public static let cannotParseResponse = Code(rawValue: "cannotParseResponse")
  }

  /// What is wrong.
  public var code: Code
  /// The same in a sentence, with what was expected.
  public var message: String
  /// The URL of the request, without its secrets; nil if there is none.
  public var failingURL: String?
  /// The head of the response, if one came.
  public var response: Response?
  /// The body of the response, as far as it came.
  public var data: Data?
  /// What could be made of the body in spite of the error: of an error page in JSON, its value.
  public var value: (any Sendable)?
  /// Another error behind this one: of the parser, or of an earlier step of validation.
  public var underlying: (any Error)?

  /// An error with what is known of it.
  public init(
    _ code: Code, message: String, failingURL: String? = nil, response: Response? = nil, data: Data? = nil,
    value: (any Sendable)? = nil, underlying: (any Error)? = nil
  ) {
    self.code = code
    self.message = message
    self.failingURL = failingURL ?? response?.urlString
    self.response = response
    self.data = data
    self.value = value
    self.underlying = underlying
  }
}

extension SerializationError {
  /// This error, with another one at the end of what is behind it already.
  func ending(in error: any Error) -> SerializationError {
    var described = self
    described.underlying = (underlying as? SerializationError)?.ending(in: error) ?? underlying ?? error
    return described
  }
}

extension SerializationError {
  /// What a download can be gone on from, where an attempt at it was refused after others had brought a part; see `SessionError.resumeData`.
  public var resumeData: ResumeData? { sessionError?.resumeData }

  /// What was under way: that of the `SessionError` behind this one, if the exchange ended with one; else `.prepare` of parameters that cannot be sent, and
  /// `.receive` of everything else, which is said of a response or its body. Source: design, as with `SessionError.phase`.
  public var phase: SessionError.Phase {
    if let sessionError { return sessionError.phase }
    return code == .requestSerializationFailed && response == nil ? .prepare : .receive
  }

  /// Whether any byte of the request had left, as with `SessionError.requestBytesSent`: of one that was answered, unless every answer was the cache's own. False
  /// of what was said without a response: the request never came to be, or there was none.
  ///
  /// Of a response whose body has not ended it is not known yet whether a server was asked: then it is true, as it is not safe to ask again.
  /// An interceptor that throws this error when it is asked about another attempt says nothing of those before.
  public var requestBytesSent: Bool {
    if let sessionError, sessionError.requestBytesSent { return true }
    guard let response else { return false }
    let transactions = response.metrics.transactions
    return transactions.isEmpty
      || transactions.contains { transaction in
        // Without an answer too, where the cache stood in for a server that had failed.
        if transaction.requestStart != nil { return true }
        return transaction.fetchType != .localCache && transaction.statusCode != nil
      }
  }

  /// How the exchange ended, if that was no success.
  var sessionError: SessionError? {
    var next = underlying
    while let error = next as? SerializationError { next = error.underlying }
    return next as? SessionError
  }

  /// What a server says about its error, in a type of the caller's: the body, as JSON. Whatever its media type is: that is among what may be wrong.
  ///
  /// - Parameter decoder: Default a plain one.
  /// - Throws: `SerializationError` with `.cannotParseResponse`: the error has no body, or a blank one, as one that is not of a response, and then the error
  ///   itself is the `underlying`; or the body is no `Value`, with Foundation's `DecodingError` behind it.
  public func body<Value: Decodable>(
    as type: Value.Type = Value.self, decoder: JSONDecoder = JSONDecoder()
  ) throws(SerializationError) -> Value {
    guard let data, !JSONValue.isBlank(data) else {
      throw SerializationError(
        .cannotParseResponse, message: "The error has no body, and a \(Value.self) is expected.",
        failingURL: failingURL,
        response: response, data: data, underlying: self)
    }
    do {
      try PlainJSON.checkMarks(data)
      return try decoder.decode(Value.self, from: data)
    } catch {
      throw PlainJSON.refused(error, type, data, response)
    }
  }
}

extension SerializationError: LocalizedError, CustomStringConvertible {
  /// The message.
  public var errorDescription: String? { message }
  /// Code and message.
  public var description: String { "\(code): \(message)" }
}
