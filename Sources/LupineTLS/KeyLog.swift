internal import CLupineLinux
internal import Glibc
internal import LupineBase

/// Has work done that may wait for a disk: soon, on a thread that may. Where there is none the work is called at once, and told false.
package typealias TLSFileWork = @Sendable (_ work: @escaping @Sendable (_ mayWait: Bool) -> Void) -> Void

/// A file in NSS key-log format.
///
/// Who has a line does not wait for it to be written: one piece of `TLSFileWork` at a time does that, in the order of the lines, each by one
/// `write` to a descriptor opened for appending, so that those of several processes do not mix. An analyser's file never breaks a connection: what
/// cannot be written is lost, and so is what comes while `limit` bytes wait. A comment in the file says how many lines are missing, with the next line
/// at the latest: of those behind which none comes the file does not speak.
///
/// Invariants: while lines wait, work is under way; `settled` is at most `appended`, and nobody waits for what is settled; what was written in part is
/// missing, and the file does not speak of it yet.
package final class KeyLog: Sendable {
  private struct Waiter: Sendable {
    var token: WaiterToken
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
    var nextToken: UInt64 = 0
    /// Somebody has waited in vain, and nothing was settled since. Nobody waits then.
    var isStuck = false
    /// The file ends with a part of a line.
    var isTorn = false
    /// Lines that were lost, and how many of them the file does not speak of yet.
    var lost = 0
    var unsaid = 0
  }

  /// What somebody who waits is known by.
  package struct WaiterToken: Hashable, Sendable {
    fileprivate var number: UInt64
  }

  /// Bytes of lines that may wait: those of some thousand handshakes.
  package static let limit = 1 << 20

  /// Who may wait at a time.
  package static let waiterLimit = 4_096

  /// Has whoever has a line write it.
  package static let atOnce: TLSFileWork = { work in work(true) }

  /// Writes to a descriptor, and says how many bytes of it; fewer than 0 for none.
  package typealias Write = @Sendable (_ descriptor: Int32, _ bytes: [UInt8]) -> Int

  /// By the system call.
  package static let systemWrite: Write = { descriptor, bytes in
    while true {
      let count = unsafe Glibc.write(descriptor, bytes, bytes.count)
      if count >= 0 || errno != EINTR { return count }
    }
  }

  private let descriptor: Int32
  private let fileWork: TLSFileWork
  private let output: Write
  private let state = Locked(State())

  /// Opens the file, or makes it with mode 0600; waits for the disk. Prefer `shared(path:fileWork:)`.
  ///
  /// - Parameter write: for tests.
  /// - Throws: `keyLogUnwritable`, also for a pipe that nobody reads.
  package init(
    path: String, fileWork: @escaping TLSFileWork, write: @escaping Write = KeyLog.systemWrite
  ) throws(TLSError) {
    // A pipe that nobody reads is refused (ENXIO), instead of keeping the thread until somebody does.
    var opened = unsafe open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0o600)
    if (0...STDERR_FILENO).contains(opened) {
      // A process that has closed its standard streams may print all the same.
      let low = opened
      opened = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
      // EINVAL: no such number is allowed.
      let code = errno == EINVAL ? EMFILE : errno
      _ = close(low)
      errno = code
    }
    guard opened >= 0 else { throw .keyLogUnwritable(path: path, code: errno) }
    // Writing waits for a reader that is slow: what there is no room for would be lost.
    guard fcntl(opened, F_SETFL, O_APPEND) == 0 else {
      let code = errno
      _ = close(opened)
      throw .keyLogUnwritable(path: path, code: code)
    }
    descriptor = opened
    self.fileWork = fileWork
    output = write
  }

  deinit {
    // Some file systems write then.
    let descriptor = descriptor
    fileWork { _ in _ = close(descriptor) }
  }

  // MARK: One for each file

  private struct File: Hashable {
    var device: UInt64
    var number: UInt64
  }

  private struct Shared {
    weak var log: KeyLog?
  }

  private static let openLogs = Locked<[File: Shared]>([:])

  /// The log of a file, one for all who write to it however they name it, so that a disk that hangs holds up one piece of work. Opens the file, as one that
  /// was moved away is another; waits for the disk.
  ///
  /// - Parameter fileWork: of whoever comes first.
  package static func shared(path: String, fileWork: @escaping TLSFileWork) throws(TLSError) -> KeyLog {
    let made = try KeyLog(path: path, fileWork: fileWork)
    guard let file = made.file else { return made }
    return openLogs.withLock { table -> KeyLog in
      if let known = table[file]?.log { return known }
      table = table.filter { $0.value.log != nil }
      table[file] = Shared(log: made)
      return made
    }
  }

  /// What tells an open file from every other.
  private var file: File? {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return nil }
    return File(device: UInt64(status.st_dev), number: UInt64(status.st_ino))
  }

  // MARK: Lines

  /// How many lines were lost.
  package var lostLines: Int { state.withLock { $0.lost } }

  /// Takes a line, without its end. Any thread; does not wait, unless `fileWork` does.
  ///
  /// - Returns: false if it is lost already, as too many wait.
  @discardableResult
  package func append(_ line: String) -> Bool {
    let bytes = Array((line + "\n").utf8)
    let (isTaken, begins) = state.withLock { state -> (Bool, Bool) in
      guard state.bytes + bytes.count <= Self.limit else {
        state.lost += 1
        state.unsaid += 1
        return (false, false)
      }
      state.lines.append(bytes)
      state.bytes += bytes.count
      state.appended += 1
      guard !state.isAtWork else { return (true, false) }
      state.isAtWork = true
      return (true, true)
    }
    if begins { fileWork { [self] mayWait in work(mayWait) } }
    return isTaken
  }

  /// Whether everything that was taken is written or lost.
  package var isSettled: Bool { state.withLock { $0.settled == $0.appended } }

  /// Calls `body`, on the thread that writes, when everything that was taken so far is written or lost; or on that of somebody who has waited in vain, when
  /// he says so.
  ///
  /// - Returns: what to give up waiting with; nil if everything is settled by now, or waiting is of no use: somebody has waited in vain, or too many wait.
  ///   `body` is not called then.
  package func whenWritten(_ body: @escaping @Sendable () -> Void) -> WaiterToken? {
    state.withLock { state -> WaiterToken? in
      guard state.settled < state.appended, !state.isStuck, state.waiters.count < Self.waiterLimit else { return nil }
      let token = WaiterToken(number: state.nextToken)
      state.nextToken += 1
      state.waiters.append(Waiter(token: token, after: state.appended, body: body))
      return token
    }
  }

  /// Whoever has the token does not wait any more: his `body` is let go, unless it is being called.
  package func giveUp(_ token: WaiterToken) {
    // Let go outside the lock.
    _ = state.withLock { state -> Waiter? in
      guard let index = state.waiters.firstIndex(where: { $0.token == token }) else { return nil }
      return state.waiters.remove(at: index)
    }
  }

  /// Somebody has waited for long enough. All who wait are told, and until something is written or lost nobody waits any more.
  package func waitedInVain() {
    let told = state.withLock { state -> [Waiter] in
      guard state.settled < state.appended else { return [] }
      state.isStuck = true
      let told = state.waiters
      state.waiters = []
      return told
    }
    for waiter in told { waiter.body() }
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
    // A line behind a part of another would be none.
    let isTorn = state.withLock { $0.isTorn }
    if mayWait, !isTorn || putComment() {
      while written < lines.count, put(lines[written]) { written += 1 }
    }
    let missing = lines.count - written
    state.withLock { state in
      state.lost += missing
      state.unsaid += missing
    }
    if mayWait { _ = putComment() }
    let bytes = lines.reduce(0) { $0 + $1.count }
    let told = state.withLock { state -> [Waiter] in
      state.isStuck = false
      state.bytes -= bytes
      state.settled += UInt64(lines.count)
      let settled = state.settled
      let told = state.waiters.filter { $0.after <= settled }
      state.waiters.removeAll { $0.after <= settled }
      return told
    }
    for waiter in told { waiter.body() }
  }

  /// Says how many lines are missing, if any are that the file does not speak of; whether it does now.
  private func putComment() -> Bool {
    let unsaid = state.withLock { $0.unsaid }
    // The first line end is for a line that was written in part.
    guard unsaid > 0, put(Array("\n# lines missing: \(unsaid)\n".utf8)) else { return false }
    state.withLock { state in
      state.unsaid -= unsaid
      state.isTorn = false
    }
    return true
  }

  /// Whether all of it was written.
  private func put(_ line: [UInt8]) -> Bool {
    let count = output(descriptor, line)
    if count > 0, count < line.count { state.withLock { $0.isTorn = true } }
    return count == line.count
  }
}
