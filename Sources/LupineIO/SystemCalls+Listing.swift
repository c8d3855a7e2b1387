internal import CLupineLinux

/// What is in a directory, for those who keep many files there.
extension SystemCalls {
  /// What decides how long a file is kept.
  struct FileAttributes {
    var isRegular: Bool
    var size: Int64
    /// Nanoseconds since 1970.
    var modified: Int64
  }

  /// Nil if there is no such file.
  static func attributes(of name: String, in directory: borrowing Descriptor) throws(IOError) -> FileAttributes? {
    guard !name.isEmpty, !name.utf8.contains(0) else { throw .badPath }
    let number = directory.number
    var status = stat()
    do throws(IOError) {
      _ = try value(.status, invalidArgumentTraps: false) {
        Int(unsafe fstatat(number, name, &status, AT_SYMLINK_NOFOLLOW))
      }
    } catch {
      if case .notFound = error { return nil }
      throw error
    }
    return attributes(status)
  }

  static func attributes(_ file: borrowing Descriptor) throws(IOError) -> FileAttributes {
    let number = file.number
    var status = stat()
    _ = try value(.status, invalidArgumentTraps: true) { Int(unsafe fstat(number, &status)) }
    return attributes(status)
  }

  private static func attributes(_ status: stat) -> FileAttributes {
    // File systems keep times that are no nanoseconds in 64 bits; these here can be subtracted from any of today's.
    let seconds = min(max(Int64(status.st_mtim.tv_sec), -4_000_000_000), 9_000_000_000)
    return FileAttributes(
      isRegular: Int32(status.st_mode) & Int32(S_IFMT) == Int32(S_IFREG), size: Int64(status.st_size),
      modified: seconds * 1_000_000_000 + Int64(status.st_mtim.tv_nsec))
  }

  /// The names in a directory, but "." and "..", in no order. What comes and goes meanwhile may be among them or not.
  static func names(in directory: borrowing Descriptor) throws(IOError) -> [String] {
    let number = directory.number
    let opened = try descriptor(.open) { unsafe clupine_open_at(number, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) }
    let raw = opened.release()
    guard let stream = unsafe fdopendir(raw) else {
      let code = clupine_errno()
      _ = close(raw)
      throw IOError(.open, code: code)
    }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while true {
      clupine_clear_errno()
      guard let entry = unsafe readdir(stream) else { break }
      let name = unsafe String(cString: clupine_entry_name(entry))
      if name != ".", name != ".." { names.append(name) }
    }
    // The end is no error; half of a directory would look like a whole one.
    let code = clupine_errno()
    guard code == 0 else { throw IOError(.read, code: code) }
    return names
  }

  /// Opens a file if that needs no waiting: nil if it does, or the system cannot tell.
  static func openAtOnce(_ name: String, in directory: borrowing Descriptor, _ flags: Int32) throws(IOError)
    -> Descriptor?
  {
    guard !name.isEmpty, !name.utf8.contains(0) else { throw .badPath }
    let number = directory.number
    let opened = try value(.open, invalidArgumentTraps: false) {
      Int(unsafe clupine_open_cached(number, name, flags | O_CLOEXEC))
    }
    guard let opened else { return nil }
    return try Descriptor(adopting: Int32(opened)).aboveStandardStreams(.open)
  }

  /// Reads from the start of a file if that needs no waiting: nil if it does.
  static func readAtOnce(
    _ file: borrowing Descriptor, _ buffer: UnsafeMutableRawBufferPointer
  ) throws(IOError) -> Int? {
    let number = file.number
    return try value(.read, invalidArgumentTraps: false) {
      unsafe clupine_read_cached(number, buffer.baseAddress, buffer.count)
    }
  }

  /// The file was used now.
  static func touch(_ file: borrowing Descriptor) { _ = futimens(file.number, nil) }

  /// The same of a file of a directory. One that is gone was not used.
  static func touch(_ name: String, in directory: borrowing Descriptor) {
    _ = unsafe utimensat(directory.number, name, nil, AT_SYMLINK_NOFOLLOW)
  }

  /// Gives a file of a directory another name there, in one step; what has that name is replaced.
  static func rename(_ name: String, to other: String, in directory: borrowing Descriptor) throws(IOError) {
    guard ![name, other].contains(where: { $0.isEmpty || $0.utf8.contains(0) }) else { throw .badPath }
    let number = directory.number
    _ = try value(.rename, invalidArgumentTraps: false) { Int(unsafe renameat(number, name, number, other)) }
  }

  /// Locks a file against others who do the same, after waiting for them. File systems without locks are let pass.
  static func lockWaiting(_ file: borrowing Descriptor) throws(IOError) {
    let number = file.number
    do throws(IOError) {
      _ = try value(.lock, invalidArgumentTraps: false) { Int(flock(number, LOCK_EX)) }
    } catch  where [ENOLCK, EOPNOTSUPP, ENOSYS].contains(error.code) {}
  }
}
