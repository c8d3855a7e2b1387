internal import CLupineLinux
package import LupineBase

/// What a loop waits with. Made before the loop's thread where possible: it is the one thing about a context that can fail.
package struct LoopWatch: ~Copyable {
  fileprivate let epoll: Descriptor

  /// Watches the mailbox of `loop`, for now nothing else.
  package init(for loop: EventLoop) throws(IOError) {
    let made = try SystemCalls.makeEpoll()
    try SystemCalls.epollAdd(made, loop.mailbox.eventNumber, events: EPOLLIN.rawValue | EPOLLET.rawValue, token: 0)
    epoll = made
  }
}

/// The inside of a loop: descriptors, timers and the read buffer. Not `Sendable`; it lives and dies on the loop's thread.
///
/// A turn: wait for events → tell the handlers → run the mailbox → fire due timers → tell whoever was requeued. What work in the mailbox
/// submits runs in the same turn, for a few rounds; whatever else is submitted or requeued runs in the next one, which then does not sleep.
/// What all these stage is done when some of them have, and behind each of these steps (`StagedWork`).
@safe
package final class LoopContext {
  package let loop: EventLoop
  private let epoll: Descriptor
  private let isPrecise: Bool
  private let eventCapacity: Int
  private let events: UnsafeMutableBufferPointer<epoll_event>
  private let buffer: UnsafeMutableRawBufferPointer

  // Each turn looks at most of these: the runtime's checks of access, where they are called for, cost more than `Exclusive`'s.
  private let registrations = Exclusive(RegistrationTable())
  private let timers = Exclusive(TimerQueue())
  /// When the first of `timers` is due: asked for in every turn, which few of them change.
  private var nextTimer: Instant?
  private let requeued = Exclusive<[Registration]>([])
  private let requeueBatch = Exclusive<[Registration]>([])
  private let mail = Exclusive<[Mailbox.Item]>([])
  private var clock: Instant?
  /// All that came until then has been told, but for more events than one poll gives. No timer fires that is due later: what it waits for may be there by now, behind work that took long.
  private var askedAt: Instant
  /// Nil but for loops that are driven by hand.
  private let world: DrivenWorld?

  /// How many times the loop has asked epoll. A connection that became idle at the same count has not been watched since.
  package var polls: UInt64 { pollCount }
  private var pollCount: UInt64 = 0
  /// Whether there may be events that nobody has been told of: others of the last poll wait behind the one that is told now, or it gave as many as it can,
  /// and the next one gives more.
  package var isTellingEvents: Bool { isTelling }
  // Not the same property: one that other modules see is checked for exclusive access at every use.
  private var isTelling = false
  private let ahead = ReadsAhead()
  /// Whether what was read ahead for the handler that is being told has not been asked for.
  package var hasReadAhead: Bool { ahead.isWaiting }
  /// Whether the last `read` gave less than it might have.
  package var fellShort: Bool { isShort }
  private var isShort = false
  private var stagedWork: (any StagedWork)?
  /// How much of it there is, and how many have been told since there was any.
  private var stagedCount = 0
  private var toldSinceStaged = 0
  /// Whether a turn is under way, which does it.
  private var isStaging = false
  /// Whether more has been read at a time than is read ahead, since this was last asked.
  private var hasReadMuch = false
  /// Bytes in the read buffer: what the last `read` gave.
  private var filled = 0

  /// What one read gives at most, into the buffer that all connections of a loop share.
  package static let readBufferSize = 256 * 1024
  /// What is read ahead of an event at most.
  package static let readAheadSize = ReadsAhead.roomSize
  /// Events that one poll gives at most.
  package static let eventCapacity = 512
  private static let keptMail = 4096
  private static let mailRounds = 8

  /// Makes the context. Call it on the loop's thread, once.
  package convenience init(of loop: EventLoop) throws(IOError) {
    self.init(of: loop, try LoopWatch(for: loop))
  }

  /// Makes the context of a loop that `watch` was made for. Call it on the loop's thread, once.
  ///
  /// - Parameter world: clock and network of a loop that is driven by `turn`; nil for one that runs.
  package init(of loop: EventLoop, _ watch: consuming LoopWatch, world: DrivenWorld? = nil) {
    precondition(loop.isCurrent, "a context is made on its loop's thread")
    self.loop = loop
    self.world = world
    epoll = watch.epoll
    isPrecise = SystemCalls.hasPreciseEpollWait(epoll)
    eventCapacity = world?.eventCapacity ?? Self.eventCapacity
    // Nobody is registered.
    let now = world?.now ?? EventLoop.monotonicNow()
    (clock, askedAt) = (now, now)
    unsafe events = .allocate(capacity: eventCapacity)
    unsafe buffer = .allocate(byteCount: Self.readBufferSize, alignment: 4096)
  }

  deinit {
    unsafe events.deallocate()
    unsafe buffer.deallocate()
  }

  // MARK: Time

  /// The time, read at most once a turn.
  package var now: Instant {
    if let clock { return clock }
    return refreshNow()
  }

  /// Reads the clock again, after work that took long.
  @discardableResult
  package func refreshNow() -> Instant {
    let now = world?.now ?? EventLoop.monotonicNow()
    clock = now
    return now
  }

  /// How long the machine has been suspended since it was started, in nanoseconds: time that `now` leaves out.
  package var suspendedNanoseconds: Int64 { world?.suspendedNanoseconds ?? EventLoop.suspendedNanoseconds() }

  /// Calls `handler` once it is `deadline`, or in the next turn if it is already. Holds the handler until then.
  package func schedule(at deadline: Instant, _ handler: any TimerHandler) -> TimerIdentifier {
    defer { nextTimer = timers.value.earliest }
    return timers.value.schedule(at: deadline, handler)
  }

  /// Forgets a timer at once; one that has fired or was cancelled before is fine.
  package func cancel(_ identifier: TimerIdentifier) {
    let handler = timers.value.cancel(identifier)
    nextTimer = timers.value.earliest
    // Behind the accesses: whoever is let go may use the loop.
    withExtendedLifetime(handler) {}
  }

  /// Moves a timer to another deadline; false if it has fired or was cancelled before.
  @discardableResult
  package func reschedule(_ identifier: TimerIdentifier, at deadline: Instant) -> Bool {
    defer { nextTimer = timers.value.earliest }
    return timers.value.reschedule(identifier, at: deadline)
  }

  /// Timers that are scheduled.
  package var timerCount: Int { timers.value.count }

  /// When the first of them is due.
  package var nextDeadline: Instant? { nextTimer }

  // MARK: Descriptors

  /// Watches a descriptor until `deregister`, edge-triggered, for everything. What it is ready for already is reported too. Holds the handler.
  package func register(
    _ descriptor: borrowing Descriptor, _ handler: any ReadinessHandler
  ) throws(IOError) -> Registration {
    let registration = registrations.value.insert(descriptor.number, handler)
    let events =
      EPOLLIN.rawValue | EPOLLOUT.rawValue | EPOLLRDHUP.rawValue | EPOLLPRI.rawValue | EPOLLET.rawValue
    do throws(IOError) {
      try SystemCalls.epollAdd(epoll, descriptor.number, events: events, token: registration.token)
    } catch {
      _ = registrations.value.remove(registration)
      throw error
    }
    return registration
  }

  /// Stops watching. Call it before the descriptor is closed. No event of it is reported any more, not even one already received.
  package func deregister(_ registration: Registration) {
    guard let (handler, number) = registrations.value.remove(registration) else { return }
    SystemCalls.epollRemove(epoll, number)
    // Behind the access and behind epoll: whoever is let go may use the loop, and close what he watched.
    withExtendedLifetime(handler) {}
  }

  /// Gives a registration to another handler, and reports `readiness` to it in the next turn: events that the former handler saw
  /// will not come again.
  package func transfer(
    _ registration: Registration, to handler: any ReadinessHandler, readiness: Readiness = [.readable, .writable]
  ) {
    let former = registrations.value.setHandler(registration, handler)
    requeue(registration, readiness)
    withExtendedLifetime(former) {}
  }

  /// Calls the handler again in the next turn, without waiting for an event: for whoever stops reading although more may wait.
  package func requeue(_ registration: Registration, _ readiness: Readiness = .readable) {
    if registrations.value.requeue(registration, readiness) { requeued.value.append(registration) }
  }

  /// Descriptors that are watched.
  package var registrationCount: Int { registrations.value.count }

  /// Makes a socket and begins to connect it.
  func startConnecting(to address: SocketAddress, _ options: SocketOptions) throws(IOError) -> StartedSocket {
    if let world { return try world.connect(address) }
    let socket = try options.makeSocket(for: address)
    let result = try SystemCalls.connect(socket, to: address)
    return StartedSocket(socket, result)
  }

  // MARK: Reading

  /// Reads from a socket into the loop's buffer, over what was there.
  @inline(__always)
  package func read(_ socket: borrowing Descriptor) throws(IOError) -> ReadResult {
    try read(socket, atMost: Self.readBufferSize)
  }

  /// Reads at most `limit` bytes, and no more than `readBufferSize`, from a socket into the loop's buffer, over what was there.
  package func read(_ socket: borrowing Descriptor, atMost limit: Int) throws(IOError) -> ReadResult {
    filled = 0
    if let count = ahead.take(socket.number) {
      filled = count
      isShort = count < ReadsAhead.roomSize
      return .bytes(count)
    }
    let size = min(limit, Self.readBufferSize)
    precondition(size > 0, "a read needs room")
    let memory = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<size])
    let result = try unsafe SystemCalls.receive(socket, memory)
    if case .bytes(let count) = result {
      filled = count
      isShort = count < size
      if count > Self.readAheadSize { hasReadMuch = true }
    }
    return result
  }

  /// What the last `read` gave. The next `read` writes over it.
  package var bytes: Span<UInt8> {
    @_lifetime(borrow self)
    get {
      let readable = unsafe ahead.shownBytes(filled) ?? UnsafeRawBufferPointer(rebasing: buffer[..<filled])
      let span = unsafe Span<UInt8>(_unsafeBytes: readable)
      return unsafe _overrideLifetime(span, borrowing: self)
    }
  }

  // MARK: Turns

  /// Runs turns until the loop is stopped and its mailbox is empty. Then registrations, timers and requeued handlers are let go.
  ///
  /// - Parameter sharesProcessor: whether the loop stands back now and then until the tasks that it has resumed have had the processor, because there is one
  ///   only (`StandingBack`); nil: if there is one only when the loop begins.
  package func run(sharesProcessor: Bool? = nil) {
    precondition(loop.isCurrent, "a loop runs on its own thread")
    let turnEnd = loop.turnEnd.onLoop
    // Without a descriptor to spare for it the loop does as it does elsewhere.
    turnEnd.begin(sharesProcessor ?? (SystemCalls.processors == 1) ? try? ProcessorGate() : nil)
    isStaging = stagedWork != nil
    while runMailbox() {
      fireTimers()
      runRequeued()
      turnEnd.flush()
      // Epoll is asked behind it, as behind any sleep: what has come to an idle connection meanwhile is told before mail leases it.
      turnEnd.standBack()
      poll()
      turnEnd.flush()
    }
    isStaging = false
    turnEnd.end()
    letGo()
  }

  /// Lets registrations, timers and requeued handlers go.
  @inline(never)
  private func letGo() {
    // Whoever is let go may leave something in his turn, but shall not keep the loop for ever.
    for _ in 0..<Mailbox.roundsToTheEnd {
      requeued.value.removeAll()
      guard timerCount + registrationCount > 0 else { return }
      let timed = timers.value.removeAll()
      nextTimer = nil
      let watched = registrations.value.removeAll()
      for registration in watched { SystemCalls.epollRemove(epoll, registration.number) }
      // Timers too behind epoll: one of them may hold alone what somebody else watches.
      withExtendedLifetime((timed, watched)) {}
    }
  }

  /// Runs one turn of a loop that is driven by hand, without waiting for anything.
  ///
  /// - Returns: whether anything happened, so that another turn may find more to do.
  package func turn() -> Bool {
    precondition(world != nil && loop.isCurrent, "only a loop with a world of its own is driven, by its own thread")
    let turnEnd = loop.turnEnd.onLoop
    turnEnd.begin()
    isStaging = stagedWork != nil
    defer { isStaging = false }
    var happened = poll() > 0 || !requeued.value.isEmpty
    turnEnd.flush()
    for _ in 0..<Self.mailRounds {
      guard runMail() == true else { break }
      happened = true
    }
    if let nextTimer, nextTimer <= now { happened = true }
    fireTimers()
    runRequeued()
    turnEnd.flush()
    return happened || !requeued.value.isEmpty
  }

  /// Asks epoll, and tells the handlers; how many events there were.
  @discardableResult
  private func poll() -> Int {
    var timeout: Int64 = 0
    clock = nil
    // What was done since the clock was read may have taken long.
    if nextTimer != nil { askedAt = refreshNow() }
    if requeued.value.isEmpty, world == nil {
      timeout = nextTimer.map { max($0.nanoseconds(since: askedAt), 0) } ?? -1
      if timeout != 0, !loop.mailbox.prepareSleep() { timeout = 0 }
    }
    let count = unsafe SystemCalls.epollWait(epoll, events, nanoseconds: timeout, precise: isPrecise)
    loop.mailbox.didWake()
    if timeout != 0 {
      clock = nil
      if count > 0 { loop.turnEnd.onLoop.woken() } else if let nextTimer { askedAt = min(nextTimer, refreshNow()) }
    }
    pollCount &+= 1
    isTelling = true
    var told = 0
    while told < count {
      let end = min(told + StageSize.works, count)
      tell(told..<end)
      runStages()
      told = end
    }
    // Behind the stages: what is done in them takes its time, in which a connection that idles may have been closed.
    isTelling = count == eventCapacity
    return count
  }

  /// Tells handlers of some events, having read ahead for those who let it.
  private func tell(_ range: Range<Int>) {
    // One is read when it is told.
    let readsAhead = range.count > 1
    if readsAhead {
      for index in range { readAhead(index, into: index - range.lowerBound) }
    }
    for index in range {
      let event = unsafe events[index]
      let registration = unsafe Registration(token: event.data.u64)
      // Nobody, if it was deregistered by a handler earlier in this turn, or if it is the mailbox's.
      guard let handler = registrations.value.handler(of: registration) else { continue }
      if readsAhead { ahead.tell(index - range.lowerBound) }
      handler.ready(unsafe Readiness(epoll: event.events))
      if ahead.isWaiting { unread(registration) }
      runStagesIfFull()
    }
  }

  private func readAhead(_ index: Int, into room: Int) {
    ahead.empty(room)
    let event = unsafe events[index]
    // Behind anything else the result of a read says more than its bytes.
    guard unsafe event.events & ~EPOLLOUT.rawValue == EPOLLIN.rawValue,
      let (handler, number) = registrations.value.watched(unsafe Registration(token: event.data.u64)),
      handler.mayBeReadAhead
    else { return }
    ahead.read(number, into: room)
  }

  /// What was read ahead has not been asked for: nobody wants it who has been deregistered, and anybody else would lose it.
  @inline(never)
  private func unread(_ registration: Registration) {
    precondition(registrations.value.find(registration) == nil, "a handler did not read what it let be read ahead")
    ahead.endTelling()
  }

  /// Runs what waits, and what that leaves in its turn, a bounded number of times; false if the loop has to end.
  ///
  /// A task on the loop's executor comes back as several jobs, one after the other, for every request that it awaits (measured: five, each
  /// of which cost a look at epoll).
  private func runMailbox() -> Bool {
    for _ in 0..<Self.mailRounds {
      guard let goesOn = runMail() else { return true }
      if !goesOn { return false }
    }
    return true
  }

  /// Runs what waited when it was called; nil if nothing did, false if the loop has to end.
  private func runMail() -> Bool? {
    switch loop.mailbox.take(&mail.value) {
    case .closed: return false
    case .empty: return nil
    case .items:
      // What others leave may have begun after the clock was read, and its deadlines be in the past already.
      clock = nil
      for item in mail.value {
        // Of somebody else, and may take any time.
        let isJob = if case .job = item { true } else { false }
        if isJob { runStages() }
        loop.run(item)
        if isJob { clock = nil }
        runStagesIfFull()
      }
      runStages()
      // The memory of a burst is not kept for ever.
      mail.value.removeAll(keepingCapacity: mail.value.count <= Self.keptMail)
      return true
    }
  }

  private func fireTimers() {
    guard let earliest = nextTimer, earliest <= askedAt else { return }
    // Timers that a handler schedules for now or the past wait for the next turn, lest they keep the loop from everything else.
    var due = timers.value.count
    while due > 0, let (handler, identifier) = timers.value.popDue(askedAt) {
      due -= 1
      nextTimer = timers.value.earliest
      handler.timerFired(identifier)
      runStagesIfFull()
    }
    runStages()
  }

  private func runRequeued() {
    guard !requeued.value.isEmpty else { return }
    // Swapped, not copied: both arrays keep their memory.
    swap(&requeued.value, &requeueBatch.value)
    for registration in requeueBatch.value {
      if let (handler, readiness) = registrations.value.takeRequeued(registration) { handler.ready(readiness) }
      runStagesIfFull()
    }
    runStages()
    requeueBatch.value.removeAll(keepingCapacity: true)
  }

  // MARK: Stages

  /// Has `work` do what handlers stage. Once, before the first turn.
  package func leaveStages(to work: any StagedWork) {
    precondition(stagedWork == nil && !isStaging, "the stages of a loop are somebody's")
    stagedWork = work
  }

  /// Has what handlers stage done soon, still in this turn.
  ///
  /// - Returns: false if no turn is under way: whoever asks does what there is to do himself.
  package func stage() -> Bool {
    guard isStaging else { return false }
    stagedCount &+= 1
    return true
  }

  /// One of many has been told. What waits does not wait for more than so many of them, whatever these stage, nor behind one that has read much, which takes long.
  @inline(__always)
  private func runStagesIfFull() {
    let readMuch = hasReadMuch
    hasReadMuch = false
    guard stagedCount > 0 else { return }
    toldSinceStaged += 1
    if readMuch || toldSinceStaged >= StageSize.works { runStages() }
  }

  @inline(__always)
  private func runStages() {
    guard stagedCount > 0 else { return }
    stagedWork?.run(in: self)
    stagedCount = 0
    toldSinceStaged = 0
  }
}
