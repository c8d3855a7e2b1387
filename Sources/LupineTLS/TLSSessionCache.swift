internal import Synchronization
internal import CLupineOpenSSL
internal import LupineBase

/// Who decided about trust, beside the policy.
///
/// A policy that is a value decides the same for everybody: `.policy`. Where a delegate or a closure decides trust or the client's
/// identity, use an identifier unique to that session, and a new one after every reset: then nothing it accepted is ever resumed
/// by somebody else.
package struct TLSTrustDomain: Hashable, Sendable {
  package let identifier: UInt64

  package init(identifier: UInt64) {
    self.identifier = identifier
  }

  /// Nobody but the policy decides.
  package static let policy = TLSTrustDomain(identifier: 0)
}

/// Everything that must be equal for a session to be resumed.
///
/// The context's identifier stands for the whole policy and for the very anchors, keys and lists that were loaded for it: a
/// context is made from one policy, once (Go CVE-2025-68121, curl CVE-2024-0853: resumption under changed roots).
struct TLSSessionKey: Hashable, Sendable {
  var context: UInt64
  var host: String
  var port: UInt16
  var trustDomain: TLSTrustDomain
  var isDeferred: Bool
  /// One address in two zones is two hosts (curl CVE-2022-27775).
  var zone: String?
  /// See `TLSClientOptions.partition`.
  var partition: UInt64 = 0
}

/// Sessions to resume, shared by connections of any thread; locked inside.
///
/// A TLS 1.3 ticket is handed out once (RFC 8446, C.4). A TLS 1.2 session may serve again and is copied for each use, because
/// OpenSSL writes to the session of a running handshake.
package final class TLSSessionCache: Sendable {
  /// One session, with the verdict that its first handshake came to.
  @safe
  final class Ticket: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer
    let report: TrustReport
    /// Seconds since 1970 at which it is of no use any more: its own lifetime or the verdict's end.
    let expires: Int64
    /// The verdict's end, which is that of every ticket that comes of resuming this one: see `TLSConnection.verdictEnd`.
    let verdictEnd: Int64
    /// About how many bytes it keeps.
    let cost: Int

    /// Takes over one reference.
    init(taking pointer: OpaquePointer, report: TrustReport, expires: Int64, verdictEnd: Int64, cost: Int) {
      unsafe self.pointer = pointer
      self.cost = cost
      self.report = report
      self.expires = expires
      self.verdictEnd = verdictEnd
    }

    deinit {
      unsafe SSL_SESSION_free(pointer)
    }

    var isSingleUse: Bool { unsafe SSL_SESSION_get_protocol_version(pointer) >= TLS1_3_VERSION }
  }

  private struct Entry: Sendable {
    /// Oldest first.
    var tickets: [Ticket] = []
    var stamp: UInt64
  }

  private struct State: Sendable {
    var entries: [TLSSessionKey: Entry] = [:]
    var clock: UInt64 = 0
    private(set) var count = 0
    private(set) var bytes = 0
    /// Who ended a handshake because of a session that was offered, or did not answer; those whose time is over are asked again.
    var refusals: [TLSSessionKey: Refusal] = [:]

    mutating func add(_ ticket: Ticket) {
      count += 1
      bytes += ticket.cost
    }

    mutating func drop(_ tickets: some Sequence<Ticket>) {
      for ticket in tickets {
        count -= 1
        bytes -= ticket.cost
      }
    }
  }

  /// That no session is offered to somebody for a while.
  private struct Refusal: Sendable {
    let seconds: Int64
    /// Seconds since 1970.
    let end: Int64

    init(seconds: Int64, now: Int64) {
      self.seconds = seconds
      end = now + seconds
    }
  }

  /// Tickets kept for one key: as many connections can resume at the same time.
  static let limitPerKey = 32

  /// A verdict is carried over to other connections for that long after the handshake that it is of: every ticket is a new one, and there would be no
  /// end to them (RFC 8446, 4.6.1).
  static let verdictSeconds: Int64 = 7 * 86_400

  /// A server that cannot resume what it gave out is not asked to for that long: each attempt costs a connection.
  static let refusalSeconds: Int64 = 3600
  /// The same of one that did not answer, for the first time: it may be busy, and a full handshake makes it more so. Eight times as long the next time, unless
  /// it has resumed one meanwhile, and up to `refusalSeconds`.
  static let silenceSeconds: Int64 = 60
  /// Refusals kept; beyond it, all are forgotten.
  static let refusalLimit = 256

  /// Tickets kept in all; beyond it, keys go in the order of least recent use, an eighth of all at a time.
  package let limit: Int
  /// Bytes kept in all, with the same beyond it: a ticket may have 64 KiB, and so may the chain that is kept with it.
  package let byteLimit: Int
  private let state = LockedStorage(State())

  package init(limit: Int = 1024, byteLimit: Int = 16 << 20) {
    self.limit = max(1, limit)
    self.byteLimit = byteLimit
  }

  /// Tickets kept now.
  package var count: Int { state.withLock { $0.count } }

  /// About how many bytes they have.
  package var byteCount: Int { state.withLock { $0.bytes } }

  /// Refusals kept now.
  var refusalCount: Int { state.withLock { $0.refusals.count } }

  /// Forgets every session.
  package func removeAll() {
    let dropped = state.withLock { state in
      let entries = state.entries
      state = State()
      return entries
    }
    // Freed outside the lock.
    withExtendedLifetime(dropped) {}
  }

  /// Forgets the sessions of one trust domain.
  package func removeAll(of domain: TLSTrustDomain) {
    let dropped = state.withLock { state in
      let entries = state.entries.filter { $0.key.trustDomain == domain }
      for (key, entry) in entries {
        state.entries[key] = nil
        state.drop(entry.tickets)
      }
      state.refusals = state.refusals.filter { $0.key.trustDomain != domain }
      return entries
    }
    // Freed outside the lock.
    withExtendedLifetime(dropped) {}
  }

  func insert(_ ticket: Ticket, for key: TLSSessionKey) {
    state.withLock { state in
      state.clock += 1
      var entry = state.entries[key] ?? Entry(stamp: 0)
      entry.stamp = state.clock
      if !ticket.isSingleUse {
        // The newest session of TLS 1.2 stands for the others.
        state.drop(entry.tickets)
        entry.tickets.removeAll()
      } else if entry.tickets.count >= Self.limitPerKey {
        state.drop(CollectionOfOne(entry.tickets.removeFirst()))
      }
      entry.tickets.append(ticket)
      state.add(ticket)
      state.entries[key] = entry
      trim(&state)
    }
  }

  /// The newest usable ticket, removed if it may be used only once.
  func take(for key: TLSSessionKey, now: Int64) -> Ticket? {
    state.withLock { state in
      guard var entry = state.entries[key] else { return nil }
      if let refusal = state.refusals[key], now < refusal.end { return nil }
      state.clock += 1
      entry.stamp = state.clock
      var found: Ticket?
      while found == nil, let last = entry.tickets.popLast() {
        state.drop(CollectionOfOne(last))
        guard last.expires > now else { continue }
        if last.isSingleUse {
          found = last
        } else {
          entry.tickets.append(last)
          state.add(last)
          guard let copy = unsafe SSL_SESSION_dup(last.pointer) else { break }
          found = unsafe Ticket(
            taking: copy, report: last.report, expires: last.expires, verdictEnd: last.verdictEnd, cost: last.cost)
        }
      }
      state.entries[key] = entry.tickets.isEmpty ? nil : entry
      return found
    }
  }

  /// The server ended a handshake, or never answered, because of a session that was offered: none is offered for a while, whatever it gives out.
  ///
  /// - Parameter isSilent: it said nothing, which may have another reason.
  func refuse(_ key: TLSSessionKey, now: Int64, isSilent: Bool = false) {
    remove(key)
    state.withLock { state in
      let former = state.refusals[key]
      // Several connections of one moment count once.
      if isSilent, let former, now < former.end { return }
      if former == nil, state.refusals.count >= Self.refusalLimit { state.refusals = [:] }
      let seconds = isSilent ? former.map { $0.seconds * 8 } ?? Self.silenceSeconds : Self.refusalSeconds
      state.refusals[key] = Refusal(seconds: min(seconds, Self.refusalSeconds), now: now)
    }
  }

  /// The server has resumed a session.
  func noteResumption(_ key: TLSSessionKey) {
    state.withLock { state in
      if !state.refusals.isEmpty { state.refusals[key] = nil }
    }
  }

  func remove(_ key: TLSSessionKey) {
    let dropped = state.withLock { state in
      let entry = state.entries.removeValue(forKey: key)
      state.drop(entry?.tickets ?? [])
      return entry
    }
    // Freed outside the lock.
    withExtendedLifetime(dropped) {}
  }

  private func trim(_ state: inout State) {
    guard state.count > limit || state.bytes > byteLimit else { return }
    // For some of those that follow too: to look for the oldest of all for each of them would take longer.
    let (tickets, bytes) = (limit - limit / 8, byteLimit - byteLimit / 8)
    for (key, entry) in state.entries.sorted(by: { $0.value.stamp < $1.value.stamp }) {
      var rest = entry.tickets[...]
      while state.count > tickets || state.bytes > bytes, let oldest = rest.popFirst() {
        state.drop(CollectionOfOne(oldest))
      }
      guard rest.count < entry.tickets.count else { return }
      state.entries[key] = rest.isEmpty ? nil : Entry(tickets: Array(rest), stamp: entry.stamp)
    }
  }
}
