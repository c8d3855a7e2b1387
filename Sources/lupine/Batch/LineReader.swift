import Dispatch
internal import LupineBase

/// Lines of a descriptor, read when somebody asks for the next one: what is in memory is one block and the lines that were handed out.
///
/// Reading blocks, so it happens on a queue of its own and never on a thread of the concurrency pool.
final class LineReader: Sendable {
  enum Line: Sendable, Equatable {
    /// Without its end.
    case text(number: Int, [UInt8])
    /// Longer than the limit; it was skipped.
    case tooLong(number: Int)
  }

  private struct State {
    var block: [UInt8] = []
    var index = 0
    var number = 0
    var isAtEnd = false
  }

  private typealias Waiter = CheckedContinuation<Line?, Never>

  private static let blockSize = 64 * 1024

  private let descriptor: Int32
  private let limit: Int
  private let queue = DispatchQueue(label: "lupine.lines")
  /// Touched on the queue only, one call at a time.
  private let state = Locked(State())
  /// Who waits for a line, the first to ask first; nil when nobody is to have another one.
  private let waiters = Locked<[Waiter]?>([])
  private let failed = Locked<System.Failure?>(nil)

  init(_ descriptor: Int32, limit: Int = 64 << 20) {
    self.descriptor = descriptor
    self.limit = limit
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
    let waiting = waiters.withLock { waiters in
      defer { waiters = nil }
      return waiters ?? []
    }
    for waiter in waiting { waiter.resume(returning: nil) }
  }

  /// Reads one line, for who has waited longest.
  private func serve() {
    guard waiters.withLock({ $0 != nil }) else { return }
    do throws(System.Failure) {
      let line = try state.withLock { state throws(System.Failure) in try read(&state) }
      let waiter = waiters.withLock { $0?.removeFirst() }
      waiter?.resume(returning: line)
    } catch {
      failed.withLock { $0 = error }
      stop()
    }
  }

  private func read(_ state: inout State) throws(System.Failure) -> Line? {
    while true {
      var line: [UInt8] = []
      var isTooLong = false
      var hasEnded = false
      while !hasEnded {
        if state.index == state.block.count, !state.isAtEnd {
          state.block = try System.read(descriptor, upTo: Self.blockSize, name: "standard input")
          state.index = 0
          state.isAtEnd = state.block.isEmpty
        }
        guard !state.isAtEnd else { break }
        let rest = state.block[state.index...]
        let end = rest.firstIndex(of: UInt8(ascii: "\n"))
        if !isTooLong { line += rest[..<(end ?? rest.endIndex)] }
        if line.count > limit {
          isTooLong = true
          line = []
        }
        state.index = end.map { $0 + 1 } ?? state.block.count
        hasEnded = end != nil
      }
      guard hasEnded || !line.isEmpty || isTooLong else { return nil }
      state.number += 1
      if line.last == UInt8(ascii: "\r") { line.removeLast() }
      if isTooLong { return .tooLong(number: state.number) }
      let isBlank = line.allSatisfy { $0 == 0x20 || $0 == 0x09 }
      if !isBlank { return .text(number: state.number, line) }
    }
  }
}
