/// What handlers of a loop leave to be done for several of them at once, stage by stage.
///
/// A small request takes some 50 KB of instructions from `recv` to `send`, ours alone, where a processor keeps 32 KB at hand: done from end to end for one connection after the
/// other, nearly all of them are fetched anew for each. What eight connections do together, one stage after the other, fetches them once.
package protocol StagedWork: AnyObject {
  /// Does what was staged, and what is staged meanwhile. The loop calls it when `StageSize.works` events have been told, or as many pieces of mail, timers or requeued handlers since something was staged;
  /// behind a handler that has read much; and at the latest when all are told who are to be told of the same. Never from within a handler.
  func run(in context: LoopContext)
}

/// How much is done at once.
enum StageSize {
  /// Large enough for what is fetched once for all to be cheap, and small enough for the first of them not to wait: 4 and 16 were no better.
  static let works = 8
}
