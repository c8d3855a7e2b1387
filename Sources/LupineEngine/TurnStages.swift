internal import LupineBase
internal import LupineIO

/// The stages of what many connections of one loop do at the same time, beside that each is read: who asked is told of the end, and may ask for more; what was asked for
/// takes its connection; the heads are sent. See `StagedWork` for why.
///
/// Invariant: whatever was left here is done before the loop goes on to tell others than those who are told of the same: events, mail, timers or requeued handlers. These may bring commands, mail and what
/// callbacks do on the loop: a transfer that waits here for its end has no connection any more (`Transfer.current`), and a connection whose head waits may have lost its transfer (`sendStagedHead`).
final class TurnStages: StagedWork {
  private let ends = Exclusive(RingBuffer<Transfer>())
  private let starts = Exclusive(RingBuffer<Transfer>())
  private let heads = Exclusive(RingBuffer<Connection>())
  /// Whether no pool and no connection is in the middle of anything, so that what is asked for need not go through the mailbox.
  private var isAtRest = false

  /// Tells the end of a transfer whose response is complete.
  func end(_ transfer: Transfer, in context: LoopContext) {
    guard context.stage() else { return transfer.end(nil, now: context.now) }
    ends.value.append(transfer)
  }

  /// Begins a transfer in this turn, if it is asked for from within the end of another one. What its failure asks for goes through the mailbox: failures must not become a
  /// recursion.
  func start(_ transfer: Transfer, in pool: EnginePool) -> Bool {
    guard isAtRest, case .new = transfer.state else { return false }
    transfer.pool = pool
    starts.value.append(transfer)
    return true
  }

  /// Sends the head of the exchange that has begun on `connection`.
  func sendHead(_ connection: Connection) {
    guard connection.context.stage() else { return connection.sendStagedHead() }
    heads.value.append(connection)
  }

  func run(in context: LoopContext) {
    let now = context.now
    // Whoever waited for a connection does not wait for what others do with their responses.
    sendHeads()
    isAtRest = true
    while let transfer = ends.value.popFirst() { transfer.end(nil, now: now) }
    isAtRest = false
    while let transfer = starts.value.popFirst() { transfer.pool?.startInTurn(transfer) }
    sendHeads()
    assert(ends.value.isEmpty && starts.value.isEmpty, "an exchange ended within a stage")
  }

  private func sendHeads() {
    while let connection = heads.value.popFirst() { connection.sendStagedHead() }
  }
}
