internal import Foundation
internal import LupineBase
internal import LupineSession
internal import Synchronization

/// The session of a manager, and what its tasks share.
///
/// Who holds whom: the manager and every task that is not over hold the core; the core holds the session; the session holds its delegate, which holds
/// the settings alone. So there is no cycle: when manager and tasks are gone, so is the core, and with it the session's connections. Sessions that were
/// replaced are held by their tasks alone.
final class ManagerCore: Sendable {
  private struct Former {
    weak var session: Session?
  }

  private struct Sessions {
    var current: Session
    /// Those that were replaced: tasks that were made before may still begin.
    var former: [Former] = []

    /// The current one, and those before it that are not gone.
    var living: [Session] { [current] + former.compactMap { $0.session } }
  }

  let settings = ManagerSettings()
  private let sessions: LockedStorage<Sessions>

  init(_ configuration: SessionConfiguration) throws(SessionError) {
    let session = try Self.session(configuration, settings)
    sessions = LockedStorage(Sessions(current: session))
  }

  deinit { session.finishTasksAndInvalidate() }

  private static func session(
    _ configuration: SessionConfiguration, _ settings: ManagerSettings
  ) throws(SessionError) -> Session {
    try Session(configuration, delegate: ManagerDelegate(settings))
  }

  var session: Session { sessions.withLock { $0.current } }

  private var living: [Session] { sessions.withLock { $0.living } }

  /// Puts a new session in the place of the current one, which is returned.
  func replaceSession() throws(SessionError) -> Session {
    let session = try Self.session(session.configuration, settings)
    // Those that are looked at come out of the lock: it may be their last reference by now.
    let living = sessions.withLock { sessions -> [Session] in
      let living = sessions.living
      sessions = Sessions(current: session, former: living.map { Former(session: $0) })
      return living
    }
    return living[0]
  }

  /// Changes who decides about servers, for all sessions at once; see `Session.changeTrust(_:)`.
  func changeTrust(_ change: () -> Void) {
    let sessions = living
    changeTrust(of: sessions[...], change)
    // What was made meanwhile may have asked before the change.
    for session in living where !sessions.contains(where: { $0 === session }) { session.flush() }
  }

  private func changeTrust(of sessions: ArraySlice<Session>, _ change: () -> Void) {
    guard let session = sessions.first else { return change() }
    session.changeTrust { changeTrust(of: sessions.dropFirst(), change) }
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
