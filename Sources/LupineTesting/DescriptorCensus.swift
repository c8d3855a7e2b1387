import Glibc

/// Which descriptors and threads this process has: taken before and after a test, it shows what was left behind.
///
/// They are the process's, so what runs beside the test is seen too. Take them in a process of their own, for example in an
/// exit test, or where nothing runs in parallel. What disappears is never held against anybody; only what is new is.
/// Timer descriptors are left out: libdispatch, below every test, opens one when it likes.
public struct DescriptorCensus: Equatable, Sendable {
  private let openDescriptors: Set<String>
  private let runningThreads: Set<String>
  private let threadPrefix: String
  private let passingThreads: Set<String>

  /// How many descriptors were open (`/proc/self/fd`).
  public var descriptors: Int { openDescriptors.count }
  /// How many threads there were (`/proc/self/task`).
  public var threads: Int { runningThreads.count }

  /// Counts now.
  ///
  /// - Parameters:
  ///   - threadPrefix: sees only threads whose name begins so. Swift's runtime starts threads of its own when it
  ///     likes; Lupine's are named `lupine…`. Default: every thread.
  ///   - passingThreads: names of threads that are left out, as they come when there is work and go by themselves: of Lupine's
  ///     `lupine-dns` and `lupine-file`, after ten idle seconds. Default none.
  public static func now(
    threadsNamed threadPrefix: String = "", except passingThreads: Set<String> = []
  ) -> DescriptorCensus {
    let threads = names("/proc/self/task").filter { thread in
      guard !threadPrefix.isEmpty || !passingThreads.isEmpty else { return true }
      let name = text("/proc/self/task/\(thread)/comm").prefix { $0 != "\n" }
      return name.hasPrefix(threadPrefix) && !passingThreads.contains(String(name))
    }
    return DescriptorCensus(
      openDescriptors: openNow(), runningThreads: Set(threads), threadPrefix: threadPrefix,
      passingThreads: passingThreads)
  }

  /// Waits until every descriptor and thread is gone that was not there in this census, at most `seconds`; says whether it came to that.
  ///
  /// It yields the processor between two looks: threads that end need a moment after they were joined to leave `/proc`,
  /// and the kernel announces neither.
  public func isRestored(withinSeconds seconds: Double = 5) -> Bool {
    let deadline = MonotonicClock.instant(inSeconds: seconds)
    while true {
      if newcomers().isEmpty { return true }
      if MonotonicClock.now > deadline { return false }
      sched_yield()
    }
  }

  /// What is there now and was not in this census: `descriptor -> target` and `thread N`, for the message of a failed test.
  public func newcomers() -> [String] {
    let current = Self.now(threadsNamed: threadPrefix, except: passingThreads)
    return current.openDescriptors.subtracting(openDescriptors).sorted()
      + current.runningThreads.subtracting(runningThreads).sorted().map { "thread \($0)" }
  }

  private static func openNow() -> Set<String> {
    let descriptions = names("/proc/self/fd").compactMap { name -> String? in
      var target = [CChar](repeating: 0, count: 256)
      let length = unsafe readlink("/proc/self/fd/\(name)", &target, target.count)
      let text = String(decoding: target.prefix(max(0, length)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
      // The directory being read has a descriptor of its own, closed by now unless somebody else counts too.
      return text.isEmpty || text.hasPrefix("/proc/") || text == "anon_inode:[timerfd]" ? nil : "\(name) -> \(text)"
    }
    return Set(descriptions)
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
package enum DirectoryListing {
  package static func names(_ directory: String) -> [String] {
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
