internal import LupineBase

/// Called on the loop when a timer is due.
package protocol TimerHandler: AnyObject {
  func timerFired(_ identifier: TimerIdentifier)
}

/// Names one scheduled timer, never again used for another.
package struct TimerIdentifier: Hashable, Sendable {
  let slot: UInt32
  let generation: UInt32
}

/// Timers in the order of their deadlines; among equals, in the order of scheduling.
///
/// A heap of four children a node with the place of each timer remembered, so that cancelling removes it at once: deadlines of a minute that
/// are nearly always cancelled leave nothing behind. Everything is O(log n), and what is typical — a deadline later than
/// most — moves nothing.
///
/// Handlers that leave the queue are handed out: whoever is let go may use the loop, so the caller lets go of them when the queue is not accessed any more.
///
/// Invariants: `slots[heap[i].slot].place == i`; no entry is before its parent; a free slot has no handler, and its generation is
/// one that no identifier given out carries.
struct TimerQueue {
  private struct Entry {
    var deadline: Int64
    var sequence: UInt64
    var slot: UInt32

    static func precedes(_ left: Entry, _ right: Entry) -> Bool {
      left.deadline != right.deadline ? left.deadline < right.deadline : left.sequence < right.sequence
    }
  }

  private struct Slot {
    var handler: (any TimerHandler)?
    var place = 0
    var generation: UInt32 = 0
  }

  private var heap: [Entry] = []
  private var slots: [Slot] = []
  private var free: [UInt32] = []
  private var nextSequence: UInt64 = 0

  var count: Int { heap.count }

  /// When the earliest timer is due; nil if there is none.
  var earliest: Instant? { heap.first.map { Instant(nanoseconds: $0.deadline) } }

  mutating func schedule(at deadline: Instant, _ handler: any TimerHandler) -> TimerIdentifier {
    let index: UInt32
    if let reused = free.popLast() {
      index = reused
    } else {
      index = UInt32(slots.count)
      slots.append(Slot())
    }
    slots[Int(index)].handler = handler
    heap.append(Entry(deadline: deadline.nanoseconds, sequence: nextSequence, slot: index))
    nextSequence &+= 1
    rise(from: heap.count - 1)
    return TimerIdentifier(slot: index, generation: slots[Int(index)].generation)
  }

  /// Forgets a timer and hands out its handler; nil if it has fired or was cancelled before.
  mutating func cancel(_ identifier: TimerIdentifier) -> (any TimerHandler)? {
    guard isScheduled(identifier) else { return nil }
    return remove(at: slots[Int(identifier.slot)].place)
  }

  /// Moves a timer to another deadline; false if it has fired or was cancelled before.
  mutating func reschedule(_ identifier: TimerIdentifier, at deadline: Instant) -> Bool {
    guard isScheduled(identifier) else { return false }
    let place = slots[Int(identifier.slot)].place
    heap[place].deadline = deadline.nanoseconds
    heap[place].sequence = nextSequence
    nextSequence &+= 1
    sink(from: rise(from: place))
    return true
  }

  /// Removes the earliest timer if it is due.
  mutating func popDue(_ now: Instant) -> (any TimerHandler, TimerIdentifier)? {
    guard let first = heap.first, first.deadline <= now.nanoseconds else { return nil }
    let identifier = TimerIdentifier(slot: first.slot, generation: slots[Int(first.slot)].generation)
    guard let handler = remove(at: 0) else { return nil }
    return (handler, identifier)
  }

  /// Forgets every timer and hands out the handlers.
  mutating func removeAll() -> [any TimerHandler] {
    var handlers: [any TimerHandler] = []
    while let last = heap.indices.last, let handler = remove(at: last) { handlers.append(handler) }
    return handlers
  }

  private func isScheduled(_ identifier: TimerIdentifier) -> Bool {
    let index = Int(identifier.slot)
    return index < slots.count && slots[index].generation == identifier.generation && slots[index].handler != nil
  }

  private mutating func remove(at place: Int) -> (any TimerHandler)? {
    let index = Int(heap[place].slot)
    let handler = slots[index].handler.take()
    slots[index].generation &+= 1
    free.append(UInt32(index))
    let last = heap.removeLast()
    if place < heap.count {
      heap[place] = last
      sink(from: rise(from: place))
    }
    return handler
  }

  /// Moves the entry at `start` towards the root until its parent is not later, and returns where it is then.
  @discardableResult
  private mutating func rise(from start: Int) -> Int {
    let entry = heap[start]
    var place = start
    while place > 0 {
      let parent = (place - 1) / 4
      guard Entry.precedes(entry, heap[parent]) else { break }
      put(heap[parent], at: place)
      place = parent
    }
    put(entry, at: place)
    return place
  }

  private mutating func sink(from start: Int) {
    let entry = heap[start]
    var place = start
    while true {
      let first = place * 4 + 1
      guard first < heap.count else { break }
      var least = first
      for child in first + 1..<max(first + 1, min(first + 4, heap.count))
      where Entry.precedes(heap[child], heap[least]) {
        least = child
      }
      guard Entry.precedes(heap[least], entry) else { break }
      put(heap[least], at: place)
      place = least
    }
    put(entry, at: place)
  }

  private mutating func put(_ entry: Entry, at place: Int) {
    heap[place] = entry
    slots[Int(entry.slot)].place = place
  }
}
