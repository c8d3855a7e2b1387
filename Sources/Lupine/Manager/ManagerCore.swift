internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// The session of a manager, and what its tasks share.
///
/// Who holds whom: the manager and every task that is not over hold the core; the core holds the session; the session holds its delegate, which holds
/// the settings alone. So there is no cycle: when manager and tasks are gone, so is the core, and with it the session's connections.
final class ManagerCore: Sendable {
  let settings = ManagerSettings()
  private let current: LockedStorage<Session>

  init(_ configuration: SessionConfiguration) throws(SessionError) {
    current = LockedStorage(try Self.session(configuration, settings))
  }

  deinit { session.finishTasksAndInvalidate() }

  private static func session(
    _ configuration: SessionConfiguration, _ settings: ManagerSettings
  ) throws(SessionError) -> Session {
    try Session(configuration, delegate: ManagerDelegate(settings))
  }

  var session: Session { current.withLock { $0 } }

  /// Puts a new session in the place of the current one, which is returned.
  func replaceSession() throws(SessionError) -> Session {
    let session = try Self.session(session.configuration, settings)
    return current.withLock { current in
      defer { current = session }
      return current
    }
  }

  /// Where bodies are read and values made of them: not the delegate queue, which others wait for.
  static let processingQueue = DispatchQueue(label: "lupine.manager.processing", attributes: .concurrent)
  /// The group of handlers where none was named.
  static let completionGroup = DispatchGroup()

  /// Calls a handler where the manager says.
  func complete(_ work: @escaping @Sendable () -> Void) {
    let (queue, group) = settings.values.withLock { ($0.completionQueue, $0.completionGroup) }
    (queue ?? .main).async(group: group ?? Self.completionGroup, execute: work)
  }
}

/// The delegate of a manager's session as a whole; tasks have delegates of their own.
final class ManagerDelegate: LateTrustDelegate {
  private let settings: ManagerSettings

  init(_ settings: ManagerSettings) { self.settings = settings }

  var handledCallbacks: CallbackSet {
    settings.decidesTrust ? [.becameInvalid, .sessionChallenge] : .becameInvalid
  }

  func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {
    settings.hook { $0.sessionDidBecomeInvalid }?(session, error)
    NotificationCenter.default.post(name: .sessionDidInvalidate, object: session)
  }

  func session(
    _ session: Session, didReceive challenge: ConnectionChallenge,
    completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
  ) {
    guard let handler = settings.hook({ $0.connectionChallengeHandler }) else {
      return completionHandler(byPolicy(challenge))
    }
    let answer = handler(session, challenge) { [self] in completionHandler(resolved($0, challenge)) }
    switch answer {
    case .handledLater: break
    case .disposition(let disposition): completionHandler(resolved(disposition, challenge))
    case .error(let error): completionHandler(.rejectWithError(ChallengeRefusal(error: error)))
    }
  }

  /// The default handling of a question about trust is the security policy's.
  private func resolved(
    _ disposition: ConnectionChallengeDisposition, _ challenge: ConnectionChallenge
  ) -> ConnectionChallengeDisposition {
    if case .performDefaultHandling = disposition { return byPolicy(challenge) }
    return disposition
  }

  private func byPolicy(_ challenge: ConnectionChallenge) -> ConnectionChallengeDisposition {
    settings.values.withLock { $0.securityPolicy }.disposition(for: challenge)
  }
}
