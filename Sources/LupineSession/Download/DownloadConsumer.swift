internal import FoundationEssentials
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import Synchronization

/// What a download says while it runs, in the order of events, on the transport's thread: to be kept short.
struct DownloadHooks: Sendable {
  /// May refuse the response, which then makes no file. Default: everything but a 2xx is refused.
  var validate: @Sendable (Response) -> SessionError? = { response in
    (200..<300).contains(response.statusCode) ? nil : DownloadConsumer.statusError(response)
  }
  /// The server goes on at this offset: at the end, if all is there already.
  var resumed: (@Sendable (_ offset: Int64, _ expected: Int64?) -> Void)?
  /// So many more bytes have arrived, so many are there in all, of so many.
  var received: (@Sendable (_ count: Int64, _ total: Int64, _ expected: Int64?) -> Void)?
}

/// Writes a body to a partial file, on file threads, and stops the socket while too much waits to be written.
///
/// States, and their legal successors:
///
///     waiting -> writing            a response whose body belongs into the file
///             -> complete           416: everything is there already
///             -> refused            a response that makes no file
///     each    -> ended              `end`, once everything is written
///
/// Invariants: at most one job is under way; what arrives meanwhile is gathered and goes with a later one, which is worth its two switches of
/// threads; while the socket is stopped a job is under way, whose end lets it go on or starts the next; after an error nothing is written.
/// What comes fast, as it is and in the clear comes in a pipe, and not in memory: the socket is stopped until it is written, as the pipe takes no more.
/// When it ends without success the file is removed, unless its bytes can be gone on from: then the error has resume data.
final class DownloadConsumer: ResumableConsumer, DeferredConsumer, PipeConsumer {
  /// The task is the one that waits for the end, which is settled here, or by the consumer that this one is a part of. `tell` is for when it is told so:
  /// others wait to hear what can be gone on from, and a session may be over with its last task.
  typealias Completion = @Sendable (Result<DownloadedFile, SessionError>, TaskRun?, _ tell: () -> Void) -> Void

  enum Mode { case waiting, writing, complete, refused }

  struct State {
    var mode = Mode.waiting
    var pieces = BodyPieces()
    var pipe: BodyPipe?
    var hasAskedForPipe = false
    var underWay = 0
    /// Where the next job writes.
    var offset: Int64 = 0
    /// The length of the whole, if it is known.
    var expected: Int64?
    /// Where the part that was announced ends.
    var end: Int64?
    var partial: PartialFile?
    /// The file was resumed from, and another version comes: it makes way before anything is written.
    var holdsOtherVersion = false
    var isBusy = false
    /// A job has been started.
    var hasBegun = false
    /// Bytes are being copied, outside of the lock.
    var isGathering = false
    var pause = PauseState()
    /// The version whose beginning is in the file, if it can be gone on from.
    var version: DownloadVersion?
    /// What the download was resumed from, while the file is as it was then.
    var untouched: ResumeData?
    /// What was asked for; nil once the whole was asked for instead.
    var offer: RangeOffer?
    var failure: SessionError?
    /// The beginning of a body that makes no file: it may say why.
    var refusedBody: [UInt8] = []
    var exchange: (any TransportExchange)?
    var result: Result<Response, SessionError>?
    var completion: Completion?
    /// What is to be settled, from its end until the file is complete.
    var run: TaskRun?
    var waiters = ResumeDataWaiters()
  }

  /// What there is for a job at least, but for the first and the last: worth the two switches of threads that it costs.
  static let pieceSize = 64 << 10
  /// With so much in memory the socket is stopped. Less than a whole read: none is gathered beside the one that is being written, which would save no time
  /// that can be measured.
  static let highWatermark = 192 << 10
  static let refusedBodyLimit = 64 << 10

  /// What resume data names.
  let url: ParsedURL
  let place: PartialPlace
  let canResume: Bool
  let threads: FileThreads
  private let hooks: DownloadHooks
  let state: LockedStorage<State>

  /// - Parameter completion: called once, on a file thread; the file must be moved or removed then.
  init(_ plan: DownloadPlan, hooks: DownloadHooks, threads: FileThreads, completion: @escaping Completion) {
    url = plan.url
    place = plan.place
    canResume = plan.canResume
    self.threads = threads
    self.hooks = hooks
    var state = State(partial: plan.partial, completion: completion)
    state.offer = plan.offer
    state.untouched = plan.resumeData
    self.state = LockedStorage(state)
  }

  static func statusError(_ response: Response) -> SessionError {
    SessionError(
      .badResponse, phase: .receive, message: "status \(response.statusCode) makes no file",
      failingURL: response.urlString, requestBytesSent: true, response: response)
  }

  func whenOver(_ waiter: @escaping ResumeDataWaiters.Waiter) {
    if let resumeData = state.withLock({ $0.waiters.add(waiter) }) { waiter(resumeData.value) }
  }

  // MARK: The head

  func wantsWhole(insteadOf response: Response) -> Bool {
    guard let offer = state.withLock({ $0.offer }) else { return false }
    guard case .askAgain = ResumeRule.decide(RangeAnswer(response), to: offer) else { return false }
    state.withLock { $0.offer = nil }
    return true
  }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    let answer = RangeAnswer(response)
    let offer = state.withLock { state in
      state.exchange = exchange
      return state.offer
    }
    let decision = offer.map { ResumeRule.decide(answer, to: $0) } ?? .replace
    switch decision {
    case .append(let count, let total):
      let start = state.withLock { state -> Int64 in
        state.mode = .writing
        state.offset = offer?.offset ?? 0
        state.expected = total
        state.end = state.offset + count
        if let validator = offer?.validator {
          state.version = DownloadVersion(
            validator: validator, source: ResumeSource(answer.url, for: validator), total: total)
        }
        return state.offset
      }
      hooks.resumed?(start, total)
    case .complete:
      let count = offer?.offset ?? 0
      state.withLock { state in
        state.mode = .complete
        state.offset = count
      }
      exchange.discardBody()
      hooks.resumed?(count, count)
    case .replace, .askAgain, .fail:
      begin(response, answer)
    }
  }

  /// A response that is not the continuation of anything.
  private func begin(_ response: Response, _ answer: RangeAnswer) {
    var refusal = hooks.validate(response)
    if refusal == nil, answer.status == 206, canResume {
      refusal = SessionError(
        .badResponse, phase: .receive, message: "206 although no range was asked for", failingURL: response.urlString,
        requestBytesSent: true, response: response)
    }
    state.withLock { state in
      guard refusal == nil else {
        state.mode = .refused
        state.failure = refusal
        return
      }
      state.mode = .writing
      state.holdsOtherVersion = state.untouched != nil
      state.untouched = nil
      state.expected = answer.isCoded ? nil : answer.contentLength
      state.version = version(of: answer, total: state.expected)
    }
  }

  private func version(of answer: RangeAnswer, total: Int64?) -> DownloadVersion? {
    let now = HTTPDate(seconds: Int64(Date().timeIntervalSince1970))
    guard canResume, answer.status == 200, !answer.isCoded, !answer.refusesRanges,
      let validator = ResumeValidator(
        entityTags: answer.entityTags, lastModified: answer.lastModified, dates: answer.dates, now: now)
    else { return nil }
    return DownloadVersion(
      validator: validator, source: ResumeSource(answer.url, for: validator), total: total)
  }

  // MARK: The body

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    switch state.withLock({ $0.take(bytes) }) {
    case .nothing: return
    case .cancel:
      // At once, so that what was read already is not decoded to its end for nobody.
      exchange.setPaused(.final)
      exchange.cancel()
    case .gather(let total, let expected):
      gather(bytes, remaining: expected.map { $0 - total + Int64(bytes.count) })
      let pause = state.withLock { $0.endGathering() }
      if let pause { exchange.setPaused(pause) }
      hooks.received?(Int64(bytes.count), total, expected)
      startJob()
    }
  }

  /// - Parameter remaining: these bytes and all behind them, if that is known.
  private func gather(_ bytes: Span<UInt8>, remaining: Int64?) {
    var copied = 0
    while copied < bytes.count {
      var piece = state.withLock { $0.pieces.copyTarget(expected: remaining.map { $0 - Int64(copied) }) }
      // Not under the lock, which the thread that writes asks for as well.
      copied += piece.append(bytes.extracting(droppingFirst: copied))
      state.withLock { $0.gathered(piece) }
    }
  }

  func pipe() -> BodyPipe? { state.withLock { $0.takePipe() } }

  func receive(piped count: Int, from exchange: any TransportExchange) {
    let (taken, pause) = state.withLock { $0.take(piped: count) }
    switch taken {
    case .nothing: return
    case .cancel: exchange.cancel()
    case .gather(let total, let expected):
      if let pause { exchange.setPaused(pause) }
      hooks.received?(Int64(count), total, expected)
      startJob()
    }
  }

  func end(_ result: Result<Response, SessionError>) {
    state.withLock { $0.result = result }
    startJob()
  }

  var endsLater: Bool { true }

  func end(_ result: Result<Response, SessionError>, of run: TaskRun) {
    state.withLock { $0.run = run }
    end(result)
  }

  // MARK: Jobs

  /// Writes what waits, unless a job is under way; finishes when there is nothing left.
  private func startJob() {
    switch state.withLock({ $0.nextStep() }) {
    case .nothing: return
    case .write(let work): write(work)
    case .finish(let ending, let completion): finish(ending, completion)
    }
  }

  private func write(_ work: Work) {
    let place = place
    threads.run { () throws(IOError) -> PartialFile in
      self.state.withLock { $0.untouched = nil }
      // Resume data of before names the file that there is: another version never gets its name, or the rest of the one might be joined to it.
      let made = work.holdsOtherVersion ? nil : work.partial
      let partial = if let made { made } else { try PartialFile.create(in: place) }
      if work.holdsOtherVersion, let old = work.partial {
        // It stays open until this job is over, and its room may be needed.
        try? old.file.truncate(to: 0)
        old.remove()
      }
      do throws(IOError) {
        switch work.piece {
        case .gathered(let bytes): try partial.file.write(bytes.bytes, at: work.offset)
        case .piped(let pipe, let count): try pipe.empty(count, into: partial.file, at: work.offset)
        }
      } catch {
        // A file that was made here is nobody else's to remove.
        if made == nil { partial.remove() }
        throw error
      }
      return partial
    } completion: {
      self.jobEnded($0, work.piece)
    }
  }

  private func jobEnded(_ result: Result<PartialFile, IOError>, _ piece: BodyPiece) {
    let (exchange, pause, mustCancel) = state.withLock { state -> ((any TransportExchange)?, PauseState?, Bool) in
      state.isBusy = false
      switch result {
      case .failure(let error):
        state.failure = SessionError(error, "write", path: state.partial?.path ?? place.path)
        state.version = nil
        state.pieces = BodyPieces()
        state.underWay = 0
        return (state.exchange, nil, true)
      case .success(let partial):
        state.partial = partial
        state.pieces.recycle(piece)
        state.holdsOtherVersion = false
        state.offset += Int64(state.underWay)
        state.underWay = 0
        return (state.exchange, state.mayGoOn ? state.pause.change(to: false) : nil, false)
      }
    }
    if let pause { exchange?.setPaused(pause) }
    if mustCancel { exchange?.cancel() }
    startJob()
  }
}
