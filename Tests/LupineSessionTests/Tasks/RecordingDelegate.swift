import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Writes down every callback, with its queue, and answers as it is told.
final class RecordingDelegate: SessionDataDelegate, SessionDownloadDelegate {
  struct Answers: Sendable {
    var disposition: (@Sendable (Response) -> ResponseDisposition)?
    var redirection: (@Sendable (Request) -> Request?)?
    var newBody: (@Sendable () -> BodyStream?)?
    var trust: (@Sendable (ConnectionChallenge) -> ConnectionChallengeDisposition)?
    var challenge: (@Sendable (AuthenticationChallenge) -> ChallengeDisposition)?
    var delayed: (@Sendable (Request) -> DelayedRequestDisposition)?
    var stored: (@Sendable (CachedResponse) -> CachedResponse?)?
    var finished: (@Sendable (String) -> Void)?
    var manner = Manner.atOnce
  }

  /// How answers are given.
  enum Manner: Sendable {
    case atOnce
    /// From another thread, some time later.
    case elsewhere
    /// At once, and then the opposite of it, from there and from another thread: the first answer counts.
    case twice
    /// Not before the test does so, which is given them.
    case kept(@Sendable (@escaping @Sendable () -> Void) -> Void)

    /// Those that make no difference.
    static var all: [Manner] { [.atOnce, .elsewhere, .twice] }
  }

  private struct Log {
    var entries: [String] = []
    var offQueue = 0
    /// Tasks that were told to be complete, and callbacks of theirs behind that.
    var completed: Set<UInt64> = []
    var behind: [String] = []
    var data: [UInt8] = []
    var sent: Int64 = 0
    /// The sum of what downloads have said to be new, and the lengths that they expected.
    var written: Int64 = 0
    var expectedToWrite: Set<Int64?> = []
    /// Offset and expected length of each download that went on.
    var resumptions: [[Int64?]] = []
    var lastError: SessionError?
    var metrics: TaskMetrics?
  }

  private let log = Locked(Log())
  let handledCallbacks: CallbackSet
  private let answers: Answers
  private let name: String
  private static let key = DispatchSpecificKey<Bool>()
  /// Give this queue to the session: a callback on another one is counted.
  let queue = DispatchQueue(label: "test.delegate")

  init(_ handled: CallbackSet = .all, name: String = "", _ answers: Answers = Answers()) {
    handledCallbacks = handled
    self.answers = answers
    self.name = name
    queue.setSpecific(key: Self.key, value: true)
  }

  /// Whether the caller runs on the queue of a recording delegate.
  static var isOnQueue: Bool { DispatchQueue.getSpecific(key: key) ?? false }

  var entries: [String] { log.withLock { $0.entries } }
  var data: [UInt8] { log.withLock { $0.data } }
  var sentBytes: Int64 { log.withLock { $0.sent } }
  var writtenBytes: Int64 { log.withLock { $0.written } }
  var expectedToWrite: Set<Int64?> { log.withLock { $0.expectedToWrite } }
  var resumptions: [[Int64?]] { log.withLock { $0.resumptions } }
  var error: SessionError? { log.withLock { $0.lastError } }
  var metrics: TaskMetrics? { log.withLock { $0.metrics } }
  /// Callbacks that came on a wrong queue, or behind the last one of their task.
  var misplaced: Int { log.withLock { $0.offQueue + $0.behind.count } }

  func hasEnded(_ last: String = "completed") async -> Bool {
    await eventually { self.entries.contains { $0.hasPrefix(self.name + last) } }
  }

  /// Callbacks of the same kind in a row count as one: how often data comes depends on timing.
  ///
  /// - Parameter keep: what else there is to keep; in one step with the entry, as who waits for the entry looks at that next.
  private func note(
    _ entry: String, of task: SessionTask? = nil, merging: Bool = false, _ keep: (inout Log) -> Void = { _ in }
  ) {
    let isOnQueue = Self.isOnQueue
    log.withLock { log in
      if !isOnQueue { log.offQueue += 1 }
      if let task, log.completed.contains(task.taskIdentifier) { log.behind.append(entry) }
      keep(&log)
      if !merging || log.entries.last != name + entry { log.entries.append(name + entry) }
    }
  }

  private func give<Value: Sendable>(
    _ answer: Value, opposite: Value, to completionHandler: @escaping @Sendable (Value) -> Void
  ) {
    switch answers.manner {
    case .atOnce: completionHandler(answer)
    case .elsewhere: DispatchQueue.global().async { completionHandler(answer) }
    case .twice:
      completionHandler(answer)
      completionHandler(opposite)
      DispatchQueue.global().async { completionHandler(opposite) }
    case .kept(let keep): keep { completionHandler(answer) }
    }
  }

  func session(
    _ session: Session, didReceive challenge: ConnectionChallenge,
    completionHandler: @escaping @Sendable (ConnectionChallengeDisposition) -> Void
  ) {
    switch challenge.kind {
    case .serverTrust: note("serverTrust")
    case .clientCertificate: note("clientCertificate")
    }
    let answer = answers.trust?(challenge) ?? .performDefaultHandling
    give(answer, opposite: .reject, to: completionHandler)
  }

  func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {
    note(error.map { "invalid by \($0.code)" } ?? "invalid")
  }

  func session(_ session: Session, didCreateTask task: SessionTask) { note("created", of: task) }

  func session(
    _ session: Session, task: SessionTask, willBeginDelayedRequest request: Request,
    completionHandler: @escaping @Sendable (DelayedRequestDisposition) -> Void
  ) {
    note("delayed", of: task)
    let answer = answers.delayed?(request) ?? .continueLoading
    give(answer, opposite: .cancel, to: completionHandler)
  }

  func session(_ session: Session, taskIsWaitingForConnectivity task: SessionTask) { note("waiting", of: task) }

  func session(_ session: Session, task: SessionTask, didReceiveInformationalResponse response: Response) {
    note("informational \(response.statusCode)", of: task)
  }

  func session(
    _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
    completionHandler: @escaping @Sendable (Request?) -> Void
  ) {
    note("redirect \(response.statusCode)", of: task)
    let answer = answers.redirection.map { $0(request) } ?? request
    give(answer, opposite: answer == nil ? request : nil, to: completionHandler)
  }

  func session(
    _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
    completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
  ) {
    note("challenge \(challenge.failureResponse.statusCode)", of: task)
    let answer = answers.challenge?(challenge) ?? .performDefaultHandling
    give(answer, opposite: .cancelAuthenticationChallenge, to: completionHandler)
  }

  func session(
    _ session: Session, task: SessionTask,
    needNewBodyStream completionHandler: @escaping @Sendable (BodyStream?) -> Void
  ) {
    note("newBody", of: task)
    let answer = answers.newBody?()
    give(answer, opposite: nil, to: completionHandler)
  }

  func session(
    _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
    totalBytesExpectedToSend: Int64?
  ) {
    note("sent", of: task, merging: true) { $0.sent = totalBytesSent }
  }

  func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
    note("metrics", of: task) { $0.metrics = metrics }
  }

  func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
    note("completed \(error?.code.rawValue ?? "well") \(task.state)", of: task) {
      $0.lastError = error
      $0.completed.insert(task.taskIdentifier)
    }
  }

  func session(
    _ session: Session, dataTask: DataTask, didReceive response: Response,
    completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
  ) {
    note("response \(response.statusCode)", of: dataTask)
    let answer = answers.disposition?(response) ?? .allow
    give(answer, opposite: answer == .cancel ? .allow : .cancel, to: completionHandler)
  }

  func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
    note("became \(dataTask.taskIdentifier == downloadTask.taskIdentifier)", of: dataTask)
  }

  func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
    note("data", of: dataTask, merging: true) { $0.data += [UInt8](data) }
  }

  func session(
    _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
    completionHandler: @escaping @Sendable (CachedResponse?) -> Void
  ) {
    note("willCache \(proposedResponse.data.count)", of: dataTask)
    let answer = answers.stored.map { $0(proposedResponse) } ?? proposedResponse
    give(answer, opposite: answer == nil ? proposedResponse : nil, to: completionHandler)
  }

  func session(_ session: Session, downloadTask: DownloadTask, didFinishDownloadingTo path: String) {
    note("finished", of: downloadTask)
    answers.finished?(path)
  }

  func session(
    _ session: Session, downloadTask: DownloadTask, didWriteData bytesWritten: Int64, totalBytesWritten: Int64,
    totalBytesExpectedToWrite: Int64?
  ) {
    note("wrote", of: downloadTask, merging: true) {
      $0.sent = totalBytesWritten
      $0.written += bytesWritten
      $0.expectedToWrite.insert(totalBytesExpectedToWrite)
    }
  }

  func session(
    _ session: Session, downloadTask: DownloadTask, didResumeAtOffset fileOffset: Int64, expectedTotalBytes: Int64?
  ) {
    note("resumed \(fileOffset)", of: downloadTask) { $0.resumptions.append([fileOffset, expectedTotalBytes]) }
  }
}

/// Answers that delegates give when the test says so.
final class KeptAnswers: Sendable {
  private let kept = Locked<[@Sendable () -> Void]>([])

  /// Of a delegate whose answers are kept here.
  var manner: RecordingDelegate.Manner { .kept { self.keep($0) } }

  func keep(_ answer: @escaping @Sendable () -> Void) { kept.withLock { $0.append(answer) } }

  /// Whether a question comes, and no other one waits.
  func hasOne() async -> Bool { await eventually { self.kept.withLock { $0.count } == 1 } }

  /// Answers whatever has been asked, each question once.
  func give() {
    let answers = kept.withLock { kept in
      defer { kept = [] }
      return kept
    }
    for answer in answers { answer() }
  }
}

/// Runs `body` with a session whose callbacks go to a recording delegate: all of them on its queue, and none behind the last one of a task or of the session.
func withDelegate(
  _ handled: CallbackSet = .all, _ answers: RecordingDelegate.Answers = RecordingDelegate.Answers(),
  configure: (inout SessionConfiguration) -> Void = { _ in }, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (Session, RecordingDelegate) async throws -> Void
) async throws {
  let delegate = RecordingDelegate(handled, answers)
  var configuration = SessionConfiguration()
  configuration.engine = .own
  configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
  configure(&configuration)
  let session = try Session(configuration, delegate: delegate, delegateQueue: delegate.queue)
  do {
    try await body(session, delegate)
  } catch {
    session.invalidateAndCancel()
    throw error
  }
  session.invalidateAndCancel()
  await waitForCallbacks(of: session)
  if handled.contains(.becameInvalid) {
    #expect(await delegate.hasEnded("invalid"), sourceLocation: sourceLocation)
    await waitForCallbacks(of: session)
    let entries = delegate.entries
    #expect(entries.count { $0 == "invalid" } == 1 && entries.last == "invalid", sourceLocation: sourceLocation)
  }
  #expect(
    delegate.misplaced == 0, "callbacks came on another queue, or behind the last one of their task",
    sourceLocation: sourceLocation)
}

/// Waits for those that are due by now.
private func waitForCallbacks(of session: Session) async {
  await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
    session.delegateQueue.async { continuation.resume() }
  }
}
