public import LupineSession

/// What a manager's handler says to a challenge of a server (401).
///
/// Source: the result of `authenticationChallengeHandler` of AFNetworking 4.
public enum AuthenticationChallengeAnswer: Sendable {
  /// The handler calls the completion handler itself, from any thread.
  case handledLater
  /// Give up; this is the error of the task.
  case error(any Error)
  /// Send this credential.
  case credential(Credential)
  /// Anything else.
  case disposition(ChallengeDisposition)
}

/// What a manager's handler says to a challenge of a connection: about the trust of a server, or for a client certificate.
///
/// Source: the result of `authenticationChallengeHandler` of AFNetworking 4, which sees these challenges too.
public enum ConnectionChallengeAnswer: Sendable {
  /// The handler calls the completion handler itself, from any thread.
  case handledLater
  /// Do not connect; this is the error of the tasks that wait for the connection.
  case error(any Error)
  /// Anything else. `.performDefaultHandling` of a question about trust asks the security policy.
  case disposition(ConnectionChallengeDisposition)
}
