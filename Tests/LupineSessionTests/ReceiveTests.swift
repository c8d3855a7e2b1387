import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What the closures of `Session.receive` were told.
private final class Reception: Sendable {
  struct State {
    var status: Int?
    var bytes: [UInt8] = []
    var results: [Result<Response, SessionError>] = []
  }

  let state = Locked(State())

  var count: Int { state.withLock { $0.bytes.count } }
  var bytes: [UInt8] { state.withLock { $0.bytes } }

  /// Begins a request, and returns what cancels it.
  func begin(_ request: Request, _ session: Session) -> @Sendable () -> Void {
    session.receive(request) { response in
      self.state.withLock { state in
        #expect(state.bytes.isEmpty && state.results.isEmpty)
        state.status = response.statusCode
      }
    } onBody: { piece in
      let isEmpty = piece.isEmpty
      #expect(!isEmpty)
      self.state.withLock { $0.bytes.append(piece) }
    } completion: { result in
      self.state.withLock { $0.results.append(result) }
    }
  }

  func result() async throws -> Result<Response, SessionError> {
    #expect(await eventually { self.state.withLock { !$0.results.isEmpty } })
    return try #require(state.withLock { $0.results.first })
  }
}

@Suite(.timeLimit(.minutes(5))) struct ReceiveTests {
  @Test(arguments: [0, 1, 1_000_000], [false, true])
  func showsEveryByteInItsOrder(_ size: Int, _ isSecure: Bool) async throws {
    try await withServer(isSecure: isSecure) { session, server in
      let reception = Reception()
      _ = reception.begin(try Request(server.url("/bytes?n=\(size)")), session)
      let response = try await reception.result().get()
      #expect(response.metrics.transactions.count == 1)
      #expect(reception.state.withLock { $0.status } == 200)
      #expect(reception.count == size)
      #expect(PatternBody.matches(reception.bytes, from: 0))
      #expect(reception.state.withLock { $0.results.count } == 1)
    }
  }

  @Test func canBeCancelledFromItsBody() async throws {
    try await withServer([
      ServerRoute("GET", "/endless") { _, connection in
        try connection.begin(framing: .length(1 << 30))
        // Ends with an error as soon as the client has gone.
        while true { try connection.write([UInt8](repeating: 0, count: 1000)) }
      }
    ]) { session, server in
      let cancel = Locked<(@Sendable () -> Void)?>(nil)
      let result = Locked<Result<Response, SessionError>?>(nil)
      let begun = session.receive(try Request(server.url("/endless"))) { _ in
        cancel.withLock { $0 }?()
      } completion: { outcome in
        result.withLock { $0 = outcome }
      }
      cancel.withLock { $0 = begun }
      #expect(await eventually { result.withLock { $0 != nil } })
      #expect(throws: SessionError.self) { try result.withLock { $0 }?.get() }
    }
  }

  @Test func refusesAfterTheEndOfItsSession() async throws {
    let session = try Session()
    session.invalidateAndCancel()
    let reception = Reception()
    _ = reception.begin(try Request("http://127.0.0.1:9/"), session)
    #expect(
      performing: { try reception.state.withLock { $0.results.first }?.get() },
      throws: { ($0 as? SessionError)?.code == .sessionInvalidated })
  }
}

/// Reads of a large body are gathered while it comes fast; that must never keep back a byte for long.
@Suite(.timeLimit(.minutes(5))) struct GatheringTests {
  /// A body that stands still after its first bytes, and small ones.
  private func halting(after first: Int, of total: Int, until goOn: Latch) -> [ServerRoute] {
    [
      ServerRoute("GET", "/halting") { _, connection in
        try connection.begin(framing: .length(total))
        try connection.write(PatternBody.bytes(first))
        _ = try connection.stall(until: goOn)
        try connection.write(PatternBody.bytes(total - first, from: first))
        try connection.finish()
      },
      ServerRoute("GET", "/small") { _, connection in try connection.respond(text: "small") },
    ]
  }

  /// The connection that served the body serves small answers as ever.
  private func expectSmallAnswers(_ session: Session, _ server: LoopbackServer) async throws {
    for _ in 0..<3 { #expect(try await session.text(server.url("/small")).0 == "small") }
    #expect(await session.poolStatistics().opened == 1)
  }

  /// The body stands still in its middle, at several places on both sides of the watermark and of the end.
  @Test(arguments: [2 << 20, 2_500_001, (3 << 20) - 1], [false, true])
  func aBodyThatStandsStillIsReadToItsLastByte(_ first: Int, _ isSecure: Bool) async throws {
    let total = 3 << 20
    let goOn = try Latch()
    try await withServer(halting(after: first, of: total, until: goOn), isSecure: isSecure) { session, server in
      let reception = Reception()
      _ = reception.begin(try Request(server.url("/halting")), session)
      #expect(await eventually { reception.count == first })
      goOn.release()
      _ = try await reception.result().get()
      #expect(reception.count == total)
      #expect(PatternBody.matches(reception.bytes, from: 0))
      try await expectSmallAnswers(session, server)
    }
  }

  /// The same for a download, which is read in larger pieces; those are what its progress is told of.
  @Test(arguments: [(7 << 20) + 1, (8 << 20) - (512 << 10) + 1, (8 << 20) - 1])
  func aDownloadThatStandsStillIsReadToItsLastByte(_ first: Int) async throws {
    let total = 8 << 20
    let goOn = try Latch()
    try await withServer(halting(after: first, of: total, until: goOn)) { session, server in
      let seen = Locked<Int64>(0)
      let request = try Request(server.url("/halting"))
      let download = Task {
        try await session.download(for: request, progress: { received, _ in seen.withLock { $0 = received } }).path
      }
      #expect(await eventually { seen.withLock { $0 } == Int64(first) })
      goOn.release()
      let path = try await download.value
      #expect(Pattern.matches(path, total))
      try FileManager.default.removeItem(atPath: path)
      try await expectSmallAnswers(session, server)
    }
  }

  /// A large read has gathering begin, and what comes next is not worth waking anybody: only time brings it.
  @Test(arguments: [false, true]) func aLittleAfterALargeReadIsReadAfterAWhile(_ isSecure: Bool) async throws {
    let (first, second) = try (Latch(), Latch())
    let route = ServerRoute("GET", "/little") { _, connection in
      try connection.begin(framing: .length(4 << 20))
      try connection.write(PatternBody.bytes(100_000))
      _ = try connection.stall(until: first)
      try connection.write(PatternBody.bytes(50_000, from: 100_000))
      _ = try connection.stall(until: second)
      try connection.write(PatternBody.bytes((4 << 20) - 150_000, from: 150_000))
      try connection.finish()
    }
    try await withServer([route], isSecure: isSecure) { session, server in
      let reception = Reception()
      _ = reception.begin(try Request(server.url("/little")), session)
      #expect(await eventually { reception.count == 100_000 })
      first.release()
      #expect(await eventually { reception.count == 150_000 })
      second.release()
      _ = try await reception.result().get()
      #expect(PatternBody.matches(reception.bytes, from: 0))
    }
  }

  @Test func aBodyThatBreaksOffIsReportedAtOnce() async throws {
    try await withServer([
      ServerRoute("GET", "/short") { _, connection in
        try connection.begin(framing: .length(3 << 20))
        try connection.write(PatternBody.bytes((2 << 20) + 77))
        throw CancellationError()
      }
    ]) { session, server in
      let reception = Reception()
      _ = reception.begin(try Request(server.url("/short")), session)
      let result = try await reception.result()
      #expect(throws: SessionError.self) { try result.get() }
      #expect(reception.count == (2 << 20) + 77)
    }
  }
}

/// A request that is started from a completion begins at once where that is safe.
@Suite(.timeLimit(.minutes(5))) struct StartFromCompletionTests {
  /// Each failure starts the next request, which fails at once: that must not become a recursion.
  @Test func failuresThatStartRequestsDoNotGrowTheStack() async throws {
    let enough = try Latch()
    let answers = Locked(0)
    try await withServer(
      [
        ServerRoute("GET", "/") { _, connection in
          let number = answers.withLock { answers in
            answers += 1
            return answers
          }
          if number > 1 { _ = try connection.stall(until: enough) }
          try connection.respond(text: "ok")
        }
      ],
      configure: {
        $0.maximumConnectionsPerHost = 1
        $0.maximumWaitingRequests = 1
      }
    ) { session, server in
      let request = try Request(server.url("/"))
      let failures = Locked(0)
      let successes = Locked(0)
      @Sendable func fail() {
        session.data(for: request) { result in
          guard case .failure(let error) = result else { return successes.withLock { $0 += 1 } }
          #expect(error.code == .tooManyWaiters)
          let count = failures.withLock { count in
            count += 1
            return count
          }
          if count < 20_000 { fail() } else { enough.release() }
        }
      }
      session.data(for: request) { result in
        guard case .success = result else { return }
        successes.withLock { $0 += 1 }
        // The connection, then the only place in the queue.
        session.data(for: request) { _ in successes.withLock { $0 += 1 } }
        session.data(for: request) { _ in successes.withLock { $0 += 1 } }
        fail()
      }
      #expect(await eventually { successes.withLock { $0 } == 3 })
      #expect(failures.withLock { $0 } == 20_000)
      #expect(await session.poolStatistics().opened == 1)
    }
  }

  @Test func aChainOfRequestsUsesOneConnection() async throws {
    try await withServer([ServerRoute("GET", "/") { _, connection in try connection.respond(text: "ok") }]) {
      session, server in
      let request = try Request(server.url("/"))
      let left = Locked(500)
      @Sendable func next() {
        session.data(for: request) { result in
          #expect(throws: Never.self) { try result.get() }
          if left.withLock({ left in
            left -= 1
            return left
          }) > 0 {
            next()
          }
        }
      }
      next()
      #expect(await eventually { left.withLock { $0 } == 0 })
      #expect(await session.poolStatistics().opened == 1)
    }
  }
}
