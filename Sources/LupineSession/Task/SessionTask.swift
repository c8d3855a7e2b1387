internal import Dispatch
public import FoundationEssentials
internal import LupineBase
internal import LupineRules
internal import Synchronization

/// One task of a session: a handle on it, good from any thread. Tasks are equal if they are the same task.
///
/// A task is made suspended and begins with `resume()`. Whatever happens it completes exactly once. A running task needs no reference to go
/// on; one that never began is forgotten with its last reference, and completes only if it, or its session, is cancelled before.
public class SessionTask: @unchecked Sendable, Hashable {
  /// Where a task stands.
  public enum State: Sendable, Hashable {
    /// Not begun, or told to stop.
    case suspended
    /// Under way.
    case running
    /// Cancelled; its completion is to come.
    case canceling
    /// Over.
    case completed
  }

  let run: TaskRun
  private let settings = LockedStorage(Settings())

  private struct Settings {
    var earliestBeginDate: Date?
    var delegate: (any SessionTaskDelegate)?
    var onChange: (@Sendable (SessionTask, State) -> Void)?
    var updates: [Int: AsyncStream<TaskProgress>.Continuation] = [:]
    var nextUpdate = 0
    /// The handle on the data task that became this download.
    var former: SessionTask?
    /// The session may know it as one that was made.
    var isListed = false
  }

  init(_ run: TaskRun) {
    self.run = run
  }

  /// The progress of a task that never began has no other end, and its session waits for it no longer.
  deinit {
    let (updates, isListed) = settings.withLock { (Array($0.updates.values), $0.isListed) }
    for update in updates { update.finish() }
    if isListed { run.session.registry.withdraw(run.identifier) }
  }

  /// The usual priority: 0.5.
  public static let defaultPriority: Float = 0.5
  /// Behind others: 0.25.
  public static let lowPriority: Float = 0.25
  /// Before others: 0.75.
  public static let highPriority: Float = 0.75

  /// Unique in the process: no two tasks of any sessions share one.
  public var taskIdentifier: UInt64 { run.identifier }

  /// Yours: a name for logs and lists. Default nil.
  public var taskDescription: String? {
    get { run.state.withLock { $0.description } }
    set { run.state.withLock { $0.description = newValue } }
  }

  /// Who gets a connection first when there are too few: from 0 to 1; below 0.5 is behind, above it before the others. Read when a request
  /// begins to wait. Default 0.5.
  public var priority: Float {
    get { run.priority }
    set { run.priority = newValue }
  }

  /// Not to begin before; set it before `resume()`. The request is then shown to the delegate once more. Default nil: at once.
  public var earliestBeginDate: Date? {
    get { settings.withLock { $0.earliestBeginDate } }
    set { settings.withLock { $0.earliestBeginDate = newValue } }
  }

  /// Hears of this task instead of the session's delegate, which gets what it leaves; set it before `resume()`. Held until the task completes. Default nil.
  ///
  /// About a server's trust and a client certificate the session's delegate alone is asked: a connection belongs to no task. See `ConnectionChallenge`.
  public var delegate: (any SessionTaskDelegate)? {
    get { settings.withLock { $0.delegate } }
    set {
      // The former one is let go of outside the lock: it may be the last reference to somebody who asks the task when it goes.
      let former = settings.withLock { settings in
        let former = (settings.delegate, settings.onChange)
        guard newValue !== settings.delegate else { return former }
        settings.delegate = newValue
        // Of a task that has begun the former one hears all the same.
        if settings.onChange != nil, run.state.withLock({ $0.machine.state == .created }) { settings.onChange = nil }
        return former
      }
      withExtendedLifetime(former) {}
    }
  }

  /// The request that the task was made with.
  public var originalRequest: Request { run.request }

  /// The request that was sent last: after redirects another one than the original.
  public var currentRequest: Request { run.currentRequest }

  /// The response, as soon as its head is there; with trailers and metrics when the task has completed.
  public var response: Response? { run.state.withLock { $0.response } }

  /// Why the task failed; nil until then.
  public var error: SessionError? { run.state.withLock { $0.error } }

  /// Where the task stands.
  public var state: State {
    switch run.state.withLock({ $0.machine.state }) {
    case .created, .suspended: .suspended
    case .running: .running
    case .canceling: .canceling
    case .completed: .completed
    }
  }

  /// Body bytes of the current request handed to the network.
  public var countOfBytesSent: Int64 { run.sentBytes.load(ordering: .relaxed) }
  /// Body bytes received, decoded.
  public var countOfBytesReceived: Int64 { run.receivedBytes.load(ordering: .relaxed) }
  /// Bytes of the request body; nil if that is not known: of a stream without a length, and of a file before its request is on its way.
  public var countOfBytesExpectedToSend: Int64? { run.expectedBytesToSend(run.requestHead) }
  /// Bytes that the response announced, before decoding; nil if it announced none, or has not arrived.
  public var countOfBytesExpectedToReceive: Int64? { response?.expectedContentLength }

  /// The length of the body as it is delivered; nil: not known, or a content coding is taken off on the way.
  package var decodedLength: Int64? {
    guard let response else { return nil }
    return bringsNothing(response) ? 0 : response.decodedLength(isDecoded: run.offersCodings)
  }

  /// Whether a download has succeeded with a 416, whose body is an error page: all of the file was there already.
  private func bringsNothing(_ response: Response) -> Bool {
    response.statusCode == 416 && run.kind == .download
      && run.state.withLock { $0.machine.state == .completed && $0.error == nil }
  }

  /// What is left of the time that the task may take in all: `Request.totalTimeout`. For managers, which wait between attempts.
  package var timeLeft: Duration { .nanoseconds(run.nanosecondsLeft) }

  // MARK: Commands

  /// Begins the task, or lets it go on after `suspend()`. Nothing happens to one that runs or is over.
  public func resume() {
    run.prepare(self)
    let onChange = onChange
    run.start { onChange?(self, .running) }
  }

  /// Makes an unlisted task one of its session's: behind that, the end of the session is its end too. For whoever has become its delegate by then.
  ///
  /// - Parameter tell: queues the word that the task was made, if anybody wants to hear of it: what comes of the task is told behind that. Called once,
  ///   at once.
  package func enlist(_ tell: (() -> Void)? = nil) {
    run.session.enlist(self, tell)
  }

  /// Has the session know the task until it begins, unless somebody has begun or cancelled it already; see `TaskRegistry.list`.
  @discardableResult
  func list(isTold: Bool = true) -> Bool {
    settings.withLock { $0.isListed = true }
    return run.state.withLock { state in
      guard state.machine.state == .created else { return false }
      return run.session.registry.list(self, isTold: isTold)
    }
  }

  /// Stops a running task: the socket is not read until `resume()`, and nothing new begins. Suspensions do not add up. The time for the whole
  /// task goes on; the time in which something has to move does not.
  public func suspend() {
    let onChange = onChange
    run.suspend { onChange?(self, .suspended) }
  }

  /// Ends the task; it completes with `.cancelled`, unless it has completed, or the file of a download is on its way to its place.
  public func cancel() {
    run.prepare(self)
    run.cancel()
  }

  /// Told, on the caller's thread, of each `resume` and `suspend` that changed something, in the order of the changes: for managers, which post
  /// notifications of it. Called under the task's lock: it may queue, and must ask the task nothing. They set it when they have become the task's
  /// delegate; another one that takes their place before the task begins takes it away, as they hear of no end.
  package var onChange: (@Sendable (SessionTask, State) -> Void)? {
    get { settings.withLock { $0.onChange } }
    set {
      let former = settings.withLock { settings in
        defer { settings.onChange = newValue }
        return settings.onChange
      }
      withExtendedLifetime(former) {}
    }
  }

  /// Takes the place of the handle on the data task that became this download: what that one is to be told, it is told here, and what that one says by now,
  /// this one says.
  func succeed(_ former: SessionTask?) {
    let known = former?.settings.withLock { (delegate: $0.delegate, date: $0.earliestBeginDate) }
    settings.withLock { settings in
      settings.former = former
      settings.delegate = known?.delegate
      settings.earliestBeginDate = known?.date
    }
  }

  /// The task is over: what the caller gave goes. It may hold the task, and does so in the usual case.
  func letGo() {
    // Not under the lock, as these may be last references.
    let (former, delegate, onChange) = settings.withLock { settings in
      defer {
        settings.former = nil
        settings.delegate = nil
        settings.onChange = nil
      }
      return (settings.former, settings.delegate, settings.onChange)
    }
    former?.letGo()
    withExtendedLifetime((delegate, onChange)) {}
  }

  // MARK: Progress

  /// How far the task is.
  public var progress: TaskProgress {
    TaskProgress(
      countOfBytesSent: countOfBytesSent, countOfBytesExpectedToSend: countOfBytesExpectedToSend,
      countOfBytesReceived: countOfBytesReceived, countOfBytesExpectedToReceive: countOfBytesExpectedToReceive,
      countOfDecodedBytesExpectedToReceive: decodedLength)
  }

  /// How far the task is, whenever that has changed; ends with the task. A reader that is behind gets the latest state only.
  public var progressUpdates: AsyncStream<TaskProgress> {
    AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      // First: the end of the task looks whether it is watched, after it has set the state that is asked for here.
      run.watchProgress()
      let number = settings.withLock { settings -> Int? in
        guard state != .completed else { return nil }
        settings.nextUpdate += 1
        settings.updates[settings.nextUpdate] = continuation
        return settings.nextUpdate
      }
      continuation.yield(progress)
      guard let number else { return continuation.finish() }
      continuation.onTermination = { [weak self] _ in
        self?.settings.withLock { _ = $0.updates.removeValue(forKey: number) }
      }
    }
  }

  func progressed() {
    let (updates, former) = settings.withLock { (Array($0.updates.values), $0.former) }
    former?.progressed()
    guard !updates.isEmpty else { return }
    let progress = progress
    for update in updates { update.yield(progress) }
  }

  func finishProgress() {
    let (updates, former) = settings.withLock { settings in
      defer { settings.updates = [:] }
      return (Array(settings.updates.values), settings.former)
    }
    former?.finishProgress()
    let progress = progress
    for update in updates {
      update.yield(progress)
      update.finish()
    }
  }

  // MARK: Identity

  /// Whether both are handles on the same task.
  public static func == (left: SessionTask, right: SessionTask) -> Bool {
    left.run.identifier == right.run.identifier
  }

  /// Hashes the identifier.
  public func hash(into hasher: inout Hasher) {
    hasher.combine(run.identifier)
  }
}

/// How far a task is.
public struct TaskProgress: Sendable, Hashable {
  /// Body bytes of the current request handed to the network.
  public var countOfBytesSent: Int64
  /// Bytes of the request body; nil if that is not known.
  public var countOfBytesExpectedToSend: Int64?
  /// Body bytes received, decoded.
  public var countOfBytesReceived: Int64
  /// Bytes that the response announced, before decoding; nil if it announced none, or has not arrived.
  public var countOfBytesExpectedToReceive: Int64?
  /// The same as the body is delivered: nil where a content coding is taken off on the way as well, for what comes out of it is not announced; 0 of a
  /// download that is complete with a 416, as all of it was there already.
  public var countOfDecodedBytesExpectedToReceive: Int64?

  /// The received part of the body as it is delivered, from 0 to 1; nil if its length is not known.
  public var fractionReceived: Double? {
    countOfDecodedBytesExpectedToReceive.map { $0 > 0 ? min(1, Double(countOfBytesReceived) / Double($0)) : 1 }
  }
  /// The sent part of the request body, from 0 to 1; nil if its length is not known.
  public var fractionSent: Double? {
    countOfBytesExpectedToSend.map { $0 > 0 ? min(1, Double(countOfBytesSent) / Double($0)) : 1 }
  }
}

/// A task whose body comes to a completion handler or a delegate.
public class DataTask: SessionTask, @unchecked Sendable {}

/// A data task that sends a body.
public final class UploadTask: DataTask, @unchecked Sendable {}

/// A task whose body goes to a file.
public final class DownloadTask: SessionTask, @unchecked Sendable {
  /// Ends the task, and calls back on the delegate queue with what it can be resumed from: nil if the server gives no version that could be
  /// asked for in parts, or nothing has arrived. The task completes as after `cancel()`; the error has the same data.
  public func cancelByProducingResumeData(_ completionHandler: @escaping @Sendable (ResumeData?) -> Void) {
    let queue = run.session.delegateQueue
    // A data task that became a download has the download's consumer within its own.
    let download = run.consumer as? any ResumableConsumer ?? (run.consumer as? DelegateConsumer)?.download
    guard let download else {
      cancel()
      return queue.async { completionHandler(nil) }
    }
    download.whenOver { resumeData in queue.async { completionHandler(resumeData) } }
    cancel()
  }

  /// Ends the task; see `cancelByProducingResumeData(_:)`.
  public func cancelByProducingResumeData() async -> ResumeData? {
    await withCheckedContinuation { continuation in
      cancelByProducingResumeData { continuation.resume(returning: $0) }
    }
  }
}

extension SessionTask {
  /// A handle of the kind that the task is.
  static func face(of run: TaskRun) -> SessionTask {
    switch run.kind {
    case .data: DataTask(run)
    case .upload: UploadTask(run)
    case .download: DownloadTask(run)
    }
  }
}
