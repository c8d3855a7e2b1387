internal import CLupineLinux

/// An open directory. Files are named by it and not by a path, which somebody could change. Every method blocks, but
/// `readAtOnce`: call them on `FileThreads` only.
package final class Directory: Sendable {
  /// Where it was when it was opened.
  package let path: String
  let descriptor: Descriptor

  private init(_ descriptor: consuming Descriptor, path: String) {
    self.descriptor = descriptor
    self.path = path
  }

  /// Opens a directory of the user's.
  package static func open(_ path: String) throws(IOError) -> Directory {
    Directory(try SystemCalls.open(path, O_RDONLY | O_DIRECTORY), path: path)
  }

  /// Opens `lupine-<user>` below `parent`, or below the system's directory for temporary files; makes it, for its owner alone, if it is
  /// not there.
  ///
  /// - Throws: `.untrusted` if what has the name is a link, somebody else's, or open to others: `/tmp` is everybody's.
  package static func openPrivate(in parent: String?) throws(IOError) -> Directory {
    let path = privatePath(in: parent)
    try SystemCalls.makeDirectory(path)
    return try trusted(path)
  }

  static func trusted(_ path: String) throws(IOError) -> Directory {
    let descriptor: Descriptor
    do throws(IOError) {
      descriptor = try SystemCalls.open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
    } catch {
      if case .notFound(ENOTDIR) = error { throw .untrusted }
      throw error == .symbolicLink ? .untrusted : error
    }
    let ownership = try SystemCalls.ownership(descriptor)
    guard ownership.isDirectory, ownership.isOurs, !ownership.isShared else { throw .untrusted }
    return Directory(descriptor, path: path)
  }

  /// The path of `openPrivate`.
  package static func privatePath(in parent: String?) -> String {
    let parent = parent ?? SystemCalls.temporaryDirectory
    return (parent.hasSuffix("/") ? parent : parent + "/") + "lupine-\(SystemCalls.effectiveUser)"
  }

  /// Which file system it is on: files move between directories of one in one step.
  package func isOnFileSystem(of other: Directory) throws(IOError) -> Bool {
    try SystemCalls.ownership(descriptor).device == SystemCalls.ownership(other.descriptor).device
  }

  /// Makes a new file that only its owner may read and write, locked; throws `alreadyExists` rather than follow a link or open what is there.
  package func create(_ name: String) throws(IOError) -> File {
    let file = File(
      try SystemCalls.open(name, in: descriptor, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600))
    do throws(IOError) {
      try SystemCalls.lock(file.descriptor)
    } catch {
      // Somebody who has locked it by now has it.
      if error != .inUse { try? remove(name) }
      throw error
    }
    return file
  }

  /// Opens a file that is there, to go on writing it, locked.
  ///
  /// - Throws: `.symbolicLink`; `.untrusted` unless it is a regular file of ours with one name; `.inUse` if somebody has locked it, or has just had; `.notFound`.
  package func reopen(_ name: String) throws(IOError) -> File {
    let file = File(try SystemCalls.open(name, in: descriptor, O_RDWR | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK))
    let ownership = try SystemCalls.ownership(file.descriptor)
    guard ownership.isRegular, ownership.isOurs, ownership.links == 1 else { throw .untrusted }
    try SystemCalls.lock(file.descriptor)
    // Whoever had it locked until now may have moved it to where it was to go, or removed it.
    let named = try SystemCalls.open(name, in: descriptor, O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)
    guard try SystemCalls.ownership(named).isSameFile(as: ownership) else { throw .inUse }
    return file
  }

  /// Removes a file; a link itself, not what it leads to.
  package func remove(_ name: String) throws(IOError) { try SystemCalls.unlink(name, in: descriptor) }

  /// Moves a file to a path, in one step: nobody sees it half there. Without `overwriting` an empty file may be seen there before, on file systems that
  /// know no other way (`SystemCalls.WayToNewPath`).
  ///
  /// - Throws: `.alreadyExists` unless `overwriting`, and then for a device, a FIFO or a socket; `.crossDevice`.
  package func rename(_ name: String, to path: String, overwriting: Bool) throws(IOError) {
    try SystemCalls.rename(name, in: descriptor, to: path, overwriting: overwriting)
  }

  /// Waits until the disk has the names.
  package func synchronize() throws(IOError) { try SystemCalls.synchronize(descriptor) }
}
