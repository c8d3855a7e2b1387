internal import CLupineLinux
import Glibc

/// A private temporary directory (mode 0700), removed with everything in it when the last reference goes.
final class TemporaryDirectory: Sendable {
  let path: String

  init() throws(LoopbackError) {
    guard let path = Self.make("/tmp/lupine-server-") else { throw .system(call: "mkdtemp", code: errno) }
    self.path = path
  }

  deinit { Self.remove(path) }

  /// Makes a directory of mode 0700 under a new name that begins with `prefix`; nil, with `errno`, if it cannot.
  static func make(_ prefix: String) -> String? {
    var template = Array((prefix + String(repeating: "X", count: 6)).utf8CString)
    guard unsafe mkdtemp(&template) != nil else { return nil }
    return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Writes a file, with the directories above it; `name` is relative.
  func write(_ bytes: [UInt8], to name: String) throws(LoopbackError) {
    var directory = path
    for part in name.split(separator: "/").dropLast() {
      directory += "/" + part
      unsafe mkdir(directory, 0o700)
    }
    let descriptor = unsafe open(path + "/" + name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { throw .system(call: "open", code: errno) }
    defer { close(descriptor) }
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
      guard count > 0 else { throw .system(call: "write", code: errno) }
      rest = rest.dropFirst(count)
    }
  }

  /// A file's content as text; empty when it does not exist.
  func text(of name: String) -> String {
    let descriptor = unsafe open(path + "/" + name, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var result: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 16 * 1024)
    while case let count = unsafe read(descriptor, &buffer, buffer.count), count > 0 { result += buffer[..<count] }
    return String(decoding: result, as: UTF8.self)
  }

  private static func remove(_ path: String) {
    for name in DirectoryListing.names(path) {
      let entry = path + "/" + name
      if unsafe unlink(entry) != 0 { remove(entry) }
    }
    unsafe rmdir(path)
  }
}

/// A program that runs beside the tests; killed and reaped by `stop()`, or when the last reference goes.
final class LaunchedProcess: Sendable {
  /// The file in its directory that takes its output.
  static let outputName = "output.log"

  let name: String
  let directory: TemporaryDirectory
  private let identifier: Monitor<pid_t?>

  /// Finds the program on PATH and in the system's administrator directories, and starts it with `directory` as its working directory.
  init(
    _ name: String, install: String, arguments: [String], directory: TemporaryDirectory
  ) throws(LoopbackError) {
    guard let program = Self.find(name) else { throw .missingTool(name: name, install: install) }
    self.name = name
    self.directory = directory
    identifier = Monitor(try Self.spawn([program] + arguments, in: directory))
  }

  deinit { stop() }

  /// What it wrote so far.
  var output: String { directory.text(of: Self.outputName) }

  /// Waits until `probe` gives a value. Between two looks it lets the other processes run for a millisecond; it gives up when
  /// the program ended, or after `seconds`.
  @discardableResult
  func waitUntilReady<Value>(seconds: Double = 20, _ probe: () -> Value?) throws(LoopbackError) -> Value {
    let deadline = MonotonicClock.now + UInt64(seconds * 1e9)
    while MonotonicClock.now < deadline {
      if let value = probe() { return value }
      if hasEnded() { break }
      _ = poll(nil, 0, 1)
    }
    let output = output
    stop()
    throw .toolFailed(name: name, output: output)
  }

  /// Ends it at once and reaps it. Calling it again does nothing.
  func stop() {
    identifier.withLock { identifier in
      guard let process = identifier else { return }
      identifier = nil
      kill(-process, SIGKILL)  // the group: it may have children of its own
      kill(process, SIGKILL)
      var status: Int32 = 0
      while unsafe waitpid(process, &status, 0) < 0, errno == EINTR {}
    }
  }

  private func hasEnded() -> Bool {
    identifier.withLock { identifier in
      guard let process = identifier else { return true }
      var status: Int32 = 0
      guard unsafe waitpid(process, &status, Int32(WNOHANG)) == process else { return false }
      identifier = nil
      return true
    }
  }

  private static func find(_ name: String) -> String? {
    let path = unsafe getenv("PATH").map { unsafe String(cString: $0) } ?? ""
    let directories = path.split(separator: ":").map { String($0) } + ["/usr/local/sbin", "/usr/sbin", "/sbin"]
    return directories.map { $0 + "/" + name }.first { unsafe access($0, X_OK) == 0 }
  }

  private static func spawn(_ command: [String], in directory: TemporaryDirectory) throws(LoopbackError) -> pid_t {
    var actions = unsafe posix_spawn_file_actions_t()
    unsafe posix_spawn_file_actions_init(&actions)
    defer { unsafe posix_spawn_file_actions_destroy(&actions) }
    let output = directory.path + "/" + outputName
    unsafe posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
    unsafe posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_APPEND, 0o600)
    unsafe posix_spawn_file_actions_adddup2(&actions, 1, 2)
    unsafe posix_spawn_file_actions_addchdir_np(&actions, directory.path)

    // A group of its own, no blocked signals, and the default action for each: nothing of ours is inherited.
    var attributes = posix_spawnattr_t()
    unsafe posix_spawnattr_init(&attributes)
    defer { unsafe posix_spawnattr_destroy(&attributes) }
    var none = sigset_t()
    var everything = sigset_t()
    unsafe sigemptyset(&none)
    unsafe sigfillset(&everything)
    unsafe posix_spawnattr_setsigmask(&attributes, &none)
    unsafe posix_spawnattr_setsigdefault(&attributes, &everything)
    unsafe posix_spawnattr_setpgroup(&attributes, 0)
    unsafe posix_spawnattr_setflags(
      &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))

    var arguments: [UnsafeMutablePointer<CChar>?] = unsafe command.map { unsafe strdup($0) } + [nil]
    defer { unsafe arguments.withUnsafeMutableBufferPointer { for index in $0.indices { unsafe free($0[index]) } } }
    var identifier = pid_t()
    let code = unsafe posix_spawn(&identifier, command[0], &actions, &attributes, &arguments, environ)
    guard code == 0 else { throw .system(call: "posix_spawn", code: code) }
    return identifier
  }
}

/// Ports of 127.0.0.1, for a program that cannot bind to port 0 itself: nobody else is given them while this is held, also when the program has ended.
///
/// Sockets are bound to them that listen to nothing, so that connections are refused until the program listens. It may bind to them all the same, as it
/// sets SO_REUSEADDR. Of a port that was merely free a moment ago somebody else may be the listener, and be taken for the program.
final class ReservedPorts: Sendable {
  let numbers: [UInt16]
  private let descriptors: [Int32]

  init(_ count: Int) throws(LoopbackError) {
    var numbers: [UInt16] = []
    var descriptors: [Int32] = []
    do throws(LoopbackError) {
      for _ in 0..<count {
        let bound = try BoundSocket.open(.ipv4, listens: false)
        descriptors.append(bound.descriptor)
        numbers.append(bound.port)
      }
    } catch {
      for descriptor in descriptors { close(descriptor) }
      throw error
    }
    self.numbers = numbers
    self.descriptors = descriptors
  }

  deinit {
    for descriptor in descriptors { close(descriptor) }
  }

  /// Whether connections are accepted at all of them.
  var areAccepting: Bool {
    numbers.allSatisfy { number in
      guard let descriptor = try? OutgoingSocket.connect(.ipv4, port: number) else { return false }
      close(descriptor)
      return true
    }
  }
}
