internal import Foundation
internal import LupineSession

extension ResponseSerializer {
  /// What is wrong with a response whose body is somewhere else, as with a download. A serializer of one's own is called without a body, as
  /// AFNetworking does.
  func refusal(of response: Response, data: Data?) -> (any Error)? {
    if let validating = self as? any HTTPResponseSerializing {
      return validating.validation.validate(response, data: data)
    }
    do {
      _ = try serialize(response, data: data)
      return nil
    } catch {
      return error
    }
  }
}
