internal import Dispatch

/// What is still to be told of the network, and to whom: pure, its owner calls the block and posts.
///
/// Invariants: statuses are given out in their order, each once, and only on the queue that is named when that happens: those that wait behind another
/// one, which perhaps nobody runs, move to it. Behind `clear()` nothing from before is given out.
struct ReachabilityOutbox {
  typealias Block = @Sendable (NetworkReachabilityStatus) -> Void

  struct Item: Equatable {
    var status: NetworkReachabilityStatus
    /// Whether it is posted, too.
    var isPosted = true
  }

  /// Where the block is called and the notification is posted.
  private(set) var queue = DispatchQueue.main
  private var block: Block?
  private var waiting: [Item] = []
  /// Nil: none came since the monitoring began.
  private(set) var latest: NetworkReachabilityStatus?
  private var hasReachedABlock = false

  /// Whether somebody is to come and `take`.
  var isWaiting: Bool { !waiting.isEmpty }

  mutating func add(_ status: NetworkReachabilityStatus) {
    latest = status
    waiting.append(Item(status: status))
  }

  /// Names whom to tell, and where; gives back the former block. The first one gets the latest status, if that was posted already.
  mutating func name(_ new: Block?, _ newQueue: DispatchQueue) -> Block? {
    defer {
      block = new
      queue = newQueue
    }
    if new != nil, !hasReachedABlock, waiting.isEmpty, let latest {
      waiting.append(Item(status: latest, isPosted: false))
    }
    return block
  }

  /// What is told next, and to whom, by who runs on this queue; nil: nothing here.
  mutating func take(on running: DispatchQueue) -> (item: Item, block: Block?)? {
    guard running === queue, !waiting.isEmpty else { return nil }
    if block != nil { hasReachedABlock = true }
    return (waiting.removeFirst(), block)
  }

  /// The monitoring begins anew, or is over.
  mutating func clear() {
    waiting = []
    latest = nil
    hasReachedABlock = false
  }
}
