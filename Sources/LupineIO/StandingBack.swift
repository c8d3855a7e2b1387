internal import LupineBase
internal import Synchronization

/// When a loop that shares its only processor with the tasks it resumes stands back until they have had it.
///
/// Such a loop is woken by the first request or response that those tasks cause while others of them still wait for the processor. It takes it from them for
/// the little there is to do, and sleeps again: 0.4 times a GET whose JSON is decoded, at 64 connections, with two switches between threads each. Where it has seen that,
/// it waits for the tasks of the next batches first. It does not otherwise, since to be woken when they are done costs calls too.
///
/// States of a batch: handed over → done, or given up. Invariants: a batch is waited for at most once, and none unless as many are done as were handed over when the loop waited
/// last, so that tasks which keep the processor delay the loop once and not with each of its turns.
struct StandingBack {
  /// Batches handed over so far, and how many of them were, when the loop waited last.
  private(set) var begun = 0
  private var awaited = 0
  /// In so many turns more batches are waited for.
  private var patience = 0

  /// Then the loop looks again whether it is woken too early.
  static let turns = 32

  mutating func handOver() { begun += 1 }

  /// Something has ended the loop's sleep when so many batches were done.
  mutating func woken(done: Int) {
    if done < begun { patience = Self.turns }
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
///
/// Who tells whom: the loop writes down how many batches it waits for and looks at what is done behind that; whoever ends a batch counts it and looks at what is written
/// down behind that. So one of them sees the other, and only one signals.
final class ProcessorGate: Sendable {
  /// What is signalled to whoever waits.
  let event: Descriptor
  private let milliseconds: Int32
  private let doneCount = Atomic<Int>(0)
  /// How many batches done open the gate; the largest number: nobody waits.
  private let awaited = Atomic<Int>(.max)

  /// - Parameter milliseconds: longer than that nobody waits. Whose processor it is meanwhile is the system's affair again.
  init(milliseconds: Int32 = 1) throws(IOError) {
    event = try SystemCalls.eventDescriptor(semaphore: false)
    self.milliseconds = milliseconds
  }

  /// Batches that are done.
  var done: Int { doneCount.load(ordering: .acquiring) }

  /// Another batch is done. Any thread.
  func end() {
    let done = doneCount.add(1, ordering: .sequentiallyConsistent).newValue
    let wanted = awaited.load(ordering: .sequentiallyConsistent)
    if wanted != .max, done >= wanted,
      awaited.compareExchange(expected: wanted, desired: .max, ordering: .sequentiallyConsistent).exchanged
    {
      SystemCalls.signal(event)
    }
  }

  /// Waits until `count` batches are done, or its time is over. On the loop.
  func wait(for count: Int) {
    awaited.store(count, ordering: .sequentiallyConsistent)
    var isSignalled = false
    if doneCount.load(ordering: .sequentiallyConsistent) < count {
      isSignalled = SystemCalls.waitReadable(event, milliseconds: milliseconds)
    }
    // Somebody has signalled, or is about to: that is not left for the next wait, where it would open the gate too early. Who was about to, and signals
    // when nothing is taken any more, opens the next one all the same, which takes that: else it would open all that follow.
    if awaited.exchange(.max, ordering: .sequentiallyConsistent) == .max || isSignalled { _ = SystemCalls.take(event) }
  }
}
