internal import CLupineLinux

/// A directory that holds many small files, each written once and then only read, replaced or removed; several processes may share it.
extension Directory {
  /// Opens a directory that is made, for its owner alone, if it is not there.
  ///
  /// - Throws: `.untrusted` if what has the name is a link, somebody else's, or open to others.
  package static func openPrivate(at path: String) throws(IOError) -> Directory {
    try SystemCalls.makeDirectory(path)
    return try trusted(path)
  }

  /// Makes a directory for its owner alone, unless one is there already, whosever it is.
  package static func make(_ path: String) throws(IOError) { try SystemCalls.makeDirectory(path) }

  /// The names in it, in no order.
  package func names() throws(IOError) -> [String] { try SystemCalls.names(in: descriptor) }

  /// Size in bytes, and when it was written or used last, in nanoseconds since 1970; nil for what is no regular file, or not there.
  package func attributes(of name: String) throws(IOError) -> (size: Int64, modified: Int64)? {
    guard let found = try SystemCalls.attributes(of: name, in: descriptor), found.isRegular else { return nil }
    return (found.size, found.modified)
  }

  /// A whole file; nil if there is none, or one of more than `limit` bytes. The file counts as used now; that is written down at most once a
  /// second.
  ///
  /// - Parameter now: nanoseconds since 1970.
  package func read(_ name: String, limit: Int64, now: Int64) throws(IOError) -> [UInt8]? {
    let file: File
    do throws(IOError) {
      file = File(try SystemCalls.open(name, in: descriptor, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK))
    } catch {
      if case .notFound = error { return nil }
      throw error
    }
    let found = try SystemCalls.attributes(file.descriptor)
    guard found.isRegular, found.size <= limit else { return nil }
    if Self.isUseDue(found.modified, now) { SystemCalls.touch(file.descriptor) }
    return try file.read(at: 0, count: Int(found.size))
  }

  /// What `readAtOnce` has found.
  package enum AtOnce: Sendable {
    /// A whole file. `isUseDue`: that it was used is to be written down, by `noteUse`.
    case bytes([UInt8], isUseDue: Bool)
    case missing
    /// Nobody knows without waiting: `read` does.
    case later
  }

  /// The same as `read` for what the system has in memory. Never waits for a disk or a server, so that every thread may call it.
  ///
  /// - Parameter limit: bytes of the largest file.
  package func readAtOnce(_ name: String, limit: Int64, now: Int64) -> AtOnce {
    do throws(IOError) {
      guard
        let opened = try SystemCalls.openAtOnce(name, in: descriptor, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)
      else { return .later }
      let file = File(opened)
      let found = try SystemCalls.attributes(file.descriptor)
      guard found.isRegular, found.size <= limit, let bytes = try file.readAtOnce(count: Int(found.size)) else {
        return .later
      }
      return .bytes(bytes, isUseDue: Self.isUseDue(found.modified, now))
    } catch {
      if case .notFound = error { return .missing }
      return .later
    }
  }

  /// The file counts as used now.
  package func noteUse(_ name: String) { SystemCalls.touch(name, in: descriptor) }

  /// Nanoseconds: uses that follow closer are not written down.
  private static let useInterval: Int64 = 1_000_000_000
  /// Nanoseconds: what is further ahead than a file server's clock may be was written by a clock that was wrong.
  package static let aheadLimit: Int64 = 3_600_000_000_000

  private static func isUseDue(_ modified: Int64, _ now: Int64) -> Bool {
    now - modified > useInterval || modified - now > aheadLimit
  }

  /// Gives a file another name here, in one step; what has that name is replaced.
  package func rename(_ name: String, to other: String) throws(IOError) {
    try SystemCalls.rename(name, to: other, in: descriptor)
  }

  /// Opens a file that is made if it is not there, to be locked by `withLock`.
  package func openLock(_ name: String) throws(IOError) -> File {
    File(try SystemCalls.open(name, in: descriptor, O_RDWR | O_CREAT | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK, mode: 0o600))
  }
}

extension File {
  /// Runs `work` while no other descriptor of the file is inside; waits for its turn.
  package func withLock<Value>(_ work: () throws(IOError) -> Value) throws(IOError) -> Value {
    try SystemCalls.lockWaiting(descriptor)
    defer { SystemCalls.unlock(descriptor) }
    return try work()
  }
}
