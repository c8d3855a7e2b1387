import BenchmarkSupport
import Glibc
import LupineSession

// Opens about COUNT connections by as many requests at once (the last ones find an idle connection and open none), lets them go idle,
// and prints what each keeps in user space: heap in use and resident memory, both as differences to the same process after its first
// request, divided by the connections that were opened.
// usage: IdleConnections URL COUNT [--ca FILE]

guard CommandLine.arguments.count >= 3, let count = Int(CommandLine.arguments[2]) else {
  misuse("IdleConnections URL COUNT [--ca FILE]")
}
let url = CommandLine.arguments[1]

struct Memory {
  let allocated: Int
  let residentKilobytes: Int

  init() {
    trimMemory()
    allocated = allocatedBytes()
    residentKilobytes = memoryKilobytes("VmRSS")
  }
}

/// Touched on the engine's thread only.
final class Countdown: @unchecked Sendable {
  private var left: Int
  private let completion: @Sendable () -> Void

  init(_ left: Int, _ completion: @escaping @Sendable () -> Void) {
    self.left = left
    self.completion = completion
  }

  func countDown() {
    left -= 1
    if left == 0 { completion() }
  }
}

runBlocking {
  var configuration = SessionConfiguration()
  configuration.maximumConnectionsPerHost = count
  configuration.maximumConnections = count
  configuration.maximumWaitingRequests = count
  configuration.connectionIdleTimeout = .seconds(3600)
  configuration.connectTimeout = .seconds(60)
  configuration.tlsTimeout = .seconds(120)
  if let authority = option("--ca") { configuration.tls.roots = .file(authority) }
  let session = try Session(configuration)
  let request = try Request(url)

  let (first, _) = try await session.data(for: request)
  precondition(first.count > 0)
  let before = Memory()
  // All at once: each request that finds no idle connection opens one. Callbacks, because Dispatch keeps memory for every task.
  await withCheckedContinuation { continuation in
    session.onEngine {
      let left = Countdown(count) { continuation.resume() }
      for _ in 0..<count {
        session.data(for: request) { result in
          if case .failure(let error) = result { fatalError("\(error)") }
          left.countDown()
        }
      }
    }
  }
  // A connection that no request waits for any more is still being opened, and becomes idle at once.
  var statistics = await session.poolStatistics()
  var opened = 0
  repeat {
    opened = statistics.opened
    try await Task.sleep(for: .milliseconds(1_500))
    statistics = await session.poolStatistics()
  } while statistics.opened > opened
  let idle = statistics.opened - 1
  let after = Memory()
  if !statistics.closes.isEmpty { complain("connections were closed: \(statistics.closes)") }
  printJSON([
    "opened": Double(statistics.opened), "closed": Double(statistics.closes.values.reduce(0, +)),
    "heapBytesPerConnection": Double(after.allocated - before.allocated) / Double(idle),
    "residentBytesPerConnection": Double(after.residentKilobytes - before.residentKilobytes) * 1024 / Double(idle),
    "peakKilobytes": Double(memoryKilobytes("VmHWM")),
  ])
  // With everything still there, so that a memory profiler shows what idle connections hold.
  exit(0)
}
