public import Dispatch
internal import Foundation
internal import LupineBase
public import LupineSession
internal import Synchronization

/// Makes tasks of a session and brings what comes of them: values instead of bytes, progress, files in their places, notifications.
///
/// Every method may be called from any thread, and settings may change at any time. A task keeps the serializer and the progress queue of when it was made;
/// completion queue and group are read when it is over, interceptors and retry policy while it runs, but whether it asks them at all when it begins. An
/// `async` call, uploads apart, keeps the interceptors and the retry policy of when it began; the verbs read serializer and decoder when the response is there.
/// Hooks: see `SessionManagerHooks`.
///
/// **Ownership.** Nobody but you holds the manager: neither its session nor its tasks do, so that one made in passing goes when it is let go. Tasks that
/// are not over keep the session; when manager and tasks are gone, its connections are closed. (AFNetworking's managers live until they are invalidated.)
///
/// Subclasses must be as safe: `@unchecked` is inherited, since whatever can change here is behind a lock.
///
/// Source: `AFURLSessionManager`.
@dynamicMemberLookup
open class SessionManager: @unchecked Sendable {
  let core: ManagerCore

  /// Makes a manager with a session of its own.
  ///
  /// - Throws: `SessionError`, as `Session` does: `.badRequest` for settings that contradict each other, `.system` if there is nothing left to make a
  ///   session of.
  public init(configuration: SessionConfiguration = .default) throws(SessionError) {
    core = try ManagerCore(configuration)
  }

  // MARK: The session

  /// The session. `invalidateSession(cancellingTasks:resettingSession:)` may put another one in its place.
  public var session: Session { core.session }

  /// The configuration of the session.
  public var sessionConfiguration: SessionConfiguration { session.configuration }

  /// Where hooks are called, and progress unless `progressQueue` is set.
  public var delegateQueue: DispatchQueue { session.delegateQueue }

  /// Ends the session.
  ///
  /// - Parameters:
  ///   - cancellingTasks: end its tasks at once, with `.cancelled`, those that have not begun too; otherwise they finish, and the session is invalid when the
  ///     last of them has, or is gone without having begun.
  ///   - resettingSession: go on with a new session of the same configuration. Default false: tasks made later fail with `.sessionInvalidated`.
  /// - Throws: `SessionError` if no new session can be made; the old one is valid then.
  ///
  /// Source: `invalidateSessionCancelingTasks:resetSession:`.
  public func invalidateSession(
    cancellingTasks: Bool, resettingSession: Bool = false
  ) throws(SessionError) {
    let session = resettingSession ? try core.replaceSession() : session
    if cancellingTasks { session.invalidateAndCancel() } else { session.finishTasksAndInvalidate() }
  }

  // MARK: Settings

  /// What makes values of bodies for handlers; `async` verbs take statuses and, of a `JSONResponseSerializer`, media types and options of it. A task keeps the one that it was made with. Default `JSONResponseSerializer()`.
  public var responseSerializer: any ResponseSerializer {
    get { core.settings.values.withLock { $0.responseSerializer } }
    set { core.settings.setSerializer(newValue) }
  }

  /// Where completion handlers are called; read when a task is over. The notifications of a task are posted, one after another, on
  /// the one that there was when it was made. Default nil: the main queue, which a program has to run: what it does not get to is kept, bodies included.
  public var completionQueue: DispatchQueue? {
    get { core.settings.values.withLock { $0.completionQueue } }
    set { core.settings.exchange(\.completionQueue, newValue) }
  }

  /// A group that completion handlers are in from when they are queued. Default nil: one of the process's.
  public var completionGroup: DispatchGroup? {
    get { core.settings.values.withLock { $0.completionGroup } }
    set { core.settings.exchange(\.completionGroup, newValue) }
  }

  /// Where progress handlers are called; read when a task is made. Default nil: the session's delegate queue, which is not the main queue.
  public var progressQueue: DispatchQueue? {
    get { core.settings.values.withLock { $0.progressQueue } }
    set { core.settings.exchange(\.progressQueue, newValue) }
  }

  /// Asked about requests, in this order; see `RequestInterceptor`. Those of the time when a task begins decide whether it asks at all. Default none.
  ///
  /// `append` and the like are a reading and a setting; where several threads change them, see `updateInterceptors(_:)`.
  public var interceptors: [any RequestInterceptor] {
    get { core.settings.values.withLock { $0.retrying.interceptors } }
    set { core.settings.exchange(\.retrying.interceptors, newValue) }
  }

  /// Changes the interceptors as they are at that moment: of changes that several threads make in this way none is lost. Any thread.
  ///
  /// - Parameter change: changes a copy, which then takes their place; called under no lock, at once, and once more with the new ones whenever another
  ///   thread was faster.
  /// - Throws: what `change` throws; nothing is changed then.
  public func updateInterceptors<Failure: Error>(
    _ change: (inout [any RequestInterceptor]) throws(Failure) -> Void
  ) throws(Failure) {
    try core.settings.updateInterceptors(change)
  }

  /// When calls and tasks are tried again, after the interceptors were asked. Whether there is one, or an interceptor, when a task begins decides whether it asks
  /// at all. Default nil: never.
  public var retryPolicy: RetryPolicy? {
    get { core.settings.values.withLock { $0.retrying.policy } }
    set { core.settings.exchange(\.retrying.policy, newValue) }
  }

  /// What servers are trusted. Default `.default`: those that the session trusts, at no cost.
  public var securityPolicy: SecurityPolicy { core.settings.values.withLock { $0.securityPolicy } }

  /// Sets whom to trust. Connections, TLS sessions and stored responses that came under another policy are not used any more, nor by tasks of before a
  /// reset that begin later; requests under way go on.
  ///
  /// Of a server that it refuses, the error of the tasks is `.serverCertificateUntrusted`, with the `SecurityPolicyError` as `underlying`: never a
  /// cancellation.
  ///
  /// - Throws: `SecurityPolicyError`, and the policy stays as it was: `.domainNeedsPins` for one that validates the names of invalid certificates without
  ///   a pin, which would refuse every server; `.transportDecidesTrust` for one that would have to be asked where `SessionConfiguration.transport` is
  ///   set; see also `HTTPSessionManager`.
  open func setSecurityPolicy(_ policy: SecurityPolicy) throws(SecurityPolicyError) {
    try policy.checkNamesMeanSomething()
    guard !policy.needsEvaluation || session.asksAboutTrust else {
      throw SecurityPolicyError(
        .transportDecidesTrust,
        message: "the session's transport decides about trust itself: set up the `tls` of its configuration instead")
    }
    core.changeTrust { core.settings.exchange(\.securityPolicy, policy) }
  }

  /// Watches the network, once somebody tells it to start. Default `NetworkReachabilityManager.shared`. Requests do not depend on it:
  /// `SessionConfiguration.waitsForConnectivity` makes them wait. Source: `AFURLSessionManager.reachabilityManager`.
  public var reachabilityManager: NetworkReachabilityManager {
    get { core.settings.values.withLock { $0.reachability } }
    set { core.settings.exchange(\.reachability, newValue) }
  }

  /// The hooks, each as a property of the manager: see `SessionManagerHooks`.
  public subscript<Value>(dynamicMember hook: WritableKeyPath<SessionManagerHooks, Value>) -> Value {
    get {
      let hooks = core.settings.values.withLock { $0.hooks }
      return hooks[keyPath: hook]
    }
    set {
      // However the handler is named, alone or with all others.
      if hook == \SessionManagerHooks.connectionChallengeHandler || hook == \SessionManagerHooks.self
        || hook == \SessionManagerHooks.connectionChallengeHandler!
      {
        core.changeTrust { exchange(hook, newValue) }
      } else {
        exchange(hook, newValue)
      }
    }
  }

  private func exchange<Value>(_ hook: WritableKeyPath<SessionManagerHooks, Value>, _ value: Value) {
    let former = core.settings.values.withLock { values in
      let former = values.hooks
      values.hooks[keyPath: hook] = value
      return former
    }
    // Let go of outside the lock: it may hold the last reference to something that asks the manager when it goes.
    withExtendedLifetime(former) {}
  }

  // MARK: Tasks under way

  /// The tasks of the session that are not over, those that have not begun and those of `async` calls too (see `Session.tasks`), oldest first. At once, from
  /// any thread and queue.
  public var tasks: [SessionTask] { session.allTasks }
  /// Those of `tasks` that send at most a small body and give a value.
  public var dataTasks: [DataTask] { tasks.compactMap { $0 is UploadTask ? nil : $0 as? DataTask } }
  /// Those of `tasks` that send a body.
  public var uploadTasks: [UploadTask] { tasks.compactMap { $0 as? UploadTask } }
  /// Those of `tasks` that write a file.
  public var downloadTasks: [DownloadTask] { tasks.compactMap { $0 as? DownloadTask } }
}
