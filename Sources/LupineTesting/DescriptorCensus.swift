import Glibc

/// How many descriptors and threads this process has: taken before and after a test, it shows what was left behind.
///
/// The numbers are the process's, so whatever runs beside the test counts too. Take them in a process of their own, for
/// example in an exit test, or where nothing runs in parallel.
public struct DescriptorCensus: Equatable, Sendable {
  /// Open descriptors (`/proc/self/fd`).
  public let descriptors: Int
  /// Threads (`/proc/self/task`).
  public let threads: Int

  private let threadPrefix: String

  /// Counts now.
  ///
  /// - Parameter threadPrefix: counts only threads whose name begins so. Swift's runtime starts threads of its own when it
  ///   likes; Lupine's are named `lupine…`. Default: every thread.
  public static func now(threadsNamed threadPrefix: String = "") -> DescriptorCensus {
    let threads = names("/proc/self/task").filter { thread in
      threadPrefix.isEmpty || text("/proc/self/task/\(thread)/comm").hasPrefix(threadPrefix)
    }
    // Reading the directory of descriptors opens one.
    return DescriptorCensus(
      descriptors: names("/proc/self/fd").count - 1, threads: threads.count, threadPrefix: threadPrefix)
  }

  /// Waits until there are no more descriptors and threads than in this count, at most `seconds`; says whether it came to that.
  ///
  /// It yields the processor between two looks: threads that end need a moment after they were joined to leave `/proc`,
  /// and the kernel announces neither.
  public func isRestored(withinSeconds seconds: Double = 5) -> Bool {
    let deadline = MonotonicClock.now + UInt64(seconds * 1e9)
    while true {
      let current = Self.now(threadsNamed: threadPrefix)
      if current.descriptors <= descriptors, current.threads <= threads { return true }
      if MonotonicClock.now > deadline { return false }
      sched_yield()
    }
  }

  /// What is open now, for the message of a failed test: `fd -> target`, one a line.
  public static func description() -> String {
    names("/proc/self/fd").map { name in
      var target = [CChar](repeating: 0, count: 256)
      let length = unsafe readlink("/proc/self/fd/\(name)", &target, target.count)
      let bytes = target.prefix(max(0, length)).map { UInt8(bitPattern: $0) }
      return "\(name) -> \(String(decoding: bytes, as: UTF8.self))"
    }.joined(separator: "\n")
  }

  private static func text(_ path: String) -> String {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return "" }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: 64)
    let count = unsafe read(descriptor, &buffer, buffer.count)
    return String(decoding: buffer.prefix(max(0, count)), as: UTF8.self)
  }

  private static func names(_ directory: String) -> [String] { DirectoryListing.names(directory) }
}

/// Names in a directory, without `.` and `..`; empty when it cannot be read.
enum DirectoryListing {
  static func names(_ directory: String) -> [String] {
    guard let stream = unsafe opendir(directory) else { return [] }
    defer { unsafe closedir(stream) }
    var names: [String] = []
    while let entry = unsafe readdir(stream) {
      let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
        unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
      }
      if name != ".", name != ".." { names.append(name) }
    }
    return names
  }
}
