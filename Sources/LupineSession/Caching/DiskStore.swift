internal import FoundationEssentials
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineTLS
internal import Synchronization

/// The files of a cache, which several processes may share: a file for each record, named by the hash of its key, written under another name
/// and renamed. See `Docs/Caching.md`. Every method blocks, but `readAtOnce`; errors of the disk are no errors here but misses.
///
/// Invariants: a file under its final name is never written again; what the file `lock` counts is never less than what the records take, as
/// it is raised before a file gets its name and lowered after one has lost it; both happen under its lock.
final class DiskStore: Sendable {
  /// In bytes.
  let capacity: Int64
  private let directory: Directory
  private let lock: File
  /// The lock of the file holds between descriptors only: this one between threads.
  private let gate = Locked(())
  /// Larger files are not read at once: whoever asks has other things to do. 0 for tests, of the other way.
  private let atOnceLimit: Int64
  /// Where uses are written down.
  private let writer: FileThreads
  /// Names of files whose use is to be written down. A job of the writer's is under way while there are any.
  private let uses = LockedStorage<Set<String>>([])

  private static let temporaryPrefix = "part-"
  /// A file that is being written is younger.
  private static let abandonedAfter: Int64 = 60_000_000_000

  /// - Parameter path: a directory that is made if it is missing; the files are in `v1` below it, which is its owner's alone.
  init(path: String, capacity: Int64, atOnceLimit: Int64, writer: FileThreads) throws(IOError) {
    self.capacity = capacity
    self.atOnceLimit = min(atOnceLimit, capacity)
    self.writer = writer
    try Directory.make(path)
    directory = try Directory.openPrivate(at: path.hasSuffix("/") ? path + "v1" : path + "/v1")
    lock = try directory.openLock("lock")
    // A count that is too low would be believed for ever, and nobody but who makes room removes what others have left half.
    writer.run { [self] () throws(IOError) in
      try locked { () throws(IOError) in try record(evict(to: capacity)) }
    } completion: { _ in
    }
  }

  /// The name of a record's file; nil if OpenSSL has no SHA-256.
  private static func name(_ key: String) -> String? {
    guard let hash = MessageDigest.hash(.sha256, Array(key.utf8)) else { return nil }
    let digits = Array("0123456789abcdef".utf8)
    var name: [UInt8] = []
    name.reserveCapacity(32)
    for byte in hash.prefix(16) {
      name.append(digits[Int(byte >> 4)])
      name.append(digits[Int(byte & 15)])
    }
    return String(decoding: name, as: UTF8.self)
  }

  /// A file that is broken, or of another key, is as good as none.
  func read(_ key: String) -> CacheRecord? {
    guard let name = Self.name(key),
      let bytes = try? directory.read(name, limit: capacity, now: EventLoop.wallClockNanoseconds())
    else { return nil }
    return CacheRecord(decoding: bytes, key: key)
  }

  /// Whether the file of these names is there, and has the same generation.
  func holds(_ names: CacheRecord) -> Bool {
    guard case .variants(let key, let list, let generation) = names,
      case .variants(_, list, generation)? = read(key)
    else { return false }
    return true
  }

  enum Reading {
    case record(CacheRecord)
    case missing
    /// Only `read` knows.
    case later
  }

  /// What can be read without waiting.
  func readAtOnce(_ key: String) -> Reading {
    guard atOnceLimit > 0, let name = Self.name(key) else { return .later }
    switch directory.readAtOnce(name, limit: atOnceLimit, now: EventLoop.wallClockNanoseconds()) {
    case .later: return .later
    case .missing: return .missing
    case .bytes(let bytes, let isUseDue):
      guard let record = CacheRecord(decoding: bytes, key: key) else { return .missing }
      if isUseDue { noteUse(name) }
      return .record(record)
    }
  }

  /// Whether it is known without waiting that a key has no file.
  func isMissing(_ key: String) -> Bool {
    guard atOnceLimit > 0, let name = Self.name(key) else { return false }
    if case .missing = directory.readAtOnce(name, limit: 0, now: EventLoop.wallClockNanoseconds()) { return true }
    return false
  }

  /// Writes it down behind the answer, before what the writer is given next makes room.
  private func noteUse(_ name: String) {
    let isFirst = uses.withLock { uses -> Bool in
      let isFirst = uses.isEmpty
      uses.insert(name)
      return isFirst
    }
    guard isFirst else { return }
    writer.run { [self] () throws(IOError) in
      for name in takeUses() { directory.noteUse(name) }
    } completion: { [self] result in
      // Without a thread for the job nobody comes for them: they go, and the next use asks for a thread again.
      if case .failure = result { _ = takeUses() }
    }
  }

  private func takeUses() -> Set<String> { uses.withLock { uses in exchange(&uses, with: []) } }

  /// Files whose use is to be written down; for tests.
  var usesDue: Int { uses.withLock { $0.count } }

  /// Whether the record is there now.
  func write(_ record: CacheRecord) -> Bool {
    guard let name = Self.name(record.key), let bytes = record.encoded, Int64(bytes.count) <= capacity else {
      remove(record.key)
      return false
    }
    let temporary = Self.temporaryPrefix + UUID().uuidString
    do throws(IOError) {
      let file = try directory.create(temporary)
      do throws(IOError) {
        try file.write(bytes, at: 0)
        // Not synchronised: what a power failure breaks has a wrong checksum.
        try commit(temporary, name, Int64(bytes.count))
      } catch {
        try? directory.remove(temporary)
        throw error
      }
      return true
    } catch {
      // What it would have taken the place of is no answer any more.
      remove(record.key)
      return false
    }
  }

  private func commit(_ temporary: String, _ name: String, _ size: Int64) throws(IOError) {
    try locked { () throws(IOError) in
      let former = try directory.attributes(of: name)?.size ?? 0
      var usage = try recordedUsage() + size
      if usage - former > capacity {
        usage = try evict(to: max(0, capacity / 10 * 9 - size)) + size
        try record(usage)
        try directory.rename(temporary, to: name)
      } else {
        try record(usage)
        try directory.rename(temporary, to: name)
        if former > 0 { try record(usage - former) }
      }
    }
  }

  func remove(_ key: String) {
    // For what is not there nobody need wait for others: what they make of it behind this look is newer.
    guard let name = Self.name(key), (try? directory.attributes(of: name)) != nil else { return }
    try? locked { () throws(IOError) in
      guard let size = try directory.attributes(of: name)?.size else { return }
      // While the file is there: where it has to be counted, the file is counted with the others.
      let usage = try recordedUsage()
      try directory.remove(name)
      try record(max(0, usage - size))
    }
  }

  func removeAll() {
    try? locked { () throws(IOError) in
      try record(evict(to: 0))
    }
  }

  /// Bytes of all records.
  var usage: Int64 {
    (try? locked { () throws(IOError) in try recordedUsage() }) ?? 0
  }

  // MARK: Under the lock

  private func locked<Value: Sendable>(_ work: () throws(IOError) -> Value) throws(IOError) -> Value {
    var result: Result<Value, IOError>?
    gate.withLock { _ in
      do throws(IOError) {
        result = .success(try lock.withLock(work))
      } catch {
        result = .failure(error)
      }
    }
    guard let result else { throw .stopped }
    return try result.get()
  }

  private func recordedUsage() throws(IOError) -> Int64 {
    let bytes = try lock.read(at: 0, count: 8)
    guard bytes.count == 8 else { return try evict(to: .max) }
    let usage = bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    // No cache is that large: counted anew.
    guard usage < 1 << 50 else { return try evict(to: .max) }
    return Int64(usage)
  }

  private func record(_ usage: Int64) throws(IOError) {
    let value = UInt64(clamping: usage)
    try lock.write((0..<8).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }, at: 0)
  }

  /// Removes what was used longest ago, until at most so many bytes are left; counts them. What a dead process has left half goes too.
  private func evict(to target: Int64) throws(IOError) -> Int64 {
    var files: [(name: String, size: Int64, modified: Int64)] = []
    let now = EventLoop.wallClockNanoseconds()
    for name in try directory.names() where name != "lock" {
      guard let found = try directory.attributes(of: name) else { continue }
      let isAhead = found.modified - now > Directory.aheadLimit
      if name.hasPrefix(Self.temporaryPrefix) {
        if now - found.modified > Self.abandonedAfter || isAhead { try? directory.remove(name) }
      } else {
        // How old it is nobody knows, and it would be the youngest for as long.
        files.append((name, found.size, isAhead ? .min : found.modified))
      }
    }
    var usage = files.reduce(0) { $0 + $1.size }
    guard usage > target else { return usage }
    files.sort { $0.modified < $1.modified }
    var failure: IOError?
    for file in files where usage > target {
      do throws(IOError) {
        try directory.remove(file.name)
      } catch {
        // One that cannot be removed keeps no other.
        guard case .notFound = error else {
          failure = failure ?? error
          continue
        }
      }
      usage -= file.size
    }
    if usage > target, let failure { throw failure }
    return usage
  }
}
