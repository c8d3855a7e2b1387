import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// How much a task says there is to send and to receive, where the request or the response alone does not say it.
@Suite(.timeLimit(.minutes(5))) struct TaskProgressTests {
  /// Keeps what it is told of the bytes that were sent.
  private final class SendingDelegate: SessionTaskDelegate {
    struct Report: Sendable, Equatable {
      var total: Int64
      var expected: Int64?
    }

    let handledCallbacks: CallbackSet = .sentBodyData
    let reports = Locked<[Report]>([])

    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      let report = Report(total: totalBytesSent, expected: totalBytesExpectedToSend)
      reports.withLock { $0.append(report) }
    }
  }

  /// The request does not say how long its file is; the head does, from when it is on its way.
  @Test func theLengthOfAFile() async throws {
    let size: Int64 = 300_000
    let directory = try ScratchDirectory()
    let path = try directory.write(PatternBody.bytes(Int(size)), to: "body")
    let goOn = try Latch()
    let server = try LoopbackServer(routes: [
      ServerRoute("PUT", "/file") { _, connection in
        // Not a byte of the body comes before it is read, so that the test can look at what the head has made known.
        guard try connection.stall(until: goOn) == .released else { return }
        let count = try connection.readBody().count
        try connection.respond(text: "\(count)")
      }
    ])
    defer {
      goOn.release()
      server.shutdown()
    }
    try await withDelegate(configure: { $0.continueTimeout = .seconds(100) }) { session, delegate in
      var request = try Request(server.url("/file"), method: .put)
      request.expectsContinue = true
      let own = SendingDelegate()
      let task = session.uploadTask(with: request, fromFile: path)
      task.delegate = own
      let updates = task.progressUpdates
      #expect(task.countOfBytesExpectedToSend == nil)
      task.resume()
      #expect(await eventually { task.countOfBytesExpectedToSend == size })
      goOn.release()
      var last: TaskProgress?
      for await progress in updates { last = progress }
      #expect(await delegate.hasEnded())
      #expect(last?.countOfBytesSent == size && last?.countOfBytesExpectedToSend == size)
      #expect(last?.fractionSent == 1 && task.progress.fractionSent == 1)
      let reports = own.reports.withLock { $0 }
      #expect(reports.last == SendingDelegate.Report(total: size, expected: size))
      #expect(reports.allSatisfy { $0.expected == size })
      #expect(String(decoding: delegate.data, as: UTF8.self) == "\(size)")
    }
  }

  /// Keeps what it is told of the bytes that were sent, in a queue that nobody serves for the time being.
  private final class LateDelegate: SessionDataDelegate {
    let handledCallbacks: CallbackSet = [.sentBodyData, .completed]
    let reports = Locked<[[Int64?]]>([])
    let isOver = Locked(false)

    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      reports.withLock { $0.append([bytesSent, totalBytesSent, totalBytesExpectedToSend]) }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      isOver.withLock { $0 = true }
    }
  }

  /// What was sent before a redirect is no part of the request behind it, also for a delegate that hears of both at once.
  @Test func whatWasSentBeforeARedirectIsNotCounted() async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute("PUT", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    let queue = DispatchQueue(label: "late")
    queue.suspend()
    let delegate = LateDelegate()
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    let session = try Session(configuration, delegate: delegate, delegateQueue: queue)
    defer { session.invalidateAndCancel() }
    let task = session.uploadTask(with: try Request(server.url("/from"), method: .put), from: Data("Hello".utf8))
    task.resume()
    #expect(await eventually { server.requestCount == 2 && task.countOfBytesReceived == 5 })
    queue.resume()
    #expect(await eventually { delegate.isOver.withLock { $0 } })
    #expect(delegate.reports.withLock { $0 } == [[5, 5, 5]])
  }

  /// Each report says what has been sent since the one before, and in all.
  @Test(arguments: [7, nil] as [Int64?]) func reportsOfABodyInPieces(_ length: Int64?) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let delegate = LateDelegate()
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    let session = try Session(configuration, delegate: delegate, delegateQueue: DispatchQueue(label: "reports"))
    defer { session.invalidateAndCancel() }
    let (pieces, producer) = AsyncStream.makeStream(of: [UInt8].self)
    let body = Request.Body.stream(length: length, isReplayable: false) { BodyStream(pieces) }
    let task = session.uploadTask(
      withStreamedRequest: try Request(server.url("/echo"), method: .post, body: body))
    task.resume()
    producer.yield([1, 2, 3])
    #expect(await eventually { delegate.reports.withLock { $0 } == [[3, 3, length]] })
    #expect(task.countOfBytesSent == 3)
    producer.yield([4, 5, 6, 7])
    producer.finish()
    #expect(await eventually { delegate.isOver.withLock { $0 } })
    #expect(delegate.reports.withLock { $0 } == [[3, 3, length], [4, 7, length]])
    #expect(task.countOfBytesSent == 7 && task.countOfBytesExpectedToSend == length)
  }

  /// Compares what it is given with what its task says of it meanwhile.
  private final class CountingDelegate: SessionDataDelegate {
    struct Count: Sendable {
      var given: Int64 = 0
      var isBehind = false
      var isOver = false
    }

    let handledCallbacks: CallbackSet = [.receivedData, .completed]
    let count = Locked(Count())

    func session(_ session: Session, dataTask: DataTask, didReceive data: Data) {
      let said = dataTask.countOfBytesReceived
      count.withLock { count in
        count.given += Int64(data.count)
        if said < count.given { count.isBehind = true }
      }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      count.withLock { $0.isOver = true }
    }
  }

  /// Bytes count before a delegate is given them.
  @Test func bytesCountWhenTheyAreGiven() async throws {
    try await withServer { session, server in
      let delegate = CountingDelegate()
      let task = session.dataTask(with: try Request(server.url("/chunked?n=300000")))
      task.delegate = delegate
      task.resume()
      #expect(await eventually { delegate.count.withLock { $0.isOver } })
      let count = delegate.count.withLock { $0 }
      #expect(count.given == 300_000 && !count.isBehind)
      #expect(task.countOfBytesReceived == 300_000)
    }
  }

  private func progress(of request: Request, _ session: Session) async -> TaskProgress {
    let task = session.dataTask(with: request) { _ in }
    task.resume()
    let isOver = await eventually { task.state == .completed }
    #expect(isOver)
    return task.progress
  }

  /// The announced length is that of the coded body: what is delivered is no part of it, unless the caller wants the
  /// body as it comes.
  @Test func theLengthOfACodedBody() async throws {
    let bytes = PatternBody.bytes(300_000)
    let packed = try Compression.gzip.encode(bytes)
    try await withServer([
      ServerRoute("GET", "/coded") { _, connection in
        try connection.respond(fields: ["Content-Encoding": "gzip"], body: packed)
      },
      ServerRoute("GET", "/foreign") { _, connection in
        try connection.respond(fields: ["Content-Encoding": "zstd"], body: packed)
      },
      ServerRoute("GET", "/plain") { _, connection in try connection.respond(body: bytes) },
    ]) { session, server in
      let foreign = try await progress(of: Request(server.url("/foreign")), session)
      #expect(foreign.countOfBytesReceived == Int64(packed.count))
      #expect(foreign.countOfDecodedBytesExpectedToReceive == Int64(packed.count) && foreign.fractionReceived == 1)
      var request = try Request(server.url("/coded"))
      let coded = await progress(of: request, session)
      #expect(coded.countOfBytesReceived == 300_000)
      #expect(coded.countOfBytesExpectedToReceive == Int64(packed.count))
      #expect(coded.countOfDecodedBytesExpectedToReceive == nil && coded.fractionReceived == nil)
      request.fields[.acceptEncoding] = "gzip"
      let asItComes = await progress(of: request, session)
      #expect(asItComes.countOfBytesReceived == Int64(packed.count))
      #expect(asItComes.countOfDecodedBytesExpectedToReceive == Int64(packed.count))
      #expect(asItComes.fractionReceived == 1)
      let plain = try await progress(of: Request(server.url("/plain")), session)
      #expect(plain.countOfBytesReceived == 300_000)
      #expect(plain.countOfBytesExpectedToReceive == 300_000)
      #expect(plain.countOfDecodedBytesExpectedToReceive == 300_000 && plain.fractionReceived == 1)
    }
  }

  /// A redirect that drops the body takes nothing back: what was sent is not sent again.
  @Test(arguments: [301, 302, 303]) func aBodyThatIsNotSentAgainCounts(_ status: Int) async throws {
    try await withServer(
      [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(status, fields: ["Location": "/hello"])
        }
      ] + ServerRoute.standard()
    ) { session, server in
      let totals = Locked<[Int64]>([])
      let request = try Request(server.url("/from"), method: .post)
      let (_, response) = try await session.upload(for: request, from: Data(PatternBody.bytes(100_000))) { total in
        totals.withLock { $0.append(total) }
      }
      #expect(response.redirects.count == 1)
      let seen = totals.withLock { $0 }
      #expect(seen.last == 100_000 && seen == seen.sorted(), "\(seen)")
    }
  }

  /// One that is sent again is counted from the beginning.
  @Test func aBodyThatIsSentAgainCountsAnew() async throws {
    try await withServer(
      [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard()
    ) { session, server in
      let totals = Locked<[Int64]>([])
      let request = try Request(server.url("/from"), method: .post)
      let (_, response) = try await session.upload(for: request, from: Data(PatternBody.bytes(100_000))) { total in
        totals.withLock { $0.append(total) }
      }
      #expect(response.redirects.count == 1)
      let seen = totals.withLock { $0 }
      #expect(seen.last == 100_000 && seen.max() == 100_000 && seen.contains(0), "\(seen)")
    }
  }

  /// Whoever follows a task that is let go of before it began does not wait for ever.
  @Test func progressOfATaskThatNeverBeganEnds() async throws {
    try await withServer { session, server in
      let hasEnded = Locked(false)
      let updates = session.dataTask(with: try Request(server.url("/hello"))).progressUpdates
      let reader = Task {
        for await progress in updates { #expect(progress.countOfBytesReceived == 0) }
        hasEnded.withLock { $0 = true }
      }
      #expect(await eventually(seconds: 20) { hasEnded.withLock { $0 } })
      reader.cancel()
      #expect(server.requestCount == 0)
    }
  }
}
