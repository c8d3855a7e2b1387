internal import LupineBase

/// Which of the waiting downloads begins first.
public enum ImageDownloadPrioritization: Sendable, Hashable {
  /// The one that was asked for first. Default.
  case firstInFirstOut
  /// The one that was asked for last: of a list that is scrolled, what is on the screen.
  case lastInFirstOut
}

/// Decides which downloads are one, which run, and who is told: pure, with handlers of any type.
///
/// States of a download: waiting → running → gone; waiting → gone when its last handler is cancelled; running → abandoned → gone likewise.
/// Invariants: at most `maximum` are running or abandoned, and only those hold a place; a place is given back once, by `finish`; every handler
/// is given out once, by `cancel`, `finish` or `close`; a request joins a download only while that has handlers.
struct ImageDownloadMachine<Handler> {
  typealias Number = UInt64

  private struct Waiter {
    /// The number of its arrival, among those of all downloads.
    var order: UInt64
    var handler: Handler
  }

  private struct Entry {
    var key: String?
    /// By their receipts.
    var waiters: [Number: Waiter]
    /// Where it is in `waiting`; nil: it runs, or has been abandoned.
    var position: AgeOrder<Number>.Place?
  }

  let maximum: Int
  let prioritization: ImageDownloadPrioritization
  private var entries: [Number: Entry] = [:]
  /// The download that further requests of a key join.
  private var joinable: [String: Number] = [:]
  /// Those whose turn has not come, as they were added.
  private var waiting = AgeOrder<Number>()
  /// Handlers that have come.
  private var arrivals: UInt64 = 0
  /// Places taken.
  private(set) var running = 0

  init(maximum: Int, prioritization: ImageDownloadPrioritization) {
    self.maximum = max(1, maximum)
    self.prioritization = prioritization
  }

  /// Adds a handler to a download of the same key; nil if there is none. Without a key none is the same.
  mutating func join(_ key: String?, receipt: Number, handler: Handler) -> Number? {
    guard let key, let number = joinable[key], entries[number] != nil else { return nil }
    let waiter = newWaiter(handler)
    entries[number]?.waiters[receipt] = waiter
    return number
  }

  /// Adds a download, and says whether it begins now.
  mutating func add(_ number: Number, key: String?, receipt: Number, handler: Handler) -> Bool {
    let begins = running < maximum
    let position = begins ? nil : waiting.append(number)
    entries[number] = Entry(key: key, waiters: [receipt: newWaiter(handler)], position: position)
    if let key { joinable[key] = number }
    if begins { running += 1 }
    return begins
  }

  /// Takes one handler away; with the last one its download is given up: a waiting one has held no place, a running one keeps its until it
  /// has finished.
  mutating func cancel(_ receipt: Number, of number: Number) -> (handler: Handler, isGivenUp: Bool)? {
    guard let handler = entries[number]?.waiters.removeValue(forKey: receipt)?.handler else { return nil }
    guard !isWanted(number) else { return (handler, false) }
    forgetKey(of: number)
    if let position = entries[number]?.position {
      entries[number] = nil
      waiting.remove(position)
    }
    return (handler, true)
  }

  /// Whether anybody waits for the download.
  func isWanted(_ number: Number) -> Bool { entries[number].map { !$0.waiters.isEmpty } ?? false }

  /// Ends a download: its handlers in the order in which they came, and the download that takes its place.
  mutating func finish(_ number: Number) -> (handlers: [Handler], next: Number?) {
    guard let entry = entries[number] else { return ([], nil) }
    forgetKey(of: number)
    entries[number] = nil
    let handlers = entry.waiters.values.sorted { $0.order < $1.order }.map(\.handler)
    if let position = entry.position {
      // Somebody else cancelled the task before its turn.
      waiting.remove(position)
      return (handlers, nil)
    }
    guard let first = prioritization == .firstInFirstOut ? waiting.oldest : waiting.newest,
      let next = waiting.remove(first)
    else {
      running -= 1
      return (handlers, nil)
    }
    entries[next]?.position = nil
    return (handlers, next)
  }

  /// Ends everything: all handlers, in the order of their receipts.
  mutating func close() -> [Handler] {
    let handlers = entries.values.flatMap(\.waiters).sorted { $0.key < $1.key }.map { $0.value.handler }
    entries = [:]
    joinable = [:]
    waiting = AgeOrder()
    running = 0
    return handlers
  }

  private mutating func newWaiter(_ handler: Handler) -> Waiter {
    arrivals += 1
    return Waiter(order: arrivals, handler: handler)
  }

  private mutating func forgetKey(of number: Number) {
    guard let key = entries[number]?.key, joinable[key] == number else { return }
    joinable[key] = nil
  }
}
