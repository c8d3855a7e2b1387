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

  /// Whether all that a serializer had against the answer to a HEAD is that it has no body: what it would miss there is not there to be missed.
  func missedOnlyTheBody(_ error: any Error, of response: Response?, data: Data) -> Bool {
    guard data.isEmpty, let response, refusal(of: response, data: data) == nil else { return false }
    guard let reason = error as? SerializationError else { return true }
    return !reason.contains(.unacceptableStatusCode) && !reason.contains(.unacceptableContentType)
  }
}
