internal import ArgumentParser
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// Measures: requests per second, processor time, latencies, connections.
struct BenchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Measure requests per second, CPU time per request and latencies.",
    usage: "lupine bench [METHOD] URL [ITEM ...] [-c 64] [-n 100000] [--duration s] [options]",
    discussion: """
      Sends one request again and again, -c at a time, and reports what it cost. Latencies are counted in buckets at most 0.8 % wide, \
      as HdrHistogram does. CPU time is user and system time of this process. The first requests open the connections and are counted too.

      URL and ITEM are as in `lupine --help`.
      """)

  @Argument(help: .hidden)
  var arguments: [String] = []

  @Option(name: [.customShort("c"), .long], help: ArgumentHelp("Requests at a time, and connections.", valueName: "n"))
  var connections = 64

  @Option(
    name: [.customShort("n"), .long],
    help: ArgumentHelp("Requests in all (default 100000, or no limit with --duration).", valueName: "n"))
  var requests: Int?

  @Option(help: ArgumentHelp("Stop after so many seconds.", valueName: "seconds"))
  var duration: Double?

  @Option(help: ArgumentHelp("Engines, a thread each, over which the connections are spread.", valueName: "n"))
  var engines = 1

  @Flag(help: "Open a new connection for every request.")
  var noReuse = false

  @Flag(help: "Run with reuse and without, side by side.")
  var compare = false

  @Flag(name: .customLong("json"), help: "Print the figures as JSON.")
  var printsJSON = false

  @Option(help: ArgumentHelp("Draw latency over percentile into an SVG file.", valueName: "file.svg"))
  var plot: String?

  @Flag(name: [.customShort("f"), .long], help: "Send name=value items as a form, not as JSON.")
  var form = false

  @Option(help: "Send this text as the body; @FILE sends a file.")
  var raw: String?

  @OptionGroup(title: "Authentication") var authentication: AuthenticationOptions
  @OptionGroup(title: "Connection") var connection: ConnectionOptions

  func validate() throws {
    if !(1...65_536).contains(connections) { throw ValidationError("-c is between 1 and 65536.") }
    if !(1...64).contains(engines) { throw ValidationError("--engines is between 1 and 64.") }
    if let requests, requests < 1 { throw ValidationError("-n is at least 1.") }
    if let duration, !(duration > 0 && duration < 1e6) {
      throw ValidationError("--duration is a number of seconds above 0 and below 1000000.")
    }
    if compare, noReuse { throw ValidationError("--compare runs without reuse by itself; leave --no-reuse out.") }
  }

  mutating func run() async throws {
    let payload = PayloadOptions(json: false, form: form, raw: raw, headers: [])
    let target = try Target(arguments)
    try InputUsers.check(
      items: target.items, payload: payload,
      credentials: [("--auth", authentication.auth), ("--key-pass", connection.passphraseSource)])
    let plan = try FetchPlan(target: target, payload: payload, connection: connection, authentication: authentication)
    guard plan.request.body.isReplayable else {
      throw CommandFailure.misuse(
        "the body is sent with every request, and standard input or a pipe can be read only once; write it to a file first"
      )
    }
    System.raiseDescriptorLimit()
    var results = [try await measure(plan, reuse: !noReuse)]
    if compare { results.append(try await measure(plan, reuse: false)) }
    // The figures first: the picture may fail.
    try report(results)
    if let plot { try draw(results, plot) }
    if let failure = results.compactMap(\.firstFailure).first {
      let failed = results.map(\.failed).reduce(0, +)
      throw CommandFailure(
        ExitStatus(failure), "\(Units.count(failed)) requests failed; the first: \(failure.forTool.description)")
    }
    guard results.allSatisfy({ $0.requests > 0 }) else {
      throw CommandFailure(.timeout, "no request was answered within --duration")
    }
  }

  private func draw(_ results: [LoadResult], _ path: String) throws(System.Failure) {
    let file = try OutputFile(path)
    try file.write(Array(LatencyPlot(results).svg().utf8))
    try file.flush()
  }

  private func measure(_ plan: FetchPlan, reuse: Bool) async throws -> LoadResult {
    let load = LoadPlan(
      request: plan.request, configuration: plan.configuration, connections: connections,
      requests: requests ?? (duration == nil ? 100_000 : nil), duration: duration.map { Int64($0 * 1e9) },
      reusesConnections: reuse, engines: engines)
    return try await LoadRun(load, progress: Console.current.progressBar).run()
  }

  private func report(_ results: [LoadResult]) throws {
    guard printsJSON else { return try System.print(BenchReport(style: Console.current.outputStyle).text(results)) }
    let json =
      results.count == 2
      ? BenchReport.json(reuse: results[0], noReuse: results[1]) : BenchReport.json(results[0])
    try System.print(JSONWriter.pretty(json) + "\n")
  }
}
