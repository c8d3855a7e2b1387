import Glibc

/// What replaces a file is for whom that was: what others may not read they cannot read afterwards, and a program can still be started.
extension OutputFile {
  /// Creates a file that is to get a name, where none is: open to nobody but its owner to whom the file of that name is closed.
  ///
  /// - Parameter final: nil: a name that nothing has.
  convenience init(creating path: String, toReplace final: String?) throws(System.Failure) {
    let permissions = final.flatMap { FileSystem.permissions($0) } ?? 0o644
    // Its owner goes on with it.
    try self.init(creating: path, mode: 0o600 | 0o044 & permissions)
  }

  /// Takes over the permissions of a file before it gets its name; where a file system has none to give, nothing is to be done.
  func takePermissions(of path: String) {
    guard let permissions = FileSystem.permissions(path) else { return }
    fchmod(descriptor, permissions)
  }
}

extension FileSystem {
  /// Who may do what with a regular file, without what makes a program run as somebody else; nil if there is none. A link counts as what it leads to.
  fileprivate static func permissions(_ path: String) -> mode_t? {
    guard size(path) != nil, let status = identity(path) else { return nil }
    return status.st_mode & 0o777
  }
}
