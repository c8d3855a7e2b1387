public import Dispatch
public import Foundation
internal import LupineBase
internal import Synchronization

extension HTTPRequestOperation {
  /// Makes several operations one: add what this returns to a queue.
  ///
  /// - Parameters:
  ///   - operations: none of them added to a queue yet.
  ///   - queue: where the handlers are called, one at a time even if it is concurrent. Default nil: the main queue.
  ///   - progress: told, behind each operation's own handlers, how many have finished, of how many. Default nil.
  ///   - completion: called when all have finished and their own handlers have returned.
  /// - Returns: the operations, and behind them one that depends on them all; of no operations, only that one.
  ///
  /// Source: `batchOfRequestOperations:progressBlock:completionBlock:`. Changed: their completion groups stay theirs.
  public static func batch(
    _ operations: [HTTPRequestOperation], queue: DispatchQueue? = nil,
    progress: (@Sendable (_ finished: Int, _ total: Int) -> Void)? = nil,
    completion: @escaping @Sendable ([HTTPRequestOperation]) -> Void
  ) -> [Operation] {
    let queue = DispatchQueue.serial("lupine.batch", on: queue ?? .main)
    let group = DispatchGroup()
    let finished = Locked(0)
    for operation in operations {
      group.enter()
      operation.state.withLock { state in
        state.handlers.afterwards.append {
          queue.async {
            let count = finished.withLock { finished in
              finished += 1
              return finished
            }
            progress?(count, operations.count)
            group.leave()
          }
        }
      }
    }
    let last = BatchEnd { group.notify(queue: queue) { completion(operations) } }
    for operation in operations { last.addDependency(operation) }
    return operations + [last]
  }
}

/// The end of a batch. Not a block operation, whose block nobody runs when it was cancelled: whoever waits for the batch waits for that end as well.
private final class BatchEnd: Operation, @unchecked Sendable {
  private let body: @Sendable () -> Void

  init(_ body: @escaping @Sendable () -> Void) {
    self.body = body
  }

  override func start() {
    body()
    super.start()
  }
}
