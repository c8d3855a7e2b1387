public import Foundation
public import LupineSession

/// Validates a response and makes a value of its body.
///
/// Source: `AFURLResponseSerialization`.
public protocol ResponseSerializer<Output>: Sendable {
  /// What comes of a body.
  associatedtype Output: Sendable

  /// The value of a response.
  ///
  /// - Parameters:
  ///   - response: the head; nil if there is none, as with data of a file.
  ///   - data: the body, decoded; nil or empty when there is none. A download is validated with an empty body.
  /// - Throws: `SerializationError`, which carries the response, the body, and the value as far as one could be made.
  ///
  /// Any thread; the managers call it on their processing queue.
  func serialize(_ response: Response?, data: Data?) throws -> Output
}
