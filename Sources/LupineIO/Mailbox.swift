internal import LupineBase
internal import Synchronization

/// Work that is an object: what is submitted for each small request needs no closure, which is another object, beside it.
package protocol LoopWork: AnyObject, Sendable {
  /// Called once for each submission, on the loop.
  func runOnLoop()
}

/// What other threads leave for a loop to run: closures, objects and Swift jobs, in one order.
///
/// Who wakes whom: `isAsleep` is set by the loop under the lock, while it sees the mailbox empty, and cleared when it wakes up.
/// Whoever appends looks at it afterwards, and only the one that flips it back writes the eventfd. So each sleep costs at most one
/// write, and an awake loop none, because it looks at the mailbox again before it sleeps.
final class Mailbox: Sendable {
  enum Item: Sendable {
    case work(@Sendable () -> Void)
    case object(any LoopWork)
    case job(UnownedJob)
  }

  private struct State {
    var items: [Item] = []
    var stopRequested = false
    /// How often the loop has looked here since then.
    var rounds = 0
    /// After this nothing is taken any more: the loop has run its last item.
    var isClosed = false
  }

  /// So often a loop that is to end runs what has come meanwhile: what it runs may leave more, and who asks again whatever comes would keep it for ever.
  static let roundsToTheEnd = 1_000

  private let state: LockedStorage<State>
  private let isAsleep = Atomic<Bool>(false)
  private let event: Descriptor
  private let wakeUpCount = Atomic<Int>(0)

  init() throws(IOError) {
    event = try SystemCalls.eventDescriptor(semaphore: false)
    state = LockedStorage(State())
  }

  /// The eventfd is watched edge-triggered and never read: each write is a new edge, and 2^64 of them fit.
  var eventNumber: Int32 { event.number }

  /// How many times somebody had to wake the loop by a system call.
  var wakeUps: Int { wakeUpCount.load(ordering: .relaxed) }

  /// Leaves an item; false if the mailbox is closed, and then the item was not kept.
  @inline(__always)
  func append(_ item: Item) -> Bool {
    let isTaken = state.withLock { state in
      guard !state.isClosed else { return false }
      state.items.append(item)
      return true
    }
    if isTaken { wakeIfAsleep() }
    return isTaken
  }

  func requestStop() {
    state.withLock { $0.stopRequested = true }
    wakeIfAsleep()
  }

  @inline(__always)
  private func wakeIfAsleep() {
    guard isAsleep.load(ordering: .relaxed), isAsleep.exchange(false, ordering: .acquiringAndReleasing) else { return }
    wakeUpCount.add(1, ordering: .relaxed)
    SystemCalls.signal(event)
  }

  // MARK: On the loop

  enum Batch { case items, empty, closed }

  /// Swaps what waits into `batch`, which must be empty: its memory is used for what comes next.
  func take(_ batch: inout [Item]) -> Batch {
    let spare = batch
    batch = []
    let (taken, isClosed) = state.withLock { state in
      let items = state.items
      state.items = spare
      if state.stopRequested {
        state.rounds += 1
        if items.isEmpty || state.rounds > Self.roundsToTheEnd { state.isClosed = true }
      }
      return (items, state.isClosed)
    }
    batch = taken
    return batch.isEmpty ? (isClosed ? .closed : .empty) : .items
  }

  /// Whether the loop may sleep. If so, whoever appends from now on wakes it.
  func prepareSleep() -> Bool {
    state.withLock { state in
      guard state.items.isEmpty, !state.stopRequested else { return false }
      isAsleep.store(true, ordering: .relaxed)
      return true
    }
  }

  /// The loop is awake: no wake-up is needed until it prepares to sleep again.
  @inline(__always)
  func didWake() {
    isAsleep.store(false, ordering: .relaxed)
  }
}
