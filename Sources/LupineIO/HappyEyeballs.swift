package import LupineBase

/// Decides which address is tried when (RFC 8305 sections 4 and 5). Pure: time is a parameter, and it opens nothing.
///
/// States of an address: untried → trying → failed, or trying → busy → trying (a Unix listener's queue was full), or trying → won.
/// The machine ends once an address has won, all have failed, or the deadline has passed; then `next` says so for ever.
///
/// Invariants: addresses are tried in order; a new one is started only when the attempt delay has passed since the last start, or one has
/// failed since, or none is being tried; each address is in `failures` at most once.
package struct HappyEyeballs: Sendable {
  package struct Settings: Hashable, Sendable {
    /// How long an attempt has the field for itself; kept within RFC 8305's 10 ms to 2 s.
    package var attemptDelayNanoseconds: Int64
    /// How long one attempt may take; nil leaves it to the deadline and to the kernel.
    package var attemptTimeoutNanoseconds: Int64?

    package init(attemptDelayNanoseconds: Int64 = 250_000_000, attemptTimeoutNanoseconds: Int64? = nil) {
      self.attemptDelayNanoseconds = min(max(attemptDelayNanoseconds, 10_000_000), 2_000_000_000)
      self.attemptTimeoutNanoseconds = attemptTimeoutNanoseconds
    }
  }

  /// What the driver has to do now. It asks again after `attempt` and `abandon`, and after every event.
  package enum Action: Equatable, Sendable {
    /// Start to connect to the address of this index, then report what became of it.
    case attempt(Int)
    /// The attempt took too long: close it. It counts as failed already.
    case abandon(Int)
    /// Ask again then, or after an event.
    case wait(until: Instant)
    /// Every address has failed.
    case exhausted
    /// The deadline has passed; close what is being tried.
    case deadlinePassed
    /// The address of this index has won; close every other.
    case won(Int)
  }

  package struct Failure: Hashable, Sendable {
    package var address: SocketAddress
    package var error: IOError

    package init(address: SocketAddress, error: IOError) {
      self.address = address
      self.error = error
    }
  }

  private enum State: Equatable {
    case untried
    case trying(since: Instant)
    case busy(until: Instant, since: Instant)
    case failed
    case won
  }

  /// In the order of trying.
  package let addresses: [SocketAddress]
  package private(set) var failures: [Failure] = []
  private let settings: Settings
  private let deadline: Instant
  private var states: [State]
  private var nextUntried = 0
  private var nextStart: Instant
  private var winner: Int?
  private var busyDelay: Int64 = 1_000_000

  /// Makes a race over `addresses`, which come in the resolver's order of preference.
  package init(
    _ addresses: [SocketAddress], settings: Settings = Settings(), now: Instant, deadline: Instant = .distantFuture
  ) {
    self.addresses = Self.interleaved(addresses)
    self.settings = settings
    self.deadline = deadline
    states = Array(repeating: .untried, count: addresses.count)
    nextStart = now
  }

  /// Alternates between families, starting with that of the first address, and keeps the order within each (RFC 8305 section 4,
  /// first address family count 1).
  package static func interleaved(_ addresses: [SocketAddress]) -> [SocketAddress] {
    guard let first = addresses.first else { return [] }
    var preferred = addresses.filter { $0.family == first.family }[...]
    var others = addresses.filter { $0.family != first.family }[...]
    var result: [SocketAddress] = []
    while result.count < addresses.count {
      if let address = preferred.popFirst() { result.append(address) }
      if let address = others.popFirst() { result.append(address) }
    }
    return result
  }

  /// What to do at `now`.
  package mutating func next(_ now: Instant) -> Action {
    if let winner { return .won(winner) }
    if now >= deadline { return .deadlinePassed }
    var wake = deadline
    var isAnyOpen = false
    for index in 0..<nextUntried {
      switch states[index] {
      case .trying(let since):
        if let end = attemptEnd(since) {
          if end <= now {
            failed(index, .deadlinePassed, now: now)
            return .abandon(index)
          }
          wake = min(wake, end)
        }
        isAnyOpen = true
      case .busy(let until, let since):
        if until <= now {
          states[index] = .trying(since: since)
          return .attempt(index)
        }
        wake = min(wake, until)
        isAnyOpen = true
      case .untried, .failed, .won: break
      }
    }
    if nextUntried < addresses.count {
      if !isAnyOpen || nextStart <= now {
        let index = nextUntried
        nextUntried += 1
        states[index] = .trying(since: now)
        nextStart = now.advanced(byNanoseconds: settings.attemptDelayNanoseconds)
        return .attempt(index)
      }
      wake = min(wake, nextStart)
    } else if !isAnyOpen {
      return .exhausted
    }
    return .wait(until: wake)
  }

  /// The attempt has failed; the next address may be tried at once.
  package mutating func failed(_ index: Int, _ error: IOError, now: Instant) {
    switch states[index] {
    case .trying, .busy:
      states[index] = .failed
      failures.append(Failure(address: addresses[index], error: error))
      nextStart = min(nextStart, now)
    case .untried, .failed, .won: break
    }
  }

  /// The attempt could not be started, because the listener's queue is full, and is to be repeated soon.
  package mutating func busy(_ index: Int, now: Instant) {
    guard case .trying(let since) = states[index] else { return }
    states[index] = .busy(until: now.advanced(byNanoseconds: busyDelay), since: since)
    busyDelay = min(busyDelay * 2, 50_000_000)
  }

  /// The attempt has succeeded; the first to do so wins.
  package mutating func connected(_ index: Int) {
    guard winner == nil, case .trying = states[index] else { return }
    states[index] = .won
    winner = index
  }

  /// Addresses that were being tried when the deadline passed.
  package var unfinished: [SocketAddress] {
    states.indices.compactMap { index in
      switch states[index] {
      case .trying, .busy: addresses[index]
      case .untried, .failed, .won: nil
      }
    }
  }

  private func attemptEnd(_ since: Instant) -> Instant? {
    settings.attemptTimeoutNanoseconds.map { since.advanced(byNanoseconds: $0) }
  }
}
