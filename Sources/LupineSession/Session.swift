public import Dispatch
internal import Synchronization
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import Logging
internal import LupineWire

/// Fetches: a pool of connections, a configuration, and the tasks that use them.
///
/// Every method may be called from any thread. A session needs no explicit end: when its last reference goes, its tasks finish and its
/// connections are closed. `invalidateAndCancel()` ends it at once, `shutDown(within:)` in order.
public final class Session: Sendable {
  /// The configuration that the session was made with.
  public let configuration: SessionConfiguration
  let transport: any Transport
  /// The transport, unless it is one of the caller's; found out once, not for each request.
  let engine: EngineTransport?
  /// Of the engine, or the first of several.
  let engineLoop: EventLoop?
  /// Of the engine, where there are several.
  private let engineGroup: EngineGroup?
  /// Where tasks have their exchanges: the transport, or the cache in front of it.
  let exchanges: any Transport
  /// The same where it is the engine without a cache, which is called without a detour.
  private let direct: EngineTransport?
  /// Whether what says nothing else must not be loaded, where there is no cache that could answer; nil: there is one.
  let forbidsLoading: Bool?
  let authentication: SessionAuthentication
  let composer: RequestComposer
  /// The configured times in the unit of the engine, worked out once.
  let times: (request: Int64, resource: Int64)
  let registry = TaskRegistry()
  /// Where delegates and completion handlers of tasks are called, one at a time.
  public let delegateQueue: DispatchQueue
  private let delegateStorage: LockedStorage<(any SessionDelegate)?>

  let hasTaskDelegate: Bool
  /// Those of the configuration, within their ranges.
  let bodyWatermarks: BodyWatermarks

  private let asked = LockedStorage<ObjectIdentifier?>(nil)
  /// Who waits for the end of the session; nil: it has come.
  private let waitingForEnd = LockedStorage<[CheckedContinuation<Void, Never>]?>([])

  /// Hears of the session and its tasks. Held until the session is invalidated, as in URLSession.
  public var delegate: (any SessionDelegate)? { delegateStorage.withLock { $0 } }

  /// Whether it is everybody's.
  private let isShared: Bool

  /// A session with the default configuration, for the whole process: nobody ends it, as others use it too. Behind `shutDownSharedEngine()` it is of no use.
  ///
  /// Traps, with a message, if the engine cannot be started because the process has no descriptors or threads left.
  public static let shared: Session = {
    do { return try Session(SessionConfiguration(), nil, nil, isShared: true) } catch {
      preconditionFailure("the shared session cannot be made: \(error)")
    }
  }()

  /// Makes a session.
  ///
  /// - Parameters:
  ///   - delegate: held until the session is invalidated.
  ///   - delegateQueue: where delegates and completion handlers are called; calls are serial even if the queue is not. Default: a queue of the
  ///     session's own.
  /// - Throws: `SessionError`: `.badRequest` for settings that contradict each other or cannot be, `.badProxy` for a proxy that cannot be used as
  ///   `SessionConfiguration.proxy` says, `.system` if the engine cannot be started.
  public convenience init(
    _ configuration: SessionConfiguration = SessionConfiguration(), delegate: (any SessionDelegate)? = nil,
    delegateQueue: DispatchQueue? = nil
  ) throws(SessionError) {
    try self.init(configuration, delegate, delegateQueue, isShared: false)
  }

  private init(
    _ configuration: SessionConfiguration, _ delegate: (any SessionDelegate)?, _ delegateQueue: DispatchQueue?,
    isShared: Bool
  ) throws(SessionError) {
    self.isShared = isShared
    self.configuration = configuration
    bodyWatermarks = try configuration.bodyWatermarks.checked()
    delegateStorage = LockedStorage(delegate)
    hasTaskDelegate = delegate is any SessionTaskDelegate
    self.delegateQueue = DispatchQueue(label: "lupine.delegate", target: delegateQueue)
    times = (
      configuration.timeoutIntervalForRequest.saturatedNanoseconds,
      configuration.timeoutIntervalForResource.saturatedNanoseconds
    )
    authentication = SessionAuthentication(
      storage: configuration.credentialStorage, configuration: configuration.authentication)
    let asks =
      (delegate?.handledCallbacks.contains(.sessionChallenge) ?? false) || delegate is any LateTrustDelegate
    let decider = asks ? DelegateTrustDecider() : nil
    if let transport = configuration.transport {
      // What is no number of engines is refused here too.
      _ = try EngineTransport.engines(configuration)
      self.transport = transport
    } else {
      transport = try EngineTransport(configuration, trust: decider)
    }
    engine = transport as? EngineTransport
    engineLoop = engine?.loop
    engineGroup = engine?.group
    exchanges = CachingTransport.wrap(transport, configuration, decider: decider == nil ? nil : delegate)
    direct = exchanges as? EngineTransport
    forbidsLoading =
      configuration.responseCache == nil ? configuration.requestCachePolicy == .returnCacheDataDontLoad : nil
    do throws(WireError) {
      composer = try RequestComposer(
        userAgent: configuration.userAgent, accept: configuration.accept,
        additionalFields: configuration.additionalFields,
        acceptsCompressedContent: configuration.acceptsCompressedContent)
    } catch {
      throw SessionError(
        .badRequest, phase: .prepare,
        message: "SessionConfiguration.userAgent or accept would break HTTP framing: \(error)", underlying: error)
    }
    decider?.attach(self)
  }

  /// Begins an exchange of a task.
  ///
  /// - Parameter createdAt: from when it counts; nil is now, as for every transport that is not the engine itself.
  func start(
    _ request: TransportRequest, _ receiver: TaskRun, createdAt: Instant?
  ) -> any TransportExchange {
    if let direct { return direct.start(request, receiver, createdAt: createdAt ?? EventLoop.monotonicNow()) }
    return exchanges.start(request, receiver)
  }

  /// The loop in whose turn the caller runs, if it runs on an engine; nil for another transport.
  @inline(__always)
  var turningLoop: EventLoop? {
    guard let engineGroup else { return engineLoop }
    return engineGroup.currentLoop ?? engineLoop
  }

  /// Whether there is an engine, and the caller runs on the thread of none.
  @inline(__always)
  var isOffEngines: Bool {
    guard let engineLoop, !engineLoop.isCurrent else { return false }
    guard let engineGroup else { return true }
    return engineGroup.currentLoop == nil
  }

  // MARK: Forgetting

  /// Removes the cookies, credentials and cached responses of the configuration's storages, and forgets connections, TLS sessions and what was decided about
  /// trust: later requests go over new connections. Tasks under way go on.
  ///
  /// The default storages are those of the process: what is removed there is gone for every session, as in URLSession.
  public func reset() {
    configuration.cookieStorage?.removeAll()
    configuration.credentialStorage?.removeAll()
    configuration.responseCache?.removeAll()
    authentication.reset()
    flush()
  }

  /// Lets later requests go over new connections, and forget cached responses of servers that the delegate was asked about. Tasks under way go on. Of
  /// a transport of the caller's only `NetworkTransport` itself does so.
  public func flush() {
    if let engine {
      engine.reset()
    } else {
      (transport as? NetworkTransport)?.reset()
    }
    (exchanges as? CachingTransport)?.renewDomain()
  }

  /// Changes who decides about servers: by whose word a connection was made or a response was stored, that is not used any more.
  package func changeTrust(_ change: () -> Void) {
    let cache = exchanges as? CachingTransport
    cache?.beginChange()
    change()
    flush()
    cache?.endChange()
  }

  /// Whether anybody can be asked about a server's certificates: a transport of the caller's decides about trust itself.
  package var asksAboutTrust: Bool { engine != nil }

  // MARK: The end

  /// Cancels every task and closes every connection; later requests fail with `.sessionInvalidated`. Every task completes, also one that was made and never
  /// resumed, with `.cancelled` unless it is a download whose file is complete and is being handed over; then the delegate hears that the session is
  /// invalid, and is let go. Any thread; the completions come where they always come. Of `shared` it does nothing, as in URLSession.
  public func invalidateAndCancel() {
    guard !isShared else { return }
    invalidate(cancelling: true)
    // The pool first: otherwise each cancelled task would make room for one that waits.
    transport.invalidate(cancelling: true)
    let (begun, made) = registry.tasksToCancel
    // First those that have not begun: the end of another one may be what begins them.
    for task in made { task.cancel() }
    // By its handle, where it has one: a task that has not begun yet has its delegate there.
    for run in begun { if let face = run.knownFace { face.cancel() } else { run.cancel() } }
  }

  /// Lets tasks finish, then closes every connection; later requests fail with `.sessionInvalidated`. Any thread.
  ///
  /// A task that was made before may still be resumed, and the delegate hears that the session is invalid when it has completed, as in URLSession. So one that
  /// is kept and never resumed keeps the session from that, and the session its delegate: resume it, cancel it, or let it go. Of `shared` it does nothing, as in URLSession.
  public func finishTasksAndInvalidate() {
    guard !isShared else { return }
    invalidate(cancelling: false)
    transport.invalidate(cancelling: false)
  }

  /// Ends the session in order, and returns when that is done: lets tasks finish, as `finishTasksAndInvalidate()` does, and cancels those that are not over
  /// in time, as `invalidateAndCancel()` does. So does cancelling the Swift task that waits here, at once.
  ///
  /// When it returns, every task has completed, its handler or its delegate was called, and the delegate was told of the session's end, unless the
  /// delegate queue is held up; who awaits an `async` call is about to go on. Connections close with the last tasks. Where there is nothing to end it returns at
  /// once, and any number of callers may wait. Of `shared` it does nothing.
  ///
  /// An `async` call of a manager that waits for its next attempt is no task meanwhile: it fails with `.sessionInvalidated` when it goes on.
  ///
  /// - Parameter grace: how long tasks have. Default nil: as long as they take, those that were made and are never resumed for ever.
  ///
  /// Source: `shutdown()` of AsyncHTTPClient.
  public func shutDown(within grace: Duration? = nil) async {
    guard !isShared else { return }
    finishTasksAndInvalidate()
    let deadline: Task<Void, Never>? = grace.map { grace in
      Task.detached { [self] in
        do { try await Task.sleep(for: grace.saturated) } catch { return }
        invalidateAndCancel()
      }
    }
    await withTaskCancellationHandler {
      await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
        let isOver = waitingForEnd.withLock { waiting in
          waiting?.append(continuation)
          return waiting == nil
        }
        if isOver { continuation.resume() }
      }
    } onCancel: {
      invalidateAndCancel()
    }
    deadline?.cancel()
    // Behind the handlers of the last tasks.
    await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
      delegateQueue.async { continuation.resume() }
    }
  }

  /// Calls a delegate, on the delegate queue, and knows meanwhile whom.
  func asking(_ delegate: AnyObject, _ call: () -> Void) {
    asked.withLock { $0 = ObjectIdentifier(delegate) }
    call()
    asked.withLock { $0 = nil }
  }

  /// Whether it is this one that was asked; once for each call.
  func takeAsked(_ delegate: AnyObject) -> Bool {
    asked.withLock { asked in
      guard asked == ObjectIdentifier(delegate) else { return false }
      asked = nil
      return true
    }
  }

  private func invalidate(cancelling: Bool) {
    _ = registry.invalidate(cancelling: cancelling) { [self] in
      guard delegate != nil else { return noteEnd() }
      // Behind the last callbacks of tasks, of which some may be left to it.
      delegateQueue.async { [self] in
        defer { noteEnd() }
        let delegate = delegateStorage.withLock { delegate in
          defer { delegate = nil }
          return delegate
        }
        guard let delegate, delegate.handledCallbacks.contains(.becameInvalid) else { return }
        delegate.session(self, didBecomeInvalidWithError: nil)
      }
    }
  }

  private func noteEnd() {
    let waiting = waitingForEnd.withLock { $0.take() } ?? []
    for continuation in waiting { continuation.resume() }
  }

  func invalidationError(_ request: Request) -> SessionError {
    SessionError(
      .sessionInvalidated, phase: .prepare, message: "the session was invalidated", failingURL: request.urlString)
  }

  /// What the connection pool has done so far; of several engines all pools together. Zeros for a transport other than the network.
  public func poolStatistics() async -> PoolStatistics {
    guard let engine else { return PoolStatistics() }
    return await withCheckedContinuation { continuation in
      engine.counters { counters in continuation.resume(returning: PoolStatistics(counters)) }
    }
  }

  func checkValid(_ request: Request) throws(SessionError) {
    if registry.isInvalid { throw invalidationError(request) }
  }

  func log(_ message: @autoclosure () -> String) {
    configuration.logger?.debug("\(message())")
  }
}

/// What a connection pool has done.
public struct PoolStatistics: Sendable, Equatable {
  /// Connections opened.
  public var opened = 0
  /// Requests served by a connection that had served another one.
  public var reused = 0
  /// Requests that had to wait for a connection, for a new one too.
  public var waits = 0
  /// Connections closed, by reason.
  public var closes: [String: Int] = [:]

  /// Zeros.
  public init() {}

  init(_ counters: PoolCounters) {
    opened = counters.opened
    reused = counters.reused
    waits = counters.waits
    for (reason, count) in counters.closes { closes["\(reason)"] = count }
  }
}
