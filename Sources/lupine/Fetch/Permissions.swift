import Glibc

/// What replaces a file is for whom that was: what others may not read they cannot read afterwards, and a program can still be started.
extension OutputFile {
  /// Creates a file that is to get a name, where none is: open to nobody but its owner to whom the file of that name is closed.
  ///
  /// - Parameter final: nil: a name that nothing has.
  convenience init(creating path: String, toReplace final: String?) throws(System.Failure) {
    let permissions = final.flatMap { FileSystem.replaced($0)?.st_mode } ?? 0o644
    // Its owner goes on with it. Its group is not that of the other file yet, so that what only one of both may read is nobody's.
    try self.init(creating: path, mode: permissions & 0o044 == 0o044 ? 0o644 : 0o600)
  }

  /// Takes over the group and the permissions of a file before it gets its name; where a file system has none to give, nothing is to be done.
  func takePermissions(of path: String) {
    guard let former = FileSystem.replaced(path) else { return }
    let hasItsGroup =
      FileSystem.identity(self.path)?.st_gid == former.st_gid || fchown(descriptor, uid_t.max, former.st_gid) == 0
    fchmod(descriptor, Self.permissions(replacing: former.st_mode, hasItsGroup: hasItsGroup))
  }

  /// Who may do what with a file that replaces one of this mode, without what makes a program run as somebody else.
  ///
  /// - Parameter hasItsGroup: false, as in a group that is not the user's: then the members of either group were strangers to the other one, or are now.
  static func permissions(replacing mode: mode_t, hasItsGroup: Bool) -> mode_t {
    guard !hasItsGroup else { return mode & 0o777 }
    let both = mode >> 3 & mode & 0o007
    return mode & 0o700 | both << 3 | both
  }
}

extension FileSystem {
  /// What there is to know of a regular file that is to be replaced; nil if there is none. A link counts as what it leads to.
  fileprivate static func replaced(_ path: String) -> stat? {
    size(path) == nil ? nil : identity(path)
  }
}
