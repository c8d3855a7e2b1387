internal import LupineBase

/// Transfers that are paused before they have a connection. They are in no queue: a connection would go to somebody who reads nothing, and be kept
/// from those who wait behind, and a request that its task holds back would go out.
extension EnginePool {
  /// The reader stopped. What has a connection keeps it, and is not read.
  func park(_ transfer: Transfer) {
    // One of several that are told of the same failure may be paused when the first of them is: it is in no queue by then, and has its end before it.
    guard case .waiting(let token) = transfer.state, giveUp(token) else { return }
    hold(transfer)
  }

  /// Out of every queue, until it is resumed or its whole time is over: nothing is to move meanwhile.
  func hold(_ transfer: Transfer) {
    disarmWait(of: transfer)
    transfer.state = .parked
    parked[ObjectIdentifier(transfer)] = transfer
    armTotal(of: transfer)
  }

  /// It goes to the end of the queue, even if that is full: who waited meanwhile comes first. While the pool is being closed, what it cancels may be what
  /// resumes it: there is no queue then.
  func unpark(_ transfer: Transfer) {
    guard parked.removeValue(forKey: ObjectIdentifier(transfer)) != nil else { return }
    disarmWait(of: transfer)
    transfer.state = .new
    guard !isClosed else { return end(transfer, .poolClosed, .poolWait) }
    acquire(transfer, isReturning: true)
  }
}
