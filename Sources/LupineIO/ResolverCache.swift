internal import LupineBase

/// Answers that are still good, at most so many of them. Pure: time is a parameter.
struct ResolverCache {
  typealias Answer = Result<[SocketAddress], ResolveError>

  private struct Entry {
    var answer: Answer
    var stored: Instant
    var expires: Instant
    var lastUse: UInt64
  }

  private let capacity: Int
  private let lifetime: Int64
  private let negativeLifetime: Int64
  private var entries: [String: Entry] = [:]
  private var uses: UInt64 = 0

  /// Lifetimes in nanoseconds; 0 keeps nothing.
  init(capacity: Int, lifetime: Int64, negativeLifetime: Int64) {
    self.capacity = capacity
    self.lifetime = lifetime
    self.negativeLifetime = negativeLifetime
  }

  var count: Int { entries.count }

  /// - Parameter maximumAge: of an older answer nothing is said; it stays for others. Nanoseconds.
  mutating func answer(for name: String, now: Instant, maximumAge: Int64 = .max) -> Answer? {
    guard let entry = entries[name] else { return nil }
    guard now < entry.expires else {
      entries[name] = nil
      return nil
    }
    guard now.nanoseconds(since: entry.stored) < maximumAge else { return nil }
    uses += 1
    entries[name]?.lastUse = uses
    return entry.answer
  }

  /// Keeps addresses, and the fact that there are none. Other errors may be gone the next time, so they are not kept.
  mutating func store(_ answer: Answer, for name: String, now: Instant) {
    let lifetime: Int64
    switch answer {
    case .success: lifetime = self.lifetime
    case .failure(.notFound): lifetime = negativeLifetime
    case .failure: lifetime = 0
    }
    entries[name] = nil
    guard lifetime > 0, capacity > 0 else { return }
    if entries.count >= capacity, let oldest = entries.min(by: { $0.value.lastUse < $1.value.lastUse })?.key {
      entries[oldest] = nil
    }
    uses += 1
    entries[name] = Entry(
      answer: answer, stored: now, expires: now.advanced(byNanoseconds: lifetime), lastUse: uses)
  }

  mutating func removeAll() {
    entries.removeAll()
  }
}
