internal import Synchronization
internal import LupineBase

/// A bounded pool of threads for calls that block: made on demand, gone after a while of idleness.
///
/// States: open → stopped. Invariants: at most `maximum` threads; a job that waits always has a thread awake or on its way to it; every thread
/// is in `threads` until it is joined or detached, and one that has ended is joined by whoever comes next.
final class WorkerThreads: Sendable {
  typealias Job = @Sendable () -> Void
  /// Starts a thread of this name.
  typealias StartThread = @Sendable (String, @escaping Job) throws(IOError) -> Thread

  private struct State {
    var jobs = RingBuffer<Job>()
    /// Threads that exist, by number.
    var threads: [Int: Thread] = [:]
    /// Threads that have left their loop and only have to be joined.
    var ended: [Int] = []
    var idle = 0
    var busy: Set<Int> = []
    var nextNumber = 0
    var isStopped = false

    /// A thread is about to return. One that was detached or is being joined is not here any more.
    mutating func end(_ number: Int) {
      if threads[number] != nil { ended.append(number) }
    }
  }

  private let name: String
  private let maximum: Int
  private let idleMilliseconds: Int32
  private let start: StartThread
  private let state = LockedStorage(State())
  /// A semaphore: raised once for each job that an idle thread is to take, and for each idle thread at the end.
  private let wake: Descriptor

  /// Makes the pool. `start` is for tests.
  init(
    name: String, maximum: Int, idleMilliseconds: Int32 = 10_000,
    start: @escaping StartThread = { (name, body) throws(IOError) in try Thread.start(name: name, body) }
  ) throws(IOError) {
    precondition(maximum > 0, "a pool needs a thread")
    self.start = start
    self.name = name
    self.maximum = maximum
    self.idleMilliseconds = idleMilliseconds
    wake = try SystemCalls.eventDescriptor(semaphore: true)
  }

  deinit {
    // Threads hold the pool, so none is left in its loop: those not yet joined are at their very end.
    state.withLock { state in
      for thread in state.threads.values { thread.detach() }
      state.threads = [:]
    }
  }

  /// Threads that exist, for metrics and tests.
  var threadCount: Int { state.withLock { $0.threads.count - $0.ended.count } }

  /// Runs `job` on a thread of the pool, in the order of submission.
  ///
  /// - Throws: `IOError.stopped` if the pool is stopped; why no thread could be made (EAGAIN at the process's limit) if none exists. The
  ///   job was let go without being run.
  func submit(_ job: @escaping Job) throws(IOError) {
    reap()
    let mustWake = try enqueue(job).get()
    // Not under the lock: the thread that wakes up asks for it first.
    if mustWake { SystemCalls.signal(wake) }
  }

  /// - Returns: whether an idle thread is to be woken.
  private func enqueue(_ job: @escaping Job) -> Result<Bool, IOError> {
    state.withLock { state in
      guard !state.isStopped else { return .failure(.stopped) }
      state.jobs.append(job)
      if state.idle >= state.jobs.count || state.threads.count - state.ended.count >= maximum {
        return .success(state.idle > 0)
      }
      let number = state.nextNumber
      state.nextNumber += 1
      do throws(IOError) {
        state.threads[number] = try start(name) { self.run(number) }
        return .success(false)
      } catch {
        // Too many threads in the process: those that exist will come to it.
        guard state.threads.count > state.ended.count else {
          state.jobs.removeAll()
          return .failure(error)
        }
        return .success(state.idle > 0)
      }
    }
  }

  /// Takes no more jobs; those that wait are still run. Then waits until all threads are gone.
  ///
  /// - Parameter abandoningBusy: let go of threads that are inside a job, and of the jobs that wait: for jobs that nobody can interrupt.
  func stop(abandoningBusy: Bool = false) {
    let idle: Int = state.withLock { state in
      state.isStopped = true
      if abandoningBusy {
        state.jobs.removeAll()
        for number in state.busy { state.threads.removeValue(forKey: number)?.detach() }
      }
      return state.idle
    }
    if idle > 0 { SystemCalls.signal(wake, by: UInt64(idle)) }
    let remaining: [Thread] = state.withLock { state in
      let threads = Array(state.threads.values)
      state.threads = [:]
      state.ended = []
      return threads
    }
    for thread in remaining { thread.isCurrent ? thread.detach() : thread.join() }
  }

  private func reap() {
    let ended: [Thread] = state.withLock { state in
      guard !state.ended.isEmpty else { return [] }
      let threads = state.ended.compactMap { state.threads.removeValue(forKey: $0) }
      state.ended = []
      return threads
    }
    for thread in ended { thread.join() }
  }

  // MARK: On a thread of the pool

  private enum Step {
    case run(Job)
    case wait
    case end
  }

  private func run(_ number: Int) {
    while true {
      switch nextStep(number) {
      case .run(let job): job()
      case .end: return
      case .wait:
        let isIdle = !SystemCalls.waitReadable(wake, milliseconds: idleMilliseconds)
        // All that wait wake up for one job. Whoever comes too late waits again: it has not been idle for long.
        if !isIdle { _ = SystemCalls.take(wake) }
        if endsAfterWait(number, isIdle) { return }
      }
    }
  }

  private func nextStep(_ number: Int) -> Step {
    state.withLock { state in
      if let job = state.jobs.popFirst() {
        state.busy.insert(number)
        return .run(job)
      }
      state.busy.remove(number)
      if state.isStopped {
        state.end(number)
        return .end
      }
      state.idle += 1
      return .wait
    }
  }

  /// A thread that has been idle goes, unless a job has come in between.
  private func endsAfterWait(_ number: Int, _ isIdle: Bool) -> Bool {
    state.withLock { state in
      state.idle -= 1
      guard isIdle, state.jobs.isEmpty else { return false }
      state.end(number)
      return true
    }
  }
}
