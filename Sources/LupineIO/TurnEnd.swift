internal import LupineBase

/// What a loop does at the end of its turn for those who wait elsewhere: continuations of tasks, mostly. Lives on the loop's thread.
///
/// To resume a task wakes a thread of its executor, if that sleeps, and on a busy machine the thread runs at once, finds that one task,
/// and sleeps again: two system calls and two switches for every response (measured: 4.0 calls for a GET with `await` at 64 connections;
/// with what a turn resumes handed over as one job, 2.1). A single one is resumed as ever.
///
/// Invariant: whatever was added runs exactly once, whether the loop goes on or ends.
final class TurnEnd {
  /// A function in a structure is kept as it is; in an array of its own it would be wrapped.
  private struct Work: Sendable {
    let run: @Sendable () -> Void
  }

  private let works = Exclusive<[Work]>([])
  /// How many `works` are: the loop asks several times a turn, and nearly always there are none.
  private var count = 0
  private var priority = TaskPriority.medium
  /// Whether a turn is under way whose end will come.
  private(set) var isRunning = false

  /// So many are handed over before the turn has ended: another processor may begin with them. Mostly a turn resumes fewer; with 32, half as many
  /// again switches between threads were counted at 64 connections, and 2 % more CPU time.
  private static let batchSize = 128

  /// Nil where the loop has a processor for itself while the tasks it resumes have others.
  private var gate: ProcessorGate?
  private var standingBack = StandingBack()
  /// How many times the loop has waited at the gate, for tests.
  private(set) var timesStoodBack = 0

  /// - Parameter gate: to stand back at from time to time, for a loop that has one processor together with everybody else.
  func begin(_ gate: ProcessorGate? = nil) {
    isRunning = true
    guard gate != nil else { return }
    self.gate = gate
    standingBack = StandingBack()
  }

  func add(_ work: @escaping @Sendable () -> Void, priority: TaskPriority) {
    // Whoever waits is held up by nobody of less importance; each task goes on with its own priority.
    self.priority = count == 0 ? priority : max(self.priority, priority)
    count += 1
    works.value.append(Work(run: work))
    if count >= Self.batchSize { flush() }
  }

  @inline(__always)
  func flush() {
    if count > 0 { handOver() }
  }

  /// The loop ends: nothing waits any more.
  func end() {
    isRunning = false
    gate = nil
    flush()
  }

  private func handOver() {
    let isSingle = count == 1
    count = 0
    guard !isSingle else {
      works.value.removeLast().run()
      return
    }
    let batch = works.value
    works.value = []
    works.value.reserveCapacity(batch.count)
    guard let gate else {
      Task.detached(priority: priority) {
        for work in batch { work.run() }
      }
      return
    }
    standingBack.handOver()
    Task.detached(priority: priority) {
      for work in batch { work.run() }
      // Behind those of the same priority who have been resumed.
      await Task.yield()
      gate.end()
    }
  }

  /// The loop has been woken from its sleep.
  @inline(__always)
  func woken() {
    if let gate { standingBack.woken(done: gate.done) }
  }

  /// Leaves the processor to the tasks that have been resumed, if there is none for both.
  @inline(__always)
  func standBack() {
    guard let gate, let count = standingBack.wait(done: gate.done) else { return }
    timesStoodBack += 1
    gate.wait(for: count)
  }
}

extension EventLoop {
  /// Runs `work` when the turn of the loop ends, on another thread if several works have come together by then; at once if this is not the
  /// loop's thread. For what wakes other threads and need not be done between two events.
  ///
  /// - Parameter priority: of the task that waits.
  package func atEndOfTurn(priority: TaskPriority, _ work: @escaping @Sendable () -> Void) {
    guard isCurrent, turnEnd.onLoop.isRunning else {
      work()
      return
    }
    turnEnd.onLoop.add(work, priority: priority)
  }
}
