internal import Glibc
internal import LupineRules

/// Names in the file system.
enum FileSystem {
  /// Whether there is anything of that name; a link counts as what it leads to.
  static func exists(_ path: String) -> Bool {
    identity(path) != nil
  }

  /// The same, where what cannot be known must not count as nothing: a link of somebody else's in a directory of all, say, which the system does not
  /// follow, and a replacement of what it leads to would.
  static func isThere(_ path: String) throws(System.Failure) -> Bool {
    // To the system it is missing, and yet nothing can be made of it.
    guard !path.isEmpty else { throw System.Failure(operation: "an empty path names no file", code: ENOENT) }
    if exists(path) { return true }
    guard [ENOENT, ENOTDIR].contains(errno) else { throw System.Failure(operation: "cannot find \(path)", code: errno) }
    return false
  }

  /// The size of a regular file; nil if there is none.
  static func size(_ path: String) -> Int64? {
    identity(path)?.size
  }

  /// What there is to know of a file; a link counts as what it leads to.
  static func identity(_ path: String) -> stat? {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? status : nil
  }

  /// What there is to know of a name; a link counts as itself.
  static func identity(ofLink path: String) -> stat? {
    var status = stat()
    return unsafe lstat(path, &status) == 0 ? status : nil
  }

  /// Whether the name itself is that of a symbolic link, wherever it leads.
  static func isLink(_ path: String) -> Bool { isOfType(S_IFLNK, identity(ofLink: path)) }

  /// Whether it is a pipe, or a link to one, as what a shell puts in the place of `<(command)`.
  static func isPipe(_ path: String) -> Bool { isOfType(S_IFIFO, identity(path)) }

  private static func isOfType(_ type: mode_t, _ status: stat?) -> Bool {
    status.map { $0.st_mode & S_IFMT == type } ?? false
  }

  /// Refuses a file that cannot be opened. A pipe is left alone: it can be read once, and opening it is a word to its writer.
  static func checkReadable(_ path: String) throws(System.Failure) {
    guard !isPipe(path) else { return }
    _ = try InputFile(path, waits: false)
  }

  /// Refuses a file that is there and that the user may not write: who may write in its directory could put another one in its place all the same.
  static func checkWritable(_ path: String) throws(System.Failure) {
    guard unsafe faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0, [EACCES, EROFS].contains(errno) else { return }
    throw System.Failure(operation: "cannot write \(path)", code: errno)
  }

  /// The whole path of a file, with no links in it, whether it is there or not: two names of one file have the same. The system alone says where a path
  /// leads: to it `~` is a name like any other, and `..` behind a link is what the folder is in that the link leads to. Where no file can be, the path as
  /// it is.
  static func resolved(_ path: String) -> String {
    var path = path
    // Links that lead to nothing yet are followed here, as the system does when it makes a file; at most as many as the system follows.
    for _ in 0..<40 {
      if let real = realPath(path) { return real }
      guard let target = destination(ofLink: path) else { break }
      path = target.utf8.first == UInt8(ascii: "/") ? target : "\(folder(of: path))\(target)"
    }
    let parent = folder(of: path)
    guard let real = realPath(parent.isEmpty ? "." : parent) else { return path }
    return "\(real == "/" ? "" : real)/\(name(of: path))"
  }

  /// The path without links of what is there; nil if nothing is, or if the path is no text.
  private static func realPath(_ path: String) -> String? {
    guard let found = unsafe realpath(path, nil) else { return nil }
    defer { unsafe free(found) }
    return unsafe String(validatingCString: found)
  }

  /// What a link says; nil if it is none, or says what is no text.
  private static func destination(ofLink path: String) -> String? {
    // No path is longer.
    var target = [CChar](repeating: 0, count: 4096)
    let count = unsafe readlink(path, &target, target.count)
    guard count > 0 else { return nil }
    return String(validating: target.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// What stands before the name of a file, with its slash. By bytes: with a mark behind it a slash is another character.
  static func folder(of path: String) -> String {
    path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(decoding: path.utf8[...$0], as: UTF8.self) } ?? ""
  }

  /// The rest: the name of a file in its folder.
  static func name(of path: String) -> String {
    String(decoding: path.utf8.dropFirst(folder(of: path).utf8.count), as: UTF8.self)
  }

  /// Replaces a file, but no device, FIFO or socket, nor a link to one.
  static func rename(_ from: String, to: String) throws(System.Failure) {
    if exists(to), size(to) == nil { throw System.Failure(operation: "cannot replace \(to)", code: EEXIST) }
    guard unsafe Glibc.rename(from, to) == 0 else {
      throw System.Failure(operation: "cannot rename \(from) to \(to)", code: errno)
    }
  }

  /// Renames a file and replaces nothing.
  ///
  /// - Returns: false if something has that name already.
  static func renameUnlessTaken(_ from: String, to: String) throws(System.Failure) -> Bool {
    if unsafe link(from, to) == 0 {
      remove(from)
      return true
    }
    if errno == EEXIST { return false }
    // A file system that has no links, such as those of memory cards, leaves a moment between look and deed.
    guard [EPERM, EOPNOTSUPP, ENOSYS, EMLINK].contains(errno) else {
      throw System.Failure(operation: "cannot rename \(from) to \(to)", code: errno)
    }
    if isTaken(to) { return false }
    try rename(from, to: to)
    return true
  }

  /// Removes a file; a missing one is no error.
  static func remove(_ path: String) {
    unsafe unlink(path)
  }

  /// Whether there is anything of that name, also a link that leads nowhere.
  static func isTaken(_ path: String) -> Bool { identity(ofLink: path) != nil }

  /// The name, or "name-1.ext" and so on if it is taken, complete or in part.
  static func unusedName(_ name: String) -> String {
    func isTaken(_ name: String) -> Bool {
      let part = PartFile.path(for: name)
      return [name, part, PartFile.recordPath(part)].contains { Self.isTaken($0) }
    }
    guard isTaken(name) else { return name }
    // What is longer is no extension, and no room for a number.
    let dot = name.lastIndex(of: ".").flatMap { name[$0...].utf8.count <= 32 ? $0 : nil } ?? name.endIndex
    for number in 1... {
      let ending = "-\(number)\(name[dot...])"
      let beginning = name[..<dot].cut(toBytes: max(1, SafeFileName.maximumLength - ending.utf8.count))
      let candidate = "\(beginning)\(ending)"
      if !isTaken(candidate) { return candidate }
    }
    return name
  }
}
