import FoundationEssentials
import LupineSession
import LupineTestSupport
import Testing

@testable import LupineTesting

/// Recorded exchanges go to requests in the order in which those were begun, not in which their bodies end.
@Suite(.timeLimit(.minutes(5))) struct ReplayOrderTests {
  private func archive(_ lines: [(method: String, url: String)]) -> HTTPArchive {
    var archive = HTTPArchive()
    for (index, line) in lines.enumerated() {
      var response = HTTPArchive.Response(status: 200)
      response.body = Array("\(index)".utf8)
      var request = HTTPArchive.Request(method: line.method, url: line.url)
      request.fields = [.init("Host", "a.example"), .init("Accept", "*/*"), .init("Accept-Encoding", "gzip, deflate")]
      if line.method == "POST" { request.body = [1] }
      archive.entries.append(HTTPArchive.Entry(startedAt: Date(), request: request, response: response))
    }
    return archive
  }

  /// Of those that were all played the one goes first that was asked the same, as in any order.
  @Test func whatIsRepeatedInTheRecordedOrder() async throws {
    var recorded = archive([("GET", "http://a.example/"), ("GET", "http://a.example/")])
    recorded.entries[1].request.fields.append(.init("If-None-Match", "\"a\""))
    let replay = ReplayTransport(recorded, matching: .strict, order: .recorded, repeats: true)
    let session = try Session(over: replay)
    for answer in ["0", "1", "0"] { #expect(try await session.text("http://a.example/").0 == answer) }
  }

  /// A POST whose body ends when the continuation is finished.
  private func openPost(
    _ url: String = "http://a.example/"
  ) throws -> (Request, AsyncStream<[UInt8]>.Continuation) {
    let (chunks, continuation) = AsyncStream<[UInt8]>.makeStream()
    continuation.yield([1])
    return (try Request(url, method: .post, body: .sequence(chunks)), continuation)
  }

  private static let matchings: [ReplayTransport.Matching] = [.loose, .strict]

  @Test(arguments: matchings) func recordedOrderIsThatOfBeginnings(_ matching: ReplayTransport.Matching) async throws {
    let replay = ReplayTransport(
      archive([("POST", "http://a.example/"), ("GET", "http://a.example/2")]), matching: matching, order: .recorded)
    let transport = CountingTransport(replay)
    let session = try Session(over: transport)
    let (post, continuation) = try openPost()
    let first = Task { try await session.data(for: post).0 }
    #expect(await eventually { transport.count == 1 })
    let second = Task { try await session.data(from: "http://a.example/2").0 }
    #expect(await eventually { transport.count == 2 })
    continuation.finish()
    #expect(try await first.value == Data("0".utf8))
    #expect(try await second.value == Data("1".utf8))
    #expect(replay.remaining == [])
  }

  @Test(arguments: matchings) func equalRequestsAreAnsweredInTheirOrder(
    _ matching: ReplayTransport.Matching
  ) async throws {
    let post = ("POST", "http://a.example/")
    let transport = CountingTransport(ReplayTransport(archive([post, post]), matching: matching))
    let session = try Session(over: transport)
    let (open, continuation) = try openPost()
    let first = Task { try await session.data(for: open).0 }
    #expect(await eventually { transport.count == 1 })
    let second = Task {
      try await session.data(for: Request("http://a.example/", method: .post, body: .bytes([1]))).0
    }
    #expect(await eventually { transport.count == 2 })
    // Without a need to, nobody waits.
    if matching == .loose { #expect(try await second.value == Data("1".utf8)) }
    continuation.finish()
    #expect(try await first.value == Data("0".utf8))
    #expect(try await second.value == Data("1".utf8))
  }

  /// What was redacted matches any: requests that differ in secrets alone want the same exchanges, and wait for each other.
  @Test func otherSecretsWaitForEachOther() async throws {
    let line = (method: "POST", url: "http://a.example/?token=REDACTED")
    var recorded = archive([line, line])
    // A body that was not kept may have been any, or none.
    for index in recorded.entries.indices { recorded.entries[index].request.body = nil }
    let replay = ReplayTransport(recorded, matching: .strict)
    let transport = CountingTransport(replay)
    let session = try Session(over: transport)
    let (open, continuation) = try openPost("http://a.example/?token=one")
    let first = Task { try await session.data(for: open).0 }
    #expect(await eventually { transport.count == 1 })
    let second = Task { try await session.data(for: Request("http://a.example/?token=two", method: .post)).0 }
    #expect(await eventually { transport.count == 2 })
    // What has no body to be read takes its exchange before `start` returns, unless it waits.
    #expect(replay.remaining.count == 2)
    continuation.finish()
    #expect(try await first.value == Data("0".utf8))
    #expect(try await second.value == Data("1".utf8))
    #expect(replay.remaining == [])
  }

  /// A request that is cancelled takes nothing, and holds nobody; one for another URL is not held at all.
  @Test func nobodyWaitsForWhatIsOver() async throws {
    let lines = [("POST", "http://a.example/"), ("POST", "http://a.example/"), ("GET", "http://a.example/other")]
    let replay = ReplayTransport(archive(lines), matching: .strict)
    let transport = CountingTransport(replay)
    let session = try Session(over: transport)
    let (open, continuation) = try openPost()
    let first = Task { try await session.data(for: open).0 }
    #expect(await eventually { transport.count == 1 })
    #expect(try await session.data(from: "http://a.example/other").0 == Data("2".utf8))
    let second = Task {
      try await session.data(for: Request("http://a.example/", method: .post, body: .bytes([1]))).0
    }
    #expect(await eventually { transport.count == 3 })
    first.cancel()
    #expect(try await failure { try await first.value }.code == .cancelled)
    #expect(try await second.value == Data("0".utf8))
    #expect(replay.remaining == ["POST http://a.example/"])
    continuation.finish()
  }

  /// Who waits for its turn waits for nobody's bytes; those before it have deadlines of their own.
  @Test func aTurnIsWaitedForBeyondTheIdleTime() async throws {
    let clock = ManualClock()
    let replay = ReplayTransport(
      archive([("POST", "http://a.example/"), ("GET", "http://a.example/2")]), matching: .strict, order: .recorded,
      clock: .manual(clock))
    let transport = CountingTransport(replay)
    let session = try Session(over: transport)
    let (post, continuation) = try openPost()
    let first = Task { try await session.data(for: post).0 }
    #expect(await eventually { transport.count == 1 })
    var request = try Request("http://a.example/2")
    request.timeoutInterval = .seconds(10)
    let second = Task { [request] in try await session.data(for: request).0 }
    #expect(await eventually { transport.count == 2 })
    clock.advance(by: .seconds(30))
    continuation.finish()
    #expect(try await first.value == Data("0".utf8))
    #expect(try await second.value == Data("1".utf8))
  }

  @Test func turnsAreTakenInOrder() {
    var turns = ReplayTurns<String>()
    let numbers = ["a", "a", "b", "a"].map { turns.enter($0) }
    #expect(turns.next() == nil)
    turns.arrive(numbers[1], "second")
    turns.arrive(numbers[2], "third")
    #expect(turns.next() == "third")
    #expect(turns.next() == nil)
    turns.arrive(numbers[0], "first")
    turns.leave(numbers[3])
    turns.arrive(numbers[3], "fourth")
    #expect(turns.next() == "first")
    #expect(turns.next() == "second")
    #expect(turns.next() == nil)
  }

  /// Requests are compared with what was recorded for their method and URL alone, from the first on that was not played.
  @Test func entriesAreFoundByTheirPlace() {
    let places = (0..<1_000).map { ReplayLine.Place(method: "GET", location: "\($0 % 10)") }
    var index = ReplayIndex(places)
    #expect(index.next() == 0)
    for entry in Array(0..<500) + [513] { index.play(entry) }
    #expect(index.next() == 500)
    let rest = index.remaining(of: places[3])
    #expect(Array(rest) == Array(stride(from: 503, to: 1_000, by: 10)))
    index.play(503)
    #expect(index.remaining(of: places[3]).first == 523)
    #expect(index.entries(of: places[3]).count == 100)
    #expect(index.remaining(of: ReplayLine.Place(method: "POST", location: "3")).isEmpty)
  }

  /// The work for each request grows neither with those that wait nor with the archive, in whichever order they come; else all of those that
  /// take turns, and all of those that are played, take longer than the suite may.
  @Test func largeArchivesArePlayedInAnyOrder() async throws {
    var turns = ReplayTurns<Int>()
    let numbers = (0..<60_000).map { turns.enter("GET http://a.example/\($0)") }
    let taken = numbers.reversed().map { number -> Int in
      turns.arrive(number, number)
      return turns.next() ?? 0
    }
    #expect(taken == Array(numbers.reversed()))
    let count = 20_000
    let lines = (0..<count).map { (method: "GET", url: "http://a.example/\($0)?x=1") }
    let replay = ReplayTransport(archive(lines))
    let session = try Session(over: replay)
    for number in (0..<count).reversed() {
      let (body, _) = try await session.data(from: "http://a.example/\(number)?x=1")
      guard body == Data("\(number)".utf8) else { return #expect(Bool(false), "\(number)") }
    }
    #expect(replay.remaining.isEmpty)
  }
}
