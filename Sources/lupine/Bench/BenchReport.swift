internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// Figures of runs as text and as JSON.
struct BenchReport {
  var style: Style

  static let percentiles: [(name: String, value: Double)] = [
    ("p50", 50), ("p75", 75), ("p90", 90), ("p99", 99), ("p99.9", 99.9), ("p99.99", 99.99),
  ]

  private typealias Row = (name: String, value: (LoadResult) -> String)

  /// One column for each result, and the ratio of two.
  func text(_ results: [LoadResult]) -> String {
    guard let first = results.first else { return "" }
    let titles = results.map { $0.reusesConnections ? "reuse" : "no reuse" }
    var text = style.paint(TerminalText.escaped(first.url), .bold) + ", \(first.connections) at a time\n\n"
    if results.count > 1 {
      text += Units.left("", 26) + titles.map { style.paint(Units.right($0, 14), .bold) }.joined()
      text += style.paint(Units.right("ratio", 10), .bold) + "\n"
    }
    for (name, value) in rows {
      text += "  " + style.paint(Units.left(name, 24), .cyan)
      text += results.map { Units.right(value($0), 14) }.joined()
      if results.count == 2, let ratio = ratio(name, results[0], results[1]) {
        text += style.paint(Units.right(ratio, 10), .dim)
      }
      text += "\n"
    }
    for result in results where result.failed > 0 {
      let codes = result.failures.sorted { $0.value > $1.value }.map { "\($0.value) × \($0.key)" }
      text += "  " + style.paint("failed: " + codes.joined(separator: ", "), .red) + "\n"
      if let error = result.firstFailure { text += "  the first: \(TerminalText.escaped(error.forTool.description))\n" }
    }
    return text
  }

  private var rows: [Row] {
    let latencies: [Row] = Self.percentiles.map { name, percentile in
      ("latency \(name)", { Units.nanoseconds(Int64(clamping: $0.latencies.value(atPercentile: percentile))) })
    }
    return [
      ("requests", { Units.count($0.requests) }),
      ("seconds", { Units.significant($0.seconds) }),
      ("requests/s", { Units.count(Int($0.requestsPerSecond.rounded())) }),
      ("CPU per request", { Decimal.fixed($0.processorMicrosecondsPerRequest, digits: 2) + " µs" }),
    ] + latencies + [
      ("latency maximum", { Units.nanoseconds(Int64(clamping: $0.latencies.maximum)) }),
      ("connections opened", { Units.count($0.opened) }),
      ("requests on reused ones", { Units.count($0.reused) }),
      ("TLS handshakes, full", { Units.count($0.fullHandshakes) }),
      ("TLS handshakes, resumed", { Units.count($0.resumedHandshakes) }),
      ("body bytes received", { Units.bytes($0.bytesReceived) }),
      (
        "status",
        { result in
          result.statuses.sorted { $0.key < $1.key }.map { "\($0.key): \(Units.count($0.value))" }.joined(
            separator: " ")
        }
      ),
    ]
  }

  /// How many times the first is as good as the second.
  private func ratio(_ name: String, _ first: LoadResult, _ second: LoadResult) -> String? {
    func times(_ numerator: Double, _ denominator: Double) -> String? {
      denominator > 0 ? Decimal.fixed(numerator / denominator, digits: 2) + "×" : nil
    }
    if name == "requests/s" { return times(first.requestsPerSecond, second.requestsPerSecond) }
    if name == "CPU per request" {
      return times(first.processorMicrosecondsPerRequest, second.processorMicrosecondsPerRequest)
    }
    guard let percentile = Self.percentiles.first(where: { "latency \($0.name)" == name })?.value else { return nil }
    return times(
      Double(first.latencies.value(atPercentile: percentile)), Double(second.latencies.value(atPercentile: percentile)))
  }

  // MARK: JSON

  static func json(_ result: LoadResult) -> JSONValue {
    typealias Member = JSONValue.Member
    func microseconds(_ value: UInt64) -> JSONValue { .decimal(Double(value) / 1e3) }
    var latencies = [
      Member("min", microseconds(result.requests > 0 ? result.latencies.minimum : 0)),
      Member("mean", .decimal(result.latencies.mean / 1e3)),
      Member("stddev", .decimal(result.latencies.standardDeviation / 1e3)),
    ]
    latencies += percentiles.map { Member($0.name, microseconds(result.latencies.value(atPercentile: $0.value))) }
    latencies.append(Member("max", microseconds(result.latencies.maximum)))
    return .object([
      Member("url", .string(result.url)),
      Member("reuse", .boolean(result.reusesConnections)),
      Member("concurrency", .integer(result.connections)),
      Member("requests", .integer(result.requests)),
      Member("failed", .integer(result.failed)),
      Member("seconds", .decimal(result.seconds, digits: 6)),
      Member("requestsPerSecond", .decimal(result.requestsPerSecond)),
      Member("cpuMicrosecondsPerRequest", .decimal(result.processorMicrosecondsPerRequest)),
      Member("latencyMicroseconds", .object(latencies)),
      Member("connectionsOpened", .integer(result.opened)),
      Member("connectionsReused", .integer(result.reused)),
      Member("handshakesFull", .integer(result.fullHandshakes)),
      Member("handshakesResumed", .integer(result.resumedHandshakes)),
      Member("bytesReceived", .integer(result.bytesReceived)),
      Member("bytesSent", .integer(result.bytesSent)),
      Member(
        "statuses", .object(result.statuses.sorted { $0.key < $1.key }.map { Member("\($0.key)", .integer($0.value)) })),
      Member("errors", .object(result.failures.sorted { $0.key < $1.key }.map { Member($0.key, .integer($0.value)) })),
    ])
  }

  /// Both runs, and how many times the first is the second.
  static func json(reuse: LoadResult, noReuse: LoadResult) -> JSONValue {
    func ratio(_ first: Double, _ second: Double) -> JSONValue { .decimal(second > 0 ? first / second : .nan) }
    func latency(_ percentile: Double) -> JSONValue {
      ratio(
        Double(reuse.latencies.value(atPercentile: percentile)),
        Double(noReuse.latencies.value(atPercentile: percentile)))
    }
    return .object([
      JSONValue.Member("reuse", json(reuse)),
      JSONValue.Member("noReuse", json(noReuse)),
      JSONValue.Member(
        "ratio",
        .object([
          JSONValue.Member("requestsPerSecond", ratio(reuse.requestsPerSecond, noReuse.requestsPerSecond)),
          JSONValue.Member(
            "cpuMicrosecondsPerRequest",
            ratio(reuse.processorMicrosecondsPerRequest, noReuse.processorMicrosecondsPerRequest)),
          JSONValue.Member("latencyP50", latency(50)),
          JSONValue.Member("latencyP99", latency(99)),
        ])),
    ])
  }
}
