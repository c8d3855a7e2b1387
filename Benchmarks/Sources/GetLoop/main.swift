import BenchmarkSupport
import LupineSession

// One measured run: COUNT requests for URL over CONNECTIONS connections; prints what it cost this process.
let options = LoopOptions(
  at: 2,
  usage:
    "GetLoop await|engine|callback \(LoopOptions.usage) [--engines N [--one-session]] [--abandon] [--new-requests] [--cache memory|DIR]"
)
let mode = CommandLine.arguments[1]
let url = options.url
/// Each engine has a session and its share of the connections; with one, the process's own engine carries it.
let engines = option("--engines").flatMap { Int($0) } ?? 1
/// Whether one session has all engines, over which its requests are spread.
let isOneSession = CommandLine.arguments.contains("--one-session")
let sessionCount = isOneSession ? 1 : engines
/// Whether each response is let go of as soon as its head is there.
let abandons = CommandLine.arguments.contains("--abandon")

/// Whether each request is made from the text of the URL, as by `data(from:)`; else all are one.
let makesRequests = CommandLine.arguments.contains("--new-requests")

func makeSession() throws -> Session {
  var configuration = SessionConfiguration()
  configuration.maximumConnectionsPerHost = options.connections / sessionCount
  configuration.maximumConnections = options.connections / sessionCount
  if let authority = options.authority { configuration.tls.roots = .file(authority) }
  if !options.reusesConnections { configuration.maximumUsesPerConnection = 1 }
  configuration.tls.allowsResumption = options.resumesSessions
  if option("--engines") != nil { configuration.engine = isOneSession ? .several(engines, spreading: true) : .own }
  // Of a URL whose response may be stored: what a hit costs. With a directory every hit is read from its file.
  if let place = option("--cache") {
    configuration.responseCache =
      place == "memory" ? ResponseCache() : try ResponseCache(memoryCapacity: 0, directory: place)
  }
  return try Session(configuration)
}

func run(_ sessions: [Session], _ request: Request, _ count: Int) async throws -> LoopTally {
  guard mode != "callback" else { return await runCallbacks(sessions, request, count) }
  return try await withThrowingTaskGroup(of: LoopTally.self) { group in
    for index in 0..<options.concurrency {
      let session = sessions[index % sessions.count]
      let share = options.share(of: count, worker: index)
      guard mode == "engine" else {
        // Not with a preference of nil: the runtime looks for it at every change of executor, 200 instructions each.
        group.addTask { try await awaitResponses(session, request, share) }
        continue
      }
      let executors = session.engineExecutors
      let executor = executors[index / sessions.count % executors.count]
      group.addTask(executorPreference: executor) { try await awaitResponses(session, request, share) }
    }
    var total = LoopTally(options)
    for try await tally in group { total.add(tally) }
    return total
  }
}

runBlocking {
  let sessions = try (0..<sessionCount).map { _ in try makeSession() }
  let request = try Request(url)
  _ = try await run(sessions, request, options.warmUpCount)
  let before = Cost()
  let tally = try await run(sessions, request, options.count)
  tally.printJSON(options, since: before)
}
