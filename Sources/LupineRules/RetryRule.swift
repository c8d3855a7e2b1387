/// What is known of an attempt that failed.
package struct AttemptFacts: Hashable, Sendable {
  /// The connection had served a request before this one.
  package var connectionWasReused: Bool
  /// Any byte of the request was given to the socket.
  package var wroteAnything: Bool
  /// Any byte of a response arrived, an informational one included.
  package var receivedAnything: Bool
  /// The request has an `Idempotency-Key` or `X-Idempotency-Key` field.
  package var hasIdempotencyKey: Bool
  /// The body, if there is one, can be sent again, or nobody has been asked for it yet; true without a body.
  package var isBodyReplayable: Bool
  /// Attempts of this request made so far, this one included.
  package var attempts: Int

  package init(
    connectionWasReused: Bool, wroteAnything: Bool, receivedAnything: Bool, hasIdempotencyKey: Bool = false,
    isBodyReplayable: Bool = true, attempts: Int = 1
  ) {
    self.connectionWasReused = connectionWasReused
    self.wroteAnything = wroteAnything
    self.receivedAnything = receivedAnything
    self.hasIdempotencyKey = hasIdempotencyKey
    self.isBodyReplayable = isBodyReplayable
    self.attempts = attempts
  }
}

package enum RetryDecision: Hashable, Sendable {
  case retry(RetryReason)
  case fail(NoRetryReason)

  package enum RetryReason: Hashable, Sendable {
    /// The request never left.
    case nothingWritten
    /// Sending it again has the effect of sending it once.
    case idempotent
  }

  package enum NoRetryReason: Hashable, Sendable {
    /// A new connection does not die of old age: the peer or the path is at fault.
    case freshConnection
    case responseBegun
    case bodyNotReplayable
    /// The server may have acted on it (curl sends such a POST twice).
    case notIdempotent
    case tooManyAttempts(limit: Int)
  }
}

/// Go's rule for a request that died with its connection.
package enum RetryRule {
  /// Two are the rule, as the pool closes what has been idle for longer than a connection that died; between them connections that were
  /// used meanwhile may die as well. A request that makes a server hang up has no more processes of it ended than this (curl's limit is 5 too).
  package static let maximumAttempts = 5

  package static func decide(method: String, _ facts: AttemptFacts) -> RetryDecision {
    guard facts.connectionWasReused else { return .fail(.freshConnection) }
    guard !facts.receivedAnything else { return .fail(.responseBegun) }
    guard facts.isBodyReplayable else { return .fail(.bodyNotReplayable) }
    guard facts.attempts < maximumAttempts else { return .fail(.tooManyAttempts(limit: maximumAttempts)) }
    guard facts.wroteAnything else { return .retry(.nothingWritten) }
    return isIdempotent(method) || facts.hasIdempotencyKey ? .retry(.idempotent) : .fail(.notIdempotent)
  }

  /// The methods of RFC 9110 section 9.2.2, PUT and DELETE included. Methods are case-sensitive.
  package static func isIdempotent(_ method: String) -> Bool {
    switch method {
    case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE": true
    default: false
    }
  }

  /// Whether the field says that the server will notice a repetition.
  package static func isIdempotencyKey(_ fieldName: String) -> Bool {
    // Asked for every field of every request: most names end here.
    guard fieldName.utf8.count == 15 || fieldName.utf8.count == 17 else { return false }
    let lower = fieldName.lowercased()
    return lower == "idempotency-key" || lower == "x-idempotency-key"
  }
}
