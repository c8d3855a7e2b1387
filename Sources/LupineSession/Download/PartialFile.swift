internal import FoundationEssentials
internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineRules

/// Where the unfinished files of a session's downloads are: in a folder that is the user's alone, below a directory for temporary files.
struct PartialPlace: Sendable, Hashable {
  /// Nil: the system's directory for temporary files.
  var parent: String?

  func open() throws(IOError) -> Directory { try Directory.openPrivate(in: parent) }

  var path: String { Directory.privatePath(in: parent) }
}

/// A file that a download is writing. Methods block: on file threads only.
final class PartialFile: Sendable {
  let directory: Directory
  let name: String
  let file: File
  /// Whether it is in the folder, where resume data can name it, and not beside its destination.
  let isInFolder: Bool

  private init(_ file: File, _ name: String, in directory: Directory, isInFolder: Bool = true) {
    self.file = file
    self.name = name
    self.directory = directory
    self.isInFolder = isInFolder
  }

  var path: String { "\(directory.path)/\(name)" }

  /// A new, empty one under a name that nobody can guess.
  ///
  /// - Parameter destination: the directory where it will go. If that is on another file system than the folder, which may be memory, the file
  ///   is made there, under a hidden name, so that it need not be copied when it is complete.
  static func create(in place: PartialPlace, for destination: String? = nil) throws(IOError) -> PartialFile {
    let directory = try place.open()
    let name = UUID().uuidString + ".part"
    // A directory that may be written but not listed cannot be opened: then the file is copied in the end.
    if let destination, let target = try? Directory.open(destination), try !target.isOnFileSystem(of: directory) {
      let hidden = ".lupine-" + name
      return PartialFile(try target.create(hidden), hidden, in: target, isInFolder: false)
    }
    return PartialFile(try directory.create(name), name, in: directory)
  }

  /// The same bytes in the folder; this one is removed.
  func movedIntoFolder(_ place: PartialPlace, count: Int64) throws(IOError) -> PartialFile {
    let moved = try PartialFile.create(in: place)
    do throws(IOError) {
      try file.copy(to: moved.file, count: count)
    } catch {
      moved.remove()
      throw error
    }
    remove()
    return moved
  }

  /// The one that a record is about, cut to the bytes that count; nil if it is gone, changed, shorter, in use, or not safely ours.
  ///
  /// The record may come from anywhere: nothing is opened but a regular file of the folder that has no other name, and nothing is changed
  /// in it before its bytes have proved to be the record's.
  static func reopen(_ record: ResumeRecord, in place: PartialPlace) -> PartialFile? {
    do throws(IOError) {
      let directory = try place.open()
      let file = try directory.reopen(record.partialName)
      guard let size = try file.size(), size >= record.offset,
        try hashes(of: file, upTo: record.offset) == (record.headHash, record.tailHash)
      else { return nil }
      if size > record.offset { try file.truncate(to: record.offset) }
      return PartialFile(file, record.partialName, in: directory)
    } catch {
      return nil
    }
  }

  /// Removes it; there is nobody to tell if it is gone already.
  func remove() { try? directory.remove(name) }

  /// Cuts the file to `offset`, waits for the disk, and says what is there.
  func record(
    _ version: DownloadVersion, url: ParsedURL, offset: Int64, createdAt: Int64
  ) throws -> ResumeRecord {
    try file.truncate(to: offset)
    try file.synchronize()
    let (head, tail) = try Self.hashes(of: file, upTo: offset)
    return try ResumeRecord(
      url: url, source: version.source, validator: version.validator, offset: offset, total: version.total,
      headHash: head, tailHash: tail, partialName: name, createdAt: createdAt)
  }

  private static func hashes(of file: File, upTo offset: Int64) throws(IOError) -> (head: [UInt8], tail: [UInt8]) {
    let head = try file.read(at: 0, count: Int(min(ResumeRecord.headSpan, offset)))
    let start = max(0, offset - ResumeRecord.tailSpan)
    let tail = try file.read(at: start, count: Int(offset - start))
    return (ResumeHash.digest(head.span), ResumeHash.digest(tail.span))
  }
}

/// What names the version of which a file holds the beginning.
struct DownloadVersion: Sendable {
  var validator: ResumeValidator
  /// What gave it.
  var source: ResumeSource
  var total: Int64?
}

extension Engine {
  /// The threads on which files of downloads are written.
  static func downloadThreads() throws(SessionError) -> FileThreads {
    do throws(IOError) {
      return try processFiles.get()
    } catch {
      throw SessionError(.system, phase: .file, message: "no thread for files: \(error)", underlying: error)
    }
  }
}
