/// Folds what the kernel says into a table, from the first dump on.
///
/// States:
/// - `idle`: nothing was asked yet. → `dumping`.
/// - `dumping`: everything is asked for, one kind after another (the kernel answers one dump at a time), and gathered in a new table; events
///   go into the new table, and into the one in force too. → itself with the next kind; → `current`; → itself from the start, when the kernel says
///   that the dump is inconsistent or was lost; → `stalled` after five attempts in a row, and when what asks for it could not be sent.
/// - `current`: the table is what the kernel has. → `dumping`, when messages were lost or the kernel removes more than it tells.
/// - `stalled`: the kernel does not give a whole answer. The table in force, if any, is kept. → `dumping` with the next event, or when it is asked again.
///
/// Invariants: at most one dump is outstanding, and only its answers are taken for answers; `table` is nil until a dump is complete, and never
/// half of one; `changed` is among the actions only if `table` is there and is another one than before, or the first.
package struct ReachabilityMachine: Sendable {
  package enum Action: Equatable, Sendable {
    /// Send this datagram to the kernel.
    case send([UInt8])
    /// `table` has changed.
    case changed
    /// Call `askAgain` some time later: the kernel has given no whole answer, and no event need come.
    case askLater
  }

  package enum Phase: Equatable, Sendable {
    case idle
    case dumping(NetlinkDump, sequence: UInt32)
    case current
    case stalled
  }

  package private(set) var phase = Phase.idle
  /// What the kernel has; nil until the first dump is complete.
  package private(set) var table: NetworkTable?

  private var building = NetworkTable()
  private var sequence: UInt32 = 0
  private var attempts = 0
  /// The dump under way is of no use, or another one has to follow it.
  private var isSpoilt = false
  private var isStale = false

  package static let maximumAttempts = 5

  package init() {}

  /// Asks for everything. Once, at the start; later calls do nothing.
  package mutating func begin() -> [Action] {
    guard phase == .idle else { return [] }
    return dump()
  }

  /// Messages were lost: the socket's buffer was full.
  package mutating func lost() -> [Action] {
    switch phase {
    case .idle: return []
    case .current, .stalled:
      attempts = 0
      return dump()
    // Answers to a dump wait for room, only events are dropped: this dump ends, and another follows it.
    case .dumping:
      isStale = true
      return []
    }
  }

  /// What `send` named last could not be sent, so that nothing answers it.
  package mutating func refused() -> [Action] {
    guard case .dumping = phase else { return [] }
    phase = .stalled
    building = NetworkTable()
    return [.askLater]
  }

  /// Asks for everything, if the kernel has given no whole answer.
  package mutating func askAgain() -> [Action] {
    guard phase == .stalled else { return [] }
    attempts = 0
    return dump()
  }

  /// Takes a datagram of the kernel's. Bytes that cannot be read count as lost.
  package mutating func receive(_ datagram: [UInt8]) -> [Action] {
    guard phase != .idle else { return [] }
    let (messages, isMalformed) = NetlinkDecoder.decode(datagram)
    var actions: [Action] = []
    var hasChanged = false
    for envelope in messages {
      switch envelope.message {
      case .overrun: actions += lost()
      case .done(let error): actions += end(envelope, error: error, &hasChanged)
      case .error(let code): if code != 0 { actions += end(envelope, error: code, &hasChanged) }
      default: actions += take(envelope, &hasChanged)
      }
    }
    if isMalformed {
      isSpoilt = true
      actions += lost()
    }
    if hasChanged, table != nil { actions.append(.changed) }
    return actions
  }

  private mutating func take(_ envelope: NetlinkEnvelope, _ hasChanged: inout Bool) -> [Action] {
    if envelope.isPart {
      // Anything else is the rest of a dump that was given up.
      if case .dumping(_, envelope.sequence) = phase {
        if envelope.isInterrupted { isSpoilt = true }
        _ = building.apply(envelope.message)
      }
      return []
    }
    guard envelope.message != .other else { return [] }
    if case .dumping = phase, building.apply(envelope.message).asksAgain { isStale = true }
    let change = table?.apply(envelope.message) ?? .nothing
    if change == .something || change == .more { hasChanged = true }
    switch phase {
    case .current where change.asksAgain, .stalled:
      attempts = 0
      return dump()
    case .dumping:
      if change.asksAgain { isStale = true }
      return []
    default: return []
    }
  }

  /// The end of a dump, or a refusal of it.
  private mutating func end(_ envelope: NetlinkEnvelope, error: Int32, _ hasChanged: inout Bool) -> [Action] {
    guard case .dumping(let kind, let sequence) = phase, envelope.sequence == sequence else { return [] }
    if envelope.isInterrupted { isSpoilt = true }
    guard error == 0, !isSpoilt else { return retry() }
    switch kind {
    case .links: return request(.addresses)
    case .addresses: return request(.routes)
    case .routes:
      if table != building { hasChanged = true }
      table = building
      building = NetworkTable()
      phase = .current
      attempts = 0
      if isStale { return dump() }
      return []
    }
  }

  private mutating func retry() -> [Action] {
    attempts += 1
    guard attempts < Self.maximumAttempts else {
      phase = .stalled
      building = NetworkTable()
      return [.askLater]
    }
    return dump()
  }

  private mutating func dump() -> [Action] {
    building = NetworkTable()
    isSpoilt = false
    isStale = false
    return request(.links)
  }

  private mutating func request(_ kind: NetlinkDump) -> [Action] {
    // 0 is the number of events.
    sequence = sequence == .max ? 1 : sequence + 1
    phase = .dumping(kind, sequence: sequence)
    return [.send(kind.request(sequence: sequence))]
  }
}
