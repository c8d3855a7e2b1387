internal import LupineRules
internal import LupineSession
internal import LupineWire

/// The incomplete file of a download, `NAME.part`, and `NAME.part.resume` beside it, which says of which version how much is there
/// (Docs/ResumeData.md): a later attempt goes on with the same bytes or starts again, also if this process is killed.
///
/// The second file is written again every second or so, after the first has reached the disk. It is never ahead of it. The first is locked
/// until it has its final name, and so is what has that name until then: see `FileLocks.swift`.
final class PartFile {
  /// What the server said of what it sends.
  struct Version {
    var url: ParsedURL
    var source: ResumeSource
    var validator: ResumeValidator
    var total: Int64?
  }

  /// Often enough to lose little, seldom enough to cost nothing: at least this, and ten times what the last one took.
  private static let interval: Int64 = 1_000_000_000

  let path: String
  private(set) var size: Int64
  /// Whether something else began the file: then its length alone says where to go on.
  let isAdopted: Bool
  /// Whether nothing is left of it.
  private(set) var isRemoved = false
  /// Whether the system could not keep what it had taken. It says so once, and as if nothing had been asked for after that: nothing more is noted.
  private var hasLosses = false
  private let file: OutputFile
  /// What has the final name until this is complete, and is replaced then.
  private var replaced: OutputFile?
  /// How much there was to begin with.
  private let beginning: Int64
  private var version: Version?
  private var headHash: [UInt8]?
  private var nextCheckpoint: Int64 = 0
  /// How much there was when it was noted last.
  private var noted: Int64?
  private var recordPath: String { Self.recordPath(path) }

  private init(
    _ file: OutputFile, _ path: String, size: Int64, isAdopted: Bool = false, replacing replaced: OutputFile? = nil
  ) {
    self.file = file
    self.replaced = replaced
    self.isAdopted = isAdopted
    self.path = path
    self.size = size
    beginning = size
  }

  static func recordPath(_ path: String) -> String { path + ".resume" }

  /// A name that a server has chosen, changed where it is that of a part or of a record: who can write both says how the file of another server begins.
  static func unreserved(_ name: String) -> String {
    guard [".part", ".part.resume", ".part.resume.new"].contains(where: { name.hasSuffix($0) }),
      let dot = name.lastIndex(of: ".")
    else { return name }
    return "\(name[..<dot])_\(name[name.index(after: dot)...])"
  }

  /// What stands beside the record while it is written.
  private static func freshRecordPath(_ path: String) -> String { recordPath(path) + ".new" }

  /// What a file is called until it is complete: its name with `.part`. Of a name so long that no file system would take all that is beside it,
  /// the beginning with a hash of the whole.
  static func path(for final: String) -> String {
    let name = FileSystem.name(of: final)
    let room = SafeFileName.maximumLength - freshRecordPath(".part").utf8.count
    // What no file system takes in the end is refused at once.
    guard (room + 1...SafeFileName.maximumLength).contains(name.utf8.count) else { return final + ".part" }
    let hash = ResumeHash.digest(Array(name.utf8).span).prefix(8)
    let ending = "-" + hash.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    return String(decoding: final.utf8.dropLast(name.utf8.count), as: UTF8.self)
      + name.cut(toBytes: room - ending.utf8.count) + ending + ".part"
  }

  /// Begins anew, whatever is there.
  ///
  /// - Parameter final: the name that it is to get, where it may replace what has it.
  /// - Throws: `CommandFailure` if another run is writing one of them.
  static func create(_ path: String, replacing final: String? = nil) throws -> PartFile {
    let replaced = try final.flatMap { try OutputFile.replaceable($0) }
    // What cannot be opened, such as a link, is nobody's download.
    let former = try? OutputFile(reopening: path)
    // Not let go before there is a new one, or another run could take the name meanwhile.
    defer { withExtendedLifetime(former) {} }
    if let former { try lock(former) }
    FileSystem.remove(recordPath(path))
    FileSystem.remove(path)
    let file = try OutputFile(creating: path, toReplace: final)
    try lock(file)
    return PartFile(file, path, size: 0, replacing: replaced)
  }

  /// Begins where nothing is; nil if something is.
  static func createNew(_ path: String) throws -> PartFile? {
    do throws(System.Failure) {
      let file = try OutputFile(creating: path)
      return try file.lock() ? PartFile(file, path, size: 0) : nil
    } catch  where error.code == System.Failure.exists {
      return nil
    }
  }

  /// Goes on with a file of which nothing is known but its length; nil if there is none, or nothing in it.
  static func adopt(_ path: String) throws -> PartFile? {
    // Of a file in which there is nothing, the name alone counts: it need not be one that can be written.
    guard let known = FileSystem.size(path), known > 0 else { return nil }
    let file = try OutputFile(reopening: path)
    try lock(file)
    guard let size = file.size, size > 0 else { return nil }
    return PartFile(file, path, size: size, isAdopted: true)
  }

  /// Goes on with what an earlier attempt left; nil if there is nothing, or not what was noted, or it was of another resource. Of what is not
  /// ours alone somebody else may know the beginning, or have it elsewhere.
  ///
  /// - Parameter final: as of `create`.
  static func reopen(
    _ path: String, for url: ParsedURL, replacing final: String? = nil
  ) throws -> (PartFile, ResumeRecord)? {
    guard isBeginning(path, of: url) else { return nil }
    let replaced = try final.flatMap { try OutputFile.replaceable($0) }
    let file = try OutputFile(reopening: path)
    guard file.isOursAlone else { return nil }
    try lock(file)
    // What another run had noted until it was locked is old.
    guard let record = record(path, of: url) else { return nil }
    let hashes = try hashes(of: file, upTo: record.offset)
    guard hashes == (record.headHash, record.tailHash) else { return nil }
    let part = PartFile(file, path, size: record.offset, replacing: replaced)
    part.noted = record.offset
    return (part, record)
  }

  /// Whether an earlier attempt at this resource left the file, by what was noted.
  static func isBeginning(_ path: String, of url: ParsedURL) -> Bool {
    FileSystem.size(path) != nil && record(path, of: url) != nil
  }

  /// A query may differ, as the same file is often signed anew, if there is a tag: files of one date are many.
  private static func record(_ path: String, of url: ParsedURL) -> ResumeRecord? {
    guard let bytes = try? InputFile(oursAlone: recordPath(path))?.contents(limit: 1 << 16),
      let record = try? ResumeRecord(decoding: bytes), record.partialName == FileSystem.name(of: path),
      record.url.origin == url.origin, record.url.path == url.path,
      record.url.target == url.target || record.validator.isEntityTag
    else { return nil }
    return record
  }

  private static func lock(_ file: OutputFile) throws {
    guard try file.lock() else { throw CommandFailure.isBeingWritten(file.path) }
  }

  /// Says what the bytes are that come now; nil: of no version that could be gone on from.
  func begin(_ version: Version?) {
    self.version = version
    if version == nil { removeRecord() }
  }

  /// How much a later attempt finds, if it can go on. Where nothing can be noted any more, as on a full disk, that is what was noted last.
  func remainder() -> Int64? {
    isAdopted || (try? checkpoint()) == true ? size : noted
  }

  /// Drops what lies behind the place where it goes on. Not before the answer is to go on there: until then the file may be all there is.
  func goOn() throws(System.Failure) {
    try file.truncate(to: size)
  }

  /// What came behind an offset is not what was announced: nothing goes on from it, so that the file goes, its name being free again for the next attempt;
  /// one that something else began is what it was.
  func giveUp(to offset: Int64) throws(System.Failure) {
    begin(nil)
    guard isAdopted else {
      // While it is locked: nobody else has begun one of that name.
      FileSystem.remove(path)
      isRemoved = true
      return
    }
    try file.truncate(to: offset)
    size = offset
  }

  func append(_ bytes: [UInt8]) throws(System.Failure) {
    do {
      try file.write(bytes, at: size)
      size += Int64(bytes.count)
    } catch {
      // A disk that is full has taken the first of them.
      size = max(size, min(file.size ?? 0, size + Int64(bytes.count)))
      throw error
    }
    let now = System.now()
    guard version != nil, now >= nextCheckpoint else { return }
    try checkpoint()
    let cost = System.now() - now
    nextCheckpoint = now + max(Self.interval, 10 * cost)
  }

  /// Notes what is there.
  ///
  /// - Returns: whether a later attempt can go on.
  @discardableResult
  func checkpoint() throws(System.Failure) -> Bool {
    guard let version, size > 0, !hasLosses else { return false }
    try keeping { () throws(System.Failure) in try file.synchronize() }
    let (head, tail) = try Self.hashes(of: file, upTo: size, head: headHash)
    if size >= ResumeRecord.headSpan { headHash = head }
    guard
      let bytes = try? ResumeRecord(
        url: version.url, source: version.source, validator: version.validator, offset: size, total: version.total,
        headHash: head, tailHash: tail, partialName: FileSystem.name(of: path), createdAt: System.secondsSince1970()
      ).encoded()
    else { return false }
    // In one step, so that there is always a whole one; for its owner alone, as the query of the URL may be signed.
    let fresh = Self.freshRecordPath(path)
    FileSystem.remove(fresh)
    do {
      try OutputFile(creating: fresh, mode: 0o600).write(bytes, at: 0)
      try FileSystem.rename(fresh, to: recordPath)
    } catch {
      FileSystem.remove(fresh)
      throw error
    }
    noted = size
    return true
  }

  /// Asks the system whether it keeps what it has taken. If not, nothing tells which bytes are missing: what something else began is what it was.
  private func keeping(_ ask: () throws(System.Failure) -> Void) throws(System.Failure) {
    do throws(System.Failure) {
      try ask()
    } catch {
      hasLosses = true
      if isAdopted {
        try? file.truncate(to: beginning)
        size = beginning
      }
      throw error
    }
  }

  /// Whether the file still has its name, which another program may have given away.
  var hasItsName: Bool { file.hasName(path) }

  /// Gives the complete file its name, or one like it if that is taken and may not be replaced.
  ///
  /// - Returns: the name that it has.
  /// - Throws: also `CommandFailure`, if another run is writing what would be replaced, or if a stranger has taken the place of the file.
  func finish(as final: String, replacing: Bool) throws -> String {
    try keeping { () throws(System.Failure) in try file.flush() }
    guard hasItsName else {
      throw CommandFailure(.failure, "\(path) was taken away or replaced while it was written; what came is lost")
    }
    guard !isAdopted else { return path }
    var name = final
    if replacing {
      // It may be another one than it was in the beginning.
      if replaced?.hasName(final, followingLinks: true) != true { replaced = try OutputFile.replaceable(final) }
      file.takePermissions(of: final)
      try FileSystem.rename(path, to: name)
    } else {
      while try !FileSystem.renameUnlessTaken(path, to: name) { name = FileSystem.unusedName(final) }
    }
    removeRecord()
    return name
  }

  /// A file that something else began has none: what is called like it is the user's.
  private func removeRecord() {
    noted = nil
    if !isAdopted { FileSystem.remove(recordPath) }
  }

  private static func hashes(
    of file: OutputFile, upTo offset: Int64, head known: [UInt8]? = nil
  ) throws(System.Failure) -> (head: [UInt8], tail: [UInt8]) {
    var head = known
    if head == nil {
      let bytes = try file.read(at: 0, count: Int(min(offset, ResumeRecord.headSpan)))
      head = ResumeHash.digest(bytes.span)
    }
    let start = max(0, offset - ResumeRecord.tailSpan)
    let tail = try file.read(at: start, count: Int(offset - start))
    return (head ?? [], ResumeHash.digest(tail.span))
  }
}
