internal import LupineBase
internal import Synchronization

/// A response that a cache is about to store, if the delegate of its task agrees.
struct StorageProposal: Sendable {
  let response: CachedResponse
  /// Called with what is to be stored; nil is nothing.
  let answer: @Sendable (CachedResponse?) -> Void
  /// Called instead where the task was given up: nothing is stored.
  let giveUp: @Sendable () -> Void
}

/// The delegate's word on what a cache is to keep.
extension TaskRun {
  /// Puts the question behind what the delegate is told of the response, and behind its own word on that.
  func propose(_ proposal: StorageProposal) {
    if isGated.load(ordering: .acquiring), state.withLock({ $0.gate.arrive(proposal: proposal) }) != .pass { return }
    ask(proposal)
  }

  /// The turn of the question has come.
  func ask(_ proposal: StorageProposal) {
    if state.withLock({ $0.gate.isAbandoned }) { return proposal.giveUp() }
    // Of a data task that became a download nothing more is said.
    guard let observer, (consumer as? DelegateConsumer)?.download == nil else {
      return proposal.answer(proposal.response)
    }
    observer.proposeToCache(proposal.response, proposal.answer)
  }
}
