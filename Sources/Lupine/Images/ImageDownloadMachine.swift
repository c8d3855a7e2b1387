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
    var receipt: Number
    var handler: Handler
  }

  private struct Entry {
    var key: String?
    var handlers: [Waiter]
    var isRunning: Bool
  }

  let maximum: Int
  let prioritization: ImageDownloadPrioritization
  private var entries: [Number: Entry] = [:]
  /// The download that further requests of a key join.
  private var joinable: [String: Number] = [:]
  private var waiting: [Number] = []
  /// Places taken.
  private(set) var running = 0

  init(maximum: Int, prioritization: ImageDownloadPrioritization) {
    self.maximum = max(1, maximum)
    self.prioritization = prioritization
  }

  /// Adds a handler to a download of the same key; nil if there is none. Without a key none is the same.
  mutating func join(_ key: String?, receipt: Number, handler: Handler) -> Number? {
    guard let key, let number = joinable[key], entries[number] != nil else { return nil }
    entries[number]?.handlers.append(Waiter(receipt: receipt, handler: handler))
    return number
  }

  /// Adds a download, and says whether it begins now.
  mutating func add(_ number: Number, key: String?, receipt: Number, handler: Handler) -> Bool {
    let begins = running < maximum
    entries[number] = Entry(key: key, handlers: [Waiter(receipt: receipt, handler: handler)], isRunning: begins)
    if let key { joinable[key] = number }
    if begins {
      running += 1
    } else if prioritization == .firstInFirstOut {
      waiting.append(number)
    } else {
      waiting.insert(number, at: 0)
    }
    return begins
  }

  /// Takes one handler away; with the last one its download is given up: a waiting one has held no place, a running one keeps its until it
  /// has finished.
  mutating func cancel(_ receipt: Number, of number: Number) -> (handler: Handler, isGivenUp: Bool)? {
    guard var entry = entries[number], let handler = entry.handlers.first(where: { $0.receipt == receipt })?.handler
    else { return nil }
    entry.handlers = entry.handlers.filter { $0.receipt != receipt }
    entries[number] = entry
    guard entry.handlers.isEmpty else { return (handler, false) }
    forgetKey(of: number)
    if !entry.isRunning {
      entries[number] = nil
      waiting.removeAll { $0 == number }
    }
    return (handler, true)
  }

  /// Whether anybody waits for the download.
  func isWanted(_ number: Number) -> Bool { entries[number].map { !$0.handlers.isEmpty } ?? false }

  /// Ends a download: its handlers in the order in which they came, and the download that takes its place.
  mutating func finish(_ number: Number) -> (handlers: [Handler], next: Number?) {
    guard let entry = entries[number] else { return ([], nil) }
    forgetKey(of: number)
    entries[number] = nil
    let handlers = entry.handlers.map(\.handler)
    guard entry.isRunning else {
      // Somebody else cancelled the task before its turn.
      waiting.removeAll { $0 == number }
      return (handlers, nil)
    }
    guard !waiting.isEmpty else {
      running -= 1
      return (handlers, nil)
    }
    let next = waiting.removeFirst()
    entries[next]?.isRunning = true
    return (handlers, next)
  }

  /// Ends everything: all handlers, in the order of their receipts.
  mutating func close() -> [Handler] {
    let handlers = entries.values.flatMap(\.handlers).sorted { $0.receipt < $1.receipt }.map(\.handler)
    entries = [:]
    joinable = [:]
    waiting = []
    running = 0
    return handlers
  }

  private mutating func forgetKey(of number: Number) {
    guard let key = entries[number]?.key, joinable[key] == number else { return }
    joinable[key] = nil
  }
}
