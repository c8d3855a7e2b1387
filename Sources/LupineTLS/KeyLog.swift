internal import Glibc
internal import LupineBase

/// Has work done that may wait for a disk: soon, on a thread that may. Where there is none the work is called at once, and told false.
package typealias TLSFileWork = @Sendable (_ work: @escaping @Sendable (_ mayWait: Bool) -> Void) -> Void

/// A file in NSS key-log format.
///
/// Who has a line does not wait for it to be written: one piece of `TLSFileWork` at a time does that, in the order of the lines, each by one
/// `write` to a descriptor opened for appending, so that those of several processes do not mix. An analyser's file never breaks a connection: what
/// cannot be written is lost, and so is what comes while `limit` bytes wait. A comment in the file says how many lines are missing.
///
/// Invariants: while lines wait, work is under way; `settled` is at most `appended`, and nobody waits for what is settled.
package final class KeyLog: Sendable {
  private struct Waiter: Sendable {
    var after: UInt64
    var body: @Sendable () -> Void
  }

  private struct State: Sendable {
    var lines: [[UInt8]] = []
    /// Of lines that wait or are being written.
    var bytes = 0
    var isAtWork = false
    /// How many lines were taken, and how many of them were written or lost since.
    var appended: UInt64 = 0
    var settled: UInt64 = 0
    var waiters: [Waiter] = []
    /// Lines that were lost, and how many of them the file does not speak of yet.
    var lost = 0
    var unsaid = 0
  }

  /// Bytes of lines that may wait: those of some thousand handshakes.
  package static let limit = 1 << 20

  /// Has whoever has a line write it.
  package static let atOnce: TLSFileWork = { work in work(true) }

  private let descriptor: Int32
  private let fileWork: TLSFileWork
  private let state = Locked(State())

  /// Opens the file, or makes it with mode 0600; waits for the disk.
  package init(path: String, fileWork: @escaping TLSFileWork) throws(TLSError) {
    let opened = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0o600)
    guard opened >= 0 else { throw .keyLogUnwritable(path: path, code: errno) }
    descriptor = opened
    self.fileWork = fileWork
  }

  deinit {
    // Some file systems write then.
    let descriptor = descriptor
    fileWork { _ in _ = close(descriptor) }
  }

  /// How many lines were lost.
  package var lostLines: Int { state.withLock { $0.lost } }

  /// Takes a line, without its end. Any thread; does not wait, unless `fileWork` does.
  package func append(_ line: String) {
    let bytes = Array((line + "\n").utf8)
    let begins = state.withLock { state -> Bool in
      guard state.bytes + bytes.count <= Self.limit else {
        state.lost += 1
        state.unsaid += 1
        return false
      }
      state.lines.append(bytes)
      state.bytes += bytes.count
      state.appended += 1
      guard !state.isAtWork else { return false }
      state.isAtWork = true
      return true
    }
    if begins { fileWork { [self] mayWait in work(mayWait) } }
  }

  /// Calls `body`, on the thread that writes, when everything that was taken so far is written or lost.
  ///
  /// - Returns: false if it is by now; `body` is not called then.
  package func whenWritten(_ body: @escaping @Sendable () -> Void) -> Bool {
    state.withLock { state -> Bool in
      guard state.settled < state.appended else { return false }
      state.waiters.append(Waiter(after: state.appended, body: body))
      return true
    }
  }

  // MARK: Where it may wait

  private func work(_ mayWait: Bool) {
    while let lines = take() { settle(lines, mayWait) }
  }

  private func take() -> [[UInt8]]? {
    state.withLock { state -> [[UInt8]]? in
      guard !state.lines.isEmpty else {
        state.isAtWork = false
        return nil
      }
      let lines = state.lines
      state.lines = []
      return lines
    }
  }

  private func settle(_ lines: [[UInt8]], _ mayWait: Bool) {
    var written = 0
    if mayWait {
      while written < lines.count, put(lines[written]) { written += 1 }
    }
    let missing = lines.count - written
    let unsaid = state.withLock { state -> Int in
      state.lost += missing
      state.unsaid += missing
      return state.unsaid
    }
    // The first line end is for a line that was written in part.
    let isSaid = mayWait && unsaid > 0 && put(Array("\n# lines missing: \(unsaid)\n".utf8))
    let bytes = lines.reduce(0) { $0 + $1.count }
    let told = state.withLock { state -> [Waiter] in
      if isSaid { state.unsaid -= unsaid }
      state.bytes -= bytes
      state.settled += UInt64(lines.count)
      let settled = state.settled
      let told = state.waiters.filter { $0.after <= settled }
      state.waiters.removeAll { $0.after <= settled }
      return told
    }
    for waiter in told { waiter.body() }
  }

  /// Whether all of it was written.
  private func put(_ line: [UInt8]) -> Bool {
    while true {
      let count = unsafe write(descriptor, line, line.count)
      if count < 0, errno == EINTR { continue }
      return count == line.count
    }
  }
}
