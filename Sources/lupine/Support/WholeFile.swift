internal import Glibc

/// A file that its owner alone may read, and that is there as a whole or not at all: it is written beside its place, and renamed.
struct WholeFile: Sendable {
  private let path: String
  /// What is no regular file, such as a pipe, has no place to be put into: it is written as it is.
  private let stream: OutputFile?

  /// Finds out whether the file can be written, and leaves what is there alone.
  init(_ path: String) throws(System.Failure) {
    let isThere = try FileSystem.isThere(path)
    // Of a link, what it leads to is replaced.
    let target = FileSystem.resolved(path)
    self.path = target
    let isRegular = FileSystem.size(path) != nil
    if isRegular ? FileSystem.isOfTheSystem(path) : isThere {
      if let output = OutputFile(standardStreamAt: path) {
        stream = output
      } else {
        stream = try OutputFile(path, mode: 0o600)
      }
      return
    }
    stream = nil
    // A file that may not be written is not replaced either.
    if isRegular { try Self.named(target) { () throws(System.Failure) in _ = try OutputFile(reopening: target) } }
    do throws(System.Failure) {
      let trial = try Self.create(beside: target)
      FileSystem.remove(trial.path)
    } catch {
      guard isRegular, Self.keepsItsPlace(error) else { throw error }
    }
  }

  /// Whether a file may be written and not replaced: in a directory of somebody else's, say, or one that is mounted by itself.
  private static func keepsItsPlace(_ error: System.Failure) -> Bool {
    [EACCES, EPERM, EBUSY, EROFS].contains(error.code)
  }

  /// Tells a failure by the name that the user knows.
  private static func named<Value>(
    _ path: String, _ work: () throws(System.Failure) -> Value
  ) throws(System.Failure) -> Value {
    do throws(System.Failure) {
      return try work()
    } catch {
      throw System.Failure(operation: "cannot write \(path)", code: error.code)
    }
  }

  private static func create(beside path: String) throws(System.Failure) -> OutputFile {
    let name = "\(FileSystem.folder(of: path)).lupine-\(String(UInt64.random(in: 0 ... .max), radix: 36)).part"
    return try named(path) { () throws(System.Failure) in try OutputFile(creating: name, mode: 0o600) }
  }

  /// Puts the bytes into the place.
  func write(_ bytes: [UInt8]) throws(System.Failure) {
    if let stream { return try Self.write(bytes, to: stream) }
    let isThere = FileSystem.size(path) != nil
    do throws(System.Failure) {
      try replace(bytes)
    } catch {
      guard isThere, Self.keepsItsPlace(error) else { throw error }
      try Self.write(bytes, to: OutputFile(path, mode: 0o600))
    }
  }

  private static func write(_ bytes: [UInt8], to file: OutputFile) throws(System.Failure) {
    try file.write(bytes)
    try file.flush()
  }

  private func replace(_ bytes: [UInt8]) throws(System.Failure) {
    let file = try Self.create(beside: path)
    do throws(System.Failure) {
      try file.write(bytes)
      try file.synchronize()
      try FileSystem.rename(file.path, to: path)
    } catch {
      FileSystem.remove(file.path)
      throw error
    }
  }
}

extension FileSystem {
  /// Standard output by a name, for example: who else writes there goes on with the same file.
  static func isOfTheSystem(_ path: String) -> Bool {
    path.hasPrefix("/dev/") && !path.hasPrefix("/dev/shm/") || path.hasPrefix("/proc/")
  }

  /// Whether something has that name that is written as it is, and never replaced: what is no regular file, or one that the system names.
  static func isWrittenInPlace(_ path: String) -> Bool {
    exists(path) && (size(path) == nil || isOfTheSystem(path))
  }
}

extension stat {
  /// Whether both are of one file, whatever its names are.
  func isOfSameFile(as other: stat) -> Bool { st_dev == other.st_dev && st_ino == other.st_ino }
}
