internal import FoundationEssentials
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineSession
internal import LupineTesting
internal import LupineWire

/// One thing that the demo does: it checks what came of it, and says in a few lines what was seen.
struct DemoStep: Sendable {
  var name: String
  var run: @Sendable (DemoStage, Console) async throws -> [String]

  static func all(seconds: Double) -> [DemoStep] {
    [
      DemoStep(name: "GET over TLS", run: get),
      DemoStep(name: "Connection reused", run: reuse),
      DemoStep(name: "Streamed download", run: download),
      DemoStep(name: "Chunked upload", run: upload),
      DemoStep(name: "gzip", run: gzip),
      DemoStep(name: "Redirects", run: redirects),
      DemoStep(name: "Untrusted certificate refused", run: refusedCertificate),
      DemoStep(name: "Timeout", run: timeout),
    ] + DemoManagers.steps + [
      DemoStep(name: "Benchmark with reuse") { stage, console in try await bench(stage, console, seconds) }
    ]
  }

  private static func get(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let (body, response) = try await stage.session.data(for: stage.request("/hello"))
    let text = String(decoding: body, as: UTF8.self)
    try demand(response.statusCode == 200 && text == "Hello, world!", "\(response.statusCode), \"\(text)\"")
    guard let exchange = response.metrics.transactions.first, let version = exchange.tlsVersion else {
      throw DemoFailure("the metrics know of no TLS")
    }
    let phases = exchange.phases.filter { $0.duration > .zero }
      .map { "\($0.name) \(Units.nanoseconds($0.duration.saturatedNanoseconds))" }
    return [
      "\(response.head.version) \(response.statusCode) \(response.head.reason): \"\(text)\"",
      "\(version), \(exchange.tlsCipher ?? "?"), \(exchange.remoteAddress ?? "?")",
      phases.joined(separator: ", "),
    ]
  }

  private static func reuse(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let before = stage.server.connectionCount
    for _ in 0..<10 {
      let (_, response) = try await stage.session.data(for: stage.request("/hello"))
      try demand(response.metrics.transactions.first?.isReusedConnection == true, "a request opened a connection")
    }
    try demand(stage.server.connectionCount == before, "the server saw another connection")
    let statistics = await stage.session.poolStatistics()
    return ["10 more requests, \(statistics.opened) connection opened in all, \(statistics.reused) requests reused it"]
  }

  private static func download(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let size: Int64 = 64 << 20
    let bar = console.progressBar
    defer { bar.clear() }
    let begin = System.now()
    let (body, response) = try await stage.session.bytes(for: stage.request("/bytes?n=\(size)"))
    var received: Int64 = 0
    var chunks = 0
    for try await chunk in body.chunks {
      // Both ends of each chunk against the known pattern: all of it would take longer than the transfer.
      try demand(
        PatternBody.matches(chunk.prefix(64), from: Int(received))
          && PatternBody.matches(chunk.suffix(64), from: Int(received) + chunk.count - min(64, chunk.count)),
        "bytes differ near \(received)")
      received += Int64(chunk.count)
      chunks += 1
      bar.show(received, of: response.expectedContentLength)
    }
    try demand(received == size, "\(received) bytes came instead of \(size)")
    let seconds = Double(System.now() - begin) / 1e9
    return ["\(Units.bytes(received)) in \(chunks) chunks, \(Units.bytes(Int64(Double(received) / seconds)))/s"]
  }

  private static func upload(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let count = 64
    let size = 64 * 1024
    var request = try stage.request("/upload")
    request.method = .post
    request.body = .stream(length: nil, isReplayable: true) {
      BodyStream((0..<count).lazy.map { PatternBody.bytes(size, from: $0 * size) })
    }
    let (body, response) = try await stage.session.data(for: request)
    let receipt = try JSONReader.read([UInt8](body))
    let isComplete = receipt["bytes"] == .integer(count * size) && receipt["chunked"] == .boolean(true)
    let digest = receipt["sha256"]?.string ?? ""
    try demand(
      response.statusCode == 200 && isComplete, "the server's receipt is \(String(decoding: body, as: UTF8.self))")
    try demand(digest == patternDigest, "the server received other bytes: SHA-256 \(digest)")
    return ["\(Units.bytes(Int64(count * size))) without a length; the server's SHA-256 \(digest.prefix(16))… is right"]
  }

  /// SHA-256 of the first 4 MiB of the pattern.
  private static let patternDigest = "2925bf50f63120359a64e19d4439fec84944f9e964043aae3c4cb8c843e737c7"

  private static func gzip(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let size = 1 << 20
    let (body, response) = try await stage.session.data(for: stage.request("/gzip?n=\(size)"))
    try demand(response.head.fields.first(named: "content-encoding") == "gzip", "the server did not compress")
    try demand(body.count == size && PatternBody.matches(body, from: 0), "the decoded body is not the original")
    let (zeros, compressed) = try await stage.session.data(for: stage.request("/gzip?zeros=1&n=\(size)"))
    try demand(zeros.count == size && zeros.allSatisfy { $0 == 0 }, "the decoded zeros are not zeros")
    let wire = compressed.metrics.transactions.last?.responseBodyBytes ?? 0
    return ["\(Units.bytes(wire)) on the wire, \(Units.bytes(Int64(body.count))) decoded, every byte as expected"]
  }

  private static func redirects(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let (body, response) = try await stage.session.data(for: stage.request("/redirect?n=3"))
    try demand(response.redirects.count == 3, "\(response.redirects.count) redirects instead of 3")
    try demand(
      response.statusCode == 200 && body.count == 13 && response.urlString == stage.url("/hello"),
      "\(response.urlString)")
    let targets = response.redirects.map { "\($0.head.status)" } + ["\(response.statusCode) \(response.urlString)"]
    return [targets.joined(separator: " → ")]
  }

  private static func refusedCertificate(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    let requests = stage.server.requestCount
    // Another authority of the same name: a stranger, as an attacker on the path would be.
    let stranger = try CertificateAuthority(commonName: "Lupine demo authority")
    var configuration = stage.configuration
    configuration.tls.roots = .certificates([stranger.rootDER])
    let session = try Session(configuration)
    defer { session.invalidateAndCancel() }
    do {
      _ = try await session.data(for: stage.request("/hello"))
    } catch let error as SessionError {
      try demand(error.code == .serverCertificateUntrusted, "another error: \(error)")
      try demand(!error.requestBytesSent && stage.server.requestCount == requests, "the request left nevertheless")
      return [error.message, "no byte of the request had left"]
    }
    throw DemoFailure("the certificate of a stranger was accepted")
  }

  private static func timeout(_ stage: DemoStage, _ console: Console) async throws -> [String] {
    var request = try stage.request("/slow")
    request.totalTimeout = .milliseconds(250)
    let begin = System.now()
    do {
      _ = try await stage.session.data(for: request)
    } catch let error as SessionError {
      let elapsed = System.now() - begin
      try demand(error.code == .timedOut, "another error: \(error)")
      try demand(elapsed >= 245_000_000, "it came too early, after \(Units.nanoseconds(elapsed))")
      let (_, response) = try await stage.session.data(for: stage.request("/hello"))
      try demand(response.statusCode == 200, "the session does not go on after it")
      return ["a server that never answers, given up after \(Units.nanoseconds(elapsed)); the next request is fine"]
    }
    throw DemoFailure("a server that never answers was waited for")
  }

  private static func bench(_ stage: DemoStage, _ console: Console, _ seconds: Double) async throws -> [String] {
    let plan = LoadPlan(
      request: try stage.request("/hello"), configuration: stage.configuration, connections: 16, requests: nil,
      duration: Int64(seconds * 1e9), reusesConnections: true)
    let result = try await LoadRun(plan, progress: console.progressBar).run()
    try demand(result.requests > 0 && result.failed == 0, "\(result.failed) of \(result.requests) requests failed")
    try demand(result.opened <= 16, "\(result.opened) connections for 16 requests at a time")
    func latency(_ percentile: Double) -> String {
      Units.nanoseconds(Int64(clamping: result.latencies.value(atPercentile: percentile)))
    }
    return [
      "\(Units.count(result.requests)) requests over TLS on \(result.opened) connections: "
        + "\(Units.count(Int(result.requestsPerSecond))) requests/s",
      "latency p50 \(latency(50)), p90 \(latency(90)), p99 \(latency(99)), p99.9 \(latency(99.9))",
      "\(Decimal.fixed(result.processorMicrosecondsPerRequest, digits: 1)) µs CPU per request, the server's share included",
    ]
  }
}
