/// The rules of one exchange (one request on one connection and its response), pure.
///
/// Sending and receiving are independent halves:
///
///     sending:   head -> awaitingContinue | body | done
///                awaitingContinue -> body (100, or its timer) | stopped (final response)
///                body -> done | stopped (final response with status >= 300, or the response ended first)
///     receiving: head -> head (1xx) | body -> done
///
/// Invariants: the body is started at most once; nothing is sent after `stopped`; the connection may serve again only when sending
/// is `done` and receiving is `done` (an unfinished upload or an open 100-continue poisons it: Go CVE-2024-24791).
package struct ExchangeMachine: Equatable, Sendable {
  package enum Sending: Equatable, Sendable { case head, awaitingContinue, body, done, stopped }
  package enum Receiving: Equatable, Sendable { case head, body, done }

  /// What the driver does next with its sending half.
  package enum SendingStep: Equatable, Sendable { case none, startBody, awaitContinue, stopBody }

  package private(set) var sending = Sending.head
  package private(set) var receiving = Receiving.head
  /// The server has said 100: it knows what was expected of it.
  package private(set) var wasContinued = false
  private let hasBody: Bool
  private let expectsContinue: Bool

  package init(hasBody: Bool, expectsContinue: Bool) {
    self.hasBody = hasBody
    self.expectsContinue = expectsContinue && hasBody
  }

  /// The request head is on its way.
  package mutating func headSent() -> SendingStep {
    guard sending == .head else { return .none }
    guard hasBody else {
      sending = .done
      return .none
    }
    sending = expectsContinue ? .awaitingContinue : .body
    return expectsContinue ? .awaitContinue : .startBody
  }

  /// A 1xx response arrived. Only 100 means something here (RFC 9110 10.1.1).
  package mutating func informational(status: Int) -> SendingStep {
    guard status == 100 else { return .none }
    wasContinued = true
    guard sending == .awaitingContinue else { return .none }
    sending = .body
    return .startBody
  }

  /// The server took too long to say 100; RFC 9110 10.1.1 has the client send the body then.
  package mutating func continueTimedOut() -> SendingStep {
    guard sending == .awaitingContinue else { return .none }
    sending = .body
    return .startBody
  }

  /// The final head arrived. An error or a redirect stops an upload that is under way; a 2xx lets it go on (full duplex).
  package mutating func finalHead(status: Int) -> SendingStep {
    guard receiving == .head else { return .none }
    receiving = .body
    switch sending {
    case .awaitingContinue:
      sending = .stopped
      return .stopBody
    case .body where status >= 300:
      sending = .stopped
      return .stopBody
    case .head, .body, .done, .stopped: return .none
    }
  }

  /// The last byte of the body has been handed to the socket.
  package mutating func bodySent() {
    if sending == .body { sending = .done }
  }

  /// The response is complete.
  package mutating func responseEnded() -> SendingStep {
    receiving = .done
    guard sending != .done, sending != .stopped else { return .none }
    sending = .stopped
    return .stopBody
  }

  /// Whether this exchange leaves the connection fit for another one, as far as the request is concerned.
  package var leavesConnectionClean: Bool { sending == .done && receiving == .done }
}
