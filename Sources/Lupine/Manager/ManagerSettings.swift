internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// What may be changed in a manager at any time. It refers to nobody: the session's delegate and the tasks hold it without keeping the manager or the
/// session alive.
final class ManagerSettings: Sendable {
  struct Values {
    var hooks = SessionManagerHooks()
    var responseSerializer: any ResponseSerializer = JSONResponseSerializer()
    var completionQueue: DispatchQueue?
    var completionGroup: DispatchGroup?
    var progressQueue: DispatchQueue?
    var retrying = RetryLoop()
    var securityPolicy = SecurityPolicy.default
  }

  let values = LockedStorage(Values())

  func change(_ body: (inout Values) -> Void) { values.withLock { body(&$0) } }

  var hooks: SessionManagerHooks { values.withLock { $0.hooks } }

  // MARK: Trust

  /// Whether servers are looked at here: the session's own check costs no callback.
  var decidesTrust: Bool {
    values.withLock { $0.hooks.connectionChallengeHandler != nil || $0.securityPolicy.needsEvaluation }
  }

  /// The error that a task ends with: that of the handler which refused the server, if one did.
  func explained(_ error: SessionError) -> any Error {
    (error.underlying as? ChallengeRefusal)?.error ?? error
  }
}

/// Carries the error of a challenge handler through the session.
struct ChallengeRefusal: Error, CustomStringConvertible {
  let error: any Error
  var description: String { "\(error)" }
}
