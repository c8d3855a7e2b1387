internal import CLupineLinux
package import LupineBase
internal import Synchronization

/// One thread that waits on epoll and runs everything that is confined to it.
///
/// The loop is a `SerialExecutor`, so that an actor can live on it, and a `TaskExecutor`, so that tasks can prefer it. An actor whose
/// `unownedExecutor` is the loop is entered from its thread by `assumeIsolated`, without any hop:
///
/// ```swift
/// actor Engine {
///   nonisolated let loop: EventLoop
///   nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
///   private var core: Core?                        // not Sendable; holds the context
///
///   nonisolated func start() throws(IOError) {
///     try loop.start { self.assumeIsolated { $0.run() } }
///   }
///   private func run() {
///     do throws(IOError) {
///       let context = try LoopContext(of: loop)
///       core = Core(context)
///       context.run()                              // returns after loop.stop()
///     } catch { failure = error }
///     core = nil
///   }
///   nonisolated func doSomething(_ value: Int) {   // any thread
///     loop.submit { self.assumeIsolated { $0.core?.doSomething(value) } }
///   }
/// }
/// ```
///
/// States: idle → running (`start`) → ended (`stop`, after everything submitted before has run); or idle for good, and driven by hand
/// (`adoptCurrentThread`, `LoopContext.turn`). Invariants: work runs in the order of
/// submission, on the loop's thread; after the end `submit` refuses, while Swift jobs still run, one at a time, on the thread that
/// enqueues them, because a task that is dropped would never finish.
package final class EventLoop: SerialExecutor, TaskExecutor {
  package let name: String
  let mailbox: Mailbox
  let turnEnd = LoopConfined(TurnEnd())
  /// Identity of the thread that may touch what is confined to the loop; 0 while there is none.
  private let owner = Atomic<UInt>(0)
  private let life: LockedStorage<Life>
  /// Jobs that were enqueued after the end.
  private let leftovers = LockedStorage<[UnownedJob]>([])

  private enum Life {
    case idle
    case running(Thread)
    case joined
  }

  /// Makes a loop that does not run yet. `name` is its thread's, cut to 15 bytes.
  package init(name: String) throws(IOError) {
    self.name = name
    mailbox = try Mailbox()
    life = LockedStorage(.idle)
  }

  deinit {
    // Nobody joined: the thread, if any, has left `run` already or is leaving it, and this may be that thread.
    life.withLock { life in
      if case .running(let thread) = life { thread.detach() }
    }
  }

  /// Starts the thread, which runs `main` once. `main` makes the `LoopContext` and calls its `run()`.
  package func start(_ main: @escaping @Sendable () -> Void) throws(IOError) {
    let failure: IOError? = life.withLock { life in
      guard case .idle = life else { preconditionFailure("loop \(name) was started before") }
      do throws(IOError) {
        life = .running(
          try Thread.start(name: name) {
            self.owner.store(Thread.current, ordering: .relaxed)
            main()
            self.finish()
            self.owner.store(0, ordering: .releasing)
            // The mailbox was closed before: jobs that came since were left to this thread.
            self.runLeftovers(atMost: Self.leftoversOfTheThread)
            self.leaveLeftovers()
          })
        return nil
      } catch {
        return error
      }
    }
    if let failure { throw failure }
  }

  /// Makes the calling thread the loop's own, for a loop that nobody starts: the caller drives it by `LoopContext.turn`. Another thread may
  /// take over by calling this, between two turns.
  package func adoptCurrentThread() {
    life.withLock { life in
      guard case .idle = life else { preconditionFailure("loop \(name) has a thread") }
    }
    owner.store(Thread.current, ordering: .relaxed)
  }

  /// Asks the loop to end once it has run everything that was submitted before, and everything which that submits, for `Mailbox.roundsToTheEnd` rounds.
  package func stop() {
    mailbox.requestStop()
  }

  /// Waits until the thread is gone. Call it after `stop()`, on another thread; a loop that was never started is fine. A second call
  /// returns at once, whether or not the thread is gone by then.
  package func join() {
    let thread: Thread? = life.withLock { life in
      guard case .running(let thread) = life else { return nil }
      life = .joined
      return thread
    }
    thread?.join()
  }

  /// Runs `work` on the loop, after everything submitted before. Any thread, the loop's own included.
  ///
  /// - Returns: false if the loop has ended; `work` was let go without being run.
  @discardableResult
  package func submit(_ work: @escaping @Sendable () -> Void) -> Bool {
    mailbox.append(.work(work))
  }

  /// The same for work that is an object.
  @discardableResult
  package func submit(_ work: any LoopWork) -> Bool {
    mailbox.append(.object(work))
  }

  /// Whether the caller runs on the loop's thread.
  @inline(__always)
  package var isCurrent: Bool { owner.load(ordering: .relaxed) == Thread.current }

  /// How many times a submission had to wake the loop by a system call. For metrics and tests.
  package var wakeUps: Int { mailbox.wakeUps }

  /// The monotonic clock.
  package static func monotonicNow() -> Instant {
    Instant(nanoseconds: SystemCalls.clock(CLOCK_MONOTONIC))
  }

  /// Nanoseconds for which the machine has been suspended since it was started; the monotonic clock stands still then.
  package static func suspendedNanoseconds() -> Int64 {
    let awake = SystemCalls.clock(CLOCK_MONOTONIC)
    return SystemCalls.clock(CLOCK_BOOTTIME) - awake
  }

  /// The wall clock: nanoseconds since 1970. For logs and metrics, never for deadlines.
  package static func wallClockNanoseconds() -> Int64 {
    SystemCalls.clock(CLOCK_REALTIME)
  }

  // MARK: Executor

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if !mailbox.append(.job(job)) { runAfterEnd(job) }
  }

  package func asUnownedSerialExecutor() -> UnownedSerialExecutor {
    unsafe UnownedSerialExecutor(ordinary: self)
  }

  package func asUnownedTaskExecutor() -> UnownedTaskExecutor {
    unsafe UnownedTaskExecutor(ordinary: self)
  }

  package func checkIsolated() {
    precondition(isCurrent, "not on the thread of loop \(name)")
  }

  package func isIsolatingCurrentContext() -> Bool? {
    isCurrent
  }

  @inline(__always)
  func run(_ job: UnownedJob) {
    unsafe job.runSynchronously(
      isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
  }

  @inline(__always)
  func run(_ item: Mailbox.Item) {
    switch item {
    case .work(let work): work()
    case .object(let work): work.runOnLoop()
    case .job(let job): run(job)
    }
  }

  /// Closes the mailbox, if `main` came back without having run it to its end: nobody shall wait for ever.
  private func finish() {
    mailbox.requestStop()
    var batch: [Mailbox.Item] = []
    while mailbox.take(&batch) != .closed {
      for item in batch { run(item) }
      batch.removeAll()
    }
  }

  private func runAfterEnd(_ job: UnownedJob) {
    // An executor is not retained by its jobs: one of them may let go of the last reference to the actor, and with it to this loop.
    let life = unsafe Unmanaged.passRetained(self)
    defer { unsafe life.release() }
    leftovers.withLock { $0.append(job) }
    runLeftovers()
  }

  /// The first thread that comes becomes the owner until nothing is left, or for so many jobs; others leave their jobs to it.
  private func runLeftovers(atMost limit: Int = .max) {
    var rest = limit
    // Looked at once more after an owner: somebody may have left a job to it after its last look.
    while rest > 0, !leftovers.withLock({ $0.isEmpty }),
      owner.compareExchange(expected: 0, desired: Thread.current, ordering: .acquiringAndReleasing).exchanged
    {
      while rest > 0, let next = leftovers.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
        rest -= 1
        run(next)
      }
      owner.store(0, ordering: .releasing)
    }
  }

  /// Jobs that the loop's thread runs behind its end.
  private static let leftoversOfTheThread = 1_000

  /// A task that asks again whatever comes gets a thread of its own: somebody waits for this one.
  private func leaveLeftovers() {
    guard !leftovers.withLock({ $0.isEmpty }) else { return }
    do throws(IOError) {
      try Thread.start(name: "lupine-rest") { self.runLeftovers() }.detach()
    } catch {
      runLeftovers()
    }
  }
}
