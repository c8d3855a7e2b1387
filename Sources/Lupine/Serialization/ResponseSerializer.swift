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

  /// The value of a response where its type does not matter, as in the completion handlers of the managers: nil if there is none.
  ///
  /// The default is that of `serialize(_:data:)`, and nil for an optional `Output` that is nil.
  func anyValue(_ response: Response?, data: Data?) throws -> (any Sendable)?
}

extension ResponseSerializer {
  /// The value of `serialize(_:data:)`.
  public func anyValue(_ response: Response?, data: Data?) throws -> (any Sendable)? {
    let value = try serialize(response, data: data)
    if let optional = value as? any NilTelling, optional.isNil { return nil }
    return value
  }
}

/// An optional of any type.
private protocol NilTelling {
  var isNil: Bool { get }
}

extension Optional: NilTelling {
  fileprivate var isNil: Bool { if case nil = self { true } else { false } }
}

/// Whether a value is an optional, of any type, that is nil: in an `any Sendable` it would be something. For errors; good answers ask themselves.
@inline(never)
func isNothing<Value>(_ value: Value) -> Bool {
  guard let optional = value as? any NilTelling else { return false }
  return optional.isNil
}

/// A response serializer with the rules of HTTP: what the serializers of this module are.
///
/// Source: the superclass that AFNetworking's response serializers share.
public protocol HTTPResponseSerializing<Output>: ResponseSerializer {
  /// Which status codes and media types are acceptable.
  var validation: ResponseValidation { get set }
}

extension HTTPResponseSerializing {
  /// Status codes that are no error; nil: any. Default 200 to 299.
  public var acceptableStatusCodes: Set<Int>? {
    get { validation.acceptableStatusCodes }
    set { validation.acceptableStatusCodes = newValue }
  }

  /// Media types in lower case without parameters that a body may have; nil: any. See `ResponseValidation.acceptableContentTypes`.
  public var acceptableContentTypes: Set<String>? {
    get { validation.acceptableContentTypes }
    set { validation.acceptableContentTypes = newValue }
  }
}
