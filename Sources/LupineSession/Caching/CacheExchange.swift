internal import Dispatch
internal import HTTPTypes
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules
internal import LupineWire
internal import Synchronization

/// One exchange of a session with a cache: answered from it, by the transport, or by both.
///
/// States, and their legal successors:
///
///     looking    -> serving | loading | waiting   a file may know
///     waiting    -> looking                       somebody else fetches the same
///     loading    -> settling | over               the transport is under way; over if it was cancelled before it began
///     settling   -> serving | loading | holding | over
///                                                 it has reported the end, and whoever was told decides what follows; loading again if a 304
///                                                 spoke of something else
///     holding    -> settling | over               the end waits for cookies to be kept
///     serving    -> over                          what is stored is handed to the receiver, or an error
///
/// Invariants: `receiver.end` is called exactly once; the receiver is called by one thread at a time, whichever they are: by the transport while loading,
/// by whoever it told while settling, else by whoever has set `isPumping`. A cancellation that comes while settling is seen by what follows.
final class CacheExchange: TransportExchange, PipeReceiver {
  /// What becomes of the response that the transport brings.
  enum Outcome {
    case forward
    /// 304: what is stored holds.
    case confirmed(ResponseHead)
    /// A 304 that speaks of something else.
    case again
    /// The server has failed; what is stored will do.
    case fallBack
  }

  /// What is handed to the receiver.
  struct Serving {
    var head: ResponseHead?
    var body: [UInt8] = []
    var offset = 0
    var failure: SessionError?
    var metrics: TransactionMetrics
  }

  struct State {
    var inner: (any TransportExchange)?
    var begun = 0
    var ended = 0
    var pause = PauseState()
    var resumedAt = Instant(nanoseconds: 0)
    var isCancelled = false
    /// The time for the whole task is over while what is stored is handed over.
    var isOutOfTime = false
    /// Runs while a disk is waited for, and once the receiver has paused: the transport, which has deadlines, is not there.
    var deadline: AnswerTimer?
    var isDiscarding = false
    var isWaiting = false
    var isPumping = false
    var isOver = false
    /// `Transport.start` has been called for what `begun` counts, and has neither returned nor reported the end.
    var isStarting = false
    /// The transport has reported the end, and what follows is not decided: until then nobody else goes on.
    var isSettling = false
    var serving: Serving?
    // Of the exchange with the transport:
    var outcome = Outcome.forward
    var head: ResponseHead?
    var framing = BodyFraming.none
    /// The body so far, if it is to be stored: at most `limit` bytes.
    var collected: [UInt8]?
    var limit = 0
    /// What the transport did before it was asked anew.
    var earlier: [TransferMetrics] = []
    /// Of the exchange before, when there is none.
    var sentHead: [UInt8] = []
    var keptBody = false
    var requestTime: Int64 = 0
    var responseTime: Int64 = 0
    var stamp = ResponseCache.Stamp()
    /// What is being validated.
    var stored: StoredResponse?
    /// What GET has brought, and a HEAD that was sent is compared with.
    var compared: StoredResponse?
    /// The list of public suffixes is being read for a cookie of a head that nobody else hears of.
    var isReadingSuffixes = false
    /// The end, held until that cookie is kept.
    var heldEnd: (failure: SessionError?, metrics: TransactionMetrics)?
    var isMerged = false
    var leads = false

    /// See `CacheExchange.stopWaiting`.
    mutating func stopWaiting() -> Bool {
      guard isWaiting else { return false }
      isWaiting = false
      deadline = nil
      return !isOver
    }
  }

  let owner: CachingTransport
  let request: TransportRequest
  let settled: SettledRequest
  let receiver: any TransportReceiver
  let facts: CacheRequest
  let mode: CacheMode
  let place: CachingTransport.Place
  let query: ResponseCache.Query
  let startedAt = EventLoop.monotonicNow()
  /// See `CachingTransport.nextLane`.
  let lane: UInt8?
  /// Nobody waits for it.
  let isBehind: Bool
  let state = LockedStorage(State())

  init(
    _ owner: CachingTransport, _ request: TransportRequest, _ receiver: any TransportReceiver, _ facts: CacheRequest,
    _ mode: CacheMode, _ place: CachingTransport.Place, settled: SettledRequest? = nil, isBehind: Bool = false
  ) {
    self.owner = owner
    self.request = request
    self.receiver = receiver
    self.facts = facts
    self.mode = mode
    self.place = place
    self.isBehind = isBehind
    lane = owner.nextLane
    let settled = settled ?? SettledRequest(request)
    self.settled = settled
    query = ResponseCache.Query(
      first: CacheKey.first(partition: place.partition, isDecoded: request.decodesContent, url: request.url),
      isDecoded: request.decodesContent, isInMemoryOnly: place.isInMemoryOnly, request: facts,
      fields: { settled.value.fields })
  }

  // MARK: Looking

  func begin() {
    guard facts.mayUseStored else { return mode == .storedDontLoad ? refuse() : load([]) }
    switch mode {
    // HEAD is sent then too, but is compared with what is found.
    case .ignoringLocal, .ignoringLocalAndRemote: if facts.method == "HEAD" { look(isAtOnce: true) } else { load([]) }
    case .protocolRules, .storedElseLoad, .storedDontLoad, .revalidating: look(isAtOnce: true)
    }
  }

  private func look(isAtOnce: Bool) {
    switch owner.cache.find(query) {
    case .missing: miss()
    case .found(let stored):
      if isAtOnce, !mayAnswerAtOnce {
        later { $0.use(stored) }
      } else {
        use(stored)
      }
    case .onDisk(let key):
      waitForDisk()
      owner.cache.find(query, onDisk: key) { [self] stored in
        // Each thread that has to be woken costs more than the file.
        if let stored, request.composition.run.takesAnswersAtOnce {
          if stopWaiting() { use(stored) }
          return
        }
        schedule { [self] in
          guard stopWaiting() else { return }
          if let stored { use(stored) } else { miss() }
        }
      }
    }
  }

  /// Redirects that are followed at once, one within the other.
  private static let redirectsAtOnce = 16

  /// Whether what is stored may be handed over before `start` has returned. Each of some redirects has to wait for its turn: where a whole chain is stored,
  /// its next exchange begins within the end of the one before, and a chain may be as long as the caller lets it.
  private var mayAnswerAtOnce: Bool {
    guard request.composition.run.takesAnswersAtOnce else { return false }
    let count = request.composition.hop?.chain.history.count ?? 0
    return count == 0 || count % Self.redirectsAtOnce != 0
  }

  private func schedule(_ work: @escaping @Sendable () -> Void) { owner.schedule(on: lane, work) }

  /// On a thread of the transport's, unless the exchange was cancelled by then.
  private func later(_ work: @escaping @Sendable (CacheExchange) -> Void) {
    state.withLock { $0.isWaiting = true }
    schedule { [self] in if stopWaiting() { work(self) } }
  }

  /// Whether it falls to the caller to go on.
  ///
  /// - Parameter leads: what it goes on with is to fetch what others wait for.
  func stopWaiting(leads: Bool = false) -> Bool {
    state.withLock { state in
      guard state.stopWaiting() else { return false }
      if leads { state.leads = true }
      return true
    }
  }

  /// A disk, or a server behind it, may take any time: not more of it than the task has, as no transport is there to keep that.
  func waitForDisk() {
    state.withLock { waitForDisk(&$0) }
  }

  func waitForDisk(_ state: inout State) {
    state.isWaiting = true
    state.deadline = AnswerTimer(after: nanosecondsLeft) { [weak self] in self?.giveUpDisk() }
  }

  private func giveUpDisk() {
    guard stopWaiting() else { return }
    state.withLock { $0.isOutOfTime = true }
    schedule { [self] in pump() }
  }

  private func use(_ stored: StoredResponse) {
    switch CacheUseRule.decide(stored.terms, facts, mode, at: owner.cache.now()) {
    case .serve: serve(stored)
    case .serveAndRevalidate:
      owner.revalidate(request, settled, facts, stored, place, first: query.first)
      serve(stored)
    case .validate: if facts.method == "GET" { validate(stored) } else { compare(stored) }
    case .refuse: serveTimeout()
    }
  }

  private func miss() {
    if mode == .storedDontLoad { return refuse() }
    if facts.directives.onlyIfCached, mode == .protocolRules { return serveTimeout() }
    guard owner.merges, facts.mayBeStored, !state.withLock({ $0.isMerged }) else { return load([]) }
    state.withLock { state in
      state.isWaiting = true
      state.isMerged = true
    }
    guard !owner.joins(self, query.first) else { return watch() }
    guard stopWaiting(leads: true) else { return owner.land(query.first) }
    // Who fetched it before may have stored it, and landed, behind the look that found nothing.
    if case .found = owner.cache.find(query) {
      land()
      return look(isAtOnce: true)
    }
    load([])
  }

  /// Whoever waits for somebody else's response has deadlines of its own: nothing may stand still longer than it wants, and all of it may not
  /// take longer.
  private func watch() {
    let (waits, isPaused, resumedAt) = state.withLock { state in
      (state.isWaiting && !state.isOver, state.pause.isPaused, state.resumedAt)
    }
    // It may have ended before it was among those who wait.
    guard waits else { return owner.leave(self, query.first) }
    guard let moved = owner.lastMovement(of: query.first) else { return }
    let now = EventLoop.monotonicNow()
    let end = startedAt.advanced(byNanoseconds: request.totalNanoseconds)
    // Nothing has to move while the task is suspended; the time for the whole of it goes on.
    let since = isPaused ? now : max(moved, startedAt, resumedAt)
    let due = min(end, since.advanced(byNanoseconds: request.idleNanoseconds))
    let left = due.nanoseconds(since: now)
    if left > 0 {
      return owner.schedule(after: .nanoseconds(Int(clamping: left))) { [weak self] in self?.watch() }
    }
    guard stopWaiting() else { return }
    let phase = end <= now ? SessionError.Phase.total : .poolWait
    let error = SessionError(
      .timedOut, phase: phase, message: "the deadline passed while another request was fetching the same",
      failingURL: request.url.requestString)
    schedule { [self] in begin(Serving(failure: error, metrics: metrics(nil))) }
  }

  /// The one who fetched the same has stored it, or has not.
  func landed() {
    schedule { [self] in if stopWaiting() { look(isAtOnce: false) } }
  }

  // MARK: Loading

  func validate(_ stored: StoredResponse) {
    state.withLock { $0.stored = stored }
    load(stored.terms.conditions)
  }

  private func compare(_ stored: StoredResponse) {
    state.withLock { $0.compared = stored }
    load([])
  }

  func load(_ conditions: [(name: String, value: String)]) {
    var extra = conditions
    switch mode {
    case .ignoringLocalAndRemote: extra += [("Cache-Control", cacheControl("no-cache")), ("Pragma", "no-cache")]
    case .revalidating where !isBehind: extra.append(("Cache-Control", cacheControl("max-age=0")))
    default: break
    }
    let (number, isCancelled) = state.withLock { state -> (Int, Bool) in
      state.begun += 1
      state.outcome = .forward
      state.keptBody = false
      state.head = nil
      state.collected = nil
      state.requestTime = owner.cache.now()
      state.stamp = owner.cache.stamp
      state.isStarting = !state.isCancelled
      state.isSettling = false
      return (state.begun, state.isCancelled)
    }
    if isCancelled { return pump() }
    let exchange = owner.inner.start(outgoing(extra), self)
    let (cancels, pause) = state.withLock { state -> (Bool, PauseState?) in
      // It may have ended meanwhile, and the next one have begun.
      guard state.ended < number else { return (false, nil) }
      state.isStarting = false
      state.inner = exchange
      return (state.isCancelled, state.pause.isPaused ? state.pause : nil)
    }
    if cancels { exchange.cancel() } else if let pause { exchange.setPaused(pause) }
  }

  /// A directive, and those of the request itself, whose field it takes the place of.
  private func cacheControl(_ directive: String) -> String {
    let own = request.fields.filter { $0.name.lowercased() == "cache-control" }
    return ([directive] + own.map { $0.value }).joined(separator: ", ")
  }

  private func outgoing(_ extra: [(name: String, value: String)]) -> TransportRequest {
    var request = extra.isEmpty ? settled.value : settled.value.adding(extra)
    // Time that has passed so far counts: for a file, for somebody else, for an answer that spoke of something else.
    request.totalNanoseconds = nanosecondsLeft
    return request
  }

  /// What is left of the time for the whole task.
  var nanosecondsLeft: Int64 {
    max(0, request.totalNanoseconds - EventLoop.monotonicNow().nanoseconds(since: startedAt))
  }

  // MARK: Commands, from any thread

  var requestHead: [UInt8] {
    let (inner, sentHead) = state.withLock { ($0.inner, $0.sentHead) }
    return inner?.requestHead ?? sentHead
  }

  /// Whether the answer is the cache's, and the server has not confirmed it.
  var servesStored: Bool { state.withLock { $0.serving?.metrics.isLocal ?? false } }

  /// `keepsBody` of the exchange that asks the server, or has.
  var keepsBodyBelow: Bool { state.withLock { state in state.inner?.keepsBody ?? state.keptBody } }

  func cancel() {
    let inner = state.withLock { state -> (any TransportExchange)? in
      state.isCancelled = true
      return state.inner
    }
    if let inner { inner.cancel() } else { schedule { [self] in pump() } }
  }

  func setPaused(_ pause: PauseState) {
    let (isNew, inner) = state.withLock { state in
      let isNew = state.pause.update(to: pause)
      if isNew, !pause.isPaused { state.resumedAt = EventLoop.monotonicNow() }
      return (isNew, state.inner)
    }
    guard isNew else { return }
    if let inner { inner.setPaused(pause) } else if !pause.isPaused { schedule { [self] in pump() } }
  }

  /// Small bodies that come soon are read to their end all the same if they are to be stored: a redirect's for example.
  func discardBody() {
    let (inner, waits, isDropped) = state.withLock { state -> ((any TransportExchange)?, Bool, Bool) in
      state.isDiscarding = true
      guard let collected = state.collected else { return (state.inner, false, false) }
      switch state.framing {
      case .none, .length(0): return (nil, false, false)
      case .length(let announced) where announced > owner.drainedBytes: break
      case .length, .chunked, .untilClose: if collected.count <= owner.drainedBytes { return (nil, true, false) }
      }
      state.collected = nil
      return (state.inner, false, true)
    }
    if isDropped { giveUpKeeping() }
    inner?.discardBody()
    if waits { giveUpCollecting(in: owner.drainNanoseconds) }
  }

  /// What waits for the body is looked at so often: it would stay, for each body, as long as one might be waited for.
  private static let drainStep: Int64 = 1_000_000_000

  /// Gives up when the time is over, if the body has not come to its end by then.
  private func giveUpCollecting(in nanoseconds: Int64) {
    let step = min(nanoseconds, Self.drainStep)
    owner.schedule(after: .nanoseconds(Int(step))) { [weak self] in
      guard let self, self.state.withLock({ $0.collected != nil && !$0.isOver }) else { return }
      let left = nanoseconds - step
      if left > 0 { self.giveUpCollecting(in: left) } else { self.giveUpCollecting() }
    }
  }

  private func giveUpCollecting() {
    let (inner, isDropped) = state.withLock { state -> ((any TransportExchange)?, Bool) in
      guard state.collected != nil else { return (nil, false) }
      state.collected = nil
      return (state.inner, true)
    }
    if isDropped { giveUpKeeping() }
    inner?.discardBody()
  }

  /// What was to be stored cannot be: it takes the place of what is stored all the same, and nobody need wait for it.
  func giveUpKeeping() {
    owner.cache.remove(first: query.first)
    land()
  }
}

/// A request with the cookies that the jar had when its fields were asked for first: with them responses are looked for, sent for and stored, though
/// the very response, or another task, may change the jar meanwhile.
final class SettledRequest: Sendable {
  private let request: TransportRequest
  private let settled = LockedStorage<TransportRequest?>(nil)

  init(_ request: TransportRequest) { self.request = request }

  var value: TransportRequest {
    settled.withLock { settled in
      if let settled { return settled }
      var value = request
      value.composition = request.composition.settlingCookies()
      settled = value
      return value
    }
  }
}

extension TransportRequest {
  /// The same with further fields.
  func adding(_ fields: [(name: String, value: String)]) -> TransportRequest {
    var request = self
    request.composition = composition.adding(fields)
    return request
  }
}
