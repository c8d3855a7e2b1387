internal import LupineRules

/// What a cache knows without its files. Not locked.
struct CacheState {
  /// What is known of a key.
  enum Step {
    case record(CacheRecord)
    case missing
    /// A file may know.
    case onDisk
  }

  /// What becomes of a record besides being kept in memory.
  enum Filing {
    /// Nothing: there are no files, or none for whoever asks.
    case none
    /// It must not be written down, and what an older file says is no answer any more.
    case forbidden
    case written
  }

  /// What a file has under a first key.
  struct FiledNames {
    var record: CacheRecord
    /// Behind which removals it was read.
    var epoch: UInt64
    /// How many records had been stored when it was about to be read.
    var count: UInt64
  }

  /// Bytes that wait for the disk; more are not written.
  static let pendingLimit = 64 << 20
  /// Bytes of the largest body that is written: the rest is for its head and its key, which count twice.
  static let largestWrittenBody = pendingLimit - (1 << 20)

  var memory: MemoryStore
  var pending = PendingChanges(limit: Self.pendingLimit)
  private var insertions = InsertionOrders()
  private var removals = RecentRemovals()
  /// First keys that no file had when it was looked for, and that nothing was stored under since.
  private var absences: Set<RecordKey> = []
  private static let rememberedAbsences = 512
  /// How many responses were asked for.
  private var asked: UInt64 = 0

  init(memoryCapacity: Int) { memory = MemoryStore(capacity: memoryCapacity) }

  /// Raised by each removal: what was asked for before is not stored after it.
  var epoch: UInt64 { removals.epoch }

  /// What a response that is asked for now has to name when it is stored.
  mutating func stamp() -> ResponseCache.Stamp {
    asked += 1
    return ResponseCache.Stamp(epoch: epoch, order: asked)
  }

  // MARK: Finding

  /// What is known of a key without the disk; nil if nothing is.
  mutating func step(_ key: String) -> Step? {
    if let record = memory.record(for: key) { return .record(record) }
    return pending[key].map { $0.record.map { .record($0) } ?? .missing }
  }

  /// Whether it is remembered that no file had it.
  func isAbsent(_ key: String) -> Bool { absences.contains(RecordKey(key)) }

  /// No file has it, so that none need be looked for when a response is stored.
  mutating func noteAbsence(of key: String, storedSince count: UInt64) {
    guard !insertions.has(key, storedSince: count) else { return }
    if absences.count >= Self.rememberedAbsences { absences.removeAll(keepingCapacity: true) }
    absences.insert(RecordKey(key))
  }

  /// How many records have been stored.
  var storedCount: UInt64 { insertions.count }

  /// Keeps what a file has.
  ///
  /// - Parameter count: how many records had been stored when it was about to be read.
  /// - Returns: false: another one of that key has been stored since, wherever it is now, and the file may be an older one.
  mutating func take(_ record: CacheRecord, storedSince count: UInt64) -> Bool {
    if !absences.isEmpty { absences.remove(RecordKey(record.key)) }
    guard !insertions.has(record.key, storedSince: count) else { return false }
    memory.insert(record, isFiled: true)
    return true
  }

  // MARK: Storing

  /// The order of what was stored last under a key, as far as it is remembered: that in memory is, and the latest of others; 0: none is.
  private func order(of key: String) -> UInt64 { max(memory.order(of: key), insertions.order(of: key)) }

  private func accepts(_ key: String, first: String, since stamp: ResponseCache.Stamp) -> Bool {
    !isRemoved(first, since: stamp.epoch) && order(of: key) <= stamp.order
  }

  private mutating func keep(_ record: CacheRecord, order: UInt64, isFiled: Bool) {
    memory.insert(record, order: order, isFiled: isFiled)
    insertions.note(record.key, order)
    if !absences.isEmpty { absences.remove(RecordKey(record.key)) }
  }

  /// Keeps a record, unless its URL was removed since it was asked for, or what was asked for later is there.
  ///
  /// - Parameter first: what `remove` knows it by.
  /// - Returns: whether the writer has to run a job.
  mutating func insert(
    _ record: CacheRecord, first: String, _ filing: Filing, since stamp: ResponseCache.Stamp
  ) -> Bool {
    guard accepts(record.key, first: first, since: stamp) else { return false }
    keep(record, order: stamp.order, isFiled: filing == .written)
    switch filing {
    case .none: return false
    case .forbidden: return pending.note(.remove, for: record.key)
    case .written: return note(.write(record), for: record.key)
    }
  }

  private mutating func note(_ change: PendingChanges.Change, for key: String) -> Bool {
    let needsJob = pending.note(change, for: key)
    // There was no room for it.
    if pending.isRemoving(key) { memory.setFiled(key, false) }
    return needsJob
  }

  /// The generation of the responses of a URL that vary by these names: a new one unless such are stored, so that what was stored before a
  /// removal is not found after it; and whether the writer has to run a job.
  ///
  /// - Parameter filed: what a file has of the URL, where nothing else was known of it.
  /// - Returns: nil: what is there was asked for later.
  mutating func generation(
    _ names: [String], first: String, filed: FiledNames? = nil, _ filing: Filing, since stamp: ResponseCache.Stamp
  ) -> (number: UInt64, needsJob: Bool)? {
    if let known = knownGeneration(first, names) {
      let record = CacheRecord.variants(key: first, names: names, generation: known)
      return (known, renew(record, filing, since: stamp))
    }
    if let filed, case .variants(_, names, let generation) = filed.record, step(first) == nil, !pending.isRemovingAll,
      !isRemoved(first, since: filed.epoch), !insertions.has(first, storedSince: filed.count)
    {
      return (generation, renew(filed.record, filing, since: stamp, isFiled: true))
    }
    guard order(of: first) <= stamp.order else { return nil }
    let number = UInt64.random(in: 1...UInt64.max)
    let record = CacheRecord.variants(key: first, names: names, generation: number)
    return (number, insert(record, first: first, filing, since: stamp))
  }

  private mutating func knownGeneration(_ first: String, _ names: [String]) -> UInt64? {
    guard case .variants(_, names, let generation)? = memory.record(for: first) ?? pending[first]?.record else {
      return nil
    }
    return generation
  }

  /// Names under which more is stored are written once, and then only looked for: whoever has removed them, in another process, must not find there
  /// again what they lead to.
  private mutating func renew(
    _ record: CacheRecord, _ filing: Filing, since stamp: ResponseCache.Stamp, isFiled: Bool = false
  ) -> Bool {
    let first = record.key
    guard accepts(first, first: first, since: stamp) else { return false }
    let (isFiled, change) = (isFiled || memory.isFiled(first), pending[first])
    let isPending = change?.record != nil
    keep(record, order: stamp.order, isFiled: isFiled || isPending || filing == .written)
    guard filing == .written, !isPending else { return false }
    // A removal that waits is that of an older file.
    return note(isFiled && change == nil && !pending.isRemovingAll ? .confirm(record) : .write(record), for: first)
  }

  /// A step of what is to become of the files is done.
  ///
  /// - Parameter isThere: whether the record has its file.
  mutating func settle(_ step: PendingChanges.Step, isThere: Bool) {
    pending.settle(step)
    guard !isThere, case .change(let turn) = step,
      case .variants(let first, let names, let generation)? = turn.change.record,
      knownGeneration(first, names) == generation
    else { return }
    switch turn.change {
    // Somebody else has made its URL forgotten, if it was not in the way of something else. What is here may be from before that.
    case .confirm: remove(first)
    case .write: memory.setFiled(first, false)
    case .remove: break
    }
  }

  // MARK: Removing

  func isRemoved(_ first: String, since epoch: UInt64) -> Bool { removals.has(first, since: epoch) }

  mutating func remove(_ first: String) {
    removals.note(first)
    memory.remove(first)
  }

  /// How many records have been stored, where it is the file of a key itself that holds; nil: something waits to be done to it, or is being done.
  func settledCount(of key: String) -> UInt64? { pending[key] == nil && !pending.isRemovingAll ? storedCount : nil }

  /// The same as `remove`, from the files too.
  ///
  /// - Parameter count: what `settledCount` said before it was found that there is no file; nil: there may be one.
  /// - Returns: whether the writer has to run a job.
  mutating func removeFiled(_ first: String, missingSince count: UInt64?) -> Bool {
    remove(first)
    // Nothing else of ours makes one than what is stored. What another process has stored since that look came after this removal.
    if count == storedCount { return false }
    return pending.note(.remove, for: first)
  }

  mutating func removeAll() {
    memory.removeAll()
    removals.noteAll()
  }
}
