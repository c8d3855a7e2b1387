internal import LupineBase
internal import LupineIO

/// The stages of what many connections of one loop do at the same time, beside that each is read: who asked is told of the end, and may ask for more; what was asked for
/// takes its connection; the heads are sent. See `StagedWork` for why.
///
/// Invariant: whatever was left here is done before the loop goes on to tell others than those who are told of the same: events, mail, timers or requeued handlers. These may bring commands, mail and what
/// callbacks do on the loop: a transfer that waits here for its end has no connection any more (`Transfer.current`), and a connection whose head waits may have lost its transfer (`sendStagedHead`).
final class TurnStages: StagedWork {
  private let ends = StageQueue<Transfer>()
  private let starts = StageQueue<Transfer>()
  private let heads = StageQueue<Connection>()
  /// Whether no pool and no connection is in the middle of anything, so that what is asked for need not go through the mailbox.
  private var isAtRest = false

  /// Tells the end of a transfer whose response is complete.
  func end(_ transfer: Transfer, in context: LoopContext) {
    guard context.stage() else { return transfer.end(nil, now: context.now) }
    ends.append(transfer)
  }

  /// Begins a transfer in this turn, if it is asked for from within the end of another one. What its failure asks for goes through the mailbox: failures must not become a
  /// recursion.
  func start(_ transfer: Transfer, in pool: EnginePool) -> Bool {
    guard isAtRest, case .new = transfer.state else { return false }
    transfer.pool = pool
    starts.append(transfer)
    return true
  }

  /// Sends the head of the exchange that has begun on `connection`.
  func sendHead(_ connection: Connection) {
    guard connection.context.stage() else { return connection.sendStagedHead() }
    heads.append(connection)
  }

  func run(in context: LoopContext) {
    let now = context.now
    // Whoever waited for a connection does not wait for what others do with their responses.
    sendHeads()
    repeat {
      isAtRest = true
      while let transfer = ends.next() { transfer.end(nil, now: now) }
      isAtRest = false
      while let transfer = starts.next() { transfer.pool?.startInTurn(transfer) }
      sendHeads()
    } while !ends.isEmpty || !starts.isEmpty
  }

  private func sendHeads() {
    while let connection = heads.next() { connection.sendStagedHead() }
  }
}

/// A queue that is filled, then emptied, and keeps its memory.
///
/// An object is counted once, when it comes, and given away with that when it goes. An array would count its own memory with each look, and the nothing in each place.
@safe
private final class StageQueue<Element: AnyObject> {
  private var places: UnsafeMutableBufferPointer<Unmanaged<Element>>
  private var first = 0
  private var end = 0

  init() {
    unsafe places = .allocate(capacity: 16)
  }

  deinit {
    for index in first..<end { unsafe places[index].release() }
    unsafe places.deallocate()
  }

  @inline(__always)
  func append(_ element: Element) {
    if unsafe end == places.count { grow() }
    unsafe places.initializeElement(at: end, to: .passRetained(element))
    end += 1
  }

  var isEmpty: Bool { first == end }

  @inline(__always)
  func next() -> Element? {
    guard first < end else {
      first = 0
      end = 0
      return nil
    }
    first += 1
    return unsafe places[first - 1].takeRetainedValue()
  }

  @inline(never)
  private func grow() {
    let larger = unsafe UnsafeMutableBufferPointer<Unmanaged<Element>>.allocate(capacity: 2 * places.count)
    _ = unsafe larger.moveInitialize(fromContentsOf: places)
    unsafe places.deallocate()
    unsafe places = larger
  }
}
