internal import LupineBase
internal import LupineRules
internal import LupineSession
internal import LupineWire
import Synchronization

/// What is measured: one request, again and again, on so many connections.
struct LoadPlan: Sendable {
  var request: Request
  var configuration: SessionConfiguration
  var connections: Int
  /// Nil: until the time is over.
  var requests: Int?
  /// Nanoseconds; nil: until the requests are done.
  var duration: Int64?
  /// False: a new connection for every request.
  var reusesConnections: Bool
  /// Over so many the connections are spread.
  var engines = 1
}

/// What came of it.
struct LoadResult: Sendable {
  /// Without its secrets: figures and pictures are passed on.
  var url = ""
  var connections = 0
  var reusesConnections = true
  var latencies = LatencyHistogram()
  var nanoseconds: Int64 = 0
  var processorNanoseconds: Int64 = 0
  var opened = 0
  var reused = 0
  var fullHandshakes = 0
  var resumedHandshakes = 0
  var bytesReceived: Int64 = 0
  var bytesSent: Int64 = 0
  var statuses: [Int: Int] = [:]
  var failures: [String: Int] = [:]
  var firstFailure: SessionError?

  var requests: Int { Int(latencies.count) }
  var failed: Int { failures.values.reduce(0, +) }
  var seconds: Double { Double(nanoseconds) / 1e9 }
  var requestsPerSecond: Double { nanoseconds > 0 ? Double(requests) / seconds : 0 }
  var processorMicrosecondsPerRequest: Double {
    requests > 0 ? Double(processorNanoseconds) / 1e3 / Double(requests) : 0
  }

  /// Adds what one worker saw.
  mutating func add(_ other: LoadResult) {
    latencies.add(other.latencies)
    fullHandshakes += other.fullHandshakes
    resumedHandshakes += other.resumedHandshakes
    bytesReceived += other.bytesReceived
    bytesSent += other.bytesSent
    statuses.merge(other.statuses, uniquingKeysWith: +)
    failures.merge(other.failures, uniquingKeysWith: +)
    firstFailure = firstFailure ?? other.firstFailure
  }

  mutating func add(_ response: Response, latency: Int64) {
    latencies.record(UInt64(max(0, latency)))
    statuses[response.statusCode, default: 0] += 1
    for transaction in response.metrics.transactions {
      bytesReceived += transaction.responseBodyBytes
      bytesSent += transaction.requestBodyBytes + Int64(transaction.requestHeaderBytes)
      guard transaction.secureConnectionStart != nil, !transaction.isReusedConnection else { continue }
      if transaction.isTLSResumed { resumedHandshakes += 1 } else { fullHandshakes += 1 }
    }
  }
}

/// Keeps so many requests under way until enough are done. Failures are counted; they do not end the run unless all of the first ones fail.
struct LoadRun: Sendable {
  private let plan: LoadPlan
  private let progress: ProgressBar
  private let limit: Int
  private let deadline: Int64
  private let startedAt: Int64

  /// Failures without a single success after which there is no point in going on.
  private static let hopeless = 100

  init(_ plan: LoadPlan, progress: ProgressBar) {
    self.plan = plan
    self.progress = progress
    let now = System.now()
    startedAt = now
    limit = plan.requests ?? .max
    deadline = plan.duration.map { now + $0 } ?? .max
  }

  func run() async throws -> LoadResult {
    let session = try Session(configuration)
    let counters = Counters()
    let processorStart = System.processorTime()
    var result = await withTaskGroup(of: LoadResult?.self) { group in
      for _ in 0..<plan.connections {
        group.addTask { await work(session, counters) }
      }
      if let duration = plan.duration {
        group.addTask {
          try? await Task.sleep(for: .nanoseconds(duration))
          return nil
        }
      }
      var sum = LoadResult()
      var workers = plan.connections
      while workers > 0, let part = await group.next() {
        if let part {
          sum.add(part)
          workers -= 1
        } else {
          // What is under way may never be answered.
          group.cancelAll()
        }
      }
      group.cancelAll()
      return sum
    }
    result.nanoseconds = System.now() - startedAt
    result.processorNanoseconds = System.processorTime() - processorStart
    progress.clear()
    let statistics = await session.poolStatistics()
    session.invalidateAndCancel()
    result.opened = statistics.opened
    result.reused = statistics.reused
    result.url = SecretText.redacted(url: plan.request.urlString)
    result.connections = plan.connections
    result.reusesConnections = plan.reusesConnections
    return result
  }

  private var configuration: SessionConfiguration {
    var configuration = plan.configuration
    // Every request is the same one.
    configuration.cookieStorage = nil
    configuration.maximumConnectionsPerHost = plan.connections
    configuration.maximumConnections = max(configuration.maximumConnections, plan.connections)
    configuration.maximumWaitingRequests = max(configuration.maximumWaitingRequests, plan.connections)
    if !plan.reusesConnections { configuration.maximumUsesPerConnection = 1 }
    // One without a connection would have nothing to do.
    if plan.engines > 1 { configuration.engine = .several(min(plan.engines, plan.connections), spreading: true) }
    return configuration
  }

  private final class Counters: Sendable {
    let begun = Atomic(0)
    let succeeded = Atomic(0)
    let failed = Atomic(0)
  }

  private func work(_ session: Session, _ counters: Counters) async -> LoadResult {
    var result = LoadResult()
    while true {
      let number = counters.begun.add(1, ordering: .relaxed).oldValue
      guard number < limit else { return result }
      let begin = System.now()
      guard begin < deadline, !Task.isCancelled else { return result }
      do {
        let (_, response) = try await session.data(for: plan.request)
        result.add(response, latency: System.now() - begin)
        counters.succeeded.add(1, ordering: .relaxed)
      } catch {
        // Cut short, it counts as nothing: it has neither been answered nor failed.
        guard !Task.isCancelled else { return result }
        note(error, in: &result)
        let failed = counters.failed.add(1, ordering: .relaxed).newValue
        if failed >= Self.hopeless, counters.succeeded.load(ordering: .relaxed) == 0 { return result }
      }
      if number & 63 == 0 { show(number, begin) }
    }
  }

  private func note(_ error: any Error, in result: inout LoadResult) {
    let error = error as? SessionError ?? SessionError(.unknown, phase: .total, message: "\(error)")
    result.failures[error.code.rawValue, default: 0] += 1
    result.firstFailure = result.firstFailure ?? error
  }

  private func show(_ number: Int, _ now: Int64) {
    let timeShare = plan.duration.map { Double(now - startedAt) / Double($0) } ?? 0
    let countShare = plan.requests.map { Double(number) / Double($0) } ?? 0
    let share = max(timeShare, countShare)
    guard share > 0 else { return }
    // The total of a timed run is an estimate from how far it has come.
    let total = plan.requests ?? Int(Double(number) / share)
    progress.show(Int64(number), of: Int64(total)) { "\(Units.count(Int($0)))" }
  }
}
