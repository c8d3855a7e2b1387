internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import Synchronization

/// Keeps responses to be used again, as `URLCache` does: a private cache of RFC 9111 in memory and, if wanted, in files.
///
/// Sessions use one if `SessionConfiguration.responseCache` says so; several sessions and, on one directory, several processes may share one.
/// Every method may be called from any thread. A file that cannot be read or written makes a request slower, never fail.
public final class ResponseCache: Sendable {
  /// Bytes that are kept in memory.
  public let memoryCapacity: Int
  /// Bytes that are kept in files; 0 without a directory.
  public let diskCapacity: Int
  /// Larger bodies are passed on, and not kept. Files have none of more than 63 MiB, whatever this says.
  public let maximumEntrySize: Int

  /// Bytes of the largest file that is read at once: to copy more takes longer than to ask a thread for it.
  private static let atOnceLimit: Int64 = 256 << 10

  private let state: LockedStorage<CacheState>
  private let disk: DiskStore?
  private let readers: FileThreads?
  private let writer: FileThreads?
  /// Seconds since 1970.
  let now: @Sendable () -> Int64

  /// A cache in memory.
  ///
  /// - Parameters:
  ///   - memoryCapacity: in bytes. Default 4 MiB.
  ///   - maximumEntrySize: bytes of the largest body that is kept. Default 16 MiB.
  public convenience init(memoryCapacity: Int = 4 << 20, maximumEntrySize: Int = CachedResponse.maximumSize) {
    self.init(memoryCapacity, 0, maximumEntrySize, nil, nil, nil) { HTTPDate.current.seconds }
  }

  /// A cache in memory and in files.
  ///
  /// - Parameters:
  ///   - memoryCapacity: in bytes. Default 4 MiB.
  ///   - diskCapacity: in bytes, over all processes that use the directory. Default 100 MiB.
  ///   - directory: made if it is missing; the files are in `v1` below it, which only its owner may read.
  ///   - maximumEntrySize: bytes of the largest body that is kept; in files, 63 MiB at most. Default 16 MiB.
  /// - Throws: `SessionError` with `.fileFailed` if the directory cannot be made, or `v1` is not ours alone; `.system` without threads.
  public convenience init(
    memoryCapacity: Int = 4 << 20, diskCapacity: Int = 100 << 20, directory: String,
    maximumEntrySize: Int = CachedResponse.maximumSize
  ) throws(SessionError) {
    try self.init(memoryCapacity, diskCapacity, maximumEntrySize, directory) { HTTPDate.current.seconds }
  }

  /// - Parameters:
  ///   - readsAtOnce: whether small files that the system has in memory are read by whoever asks for them.
  ///   - now: seconds since 1970.
  package convenience init(
    _ memoryCapacity: Int, _ diskCapacity: Int, _ maximumEntrySize: Int, _ directory: String, readsAtOnce: Bool = true,
    now: @escaping @Sendable () -> Int64
  ) throws(SessionError) {
    let (readers, writer): (FileThreads, FileThreads)
    do throws(IOError) {
      (readers, writer) = (try FileThreads(), try FileThreads(maximumThreads: 1))
    } catch {
      throw SessionError(.system, phase: .prepare, message: "no threads for files: \(error)", underlying: error)
    }
    let disk: DiskStore
    do throws(IOError) {
      disk = try DiskStore(
        path: directory, capacity: Int64(max(0, diskCapacity)), atOnceLimit: readsAtOnce ? Self.atOnceLimit : 0,
        writer: writer)
    } catch {
      throw SessionError(
        .fileFailed, phase: .file, message: "cannot keep a cache in \(directory): \(error)", underlying: error)
    }
    self.init(memoryCapacity, diskCapacity, maximumEntrySize, disk, readers, writer, now: now)
  }

  private init(
    _ memoryCapacity: Int, _ diskCapacity: Int, _ maximumEntrySize: Int, _ disk: DiskStore?, _ readers: FileThreads?,
    _ writer: FileThreads?, now: @escaping @Sendable () -> Int64
  ) {
    self.memoryCapacity = max(0, memoryCapacity)
    self.diskCapacity = disk == nil ? 0 : max(0, diskCapacity)
    self.maximumEntrySize = max(0, maximumEntrySize)
    self.disk = disk
    self.readers = readers
    self.writer = writer
    self.now = now
    state = LockedStorage(CacheState(memoryCapacity: memoryCapacity))
  }

  /// In memory, with a clock of the caller's.
  package convenience init(memoryCapacity: Int, now: @escaping @Sendable () -> Int64) {
    self.init(memoryCapacity, 0, CachedResponse.maximumSize, nil, nil, nil, now: now)
  }

  // MARK: Usage

  /// Bytes of the largest body that there is room for.
  func largestBody(isInMemoryOnly: Bool) -> Int {
    let written = isInMemoryOnly ? 0 : min(diskCapacity, CacheState.largestWrittenBody)
    return min(maximumEntrySize, max(memoryCapacity, written))
  }

  /// Bytes in memory now, as they are counted against the capacity.
  public var currentMemoryUsage: Int { state.withLock { $0.memory.usage } }

  /// Bytes in files now, those of other processes too. Reads a file.
  public var currentDiskUsage: Int { Int(disk?.usage ?? 0) }

  /// Waits until everything that was stored or removed so far is in the files. Returns at once without a directory.
  public func flush() async {
    guard let disk, let writer else { return }
    await withCheckedContinuation { continuation in
      // Of what was noted the job may be another thread's, which has not given it to the writer.
      writer.run { [self] () throws(IOError) in
        work(on: disk, steps: .max)
      } completion: { _ in
        continuation.resume()
      }
    }
  }

  /// Forgets what is in memory; files stay. For programs that have to make room.
  public func forgetMemory() { state.withLock { $0.memory.removeAll() } }

  // MARK: Finding

  /// Whom a lookup is for.
  struct Query: Sendable {
    /// `CacheKey.first`.
    var first: String
    var isDecoded: Bool
    /// Files are not for it.
    var isInMemoryOnly = false
    var request: CacheRequest
    /// All fields of the request; asked for only where responses vary.
    var fields: @Sendable () -> [(name: String, value: String)]

    func second(_ names: [String], _ generation: UInt64) -> String {
      CacheKey.second(first, generation, VaryRule.select(names, of: fields()))
    }
  }

  enum Finding {
    case found(StoredResponse)
    case missing
    /// A file may know.
    case onDisk(key: String)
  }

  /// What is known without waiting for a disk.
  func find(_ query: Query) -> Finding {
    guard disk != nil, !query.isInMemoryOnly else { return known(query, query.first) }
    let epoch = epoch
    return follow(known(query, query.first), query, since: epoch) { $0.readAtOnce($1) }
  }

  /// Goes on where `find` met the disk; `completion` is called on a file thread.
  func find(_ query: Query, onDisk key: String, _ completion: @escaping @Sendable (StoredResponse?) -> Void) {
    guard let readers else { return completion(nil) }
    let epoch = epoch
    readers.run { [self] () throws(IOError) -> StoredResponse? in
      let finding = follow(.onDisk(key: key), query, since: epoch) { disk, key in
        disk.read(key).map { .record($0) } ?? .missing
      }
      return if case .found(let response) = finding { response } else { nil }
    } completion: { result in
      completion((try? result.get()) ?? nil)
    }
  }

  /// What is known without the disk, from this key on.
  private func known(_ query: Query, _ key: String) -> Finding {
    let step = state.withLock { state -> CacheState.Step in
      if let step = state.step(key) { return step }
      return disk == nil || query.isInMemoryOnly || state.pending.isRemovingAll ? .missing : .onDisk
    }
    return finding(step, query, key)
  }

  private func finding(_ step: CacheState.Step, _ query: Query, _ key: String) -> Finding {
    switch step {
    case .record(.response(let response)): return response.answers(query.request) ? .found(response) : .missing
    case .record(.variants(_, let names, let generation)):
      // Names lead from a first key to a second, and no further.
      return key == query.first ? known(query, query.second(names, generation)) : .missing
    case .missing: return .missing
    case .onDisk: return .onDisk(key: key)
    }
  }

  /// Reads what is on the disk: the two records that a response takes, and again what was stored meanwhile. What was removed since `epoch` is missing.
  private func follow(
    _ beginning: Finding, _ query: Query, since epoch: UInt64, _ read: (DiskStore, String) -> DiskStore.Reading
  ) -> Finding {
    var finding = beginning
    while case .onDisk(let key) = finding, let disk {
      let record: CacheRecord
      let count = state.withLock { $0.storedCount }
      switch read(disk, key) {
      case .later: return finding
      case .missing:
        if key == query.first { state.withLock { $0.noteAbsence(of: key, storedSince: count) } }
        return .missing
      case .record(let found): record = found
      }
      let step = state.withLock { state -> CacheState.Step in
        guard !state.pending.isRemovingAll, !state.isRemoved(query.first, since: epoch) else { return .missing }
        // What came meanwhile is newer than the file.
        if let step = state.step(key) { return step }
        // Something newer that is in files alone by now is read in its turn.
        return state.take(record, storedSince: count) ? .record(record) : .onDisk
      }
      finding = self.finding(step, query, key)
    }
    return finding
  }

  // MARK: Storing

  private var epoch: UInt64 { state.withLock { $0.epoch } }

  /// When a response was asked for: after which removals, and after which others.
  struct Stamp: Sendable {
    var epoch: UInt64 = 0
    var order: UInt64 = 0
  }

  /// What a response that is asked for now has to name when it is stored.
  var stamp: Stamp { state.withLock { $0.stamp() } }

  enum Generation {
    case number(UInt64)
    /// What is there was asked for later.
    case outdated
    /// A file may know.
    case onDisk
  }

  /// The generation of the responses of a URL that vary by these names. What is stored without a look at the URL before stays beside what only files have; behind
  /// a look that found nothing it does not ask whether another process has stored something since.
  ///
  /// - Parameter mayWait: whether a disk may be waited for.
  func generation(
    _ names: [String], for query: Query, inMemoryOnly: Bool, since stamp: Stamp, mayWait: Bool
  ) -> Generation {
    var filed: CacheState.FiledNames?
    if let disk, !query.isInMemoryOnly {
      let (isKnown, epoch, count) = state.withLock {
        let isKnown = $0.step(query.first) != nil || $0.isAbsent(query.first) || $0.pending.isRemovingAll
        return (isKnown, $0.epoch, $0.storedCount)
      }
      var record: CacheRecord?
      switch isKnown ? .missing : disk.readAtOnce(query.first) {
      case .record(let found): record = found
      case .missing: break
      case .later where !mayWait: return .onDisk
      case .later: record = disk.read(query.first)
      }
      filed = record.map { CacheState.FiledNames(record: $0, epoch: epoch, count: count) }
    }
    let filing = filing(for: query, inMemoryOnly: inMemoryOnly)
    let generation = state.withLock { $0.generation(names, first: query.first, filed: filed, filing, since: stamp) }
    guard let generation else { return .outdated }
    if generation.needsJob { wakeWriter() }
    return .number(generation.number)
  }

  /// Does what may wait for a disk, in its turn: whoever flushes behind it waits for it.
  ///
  /// - Parameter giveUp: called instead where there is no thread for it.
  func onWriter(_ work: @escaping @Sendable () -> Void, orElse giveUp: @escaping @Sendable () -> Void) {
    guard let writer else { return giveUp() }
    writer.run { () throws(IOError) in
      work()
    } completion: { result in
      if case .failure = result { giveUp() }
    }
  }

  /// Keeps a record, unless its URL was removed since it was asked for, or what was asked for later is there.
  ///
  /// - Parameter query: what `remove` knows it by.
  func insert(_ record: CacheRecord, for query: Query, inMemoryOnly: Bool, since stamp: Stamp) {
    let filing = filing(for: query, inMemoryOnly: inMemoryOnly)
    let needsJob = state.withLock { $0.insert(record, first: query.first, filing, since: stamp) }
    if needsJob { wakeWriter() }
  }

  private func filing(for query: Query, inMemoryOnly: Bool) -> CacheState.Filing {
    guard disk != nil, !query.isInMemoryOnly else { return .none }
    return inMemoryOnly ? .forbidden : .written
  }

  /// Forgets what is stored under a first key, all that varies included: no request leads to it any more.
  func remove(first: String) {
    guard let disk else { return state.withLock { $0.remove(first) } }
    // Most of what is not to be stored never was, and whoever brings it has just had the system look for a file.
    let settled = state.withLock { $0.settledCount(of: first) }
    let count = settled.flatMap { disk.isMissing(first) ? $0 : nil }
    let needsJob = state.withLock { $0.removeFiled(first, missingSince: count) }
    if needsJob { wakeWriter() }
  }

  /// Forgets everything.
  public func removeAll() {
    let needsJob = state.withLock { state -> Bool in
      state.removeAll()
      return disk != nil && state.pending.noteRemovalOfAll()
    }
    if needsJob { wakeWriter() }
  }

  // MARK: Files

  /// Has the writer run a job for what was noted.
  private func wakeWriter() {
    guard let disk, let writer else { return }
    writer.run { [self] () throws(IOError) in
      state.withLock { $0.pending.beginJob() }
      work(on: disk, steps: 1)
    } completion: { [self] result in
      // Without a thread for it, a later job does it; until then it holds instead of the files.
      if case .failure = result { state.withLock { $0.pending.beginJob() } }
    }
  }

  /// How much is to become of files; for tests.
  var changesDue: Int { state.withLock { $0.pending.count } }

  /// Does what is due by now, at most so many steps of it, on the writer's only thread.
  private func work(on disk: DiskStore, steps: Int) {
    // What is noted meanwhile has jobs of its own: whoever waits for this one does not wait for ever.
    var left = min(steps, state.withLock { $0.pending.count })
    while left > 0, let step = state.withLock({ $0.pending.next() }) {
      left -= 1
      let isThere = take(step, on: disk)
      state.withLock { $0.settle(step, isThere: isThere) }
    }
  }

  /// Whether a record has its file then.
  private func take(_ step: PendingChanges.Step, on disk: DiskStore) -> Bool {
    switch step {
    case .removeAll: disk.removeAll()
    case .change(let turn):
      switch turn.change {
      case .write(let record): return disk.write(record)
      case .confirm(let record): return disk.holds(record)
      case .remove: disk.remove(turn.key)
      }
    }
    return false
  }
}
