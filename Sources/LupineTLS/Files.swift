internal import CLupineLinux
internal import Glibc

/// What tells one version of a file from another.
struct FileIdentity: Hashable, Sendable {
  private let numbers: [Int64]

  /// The identities of all files that a policy names, in a fixed order. Asks the system.
  static func all(of policy: TLSPolicy) -> [FileIdentity] {
    paths(of: policy).map(FileIdentity.init(path:))
  }

  /// The same for files that can be looked at without waiting for a disk or a server; nil if one of them cannot, or is not there.
  static func cached(_ paths: [String]) -> [FileIdentity]? {
    var found: [FileIdentity] = []
    for path in paths {
      guard let identity = FileIdentity(cachedPath: path) else { return nil }
      found.append(identity)
    }
    return found
  }

  /// Files of a directory that are looked at one by one; of more, the directory alone is.
  private static let entryLimit = 10_000

  /// The identities of the files that are read of a directory of roots, or that links in their place lead to, in the order of their names. Asks the
  /// system, once for each: not for a loop. Writing into one of them leaves the directory itself as it was.
  static func entries(of policy: TLSPolicy) -> [FileIdentity] {
    guard case .directory(let path) = policy.roots, let names = try? DirectoryListing.names(in: path) else { return [] }
    let wanted = RootStore.wanted(of: names)
    guard wanted.count <= entryLimit else { return [] }
    return wanted.map { FileIdentity(path: path + "/" + $0) }
  }

  /// Seconds, for what is kept of looks at files.
  static var uptime: Int {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC_COARSE, &time)
    return time.tv_sec
  }

  static func paths(of policy: TLSPolicy) -> [String] {
    var paths: [String] = []
    switch policy.roots {
    case .file(let path), .directory(let path): paths.append(path)
    case .system, .certificates: break
    }
    if let path = policy.revocationListPath { paths.append(path) }
    if case .files(let chain, let privateKey) = policy.clientIdentity?.source { paths += [chain, privateKey] }
    return paths
  }

  private init(path: String) {
    var status = stat()
    self.init(unsafe stat(path, &status) == 0 ? status : nil)
  }

  /// Opening finds the file by what the kernel remembers, or not at all, and nobody is asked for its attributes.
  private init?(cachedPath path: String) {
    // 0x200000 is O_PATH, which needs no right to read the file.
    let descriptor = unsafe clupine_open_cached(AT_FDCWD, path, 0x20_0000 | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var status = stat()
    // AT_EMPTY_PATH and AT_STATX_DONT_SYNC.
    guard unsafe fstatat(descriptor, "", &status, 0x1000 | 0x4000) == 0 else { return nil }
    self.init(status)
  }

  /// nil: there is no such file.
  private init(_ status: stat?) {
    guard let status else {
      numbers = []
      return
    }
    // What a pipe has is read once: it is no other one because somebody has written to it.
    if status.st_mode & S_IFMT == S_IFIFO {
      numbers = [Int64(bitPattern: UInt64(status.st_dev)), Int64(bitPattern: UInt64(status.st_ino))]
      return
    }
    numbers = [
      Int64(bitPattern: UInt64(status.st_dev)), Int64(bitPattern: UInt64(status.st_ino)), Int64(status.st_size),
      Int64(status.st_mtim.tv_sec), Int64(status.st_mtim.tv_nsec),
      // A file that is written in place may be given its former time, and a renewed certificate is as long as the former one.
      Int64(status.st_ctim.tv_sec), Int64(status.st_ctim.tv_nsec),
    ]
  }
}

enum DirectoryListing {
  struct Failure: Error {
    var code: Int32

    /// Descriptors or memory were lacking, which passes.
    var isShortage: Bool { [EMFILE, ENFILE, ENOMEM].contains(code) }
    var reason: String { unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)" }
  }

  /// The names in a directory, in no order. Half of one would look like a whole one: what cannot be read to its end is an error.
  static func names(in path: String) throws(Failure) -> [String] {
    guard let stream = unsafe opendir(path) else { throw Failure(code: errno) }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while true {
      errno = 0
      guard let entry = unsafe readdir(stream) else { break }
      let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) { tuple in
        unsafe tuple.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
      }
      names.append(name)
    }
    guard errno == 0 else { throw Failure(code: errno) }
    return names
  }
}
