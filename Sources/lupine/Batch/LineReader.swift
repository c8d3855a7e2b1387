import Dispatch
internal import LupineBase
internal import LupineCommandLine

/// Lines of a descriptor, read when somebody asks for the next one: what is in memory is one block and the lines that were handed out.
///
/// Reading blocks, so it happens on a queue of its own and never on a thread of the concurrency pool.
final class LineReader: Sendable {
  typealias Line = BatchLines.Line

  private struct State {
    var lines: BatchLines
    var block: [UInt8] = []
    var index = 0
    var isAtEnd = false
  }

  private typealias Waiter = CheckedContinuation<Line?, Never>

  private static let blockSize = 64 * 1024

  private let descriptor: Int32
  private let queue = DispatchQueue(label: "lupine.lines")
  /// Touched on the queue only, one call at a time.
  private let state: Locked<State>
  /// Who waits for a line, the first to ask first; nil when nobody is to have another one.
  private let waiters = Locked<RingBuffer<Waiter>?>(RingBuffer())
  private let failed = Locked<System.Failure?>(nil)

  init(_ descriptor: Int32, limit: Int = BatchLine.lengthLimit) {
    self.descriptor = descriptor
    state = Locked(State(lines: BatchLines(limit: limit)))
  }

  /// Why there are no more lines, if that is not their end.
  var failure: System.Failure? { failed.withLock { $0 } }

  /// The next line that is not empty; nil at the end, after a failure, and after `stop`. May be called by many at once.
  func next() async -> Line? {
    await withCheckedContinuation { (waiter: Waiter) in
      let waits = waiters.withLock { waiters in
        waiters?.append(waiter)
        return waiters != nil
      }
      guard waits else { return waiter.resume(returning: nil) }
      queue.async { self.serve() }
    }
  }

  /// Ends the lines here, also for those who wait for one that may never come.
  func stop() {
    var waiting = waiters.withLock { waiters in
      defer { waiters = nil }
      return waiters ?? RingBuffer<Waiter>()
    }
    while let waiter = waiting.popFirst() { waiter.resume(returning: nil) }
  }

  /// Reads one line, for who has waited longest.
  private func serve() {
    guard waiters.withLock({ $0 != nil }) else { return }
    do throws(System.Failure) {
      let line = try state.withLock { state throws(System.Failure) in try read(&state) }
      let waiter = waiters.withLock { $0?.popFirst() }
      waiter?.resume(returning: line)
    } catch {
      failed.withLock { $0 = error }
      stop()
    }
  }

  private func read(_ state: inout State) throws(System.Failure) -> Line? {
    while true {
      if let line = state.lines.next(in: state.block, from: &state.index) { return line }
      guard !state.isAtEnd else { return nil }
      state.block = try System.read(descriptor, upTo: Self.blockSize, name: "standard input")
      state.index = 0
      guard !state.block.isEmpty else {
        state.isAtEnd = true
        return state.lines.rest()
      }
    }
  }
}
