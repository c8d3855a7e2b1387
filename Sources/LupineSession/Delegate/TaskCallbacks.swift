internal import Dispatch
internal import FoundationEssentials
internal import LupineBase
internal import Synchronization

/// The delegates of one task: what they want to hear, and the way to them. The task's own delegate is asked instead of the session's; what it has
/// no method for comes back to that one (`SessionDelegate+Defaults`).
///
/// Invariant: everything goes over the session's delegate queue, in the order of the calls made here.
final class TaskCallbacks: Sendable {
  private let own: (any SessionTaskDelegate)?
  private let ownSet: CallbackSet
  private let shared: (any SessionTaskDelegate)?
  private let sharedSet: CallbackSet
  private let queue: DispatchQueue
  private let session: Session
  private let task: SessionTask
  let earliestBeginDate: Date?
  /// Makes the request of each attempt.
  let repeater: (any RepeatingTaskDelegate)?
  private let sent = LockedStorage(Sent())
  /// The last call was made, or none that is queued from now on matters: a question may be put by one thread while another one ends the task. On the queue.
  private let isOver = Atomic<Bool>(false)

  private struct Sent {
    var unreported: Int64 = 0
    var total: Int64 = 0
    var expected: Int64?
    var isQueued = false
    /// What the task has become, once its delegates are told so: the upload may go on behind the head of its answer.
    var successor: SessionTask?
  }

  init(task: SessionTask, session: Session, own: (any SessionTaskDelegate)?, earliestBeginDate: Date?) {
    self.task = task
    self.session = session
    self.own = own
    self.earliestBeginDate = earliestBeginDate
    queue = session.delegateQueue
    ownSet = own.map { Self.callbacks(of: $0) } ?? []
    repeater = ownSet.contains(.repetition) ? own as? any RepeatingTaskDelegate : nil
    shared = session.delegate as? any SessionTaskDelegate
    sharedSet = shared.map { Self.callbacks(of: $0) } ?? []
  }

  /// What a delegate wants and has methods for.
  private static func callbacks(of delegate: any SessionDelegate) -> CallbackSet {
    var set = delegate.handledCallbacks
    if !(delegate is any SessionDataDelegate) { set.subtract(.dataCallbacks) }
    if !(delegate is any SessionDownloadDelegate) { set.subtract(.downloadCallbacks) }
    return set
  }

  func wants(_ callback: CallbackSet) -> Bool {
    ownSet.contains(callback) || sharedSet.contains(callback)
  }

  /// Whether anything at all is wanted.
  var isSilent: Bool { ownSet.isEmpty && sharedSet.isEmpty && earliestBeginDate == nil }

  func delegate(for callback: CallbackSet) -> (any SessionTaskDelegate)? {
    if ownSet.contains(callback) { return own }
    return sharedSet.contains(callback) ? shared : nil
  }

  /// Queues a call to whoever wants the callback.
  func tell(
    _ callback: CallbackSet, _ call: @escaping @Sendable (any SessionTaskDelegate, Session, SessionTask) -> Void
  ) {
    guard let delegate = delegate(for: callback) else { return }
    queue.async { [self] in ask(delegate, for: callback) { call(delegate, session, task) } }
  }

  /// Makes a call whose turn on the queue has come. The session's delegate may have been told meanwhile that the session is invalid, behind which
  /// it hears nothing; and the task may be over.
  func ask(_ delegate: any SessionTaskDelegate, for callback: CallbackSet, _ call: () -> Void) {
    guard !isOver.load(ordering: .relaxed), ownSet.contains(callback) || session.delegate === delegate else { return }
    session.asking(delegate, call)
  }

  func enqueue(_ work: @escaping @Sendable () -> Void) {
    queue.async(execute: work)
  }

  // MARK: Callbacks of every task

  func informational(_ response: Response) {
    tell(.informationalResponse) { $0.session($1, task: $2, didReceiveInformationalResponse: response) }
  }

  func waiting() {
    tell(.waitingForConnectivity) { $0.session($1, taskIsWaitingForConnectivity: $2) }
  }

  func redirection(_ response: Response, _ request: Request, _ answer: @escaping @Sendable (Request?) -> Void) {
    let request = request.marked(by: session.configuration)
    let answer = Answer(default: request, answer)
    tell(.redirection) { delegate, session, task in
      delegate.session(session, task: task, willPerformHTTPRedirection: response, newRequest: request) {
        answer.give($0)
      }
    }
  }

  func challenge(_ challenge: AuthenticationChallenge, _ answer: @escaping @Sendable (ChallengeDisposition) -> Void) {
    let answer = Answer(default: .performDefaultHandling, answer)
    tell(.taskChallenge) { delegate, session, task in
      delegate.session(session, task: task, didReceive: challenge) { answer.give($0) }
    }
  }

  func needNewBody(_ answer: @escaping @Sendable (BodyStream?) -> Void) {
    let answer = Answer<BodyStream?>(default: nil, answer)
    tell(.needNewBodyStream) { delegate, session, task in
      delegate.session(session, task: task, needNewBodyStream: { answer.give($0) })
    }
  }

  func willBeginDelayed(_ request: Request, _ answer: @escaping @Sendable (DelayedRequestDisposition) -> Void) {
    let request = request.marked(by: session.configuration)
    let answer = Answer(default: .continueLoading, answer)
    tell(.willBeginDelayed) { delegate, session, task in
      delegate.session(session, task: task, willBeginDelayedRequest: request) { answer.give($0) }
    }
  }

  func prepare(
    _ request: Request, _ repeater: any RepeatingTaskDelegate,
    _ answer: @escaping @Sendable (Result<Request, SessionError>) -> Void
  ) {
    let request = request.marked(by: session.configuration)
    let answer = Answer(default: .success(request), answer)
    queue.async { [self] in
      guard !isOver.load(ordering: .relaxed) else { return }
      repeater.session(session, task: task, prepare: request) { answer.give($0) }
    }
  }

  func mayRepeat(
    after error: SessionError?, _ repeater: any RepeatingTaskDelegate, _ answer: @escaping @Sendable (Bool) -> Void
  ) {
    let answer = Answer(default: false, answer)
    queue.async { [self] in
      guard !isOver.load(ordering: .relaxed) else { return }
      repeater.session(session, task: task, mayRepeatAfter: error) { answer.give($0) }
    }
  }

  /// Bytes of the body were sent; calls that come while one is on its way are gathered in it. Bytes that have to be sent again are counted again
  /// when they are, and nobody is told of less than none.
  func sent(_ count: Int, total: Int64, expected: Int64?) {
    guard wants(.sentBodyData) else { return }
    let mustQueue = sent.withLock { sent -> Bool in
      sent.total = total
      sent.expected = expected
      guard count > 0 else {
        sent.unreported = 0
        return false
      }
      sent.unreported += Int64(count)
      defer { sent.isQueued = true }
      return !sent.isQueued
    }
    guard mustQueue else { return }
    tell(.sentBodyData) { [self] delegate, session, task in
      let (count, total, expected, successor) = sent.withLock { sent in
        defer {
          sent.unreported = 0
          sent.isQueued = false
        }
        return (sent.unreported, sent.total, sent.expected, sent.successor)
      }
      // They are on their way again.
      guard count > 0 else { return }
      delegate.session(
        session, task: successor ?? task, didSendBodyData: count, totalBytesSent: total,
        totalBytesExpectedToSend: expected)
    }
  }

  /// - Parameter face: the handle that the delegates know by now; nil: the one of the beginning.
  func collected(_ result: Result<Response, SessionError>, of face: SessionTask?) {
    guard let delegate = delegate(for: .metrics) else { return }
    let metrics: TaskMetrics
    switch result {
    case .success(let response): metrics = response.metrics
    case .failure(let error): metrics = error.metrics ?? TaskMetrics()
    }
    queue.async { [self] in
      ask(delegate, for: .metrics) { delegate.session(session, task: face ?? task, didFinishCollecting: metrics) }
    }
  }

  /// The last call: behind it the task lets go of its delegate.
  func completed(_ error: SessionError?) {
    completed(error, task)
  }

  /// - Parameter task: the handle that the delegates know by now.
  func completed(_ error: SessionError?, _ task: SessionTask) {
    let delegate = delegate(for: .completed)
    // Also without a call to make: what is queued before may give the task a delegate.
    queue.async { [self] in
      if let delegate {
        ask(delegate, for: .completed) { delegate.session(session, task: task, didCompleteWithError: error) }
      }
      isOver.store(true, ordering: .relaxed)
      task.letGo()
    }
  }

  /// The end of a task is told somebody else: nothing is asked behind what is queued by now.
  func end() {
    queue.async { [self] in isOver.store(true, ordering: .relaxed) }
  }

  // MARK: Callbacks of data tasks

  private func tellData(
    _ callback: CallbackSet, _ call: @escaping @Sendable (any SessionDataDelegate, Session, DataTask) -> Void
  ) {
    guard let delegate = delegate(for: callback) as? any SessionDataDelegate, let task = task as? DataTask else {
      return
    }
    queue.async { [self] in ask(delegate, for: callback) { call(delegate, session, task) } }
  }

  func response(_ response: Response, _ answer: @escaping @Sendable (ResponseDisposition) -> Void) {
    let answer = Answer(default: .allow, answer)
    tellData(.response) { delegate, session, task in
      delegate.session(session, dataTask: task, didReceive: response) { answer.give($0) }
    }
  }

  func becomes(_ download: DownloadTask) {
    enqueue { [self] in sent.withLock { $0.successor = download } }
    tellData(.becameDownload) { $0.session($1, dataTask: $2, didBecome: download) }
  }

  /// - Parameter take: gives what has gathered when the delegate's turn has come.
  func received(_ take: @escaping @Sendable () -> Data) {
    tellData(.receivedData) { $0.session($1, dataTask: $2, didReceive: take()) }
  }

  /// Asks what the cache is to keep.
  func proposeToCache(_ proposed: CachedResponse, _ answer: @escaping @Sendable (CachedResponse?) -> Void) {
    let answer = Answer<CachedResponse?>(default: proposed, answer)
    tellData(.willCacheResponse) { delegate, session, task in
      delegate.session(session, dataTask: task, willCacheResponse: proposed) { answer.give($0) }
    }
  }

  var hasStore: Bool { session.configuration.responseStore != nil }
  var currentRequest: Request? { task.currentRequest }

  /// Offers a response for storing; `end` is called when that is answered, with what stores it, for the delegate queue.
  func offerToStore(
    _ proposed: CachedResponse, for request: Request,
    _ end: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) {
    let store = session.configuration.responseStore
    let answer = Answer<CachedResponse?>(default: proposed) { answer in
      end { if let answer { store?.store(answer, for: request) } }
    }
    guard wants(.willCacheResponse) else { return answer.give(proposed) }
    tellData(.willCacheResponse) { delegate, session, task in
      delegate.session(session, dataTask: task, willCacheResponse: proposed) { answer.give($0) }
    }
  }
}

/// The answer to a question put to a delegate: the first one counts; if none can come any more, the default is given.
final class Answer<Value: Sendable>: Sendable {
  private let take: LockedStorage<(@Sendable (Value) -> Void)?>
  private let fallback: Value

  init(default fallback: Value, _ take: @escaping @Sendable (Value) -> Void) {
    self.fallback = fallback
    self.take = LockedStorage(take)
  }

  func give(_ value: Value) {
    let take = take.withLock { take in
      defer { take = nil }
      return take
    }
    take?(value)
  }

  deinit { give(fallback) }
}
