internal import Dispatch
internal import LupineBase
internal import LupineEngine
internal import LupineTLS
internal import Synchronization

/// A server has shown its certificates, or asks for one of ours, and the handshake stands still until the delegate has answered.
///
/// Not a byte of a request leaves before that. After `SessionConfiguration.trustDecisionTimeout` the connection fails. Connections that stop
/// at the same question ask once; one that resumes a TLS session does not ask: the session carries the answer that it was made under. A connection that
/// ends while `TLSConfiguration.keyLogPath` is written to is made once more, and may ask again for the same request.
public struct ConnectionChallenge: Sendable {
  /// What is asked.
  public enum Kind: Sendable {
    /// Whether to trust the server.
    case serverTrust(ServerTrust)
    /// What to show to the server: DER names of the authorities that it accepts; empty: any.
    case clientCertificate(acceptableAuthorities: [[UInt8]])
  }

  /// The host, as in SNI and in the certificate check.
  public let host: String
  /// The port.
  public let port: Int
  /// What is asked.
  public let kind: Kind
}

/// The answer to a `ConnectionChallenge`.
public enum ConnectionChallengeDisposition: Sendable {
  /// What the session would do without a delegate.
  case performDefaultHandling
  /// Trust the server, whatever is wrong. Of a question about a client certificate: the default.
  case trustServer
  /// Show this identity. Of a question about trust: the default.
  case useIdentity(TLSConfiguration.ClientIdentity)
  /// Do not trust the server: its requests fail with `.serverCertificateUntrusted`. Of a question about a client certificate: show none.
  case reject
  /// Do not connect: the requests fail with `.serverCertificateUntrusted`, of a question about a client certificate with
  /// `.secureConnectionFailed`, and the `SessionError` has this error as `underlying`.
  case rejectWithError(any Error)
}

/// Takes the questions of connections to the session's delegate.
///
/// The session is referred to weakly: its connections must not keep it alive. Once it or its delegate is gone, nobody can say any more what the
/// delegate would have decided, and no server is trusted: what still opens a connection then, as a revalidation behind an answer, goes nowhere.
final class DelegateTrustDecider: TrustDecider {
  private struct Weak {
    weak var session: Session?
    /// Whether its delegate is one that decides.
    var hadDecider = false
  }

  private let state = LockedStorage(Weak())
  private var session: Session? { state.withLock { $0.session } }

  func attach(_ session: Session) {
    let decides =
      session.delegate.map { $0.handledCallbacks.contains(.sessionChallenge) || $0 is any LateTrustDelegate } ?? false
    state.withLock { state in
      state.session = session
      state.hadDecider = decides
    }
  }

  private var wantsChallenges: Bool {
    let (session, hadDecider) = state.withLock { ($0.session, $0.hadDecider) }
    return session?.delegate?.handledCallbacks.contains(.sessionChallenge) ?? hadDecider
  }

  var decidesTrust: Bool { wantsChallenges }
  var choosesIdentity: Bool { wantsChallenges }

  func decideTrust(_ question: TrustQuestion, _ answer: @escaping @Sendable (TrustAnswer) -> Void) {
    let tls = session?.configuration.tls
    let trust = ServerTrust(
      question.report, roots: tls?.roots ?? .certificates([]), additionalRoots: tls?.additionalRoots ?? [],
      host: question.host)
    ask(question.host, question.port, .serverTrust(trust)) { disposition in
      switch disposition {
      case .trustServer: answer(.accept)
      case .reject: answer(.reject(reason: "the session's delegate rejected it"))
      case .rejectWithError(let error): answer(.reject(reason: "\(error)", cause: error))
      case .performDefaultHandling, .useIdentity: answer(.useDefault)
      }
    }
  }

  func chooseIdentity(_ question: IdentityQuestion, _ answer: @escaping @Sendable (IdentityAnswer) -> Void) {
    ask(question.host, question.port, .clientCertificate(acceptableAuthorities: question.acceptableAuthorities)) {
      disposition in
      switch disposition {
      case .useIdentity(let identity): answer(.identity(TLSIdentity(identity)))
      case .reject: answer(.none)
      case .rejectWithError(let error): answer(.reject(reason: "\(error)", cause: error))
      case .performDefaultHandling, .trustServer: answer(.useDefault)
      }
    }
  }

  private func ask(
    _ host: String, _ port: UInt16, _ kind: ConnectionChallenge.Kind,
    _ take: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
  ) {
    // A question that nobody answers opens no door.
    let answer = Answer(default: .reject, take)
    guard let session, let delegate = session.delegate else { return answer.give(.reject) }
    let challenge = ConnectionChallenge(host: host, port: Int(port), kind: kind)
    session.delegateQueue.async {
      // Behind the end of the session it hears nothing.
      guard session.delegate === delegate else { return answer.give(.reject) }
      delegate.session(session, didReceive: challenge) { answer.give($0) }
    }
  }
}
