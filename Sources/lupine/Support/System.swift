import Glibc
internal import LupineBase

/// The system calls of the tool: standard streams, files, the terminal, the clock and the processor's time.
enum System {
  enum Stream: Int32, Sendable {
    case input = 0
    case output = 1
    case error = 2

    var isTerminal: Bool { isatty(rawValue) == 1 }
  }

  /// What a call failed with, in the system's words.
  struct Failure: Error, Sendable, CustomStringConvertible {
    /// Something has that name already.
    static let exists = EEXIST

    var operation: String
    var code: Int32

    /// Whoever read what was written has gone, as `head` does when it has its lines.
    var isReaderGone: Bool { code == EPIPE }

    var description: String {
      let reason = unsafe strerror(code).map { unsafe String(cString: $0) } ?? "error \(code)"
      return "\(operation): \(reason)"
    }
  }

  // MARK: Writing

  /// Makes the end of a reader the failure of a write, which ends a command in good order, and not of the process, which would lose what is kept
  /// for the next one.
  static func ignoreBrokenPipes() {
    signal(SIGPIPE, SIG_IGN)
  }

  /// After a call that failed: whether it is to be made again, because a signal came in between, or because a descriptor that blocks nobody, as those
  /// that a parent shares with its event loop, has become ready.
  private static func canRepeat(_ descriptor: Int32, _ event: Int32) -> Bool {
    if errno == EINTR { return true }
    guard errno == EAGAIN else { return false }
    var entry = pollfd(fd: descriptor, events: Int16(event), revents: 0)
    return unsafe poll(&entry, 1, -1) >= 0 || errno == EINTR
  }

  /// Writes everything, however long it takes.
  static func write(_ bytes: [UInt8], to descriptor: Int32, name: String) throws(Failure) {
    var offset = 0
    while offset < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        unsafe Glibc.write(descriptor, buffer.baseAddress.map { unsafe $0 + offset }, buffer.count - offset)
      }
      if count < 0 {
        if canRepeat(descriptor, POLLOUT) { continue }
        throw Failure(operation: "cannot write to \(name)", code: errno)
      }
      offset += count
    }
  }

  /// Has the system say what it otherwise says only when a file is closed, where a program that ends has nobody to tell: no room left, on file
  /// systems over the network.
  static func flush(_ descriptor: Int32, name: String) throws(Failure) {
    let copy = dup(descriptor)
    // Nobody can have written to a stream that is closed.
    if copy < 0, errno == EBADF { return }
    // One that was interrupted is closed.
    guard copy >= 0, close(copy) == 0 || errno == EINTR else {
      throw Failure(operation: "cannot write to \(name)", code: errno)
    }
  }

  static func print(_ text: String, to stream: Stream = .output) throws(Failure) {
    try write(Array(text.utf8), to: stream.rawValue, name: stream == .output ? "standard output" : "standard error")
  }

  /// For people, on standard error. Nobody can be told when that fails.
  static func tell(_ text: String) {
    try? print(text, to: .error)
  }

  // MARK: Reading

  /// Reads what is there, at most `limit` bytes; empty at the end.
  static func read(_ descriptor: Int32, upTo limit: Int, name: String) throws(Failure) -> [UInt8] {
    while true {
      var count = 0
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
        unsafe count = Glibc.read(descriptor, buffer.baseAddress, limit)
        initialized = max(0, count)
      }
      if count >= 0 { return bytes }
      if !canRepeat(descriptor, POLLIN) { throw Failure(operation: "cannot read \(name)", code: errno) }
    }
  }

  /// The whole of a file, or of standard input for `-`.
  static func contents(of path: String, limit: Int = 1 << 30) throws(Failure) -> [UInt8] {
    guard path == "-" else { return try InputFile(path).contents(limit: limit) }
    return try contents(of: Stream.input.rawValue, limit: limit, name: path)
  }

  /// Everything up to the end.
  fileprivate static func contents(of descriptor: Int32, limit: Int, name: String) throws(Failure) -> [UInt8] {
    var all: [UInt8] = []
    while true {
      let part = try read(descriptor, upTo: 1 << 16, name: name)
      if part.isEmpty { return all }
      all += part
      if all.count > limit { throw Failure(operation: "cannot read \(name)", code: EFBIG) }
    }
  }

  /// The line that begins standard input, without its end; cut at `limit` bytes.
  static func inputLine(limit: Int) throws(Failure) -> [UInt8] {
    try line(of: Stream.input.rawValue, limit: limit, name: "standard input")
  }

  /// Byte by byte: a writer that says no more may keep the pipe open, and what follows the line is for whoever reads on.
  fileprivate static func line(of descriptor: Int32, limit: Int, name: String) throws(Failure) -> [UInt8] {
    var line: [UInt8] = []
    while line.count < limit, let byte = try read(descriptor, upTo: 1, name: name).first {
      if byte == UInt8(ascii: "\n") { break }
      line.append(byte)
    }
    return line
  }

  // MARK: Surroundings

  /// The arguments of the process, without its name.
  ///
  /// - Throws: `CommandFailure` if one is no text: whatever took its place would be sent, or name another file. No message repeats what may be a
  ///   secret.
  static func arguments() throws(CommandFailure) -> [String] {
    var result: [String] = []
    for place in 1..<max(1, Int(CommandLine.argc)) {
      guard let argument = unsafe CommandLine.unsafeArgv[place] else { break }
      guard let text = unsafe String(validatingCString: argument) else {
        let option = result.last?.wholeMatch(of: /--?[a-zA-Z-]+/).map { " (after \($0.0))" } ?? ""
        throw .misuse(
          "argument \(place)\(option) is not UTF-8; bytes that are no text can come from a file, as with @FILE")
      }
      result.append(text)
    }
    return result
  }

  static func environment(_ name: String) -> String? {
    unsafe getenv(name).map { unsafe String(cString: $0) }
  }

  /// The width of the terminal behind a stream; 80 where there is none.
  static func columns(_ stream: Stream) -> Int {
    var size = winsize()
    guard unsafe ioctl(stream.rawValue, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
    return Int(size.ws_col)
  }

  /// Nanoseconds on the monotonic clock.
  static func now() -> Int64 {
    var time = timespec()
    unsafe clock_gettime(CLOCK_MONOTONIC, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
  }

  /// Seconds since 1970, by the clock on the wall.
  static func secondsSince1970() -> Int64 { Int64(time(nil)) }

  /// User and system time of this process so far, in nanoseconds.
  static func processorTime() -> Int64 {
    var usage = rusage()
    unsafe getrusage(RUSAGE_SELF.rawValue, &usage)
    func nanoseconds(_ time: timeval) -> Int64 { Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_usec) * 1_000 }
    return nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)
  }

  static func log10(_ value: Double) -> Double { Glibc.log10(value) }

  /// Allows as many descriptors as the hard limit does: a benchmark may want thousands of connections.
  static func raiseDescriptorLimit() {
    var limit = rlimit()
    guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else { return }
    limit.rlim_cur = limit.rlim_max
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}

/// What there is to know of an open file.
private func status(of descriptor: Int32) -> stat? {
  var status = stat()
  return unsafe fstat(descriptor, &status) == 0 ? status : nil
}

private func ownerOfDirectory(of path: String) -> uid_t? {
  var status = stat()
  let folder = FileSystem.folder(of: path)
  return unsafe stat(folder.isEmpty ? "." : folder, &status) == 0 ? status.st_uid : nil
}

/// Opens a path; below 0 if that fails.
private func opened(_ path: String, _ flags: Int32, mode: mode_t = 0) -> Int32 {
  unsafe open(path, flags | O_CLOEXEC, mode)
}

extension stat {
  /// Nil unless it is a regular file.
  var size: Int64? { st_mode & S_IFMT == S_IFREG ? Int64(st_size) : nil }
  fileprivate var isDirectory: Bool { st_mode & S_IFMT == S_IFDIR }
  /// A regular file with one name that is ours, or of whoever has its directory, who can put there anything at any time (some file systems give all
  /// files to one user). What else there is somebody may have put there, and what has two names belongs elsewhere as well.
  fileprivate func isOursAlone(at path: String) -> Bool {
    guard size != nil, st_nlink == 1 else { return false }
    return st_uid == geteuid() || st_uid == ownerOfDirectory(of: path)
  }
}

/// A file that is read; closed with its last reference.
final class InputFile: Sendable {
  let descriptor: Int32
  let path: String

  /// - Parameter waits: whether a pipe is opened when somebody writes to it, and not before.
  init(_ path: String, waits: Bool = true) throws(System.Failure) {
    self.path = path
    descriptor = opened(path, O_RDONLY | (waits ? 0 : O_NONBLOCK))
    if descriptor < 0 { throw System.Failure(operation: "cannot open \(path)", code: errno) }
    // It can be opened, and only reading it fails: by then a request would be under way.
    if status(of: descriptor)?.isDirectory == true {
      throw System.Failure(operation: "cannot read \(path)", code: EISDIR)
    }
  }

  /// Opens a file that is ours alone, never through a link, and waits for no pipe; nil if there is none.
  init?(oursAlone path: String) {
    self.path = path
    descriptor = opened(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    guard status(of: descriptor)?.isOursAlone(at: path) == true else { return nil }
  }

  deinit { close(descriptor) }

  var size: Int64? { status(of: descriptor)?.size }

  /// Its first line, as `System.inputLine`.
  func line(limit: Int) throws(System.Failure) -> [UInt8] {
    try System.line(of: descriptor, limit: limit, name: path)
  }

  /// All of it.
  func contents(limit: Int) throws(System.Failure) -> [UInt8] {
    try System.contents(of: descriptor, limit: limit, name: path)
  }

  func read(upTo limit: Int) throws(System.Failure) -> [UInt8] {
    try System.read(descriptor, upTo: limit, name: path)
  }
}

/// A file that is written; closed with its last reference.
final class OutputFile: Sendable {
  let path: String
  let descriptor: Int32

  /// Creates the file, or empties the one that is there.
  ///
  /// - Parameter mode: of a new one, and of one that is there unless that is the usual one.
  init(_ path: String, mode: mode_t = 0o644) throws(System.Failure) {
    self.path = path
    let isPrivate = mode != 0o644
    descriptor = opened(path, O_WRONLY | O_CREAT | (isPrivate ? 0 : O_TRUNC), mode: mode)
    if descriptor < 0 { throw System.Failure(operation: "cannot write \(path)", code: errno) }
    // What others may read already is theirs to see no more, and what is somebody else's to allow gets nothing. A device or a pipe stays what it is.
    guard isPrivate, status(of: descriptor)?.size != nil else { return }
    guard fchmod(descriptor, mode) == 0, ftruncate(descriptor, 0) == 0 else {
      throw System.Failure(operation: "cannot keep \(path) from other users", code: errno)
    }
  }

  /// Standard output or error, if the path leads there: the file goes on where others have written.
  init?(standardStreamAt path: String) {
    guard let named = FileSystem.identity(path),
      let stream = [STDOUT_FILENO, STDERR_FILENO].first(where: { status(of: $0)?.isOfSameFile(as: named) == true })
    else { return nil }
    self.path = path
    descriptor = dup(stream)
    if descriptor < 0 { return nil }
  }

  /// Creates a file where none is; never through a link.
  init(creating path: String, mode: mode_t = 0o644) throws(System.Failure) {
    self.path = path
    descriptor = opened(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode)
    if descriptor < 0 { throw System.Failure(operation: "cannot create \(path)", code: errno) }
  }

  /// Opens a file that is there, to go on with it; never through a link.
  init(reopening path: String) throws(System.Failure) {
    self.path = path
    descriptor = opened(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY)
    if descriptor < 0 { throw System.Failure(operation: "cannot go on with \(path)", code: errno) }
  }

  /// Creates the file, or opens the one that is there and leaves in it what it has.
  init(keeping path: String) throws(System.Failure) {
    self.path = path
    let kept = opened(path, O_WRONLY | O_CREAT, mode: 0o644)
    // Stores that are no file systems of the usual kind let a file be written anew, and in no other way.
    descriptor = kept >= 0 ? kept : opened(path, O_WRONLY | O_CREAT | O_TRUNC, mode: 0o644)
    if descriptor < 0 { throw System.Failure(operation: "cannot write \(path)", code: errno) }
  }

  /// Opens a regular file that is there, for its lock alone; nil if there is none, or none that may be opened.
  init?(locking path: String) {
    guard FileSystem.size(path) != nil else { return nil }
    self.path = path
    // Only to be read: a program that is open for writing could not be started meanwhile.
    descriptor = opened(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
    if descriptor < 0 { return nil }
  }

  deinit { close(descriptor) }

  /// The size of a regular file.
  var size: Int64? { status(of: descriptor)?.size }

  /// Whether it is a regular file of ours, or of whoever has its directory, with no other name.
  var isOursAlone: Bool { status(of: descriptor)?.isOursAlone(at: path) == true }

  /// Locks the file against others who do the same, until it is closed. File systems without locks let everybody pass.
  ///
  /// - Parameter followingLinks: whether a link by its name counts as what it leads to.
  /// - Returns: false if somebody else has it, or has given its name to another file before it was locked.
  func lock(followingLinks: Bool = false) throws(System.Failure) -> Bool {
    while flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
      if errno == EINTR { continue }
      if errno == EWOULDBLOCK { return false }
      guard [ENOLCK, EOPNOTSUPP, ENOSYS].contains(errno) else {
        throw System.Failure(operation: "cannot lock \(path)", code: errno)
      }
      break
    }
    return hasName(path, followingLinks: followingLinks)
  }

  /// Whether it is this file that has the name, and no other that was put there.
  func hasName(_ path: String, followingLinks: Bool = false) -> Bool {
    guard let this = status(of: descriptor),
      let named = followingLinks ? FileSystem.identity(path) : FileSystem.identity(ofLink: path)
    else { return false }
    return this.st_dev == named.st_dev && this.st_ino == named.st_ino
  }

  func write(_ bytes: [UInt8]) throws(System.Failure) {
    try System.write(bytes, to: descriptor, name: path)
  }

  /// Writes everything to a place in the file.
  func write(_ bytes: [UInt8], at offset: Int64) throws(System.Failure) {
    guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else {
      throw System.Failure(operation: "cannot write to \(path)", code: errno)
    }
    try write(bytes)
  }

  /// Reads `count` bytes from a place in the file; fewer at its end.
  func read(at offset: Int64, count: Int) throws(System.Failure) -> [UInt8] {
    guard lseek(descriptor, off_t(offset), SEEK_SET) >= 0 else {
      throw System.Failure(operation: "cannot read \(path)", code: errno)
    }
    var bytes: [UInt8] = []
    while bytes.count < count {
      let part = try System.read(descriptor, upTo: count - bytes.count, name: path)
      if part.isEmpty { break }
      bytes += part
    }
    return bytes
  }

  func truncate(to size: Int64) throws(System.Failure) {
    while ftruncate(descriptor, off_t(size)) != 0 {
      if errno != EINTR { throw System.Failure(operation: "cannot cut \(path)", code: errno) }
    }
  }

  /// Reports what the system otherwise says only when a file is closed; see `System.flush`.
  func flush() throws(System.Failure) {
    try System.flush(descriptor, name: path)
  }

  /// Waits until the disk has everything.
  func synchronize() throws(System.Failure) {
    while fsync(descriptor) != 0 {
      if errno != EINTR { throw System.Failure(operation: "cannot write to \(path)", code: errno) }
    }
  }
}
