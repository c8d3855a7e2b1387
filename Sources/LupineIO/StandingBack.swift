internal import LupineBase
internal import Synchronization

/// When a loop that shares its only processor with the tasks it resumes stands back until they have had it.
///
/// Such a loop is woken by the first request or response that those tasks cause while others of them still wait for the processor. It takes it from them for
/// the little there is to do, and sleeps again: 0.4 times a GET whose JSON is decoded, at 64 connections, with two switches between threads each. Where it has seen that,
/// it waits for the tasks of the next batches first. It does not otherwise, since to be woken when they are done costs calls too.
///
/// States of a batch: handed over → done, or given up. Invariant: a batch is waited for at most once, and none while an earlier one that was waited for is not done,
/// so that tasks which keep the processor delay the loop once and not with each of its turns.
struct StandingBack {
  /// Batches handed over so far, and how many of them were, when the loop waited last.
  private(set) var begun = 0
  private var awaited = 0
  /// So many batches more are waited for.
  private var patience = 0

  /// Then the loop looks again whether it is woken too early.
  static let batches = 32

  mutating func handOver() { begun += 1 }

  /// The loop has been woken from its sleep when so many batches were done.
  mutating func woken(done: Int) {
    if done < begun { patience = Self.batches }
  }

  /// For how many batches to be done the loop shall wait now; nil: it goes on.
  mutating func wait(done: Int) -> Int? {
    guard patience > 0, begun > awaited, done >= awaited else { return nil }
    patience -= 1
    awaited = begun
    return done < begun ? begun : nil
  }
}

/// Where a loop waits for the tasks that it has resumed, and is told of them.
final class ProcessorGate: Sendable {
  private let event: Descriptor
  private let doneCount = Atomic<Int>(0)
  private let isAwaited = Atomic<Bool>(false)

  /// Longer than that nobody waits: whose processor it is meanwhile is the system's affair again.
  static let milliseconds: Int32 = 1

  init() throws(IOError) {
    event = try SystemCalls.eventDescriptor(semaphore: false)
  }

  /// Batches that are done.
  var done: Int { doneCount.load(ordering: .acquiring) }

  /// Another batch is done. Any thread.
  func end() {
    doneCount.add(1, ordering: .sequentiallyConsistent)
    if isAwaited.exchange(false, ordering: .sequentiallyConsistent) { SystemCalls.signal(event) }
  }

  /// Waits until `count` batches are done, or another one is, or a millisecond has passed. On the loop.
  func wait(for count: Int) {
    isAwaited.store(true, ordering: .sequentiallyConsistent)
    // Looked at behind the store: whoever ends a batch from here on sees that somebody waits.
    if doneCount.load(ordering: .sequentiallyConsistent) < count,
      SystemCalls.waitReadable(event, milliseconds: Self.milliseconds)
    {
      _ = SystemCalls.take(event)
    }
    isAwaited.store(false, ordering: .sequentiallyConsistent)
  }
}
