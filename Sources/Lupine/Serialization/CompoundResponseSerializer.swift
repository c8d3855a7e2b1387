public import Foundation
public import LupineSession

/// Asks several serializers in turn.
///
/// The first that makes a value of the response decides: also when its status is wrong and the value comes with the error. Errors of the others
/// are forgotten. If none makes one, the answer is the body as it is, validated by `validation`.
///
/// Put an `HTTPResponseSerializer` or `StringResponseSerializer` last: it makes a value of anything.
///
/// Source: `AFCompoundResponseSerializer`.
public struct CompoundResponseSerializer: HTTPResponseSerializing {
  /// For the body as it is. Default: 200 to 299, any media type.
  public var validation: ResponseValidation
  /// The serializers, in the order in which they are asked.
  public var responseSerializers: [any ResponseSerializer]

  /// A serializer that asks these.
  public init(_ responseSerializers: [any ResponseSerializer], validation: ResponseValidation = ResponseValidation()) {
    self.responseSerializers = responseSerializers
    self.validation = validation
  }

  /// The value of the first serializer that has one, or the body.
  ///
  /// - Throws: `SerializationError` with a value, of the first serializer that has one for the media type; or of `validation`.
  public func serialize(_ response: Response?, data: Data?) throws -> any Sendable {
    for serializer in responseSerializers {
      do {
        if let value = try serializer.anyValue(response, data: data) { return value }
      } catch let error as SerializationError
        where error.value != nil && (!error.contains(.unacceptableContentType) || serializer is HTTPResponseSerializer)
      {
        // A value of another media type is none of this serializer's, as in AFNetworking, but for the one that takes any body.
        throw error
      } catch {
        continue
      }
    }
    return try HTTPResponseSerializer(validation: validation).serialize(response, data: data)
  }
}
