/// A server wants to be shown who is asking; for delegates.
public struct AuthenticationChallenge: Sendable {
  /// Who asks, and how it wants to be answered.
  public let protectionSpace: ProtectionSpace
  /// What would be sent by default: from the request, its URL or the storage; nil if there is nothing, or nothing that was not refused.
  public let proposedCredential: Credential?
  /// How many credentials the server has refused to this task. A nonce that was stale is no refusal.
  public let previousFailureCount: Int
  /// The 401 response.
  public let failureResponse: Response
}

/// What is to be done about a challenge.
public enum ChallengeDisposition: Sendable {
  /// Send this credential; nil: none, so that the 401 response becomes the answer.
  ///
  /// A credential that does not fit the challenge (a password where the server asks for a token first, or one whose `Credential.schemes` leave
  /// out what is asked for) answers the next thing that the server offers and that it fits, and is kept for that. If it fits nothing of it, or if
  /// the server has refused it to this task, it is not sent, and the 401 response becomes the answer too.
  case useCredential(Credential?)
  /// Send the proposed credential, if there is one; without one, go on to what the server offers next, and at last make the 401 response
  /// the answer.
  case performDefaultHandling
  /// Fail with `.cancelled`.
  case cancelAuthenticationChallenge
  /// Go on to what the server offers next.
  case rejectProtectionSpace
}
