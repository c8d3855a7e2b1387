/// Of two runs that write into one file neither could tell what is in it: each locks what it writes, and what it is to replace.
extension OutputFile {
  /// The file of `--output`: made, or emptied once it is locked. What is no regular file has neither content nor a lock, and where standard output or
  /// error is one and has that name, it is gone on with.
  ///
  /// - Throws: `CommandFailure` if another run is writing it.
  static func emptied(_ path: String) throws -> OutputFile {
    if FileSystem.size(path) != nil, FileSystem.isOfTheSystem(path), let output = OutputFile(standardStreamAt: path) {
      return output
    }
    let file = try OutputFile(keeping: path)
    guard file.size != nil else { return file }
    try file.lockLeniently()
    if file.size != 0 { try file.truncate(to: 0) }
    return file
  }

  /// The file whose name another one is to get, locked; nil if there is none, or none that can be.
  ///
  /// - Throws: `CommandFailure` if another run is writing it.
  static func replaceable(_ path: String) throws(CommandFailure) -> OutputFile? {
    guard let file = OutputFile(locking: path) else { return nil }
    try file.lockLeniently()
    return file
  }

  /// A file that no lock can be had of is written without one, as by any other program.
  private func lockLeniently() throws(CommandFailure) {
    guard (try? lock(followingLinks: true)) == false else { return }
    throw .isBeingWritten(path)
  }
}

extension CommandFailure {
  /// Another run, or another program, has the lock of a file.
  static func isBeingWritten(_ path: String) -> CommandFailure {
    CommandFailure(
      .failure,
      """
      another download is writing \(path)
              Wait until it ends, or give this one another name with --output FILE. A lock of any other program counts as well.
      """)
  }
}
