import Glibc

/// What a program that sends GETs in a loop is asked for: URL CONNECTIONS COUNT and the options below.
public struct LoopOptions: Sendable {
  /// Its part of a usage line.
  public static let usage =
    "URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions] [--concurrency N] [--latency] [--cold]"

  /// What is fetched.
  public let url: String
  /// Connections at most.
  public let connections: Int
  /// Requests that count.
  public let count: Int
  /// Requests under way at once: as many as connections, unless `--concurrency` asks for more, which then wait for one.
  public let concurrency: Int
  /// The certificate to trust.
  public let authority: String?
  /// Whether a connection serves more than one request.
  public let reusesConnections: Bool
  /// Whether TLS sessions are resumed.
  public let resumesSessions: Bool
  /// Whether every request is timed, which costs two looks at the clock each.
  public let recordsLatency: Bool
  /// Whether the very first request counts already.
  public let isCold: Bool

  /// Reads the arguments; the URL is the one at `index`. Ends the program with its usage if they are not what that says.
  public init(at index: Int = 1, usage: String) {
    let arguments = CommandLine.arguments
    guard arguments.count >= index + 3, let connections = Int(arguments[index + 1]),
      let count = Int(arguments[index + 2])
    else { misuse(usage) }
    url = arguments[index]
    self.connections = connections
    self.count = count
    concurrency = option("--concurrency").flatMap { Int($0) } ?? connections
    authority = option("--ca")
    reusesConnections = !arguments.contains("--no-reuse")
    resumesSessions = !arguments.contains("--no-sessions")
    recordsLatency = arguments.contains("--latency")
    isCold = arguments.contains("--cold")
  }

  /// Requests before those that count: they open the connections.
  public var warmUpCount: Int { isCold ? 0 : min(count, concurrency * 4) }

  /// How many of `total` requests one of the concurrent workers sends.
  public func share(of total: Int, worker: Int) -> Int {
    total / concurrency + (worker < total % concurrency ? 1 : 0)
  }
}

/// What one worker, or all of them on one thread, saw of its responses. A value: workers hand theirs over when they end.
public struct LoopTally: Sendable {
  /// Bytes of bodies.
  public var bytes = 0
  /// Bodies that began with "r": the server's word for a TLS session that was resumed.
  public var resumed = 0
  private var nanoseconds: [UInt64] = []
  private let recordsLatency: Bool

  /// Nothing seen yet.
  public init(_ options: LoopOptions) {
    recordsLatency = options.recordsLatency
  }

  /// The clock in nanoseconds, or 0 if latencies are not recorded.
  public func start() -> UInt64 {
    recordsLatency ? monotonicNanoseconds() : 0
  }

  /// Notes a response to a request that began at `start`.
  public mutating func note(count: Int, first: UInt8?, since start: UInt64) {
    bytes += count
    if first == UInt8(ascii: "r") { resumed += 1 }
    if recordsLatency { nanoseconds.append(monotonicNanoseconds() - start) }
  }

  /// Adds what another worker saw.
  public mutating func add(_ other: LoopTally) {
    bytes += other.bytes
    resumed += other.resumed
    nanoseconds += other.nanoseconds
  }

  /// Prints the line of JSON: CPU time for each request, and percentiles of latency in microseconds if they were recorded.
  public func printJSON(_ options: LoopOptions, since before: Cost) {
    let seconds = before.secondsSince
    let after = Cost()
    let count = Double(options.count)
    let sorted = nanoseconds.sorted()
    func percentile(_ share: Double) -> Double {
      sorted.isEmpty ? 0 : Double(sorted[min(sorted.count - 1, Int(Double(sorted.count) * share))]) / 1000
    }
    BenchmarkSupport.printJSON([
      "requests": count, "seconds": seconds, "perSecond": (count / seconds).rounded(),
      "userMicroseconds": (after.userMicroseconds - before.userMicroseconds) / count,
      "systemMicroseconds": (after.systemMicroseconds - before.systemMicroseconds) / count,
      "cpuMicroseconds": (after.cpuMicroseconds - before.cpuMicroseconds) / count,
      "bytes": Double(bytes), "resumed": Double(resumed), "p50": percentile(0.5), "p99": percentile(0.99),
      "p999": percentile(0.999), "peakKilobytes": Double(memoryKilobytes("VmHWM")),
    ])
  }
}

private func monotonicNanoseconds() -> UInt64 {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
