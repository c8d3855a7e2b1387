import CAllocator
import Dispatch
import FoundationEssentials
import Glibc

/// What this process has cost so far.
public struct Cost {
  /// Time in user space, all threads.
  public let userMicroseconds: Double
  /// Time in the kernel, all threads.
  public let systemMicroseconds: Double
  let time = ContinuousClock.now

  /// Reads the clocks.
  public init() {
    func microseconds(_ time: timeval) -> Double { Double(time.tv_sec) * 1e6 + Double(time.tv_usec) }
    var usage = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
    userMicroseconds = microseconds(usage.ru_utime)
    systemMicroseconds = microseconds(usage.ru_stime)
  }

  /// Both.
  public var cpuMicroseconds: Double { userMicroseconds + systemMicroseconds }

  /// Seconds since then.
  public var secondsSince: Double {
    let passed = time.duration(to: .now).components
    return Double(passed.seconds) + Double(passed.attoseconds) / 1e18
  }
}

/// A line of `/proc/self/status` in kilobytes: `VmHWM` is the peak of resident memory, `VmRSS` what it is now.
///
/// Not `ru_maxrss`: that one is inherited from the process that started us.
public func memoryKilobytes(_ name: String) -> Int {
  guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8) else { return 0 }
  for line in status.split(separator: "\n") where line.hasPrefix(name + ":") {
    return Int(line.split(whereSeparator: { $0 == " " || $0 == "\t" })[1]) ?? 0
  }
  return 0
}

/// Bytes that `malloc` has handed out and not got back, large blocks included.
public func allocatedBytes() -> Int {
  let info = mallinfo2()
  return Int(info.uordblks) + Int(info.hblkhd)
}

/// Gives free memory back to the system, so that what is resident is what is used.
public func trimMemory() {
  malloc_trim(0)
}

/// Prints one line of JSON.
public func printJSON(_ pairs: KeyValuePairs<String, Double>) {
  let members = pairs.map { name, value in
    let rounded = (value * 1000).rounded() / 1000
    return "\"\(name)\": " + (rounded == rounded.rounded() ? "\(Int(rounded))" : "\(rounded)")
  }
  print("{" + members.joined(separator: ", ") + "}")
}

/// The value after an option, if it is there.
public func option(_ name: String) -> String? {
  guard let index = CommandLine.arguments.firstIndex(of: name), index + 1 < CommandLine.arguments.count else {
    return nil
  }
  return CommandLine.arguments[index + 1]
}

/// Writes a line to standard error.
public func complain(_ text: String) {
  _ = (text + "\n").withCString { write(STDERR_FILENO, $0, strlen($0)) }
}

/// Prints how a program is used, and ends it.
public func misuse(_ text: String) -> Never {
  complain("usage: " + text)
  exit(2)
}

/// Runs `body` while the main thread is blocked: valgrind cannot follow Dispatch's way of parking an asynchronous one.
public func runBlocking(_ body: @escaping @Sendable () async throws -> Void) {
  let done = DispatchSemaphore(value: 0)
  Task.detached {
    do {
      try await body()
    } catch {
      complain("\(error)")
      exit(1)
    }
    done.signal()
  }
  done.wait()
}

/// Prints what one large body cost this process, and its peak memory.
public func printTransfer(received: Int, sent: Int, since before: Cost) {
  let seconds = before.secondsSince
  let after = Cost()
  printJSON([
    "received": Double(received), "sent": Double(sent), "seconds": seconds,
    "userMicroseconds": after.userMicroseconds - before.userMicroseconds,
    "cpuMicroseconds": after.cpuMicroseconds - before.cpuMicroseconds,
    "peakKilobytes": Double(memoryKilobytes("VmHWM")),
  ])
}
