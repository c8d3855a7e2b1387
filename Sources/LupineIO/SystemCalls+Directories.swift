internal import CLupineLinux

/// Calls that name a file by its directory's descriptor, so that nobody can put another directory in its place meanwhile.
extension SystemCalls {
  /// Makes a directory for its owner alone; one that is there already is as good.
  static func makeDirectory(_ path: String) throws(IOError) {
    guard !path.isEmpty, !path.utf8.contains(0) else { throw .badPath }
    do throws(IOError) {
      _ = try value(.makeDirectory, invalidArgumentTraps: false) { Int(unsafe mkdir(path, 0o700)) }
    } catch  where error == .alreadyExists {}
  }

  static func open(
    _ name: String, in directory: borrowing Descriptor, _ flags: Int32, mode: mode_t = 0
  ) throws(IOError) -> Descriptor {
    guard !name.isEmpty, !name.utf8.contains(0) else { throw .badPath }
    let number = directory.number
    return try descriptor(.open) { unsafe clupine_open_at(number, name, flags | O_CLOEXEC, mode) }
  }

  static func unlink(_ name: String, in directory: borrowing Descriptor) throws(IOError) {
    guard !name.isEmpty, !name.utf8.contains(0) else { throw .badPath }
    let number = directory.number
    _ = try value(.unlink, invalidArgumentTraps: false) { Int(unsafe unlinkat(number, name, 0)) }
  }

  /// Gives a file of a directory another path; what has that path is replaced, or an error.
  static func rename(
    _ name: String, in directory: borrowing Descriptor, to path: String, overwriting: Bool
  ) throws(IOError) {
    guard ![name, path].contains(where: { $0.isEmpty || $0.utf8.contains(0) }) else { throw .badPath }
    let number = directory.number
    guard !overwriting else {
      try refuseSpecial(path)
      _ = try value(.rename, invalidArgumentTraps: false) { Int(unsafe renameat(number, name, AT_FDCWD, path)) }
      return
    }
    for way in WayToNewPath.allCases {
      do throws(IOError) {
        return try rename(name, in: directory, to: path, by: way)
      } catch  where way.isUnknown(error) {}
    }
  }

  /// How a file is given a path that nothing has. The file system may not know the first ones: NFS renames over whatever is there, and folders that are
  /// shared with the host of a virtual machine have no links either.
  enum WayToNewPath: CaseIterable, Sendable {
    /// In one step, which is refused where something is.
    case rename
    /// A second name, which is refused likewise, and then the first no more.
    case link
    /// An empty file, which is refused likewise, and then the file in its place: others may see it, but it takes nothing from anybody.
    case reservation

    /// Whether the error of this way says that there is none, and not that something is wrong with the file or the path.
    func isUnknown(_ error: IOError) -> Bool {
      switch self {
      // EPERM is what an older filter of system calls says; where it is the file's, it comes again.
      case .rename: [EINVAL, ENOSYS, EPERM].contains(error.code)
      case .link: [EPERM, EOPNOTSUPP, ENOSYS, EINVAL, EMLINK].contains(error.code)
      case .reservation: false
      }
    }
  }

  static func rename(
    _ name: String, in directory: borrowing Descriptor, to path: String, by way: WayToNewPath
  ) throws(IOError) {
    let number = directory.number
    switch way {
    case .rename:
      _ = try value(.rename, invalidArgumentTraps: false) { Int(unsafe clupine_rename_new(number, name, path)) }
    case .link:
      _ = try value(.link, invalidArgumentTraps: false) { Int(unsafe linkat(number, name, AT_FDCWD, path, 0)) }
      try unlink(name, in: directory)
    case .reservation:
      let reserved = try open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
      do throws(IOError) {
        try reserved.close()
        _ = try value(.rename, invalidArgumentTraps: false) { Int(unsafe renameat(number, name, AT_FDCWD, path)) }
      } catch {
        try? unlink(path)
        throw error
      }
    }
  }

  /// What decides whether a file or directory can be trusted.
  struct Ownership {
    var isDirectory: Bool
    var isRegular: Bool
    var isOurs: Bool
    /// Whether group or others may do anything.
    var isShared: Bool
    var links: Int
    var device: UInt64
    /// Its number on the device.
    var inode: UInt64

    func isSameFile(as other: Ownership) -> Bool { device == other.device && inode == other.inode }
  }

  static func ownership(_ file: borrowing Descriptor) throws(IOError) -> Ownership {
    let number = file.number
    var status = stat()
    _ = try value(.status, invalidArgumentTraps: true) { Int(unsafe fstat(number, &status)) }
    let kind = Int32(status.st_mode) & Int32(S_IFMT)
    return Ownership(
      isDirectory: kind == Int32(S_IFDIR), isRegular: kind == Int32(S_IFREG), isOurs: status.st_uid == geteuid(),
      isShared: status.st_mode & 0o077 != 0, links: Int(status.st_nlink),
      device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
  }

  /// Locks a file against others who do the same, until its last descriptor is closed. File systems without locks are let pass.
  static func lock(_ file: borrowing Descriptor) throws(IOError) {
    let number = file.number
    do throws(IOError) {
      guard try value(.lock, invalidArgumentTraps: false, { Int(flock(number, LOCK_EX | LOCK_NB)) }) != nil else {
        throw .inUse
      }
    } catch  where [ENOLCK, EOPNOTSUPP, ENOSYS].contains(error.code) {}
  }

  /// Gives a lock back; one that was never had is fine.
  static func unlock(_ file: borrowing Descriptor) { _ = flock(file.number, LOCK_UN) }

  /// The user whose rights this process has.
  static var effectiveUser: UInt32 { geteuid() }

  /// What the environment says of the place for temporary files; only an absolute path counts.
  static var temporaryDirectory: String {
    guard let path = Environment.variable("TMPDIR"), path.hasPrefix("/") else { return "/tmp" }
    return path
  }
}
