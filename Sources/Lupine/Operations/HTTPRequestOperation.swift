public import Dispatch
public import Foundation
internal import HTTPTypes
internal import LupineBase
public import LupineSession
internal import Synchronization

/// One request as an operation: for queues with dependencies, and for requests that can be paused and go on where they were.
///
/// It is ready, executing, paused or finished, as in AFNetworking 2. `pause()` ends the exchange; `resume()` begins another one, which asks for the
/// rest if the server has named the version (a strong `ETag`, or a `Last-Modified` that counts as strong), and for the whole otherwise. A body that then
/// does not end where the whole ends is a failure, `SessionError` with `.truncatedResponse`, however well its exchange ended; one that goes on behind
/// what its `Content-Range` announces is one with `.badResponse`. An operation that is cancelled finishes with `SessionError` and `.cancelled`. Settings
/// are read when it starts, handlers when they are due: they may be set while it runs. Any thread.
///
/// Source: `AFHTTPRequestOperation`, `AFURLConnectionOperation`. Changed: what was received is put together only if both parts are of one version.
open class HTTPRequestOperation: Operation, @unchecked Sendable {
  /// Called when all went well, with what the serializer made of the body.
  public typealias Success = @Sendable (HTTPRequestOperation, (any Sendable)?) -> Void
  /// Called with `SessionError`, or with what the serializer threw.
  public typealias Failure = @Sendable (HTTPRequestOperation, any Error) -> Void
  /// Bytes of this step, bytes until now, and all bytes: nil if that is not known.
  public typealias Progress = @Sendable (_ bytes: Int64, _ total: Int64, _ expected: Int64?) -> Void
  /// Given the redirect and the request to follow, says what to do: nil takes the redirect for the response.
  public typealias Redirection = @Sendable (Response, Request) -> Request?
  /// Answers a challenge, by calling the last argument once.
  public typealias Challenge =
    @Sendable (AuthenticationChallenge, @escaping @Sendable (ChallengeDisposition) -> Void) -> Void
  /// Given what the session's cache is about to keep, says what it keeps: nil is nothing.
  public typealias CacheResponse = @Sendable (CachedResponse) -> CachedResponse?

  struct State {
    var machine = OperationMachine()
    var settings = Settings()
    var handlers = Handlers()
    var transfer = OperationTransfer()
    var error: (any Error)?
    /// What the serializer made of the body; made once.
    var outcome: Outcome?
    /// Of operations of a manager: lives until their handlers have returned.
    var core: ManagerCore?
    /// Of operations of a manager: refers to nobody, and stays when they are over, for copies of them.
    var managerSettings: ManagerSettings?
    /// Where the first notification was posted, and so all are: on another queue the end could come before the beginning.
    private var notificationQueue: DispatchQueue?

    mutating func queueOfNotifications() -> DispatchQueue {
      let queue = notificationQueue ?? settings.serialQueue
      notificationQueue = queue
      return queue
    }

    /// Entered at the end, left behind the handlers: the one that was set when the operation ended.
    private var group: DispatchGroup?

    /// Notes why it failed, if it did, and enters the group: in the step that makes it finished, so that nobody sees an end without its reason, and
    /// who sees it and waits for the group then waits for the handlers.
    mutating func end(_ error: SessionError?) {
      if var error {
        error.requestBytesSent = error.requestBytesSent || transfer.hasLeft
        self.error = managerSettings?.explained(error) ?? error
      }
      group = settings.completionGroup
      group?.enter()
    }

    mutating func takeGroup() -> DispatchGroup? { group.take() }

    /// Whether what this exchange receives is to be kept.
    func isWanted(of attempt: UInt64) -> Bool {
      machine.isCurrent(attempt) && !transfer.discards && transfer.failure == nil
    }
  }

  struct Settings {
    var credential: Credential?
    var serializer: any ResponseSerializer = HTTPResponseSerializer() { didSet { serializerNumber += 1 } }
    /// Tells whether what a serializer made is still asked for.
    private(set) var serializerNumber: UInt64 = 0
    var completionQueue: DispatchQueue? { didSet { serialQueue = .forNotifications(on: completionQueue) } }
    /// Follows from it: for notifications and progress, whose order counts.
    private(set) var serialQueue = DispatchQueue.main
    var completionGroup: DispatchGroup?
    var output = OperationOutput.memory
    var userInfo: [String: any Sendable] = [:]
  }

  struct Handlers {
    var success: Success?
    var failure: Failure?
    var completionBlock: (@Sendable () -> Void)?
    var uploadProgress: Progress?
    var downloadProgress: Progress?
    var redirection: Redirection?
    var challenge: Challenge?
    var cacheResponse: CacheResponse?
    /// Of batches: called behind the operation's own.
    var afterwards: [@Sendable () -> Void] = []

    /// Those that a copy has as well.
    var onTheWay: Handlers {
      var handlers = self
      (handlers.success, handlers.failure, handlers.completionBlock) = (nil, nil, nil)
      handlers.afterwards = []
      return handlers
    }

    var tellsTheEnd: Bool { success != nil || failure != nil || completionBlock != nil || !afterwards.isEmpty }
  }

  struct Outcome: Sendable {
    var value: (any Sendable)?
    var error: (any Error)?
  }

  /// Where the request is made.
  public let session: Session
  /// The request as it was given.
  public let request: Request
  let state = LockedStorage(State())

  /// Makes an operation; add it to a queue, or call `start()`.
  ///
  /// - Parameters:
  ///   - request: what to ask for.
  ///   - session: where. Default the one of the process.
  public init(request: Request, session: Session = .shared) {
    self.request = request
    self.session = session
  }

  /// Makes another operation of the same request: with the settings, except `output`, and what is told on the way; not with what is told at the end,
  /// nor with what came of it. A copy of a manager's operation keeps the manager's session, if it is made before the handlers of `other` have returned;
  /// one that is made later is told of nothing on the way, needs the manager, and fails with `.sessionInvalidated` if that is gone. Source: `-copyWithZone:`.
  public convenience init(copying other: HTTPRequestOperation) {
    self.init(request: other.request, session: other.session)
    let (settings, handlers, core, managerSettings) = other.state.withLock {
      ($0.settings, $0.handlers, $0.core, $0.managerSettings)
    }
    state.withLock { state in
      state.settings = settings
      state.settings.output = .memory
      state.handlers = handlers.onTheWay
      state.core = core
      state.managerSettings = managerSettings
    }
  }

  // MARK: Settings

  /// Who is asking; takes the place of the request's own. Default nil.
  public var credential: Credential? {
    get { state.withLock { $0.settings.credential } }
    set { exchange(\.settings.credential, newValue) }
  }

  /// Validates the response and makes a value of its body. Default `HTTPResponseSerializer()`. Setting it forgets what was made.
  public var responseSerializer: any ResponseSerializer {
    get { state.withLock { $0.settings.serializer } }
    set {
      let former = state.withLock { state in
        defer {
          state.settings.serializer = newValue
          state.outcome = nil
        }
        return (state.settings.serializer, state.outcome)
      }
      // Let go of outside the lock: they may hold the last reference to something that asks the operation when it goes.
      withExtendedLifetime(former) {}
    }
  }

  /// Where handlers are called and notifications are posted. Default nil: the main queue, which a program has to run.
  public var completionQueue: DispatchQueue? {
    get { state.withLock { $0.settings.completionQueue } }
    set { exchange(\.settings.completionQueue, newValue) }
  }

  /// A group that the operation is in from its end until its handlers have returned. Default nil.
  public var completionGroup: DispatchGroup? {
    get { state.withLock { $0.settings.completionGroup } }
    set { exchange(\.settings.completionGroup, newValue) }
  }

  /// Where the body goes. Default into memory. Source: `outputStream`.
  public var output: OperationOutput {
    get { state.withLock { $0.settings.output } }
    set { exchange(\.settings.output, newValue) }
  }

  /// Yours.
  public var userInfo: [String: any Sendable] {
    get { state.withLock { $0.settings.userInfo } }
    set { exchange(\.settings.userInfo, newValue) }
  }

  /// Sets a value. The former one is let go of outside the lock: it may hold the last reference to something that asks the operation when it goes.
  private func exchange<Value>(_ path: any WritableKeyPath<State, Value> & Sendable, _ value: Value) {
    let former = state.withLock { state -> Value in
      let former = state[keyPath: path]
      state[keyPath: path] = value
      return former
    }
    withExtendedLifetime(former) {}
  }

  // MARK: Handlers

  /// Says what is done at the end: exactly one of the two is called, on `completionQueue`. Source: `setCompletionBlockWithSuccess:failure:`.
  public func setCompletion(success: Success?, failure: Failure?) {
    // In one step: an end in between would find one of the former two, or none.
    let former = state.withLock { state in
      defer { (state.handlers.success, state.handlers.failure) = (success, failure) }
      return (state.handlers.success, state.handlers.failure)
    }
    withExtendedLifetime(former) {}
  }

  /// Told of the body being sent, on `completionQueue`, of one step at a time. Default nil.
  public func setUploadProgress(_ handler: Progress?) { exchange(\.handlers.uploadProgress, handler) }

  /// Told of the body being received, on `completionQueue`, of one step at a time; of a resumed operation with what came before. Default nil.
  public func setDownloadProgress(_ handler: Progress?) { exchange(\.handlers.downloadProgress, handler) }

  /// Asked before a redirect is followed, on the session's delegate queue. Default nil: the session's delegate is asked, else it is followed.
  public func setRedirection(_ handler: Redirection?) { exchange(\.handlers.redirection, handler) }

  /// Asked for an answer to a challenge, on the session's delegate queue. Default nil: the session's delegate is asked, else it is `credential` and
  /// the session's storage.
  public func setChallenge(_ handler: Challenge?) { exchange(\.handlers.challenge, handler) }

  /// Asked before the session keeps a response in its cache or its store, on its delegate queue. Default nil: the session's delegate is asked, else
  /// it is kept as it is. Source: `setCacheResponseBlock:`.
  public func setCacheResponse(_ handler: CacheResponse?) { exchange(\.handlers.cacheResponse, handler) }

  /// Called behind the handlers of `setCompletion(success:failure:)`, on the same queue, and then forgotten.
  open override var completionBlock: (@Sendable () -> Void)? {
    get { state.withLock { $0.handlers.completionBlock } }
    set { exchange(\.handlers.completionBlock, newValue) }
  }

  // MARK: What came of it

  /// The response, as soon as its head is there. Of a resumed operation that of the last part, unless an earlier one alone names the media type: a part need
  /// not (RFC 9110 section 15.3.7). Of one that is sent again by interceptors or a retry policy no longer that of the attempt before, nor its body, unless
  /// a later one may go on with it.
  public var response: Response? { state.withLock { $0.transfer.response } }

  /// The body as far as it came, decoded; nil if it goes to a file.
  public var responseData: Data? {
    state.withLock { state in
      guard case .memory = state.settings.output else { return nil }
      return state.transfer.body?.data
    }
  }

  /// The encoding of `responseString`: the one that the response names, else UTF-8.
  public var responseStringEncoding: String.Encoding { response?.textEncoding ?? .utf8 }

  /// The body as text: in the encoding of its byte order mark, which is left out, else in `responseStringEncoding`; what is none is read as UTF-8,
  /// with what cannot be read replaced.
  public var responseString: String? {
    guard let data = responseData else { return nil }
    let (marked, unmarked) = ByteOrderMark.split(data)
    let encoding = marked ?? responseStringEncoding
    let text = encoding == .utf8 ? nil : String(data: unmarked, encoding: encoding)
    return text ?? String(decoding: unmarked, as: UTF8.self)
  }

  /// What the serializer made of the body, made when it is first asked for; of an error page too, where it could. Nil until the operation has
  /// finished, and if the exchange failed.
  public var responseObject: (any Sendable)? { outcome?.value }

  /// Why the operation failed: the serializer's reason, or the exchange's. Nil until it has finished.
  public var error: (any Error)? { state.withLock { $0.error } ?? outcome?.error }

  /// The serializer's outcome, if there is one to be had.
  var outcome: Outcome? {
    let (made, serializer, number, response, data) = state.withLock { state in
      let isDone = state.machine.state == .finished && state.error == nil
      let serializer = isDone ? state.settings.serializer : nil
      let number = state.settings.serializerNumber
      return (state.outcome, serializer, number, state.transfer.response, state.transfer.body?.data)
    }
    if let made { return made }
    guard let serializer else { return nil }
    let outcome: Outcome
    do {
      outcome = Outcome(value: try serializer.anyValue(response, data: data ?? Data()), error: nil)
    } catch {
      let isGood = request.method == .head && serializer.missedOnlyTheBody(error, of: response, data: data ?? Data())
      outcome = isGood ? Outcome() : Outcome(value: (error as? SerializationError)?.value, error: error)
    }
    return state.withLock { [outcome] state in
      // Of a serializer that was replaced meanwhile: for who asked, and nobody else.
      guard state.settings.serializerNumber == number else { return outcome }
      // Somebody else was faster.
      if let made = state.outcome { return made }
      state.outcome = outcome
      return outcome
    }
  }

  // MARK: States

  /// Whether it was paused.
  public var isPaused: Bool { state.withLock { $0.machine.state == .paused } }
  /// Whether a queue may start it: its dependencies have finished, and it was not paused.
  open override var isReady: Bool { super.isReady && state.withLock { $0.machine.isReady } }
  /// Whether an exchange is under way.
  open override var isExecuting: Bool { state.withLock { $0.machine.state == .executing } }
  /// Whether it is over.
  open override var isFinished: Bool { state.withLock { $0.machine.state == .finished } }
  /// Yes: it does not occupy the thread that starts it.
  open override var isAsynchronous: Bool { true }

  /// Begins the exchange; of a cancelled operation, ends it; of a paused one, leaves that to `resume()`. Nothing happens while it runs or is over.
  open override func start() {
    let beginning = state.withLock { state in
      let beginning = state.machine.start()
      switch beginning {
      case .begin: post(.operationDidStart, &state)
      case .finishCancelled: state.end(cancellation)
      case .ignore: break
      }
      return beginning
    }
    switch beginning {
    case .begin(let attempt):
      changed(\.isExecuting)
      begin(attempt)
    case .finishCancelled: finished(wasExecuting: false)
    case .ignore: break
    }
  }

  /// Ends the operation with `.cancelled`. If it was not started yet, that happens when it is.
  open override func cancel() {
    let (effect, task) = state.withLock { state in
      let effect = state.machine.cancel()
      if effect == .finish { state.end(cancellation) }
      return (effect, state.transfer.task)
    }
    super.cancel()
    switch effect {
    case .stop: task?.cancel()
    case .finish: finished(wasExecuting: false)
    case .wait(let becameReady): if becameReady { changed(\.isReady) }
    case .ignore: break
    }
  }

  /// Ends the exchange and keeps what has come, until `resume()`. Before it was started, keeps a queue from starting it. Nothing happens to an
  /// operation that is cancelled or over.
  public func pause() {
    let (before, task) = state.withLock { state -> (OperationMachine.State?, DataTask?) in
      let before = state.machine.pause()
      guard before == .executing else { return (before, nil) }
      post(.operationDidFinish, &state)
      defer { state.transfer.task = nil }
      return (before, state.transfer.task)
    }
    guard let before else { return }
    task?.cancel()
    changed(before == .executing ? \.isExecuting : \.isReady)
  }

  /// Lets a paused operation go on: one that ran begins again at once, one that did not may now be started. One with a body that can
  /// be sent only once, and of which something was read, fails with `.bodyNotReplayable`.
  public func resume() {
    let (isResumed, hasBegun) = state.withLock { ($0.machine.resume(), $0.machine.hasBegun) }
    guard isResumed else { return }
    if hasBegun { start() } else { changed(\.isReady) }
  }

  func adopt(_ core: ManagerCore) {
    state.withLock { state in
      state.core = core
      state.managerSettings = core.settings
    }
  }

  // MARK: Endings

  var cancellation: SessionError {
    SessionError(.cancelled, phase: .total, message: "the operation was cancelled", failingURL: request.urlString)
  }

  /// Called once, when the machine is in its last state.
  func finished(wasExecuting: Bool) {
    // A file is closed before anybody is told; operations may be kept for long.
    _ = state.withLock { $0.transfer.body?.takeFile() }
    let (group, queue, handlers, core) = state.withLock { state in
      state.transfer.task = nil
      let handlers = state.handlers
      // What is told on the way stays for copies that these make, and goes with the core.
      state.handlers = handlers.tellsTheEnd ? handlers.onTheWay : Handlers()
      // A queue that nobody serves, as the main one of many programs, keeps it for handlers alone.
      let core = handlers.tellsTheEnd ? nil : state.core.take()
      return (state.takeGroup(), state.settings.completionQueue ?? .main, handlers, core)
    }
    withExtendedLifetime(core) {}
    if wasExecuting { changed(\.isExecuting) }
    changed(\.isFinished)
    state.withLock { post(.operationDidFinish, &$0) }
    Self.processing.async { [self] in
      let failure = self.error
      let value = responseObject
      queue.async { [self] in
        if let failure { handlers.failure?(self, failure) } else { handlers.success?(self, value) }
        handlers.completionBlock?()
        for handler in handlers.afterwards { handler() }
        // Not before: a copy that a handler makes runs in the same session, and asks the same. Let go of outside the lock.
        let former = state.withLock { state in
          defer { state.handlers = Handlers() }
          return (state.core.take(), state.handlers)
        }
        withExtendedLifetime(former) {}
        group?.leave()
      }
    }
  }

  private static let processing = DispatchQueue(
    label: "com.alamofire.networking.http-request.processing", attributes: .concurrent)

  /// Called in the step that makes it so: behind that another thread's pause could be posted before the start that it pauses.
  private func post(_ name: Notification.Name, _ state: inout State) {
    state.queueOfNotifications().async { [self] in NotificationCenter.default.post(name: name, object: self) }
  }

  /// Tells queues and those who wait. Foundation looks at the new value only.
  private func changed(_ path: KeyPath<Operation, Bool>) {
    willChangeValue(for: path)
    didChangeValue(for: path)
  }
}
