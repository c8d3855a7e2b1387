internal import Foundation
internal import LupineSession

/// What to tell a person of an error: a title and a sentence.
///
/// - An error with a description and with a suggestion or a reason: the description is the title, the other the message.
/// - One with a description alone: `Error`, and the description.
/// - Any other: `Error`, and `<domain> Error: <code>`.
///
/// Source: `UIAlertView+AFNetworking`.
public struct ErrorPresentation: Sendable, Hashable {
  /// The title.
  public var title: String
  /// The message.
  public var message: String

  /// What to tell of an error. A `SessionError` has a description, its message.
  public init(_ error: any Error) {
    let localized = error as? any LocalizedError
    let native = error as NSError
    let description = Self.text(
      localized?.errorDescription, (error as? SessionError)?.message,
      native.userInfo[NSLocalizedDescriptionKey] as? String)
    guard let description else {
      title = "Error"
      message = "\(native.domain) Error: \(native.code)"
      return
    }
    let detail = Self.text(
      localized?.recoverySuggestion, native.userInfo[NSLocalizedRecoverySuggestionErrorKey] as? String,
      localized?.failureReason, native.userInfo[NSLocalizedFailureReasonErrorKey] as? String)
    title = detail == nil ? "Error" : description
    message = detail ?? description
  }

  private static func text(_ candidates: String?...) -> String? {
    candidates.lazy.compactMap { $0 }.first { !$0.isEmpty }
  }
}
