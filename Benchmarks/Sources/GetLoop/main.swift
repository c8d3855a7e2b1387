import Dispatch
import FoundationEssentials
import Glibc
import LupineSession

// One measured run: COUNT requests for URL over CONNECTIONS connections; prints what it cost this process.
// usage: GetLoop await|engine|callback URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions]

func microseconds(_ time: timeval) -> Double { Double(time.tv_sec) * 1e6 + Double(time.tv_usec) }

func cpuMicroseconds() -> (user: Double, system: Double) {
  var usage = rusage()
  getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
  return (microseconds(usage.ru_utime), microseconds(usage.ru_stime))
}

let arguments = CommandLine.arguments
guard arguments.count >= 5, let connections = Int(arguments[3]), let count = Int(arguments[4]) else {
  print("usage: GetLoop await|engine|callback URL CONNECTIONS COUNT [--ca FILE] [--no-reuse] [--no-sessions]")
  exit(2)
}
let mode = arguments[1]
let url = arguments[2]

var configuration = SessionConfiguration()
configuration.maximumConnectionsPerHost = connections
if let index = arguments.firstIndex(of: "--ca") { configuration.tls.roots = .file(arguments[index + 1]) }
let isWithoutReuse = arguments.contains("--no-reuse")
if isWithoutReuse { configuration.maximumUsesPerConnection = 1 }
if arguments.contains("--no-sessions") { configuration.tls.allowsResumption = false }
let session = try Session(configuration)
let request = try Request(url)

/// Without reuse, counts bodies that begin with "r": the server's word for a TLS session that was resumed.
final class ResumptionCount: Sendable {
  static let shared = ResumptionCount()
  private let queue = DispatchQueue(label: "resumed")
  private nonisolated(unsafe) var count = 0

  func note(_ body: Data) {
    guard body.first == UInt8(ascii: "r") else { return }
    queue.sync { count += 1 }
  }

  /// The count so far; it starts again.
  func take() -> Int {
    queue.sync {
      defer { count = 0 }
      return count
    }
  }
}

/// Keeps `connections` requests under way from callbacks on the engine's thread.
final class CallbackLoop: Sendable {
  let session: Session
  let request: Request
  let finished: AsyncStream<Void>.Continuation
  let remaining: Counter

  init(session: Session, request: Request, count: Int, finished: AsyncStream<Void>.Continuation) {
    self.session = session
    self.request = request
    self.finished = finished
    remaining = Counter(count)
  }

  func next() {
    guard remaining.take() else {
      finished.yield()
      return
    }
    session.data(for: request) { result in
      guard case .success(let (body, _)) = result, body.count > 0 else { fatalError("\(result)") }
      if isWithoutReuse { ResumptionCount.shared.note(body) }
      self.next()
    }
  }
}

/// Touched on the engine's thread only, but for the start.
final class Counter: @unchecked Sendable {
  private var left: Int
  init(_ left: Int) { self.left = left }
  func take() -> Bool {
    left -= 1
    return left >= 0
  }
}

func run(_ count: Int) async throws {
  switch mode {
  case "callback":
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    let loop = CallbackLoop(session: session, request: request, count: count, finished: continuation)
    session.onEngine { for _ in 0..<connections { loop.next() } }
    var ended = 0
    for await _ in stream {
      ended += 1
      if ended == connections { break }
    }
  case "engine":
    try await withTaskExecutorPreference(session.engineExecutor) { try await awaitAll(count) }
  default: try await awaitAll(count)
  }
}

func awaitAll(_ count: Int) async throws {
  try await withThrowingTaskGroup(of: Void.self) { group in
    for index in 0..<connections {
      let share = count / connections + (index < count % connections ? 1 : 0)
      group.addTask {
        for _ in 0..<share {
          let (body, _) = try await session.data(for: request)
          precondition(body.count > 0)
          if isWithoutReuse { ResumptionCount.shared.note(body) }
        }
      }
    }
    try await group.waitForAll()
  }
}

func measure() async throws {
  try await run(min(count, connections * 4))
  _ = ResumptionCount.shared.take()
  let before = cpuMicroseconds()
  let start = ContinuousClock.now
  try await run(count)
  let elapsed = start.duration(to: .now)
  let after = cpuMicroseconds()
  let seconds = Double(elapsed.components.seconds) + Double(elapsed.components.attoseconds) / 1e18
  let user = (after.user - before.user) / Double(count)
  let system = (after.system - before.system) / Double(count)
  let statistics = await session.poolStatistics()
  func rounded(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
  print(
    "{\"requests\": \(count), \"seconds\": \(rounded(seconds)), \"perSecond\": \(Int(Double(count) / seconds)), \"userMicroseconds\": \(rounded(user)), \"systemMicroseconds\": \(rounded(system)), \"cpuMicroseconds\": \(rounded(user + system)), \"opened\": \(statistics.opened), \"reused\": \(statistics.reused), \"resumed\": \(ResumptionCount.shared.take())}"
  )
}

// A blocked main thread instead of an asynchronous one: valgrind cannot follow Dispatch's way of parking the latter.
let done = DispatchSemaphore(value: 0)
Task.detached {
  try await measure()
  done.signal()
}
done.wait()
