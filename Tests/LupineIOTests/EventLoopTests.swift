import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

/// A loop whose context does nothing but turn.
private func startedLoop(_ name: String = "test") throws -> EventLoop {
  let loop = try EventLoop(name: name)
  try loop.start {
    do {
      try LoopContext(of: loop).run()
    } catch {
      Issue.record(error)
    }
  }
  return loop
}

@Suite struct MailboxTests {
  @Test func workRunsInTheOrderOfSubmission() throws {
    let loop = try startedLoop()
    let seen = Locked<[Int]>([])
    for number in 0..<10_000 { loop.submit { seen.withLock { $0.append(number) } } }
    loop.stop()
    loop.join()
    #expect(seen.withLock { $0 } == Array(0..<10_000))
  }

  @Test func aSleepCostsAtMostOneWakeUp() throws {
    let mailbox = try Mailbox()
    var batch: [Mailbox.Item] = []
    // Awake: nobody writes.
    for _ in 0..<5 { #expect(mailbox.append(.work {})) }
    #expect(mailbox.wakeUps == 0)
    #expect(!mailbox.prepareSleep())
    #expect(mailbox.take(&batch) == .items)
    #expect(batch.count == 5)
    batch.removeAll()
    // Asleep: the first writes, the others do not.
    #expect(mailbox.prepareSleep())
    for _ in 0..<5 { #expect(mailbox.append(.work {})) }
    #expect(mailbox.wakeUps == 1)
    mailbox.didWake()
    for _ in 0..<5 { #expect(mailbox.append(.work {})) }
    #expect(mailbox.wakeUps == 1)
    #expect(mailbox.take(&batch) == .items)
    #expect(batch.count == 10)
    batch.removeAll()
    // Woken by something else: nobody writes either.
    #expect(mailbox.prepareSleep())
    mailbox.didWake()
    #expect(mailbox.append(.work {}))
    #expect(mailbox.wakeUps == 1)
    // Stopping ends it only when it is empty.
    mailbox.requestStop()
    #expect(mailbox.take(&batch) == .items)
    batch.removeAll()
    #expect(mailbox.append(.work {}))
    #expect(mailbox.take(&batch) == .items)
    batch.removeAll()
    #expect(mailbox.take(&batch) == .closed)
    #expect(!mailbox.append(.work {}))
  }

  @Test func aBurstOnABusyLoopWakesNobody() throws {
    let loop = try startedLoop()
    let entered = Signal()
    let goOn = Signal()
    loop.submit {
      entered.raise()
      _ = goOn.wait()
    }
    try #require(entered.wait())
    let before = loop.wakeUps
    let count = Locked(0)
    for _ in 0..<1000 { loop.submit { count.withLock { $0 += 1 } } }
    #expect(loop.wakeUps == before)
    goOn.raise()
    loop.stop()
    loop.join()
    #expect(count.withLock { $0 } == 1000)
  }

  @Test func manyThreadsSubmitAndNothingIsLost() throws {
    let loop = try startedLoop()
    // Only the loop touches the totals: ThreadSanitizer judges the hand-over.
    final class Totals { var perThread = Array(repeating: 0, count: 8) }
    let totals = LoopConfined(Totals())
    let threads = try (0..<8).map { thread in
      try Thread.start(name: "submitter") {
        for number in 0..<5000 {
          loop.submit {
            // In order, per thread.
            if totals.onLoop.perThread[thread] == number { totals.onLoop.perThread[thread] += 1 }
          }
        }
      }
    }
    for thread in threads { thread.join() }
    let result = Locked<[Int]>([])
    let woken = Locked<Int?>(nil)
    loop.submit {
      let sums = totals.onLoop.perThread
      result.withLock { $0 = sums }
      // Whoever submits from inside a turn finds the loop awake.
      let before = loop.wakeUps
      for _ in 0..<1000 { loop.submit {} }
      let after = loop.wakeUps
      woken.withLock { $0 = after - before }
    }
    loop.stop()
    loop.join()
    #expect(result.withLock { $0 } == Array(repeating: 5000, count: 8))
    #expect(woken.withLock { $0 } == 0)
  }

  @Test func whatIsSubmittedWhileStoppingStillRunsAndLaterIsRefused() throws {
    let loop = try startedLoop()
    let seen = Locked<[String]>([])
    loop.submit {
      loop.stop()
      loop.submit {
        seen.withLock { $0.append("second") }
        loop.submit { seen.withLock { $0.append("third") } }
      }
      seen.withLock { $0.append("first") }
    }
    loop.join()
    #expect(seen.withLock { $0 } == ["first", "second", "third"])
    #expect(!loop.submit { Issue.record("run after the end") })
  }

  @Test func aMainThatReturnsEarlyLeavesNobodyWaiting() throws {
    let loop = try EventLoop(name: "early")
    let ran = Locked(0)
    loop.submit {
      ran.withLock { $0 += 1 }
      loop.submit { ran.withLock { $0 += 1 } }
    }
    try loop.start {}
    loop.join()
    #expect(ran.withLock { $0 } == 2)
    #expect(!loop.submit {})
  }

  /// The mailbox takes nothing any more, and nobody else may be the owner yet.
  @Test func jobsOfTheLoopsLastStepsRun() throws {
    let loop = try EventLoop(name: "last")
    let ran = Signal()
    try loop.start {
      do {
        try LoopContext(of: loop).run()
      } catch {
        Issue.record(error)
      }
      Task(executorPreference: loop) {
        await Task.yield()
        ran.raise()
      }
    }
    loop.stop()
    loop.join()
    #expect(ran.wait())
  }

  @Test func aLoopThatNeverRanCanBeLetGo() throws {
    let loop = try EventLoop(name: "idle")
    loop.stop()
    loop.join()
    #expect(!loop.isCurrent)
  }
}

@Suite struct ExecutorTests {
  @Test func tasksThatPreferTheLoopRunOnIt() async throws {
    let loop = try startedLoop()
    let answers = await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<100 {
        group.addTask(executorPreference: loop) {
          await Task.yield()
          return loop.isCurrent
        }
      }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(answers == Array(repeating: true, count: 100))
    loop.stop()
    loop.join()
  }

  private actor Counter {
    nonisolated let loop: EventLoop
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    var count = 0

    init(_ loop: EventLoop) { self.loop = loop }

    func add() -> Bool {
      count += 1
      return loop.isCurrent
    }
  }

  @Test func anActorOnTheLoopIsSerial() async throws {
    let loop = try startedLoop()
    let counter = Counter(loop)
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<1000 { group.addTask { await counter.add() } }
      for await isOnLoop in group { #expect(isOnLoop) }
    }
    #expect(await counter.count == 1000)
    loop.stop()
    loop.join()
    // Afterwards nobody is left to be the loop's thread; jobs still run, one at a time.
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<1000 { group.addTask { await counter.add() } }
      for await isOwner in group { #expect(isOwner) }
    }
    #expect(await counter.count == 2000)
  }

  private static func enter(_ counter: Counter) {
    counter.assumeIsolated { _ in }
  }

  @Test func enteringTheActorFromAnotherThreadTraps() async {
    await #expect(processExitsWith: .failure) {
      Self.enter(Counter(try startedLoop()))
    }
  }
}

@Suite struct ThreadTests {
  @Test func ourThreadsBlockAllSignalsButFaultsAndTheCallersMaskStays() throws {
    var before = sigset_t()
    _ = unsafe pthread_sigmask(SIG_SETMASK, nil, &before)
    let blocked = Locked<[Bool]>([])
    let thread = try Thread.start(name: "a name that is far too long") {
      var mask = sigset_t()
      _ = unsafe pthread_sigmask(SIG_SETMASK, nil, &mask)
      let signals = [SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGUSR1, SIGILL, SIGTRAP, SIGFPE, SIGBUS, SIGSEGV, SIGSYS]
      let answers = signals.map { unsafe sigismember(&mask, $0) == 1 }
      blocked.withLock { $0 = answers }
    }
    thread.join()
    var after = sigset_t()
    _ = unsafe pthread_sigmask(SIG_SETMASK, nil, &after)
    #expect(blocked.withLock { $0 } == Array(repeating: true, count: 5) + Array(repeating: false, count: 6))
    for signal in [SIGPIPE, SIGINT, SIGTERM, SIGCHLD, SIGUSR1] {
      #expect(unsafe sigismember(&before, signal) == sigismember(&after, signal))
    }
  }

  @Test func neitherThreadsNorDescriptorsStay() async {
    await #expect(processExitsWith: .success) {
      /// Threads of this package; those of the test runner come and go.
      func threads() -> [String] {
        names(in: "/proc/self/task").compactMap { contents(of: "/proc/self/task/\($0)/comm") }
          .filter { $0.hasPrefix("lupine") }
      }
      /// A thread that has been joined, or left to itself because it was still inside a lookup, is gone a moment later.
      func waitUntil(_ condition: () -> Bool) -> Bool {
        let limit = EventLoop.monotonicNow().advanced(byNanoseconds: 10_000_000_000)
        while !condition() {
          guard EventLoop.monotonicNow() < limit else { return false }
          sched_yield()
        }
        return true
      }
      func use() throws {
        let loop = try startedLoop("lupine-loop")
        let files = try FileThreads()
        let resolver = try SystemResolver(lookUp: { _ in .failure(.notFound) })
        let done = Signal()
        loop.submit {
          files.run(on: loop) {
            1
          } completion: { _ in
            done.raise()
          }
        }
        _ = resolver.resolve(host: "a.example", port: 1) { _ in done.raise() }
        guard done.wait(), done.wait() else { exit(2) }
        guard waitUntil({ threads().count == 3 }) else { exit(3) }
        files.stop()
        resolver.stop()
        loop.stop()
        loop.join()
      }
      try use()
      guard waitUntil({ threads().isEmpty }) else { exit(4) }
      let descriptors = names(in: "/proc/self/fd").count
      for _ in 0..<4 { try use() }
      guard waitUntil({ threads().isEmpty }) else { exit(5) }
      // Not "equal": the test runner has descriptors of its own that come and go.
      guard waitUntil({ names(in: "/proc/self/fd").count <= descriptors }) else { exit(6) }
      exit(0)
    }
  }
}

private func names(in directory: String) -> [String] {
  guard let stream = unsafe opendir(directory) else { return [] }
  defer { unsafe closedir(stream) }
  var names: [String] = []
  while let entry = unsafe readdir(stream) {
    let name = unsafe withUnsafeBytes(of: entry.pointee.d_name) { bytes in
      unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
    }
    if !name.hasPrefix(".") { names.append(name) }
  }
  return names
}

private func contents(of path: String) -> String? {
  guard let file = try? File.open(path), let bytes = try? file.read(at: 0, count: 256) else { return nil }
  return String(decoding: bytes, as: UTF8.self)
}
