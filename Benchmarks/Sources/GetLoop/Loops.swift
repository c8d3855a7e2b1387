import BenchmarkSupport
import FoundationEssentials
import LupineSession

/// The request that all are, or another one like it.
private func next(_ request: Request) -> Request {
  guard makesRequests else { return request }
  do { return try Request(url) } catch { fatalError("\(error)") }
}

/// Requests one after another, awaited in a task.
func awaitResponses(_ session: Session, _ request: Request, _ count: Int) async throws -> LoopTally {
  var tally = LoopTally(options)
  for _ in 0..<count {
    let start = tally.start()
    let request = next(request)
    if abandons {
      // The body is let go of at the end of this scope, which cancels the request.
      let (_, response) = try await session.bytes(for: request)
      precondition(response.statusCode == 200)
      tally.note(count: 0, first: nil, since: start)
    } else {
      let (body, _) = try await session.data(for: request)
      precondition(body.count > 0)
      tally.note(count: body.count, first: options.reusesConnections ? nil : body.first, since: start)
    }
  }
  return tally
}

/// Every session keeps its share of requests under way, from callbacks on its engine's thread. Where one session has several engines, one loop for each
/// request that is under way: it goes on wherever its request was answered.
func runCallbacks(_ sessions: [Session], _ request: Request, _ count: Int) async -> LoopTally {
  let (tallies, continuation) = AsyncStream.makeStream(of: LoopTally.self)
  let loops = isOneSession ? options.concurrency : sessions.count
  for index in 0..<loops {
    let session = sessions[index % sessions.count]
    let share = count / loops + (index < count % loops ? 1 : 0)
    let loop = CallbackLoop(session, request, share) { continuation.yield($0) }
    session.onEngine { loop.begin(width: options.concurrency / loops) }
  }
  var total = LoopTally(options)
  var ended = 0
  for await tally in tallies {
    total.add(tally)
    ended += 1
    if ended == loops { break }
  }
  return total
}

/// Touched on one engine's thread only, but for the start; or by one request at a time.
private final class CallbackLoop: @unchecked Sendable {
  private let session: Session
  private let request: Request
  private let finished: (LoopTally) -> Void
  private var tally = LoopTally(options)
  private var left: Int
  private var underWay = 0

  init(_ session: Session, _ request: Request, _ count: Int, finished: @escaping (LoopTally) -> Void) {
    self.session = session
    self.request = request
    self.finished = finished
    left = count
  }

  func begin(width: Int) {
    underWay = width
    for _ in 0..<width { next() }
  }

  private func next() {
    guard left > 0 else {
      underWay -= 1
      if underWay == 0 { finished(tally) }
      return
    }
    left -= 1
    let request = GetLoop.next(request)
    guard options.recordsLatency else {
      // A closure that holds nothing but this object needs no memory of its own.
      session.data(for: request) { self.take($0, since: 0) }
      return
    }
    let start = tally.start()
    session.data(for: request) { self.take($0, since: start) }
  }

  private func take(_ result: Result<(Data, Response), SessionError>, since start: UInt64) {
    guard case .success(let (body, _)) = result, body.count > 0 else { fatalError("\(result)") }
    tally.note(count: body.count, first: options.reusesConnections ? nil : body.first, since: start)
    next()
  }
}
