import LupineBase
import LupineTLS
import LupineTestSupport
import Testing

@testable import LupineEngine
@testable import LupineSession

/// The way of a connection's questions to the session's delegate, by itself.
@Suite struct TrustDeciderTests {
  /// Trusts everybody.
  private final class Trusting: SessionDelegate {
    let handledCallbacks: CallbackSet = .sessionChallenge

    func session(
      _ session: Session, didReceive challenge: ConnectionChallenge,
      completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
    ) {
      completionHandler(.trustServer)
    }
  }

  /// Once the session has let go of its delegate, every new handshake still stops, and is told no.
  @Test func withoutItsDelegateNobodyIsTrusted() async throws {
    let decider = DelegateTrustDecider()
    let session = try Session(delegate: Trusting())
    decider.attach(session)
    #expect(decider.decidesTrust && decider.choosesIdentity)
    session.finishTasksAndInvalidate()
    #expect(await eventually { session.delegate == nil })
    #expect(decider.decidesTrust && decider.choosesIdentity)
    let answers = Locked<[String]>([])
    decider.decideTrust(TrustQuestion(host: "a.example", port: 443, report: TrustReport(isVerified: true))) { answer in
      let isRejection = if case .reject = answer { true } else { false }
      answers.withLock { $0.append(isRejection ? "rejected" : "trusted") }
    }
    decider.chooseIdentity(IdentityQuestion(host: "a.example", port: 443, acceptableAuthorities: [])) { answer in
      let isNone = if case .none = answer { true } else { false }
      answers.withLock { $0.append(isNone ? "no certificate" : "certificate") }
    }
    #expect(answers.withLock { $0 } == ["rejected", "no certificate"])
  }
}
