import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Every request that was sent has its metrics, whatever became of it.
@Suite(.timeLimit(.minutes(5))) struct MetricsTests {
  @Test func everyPhaseOfATLSExchange() async throws {
    let before = Date()
    try await withServer(isSecure: true) { session, server in
      let url = "https://localhost:\(server.port)/hello"
      let (_, response) = try await session.data(from: url)
      let metrics = try #require(response.metrics.transactions.first)
      #expect(
        metrics.phases.map(\.name) == ["wait", "resolve", "connect", "tls", "send", "firstByte", "receive", "total"])
      for phase in metrics.phases { #expect(phase.end >= phase.start) }
      for (earlier, later) in zip(metrics.phases.dropLast(), metrics.phases.dropLast().dropFirst()) {
        #expect(earlier.end <= later.start || earlier.name == "connect")
      }
      #expect(metrics.networkProtocolName == "http/1.1")
      #expect(metrics.statusCode == 200)
      #expect(metrics.method == "GET")
      #expect(metrics.urlString == url)
      #expect(metrics.tlsVersion == "TLSv1.3")
      #expect(metrics.tlsCipher?.hasPrefix("TLS_") == true)
      #expect(metrics.isTLSResumed == false)
      #expect(metrics.remoteAddress?.hasSuffix(":\(server.port)") == true)
      #expect(metrics.localAddress != nil)
      #expect(metrics.localAddress != metrics.remoteAddress)
      #expect(metrics.requestHeaderBytes == response.requestHead.count)
      #expect(metrics.responseBodyBytes == 13)
      #expect(metrics.responseDecodedBytes == 13)
      let date = response.metrics.startDate
      #expect(date >= before.addingTimeInterval(-0.1))
      #expect(date <= Date().addingTimeInterval(0.1))
      #expect(metrics.date(of: metrics.fetchStart) >= date)
    }
  }

  @Test func headBytesCountWhatWasOnTheWire() async throws {
    let interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    let head = "HTTP/1.0 200 OK\r\nContent-Length: 5\r\nX-Long: \(String(repeating: "y", count: 3_000))\r\n\r\n"
    try await withScript([[.readHead, .send(ScriptBytes(interim + head + "12345")), .close]]) { session, server in
      let (_, response) = try await session.data(from: server.url())
      let metrics = try #require(response.metrics.transactions.first)
      #expect(metrics.responseHeaderBytes == Int64(interim.utf8.count + head.utf8.count))
      #expect(metrics.responseBodyBytes == 5)
      #expect(metrics.networkProtocolName == "http/1.0")
    }
  }

  /// Opens a latch when an interim response has come.
  private final class HintListener: SessionTaskDelegate {
    private let latch: Latch

    init(_ latch: Latch) { self.latch = latch }

    func session(_ session: Session, task: SessionTask, didReceiveInformationalResponse response: Response) {
      latch.release()
    }
  }

  /// What a server does between an interim response and the final one is no part of receiving that; what came of the final one is.
  @Test func interimResponsesDoNotBeginTheResponse() async throws {
    let (whole, begun) = (try Latch(), try Latch())
    let worked = Locked<Int64>(0)
    let work = ScriptStep.perform { worked.withLock { $0 = TransactionMetrics.Times.now } }
    let hints = ScriptBytes("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 100 Continue\r\n\r\n"), .readBody, work, .send(reply("one")), .readHead,
        .send(hints), .stall(whole), work, .send(reply("two")), .readHead, .send(hints + "HTTP/1.1 200 OK\r\n"),
        .stall(begun), work, .send("Content-Length: 5\r\n\r\nthree"), .waitForClose,
      ]
    ]) { session, server in
      func responseStart(_ request: Request, _ latch: Latch? = nil) async throws -> Int64 {
        let (_, response) = try await session.data(for: request, delegate: latch.map { HintListener($0) })
        let metrics = try #require(response.metrics.transactions.last)
        let (start, end) = (try #require(metrics.responseStart), try #require(metrics.requestEnd))
        #expect(start >= end)
        return start
      }
      var request = try Request(server.url(), method: .post, body: .bytes([1, 2]))
      request.expectsContinue = true
      #expect(try await responseStart(request) >= worked.withLock { $0 })
      #expect(try await responseStart(Request(server.url()), whole) >= worked.withLock { $0 })
      #expect(try await responseStart(Request(server.url()), begun) <= worked.withLock { $0 })
    }
  }

  @Test func transactionsAreAValueLikeAnyOther() async throws {
    try await withServer { session, server in
      var metrics = try await session.data(from: server.url("/hello")).1.metrics
      let first = try #require(metrics.transactions.first)
      #expect(metrics.transactions.count == 1)
      metrics.transactions.append(first)
      #expect(metrics.transactions.map { $0.responseEnd == first.responseEnd } == [true, true])
      metrics.transactions = []
      #expect(metrics.transactions.isEmpty)
    }
  }

  @Test func aRetryHasATransactionOfItsOwn() async throws {
    try await withScript([
      [.readHead, .send(reply("one")), .readHead, .close], [.readHead, .send(reply("two")), .waitForClose],
    ]) { session, server in
      try await session.expect("one", from: server.url())
      let response = try await session.expect("two", from: server.url())
      let transactions = response.metrics.transactions
      #expect(transactions.count == 2)
      #expect(transactions.map(\.isReusedConnection) == [true, false])
      #expect(transactions.map(\.statusCode) == [nil, 200])
      #expect(transactions.map(\.retryCount) == [0, 1])
      #expect(transactions.allSatisfy { $0.urlString == server.url() + "/" || $0.urlString == server.url() })
      let end = try #require(transactions[0].responseEnd)
      #expect(end <= transactions[1].fetchStart)
    }
  }

  @Test func redirectsAreCounted() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"), .readHead,
        .send(reply("end")), .waitForClose,
      ]
    ]) { session, server in
      let response = try await session.expect("end", from: server.url())
      #expect(response.metrics.redirectCount == 1)
      #expect(response.metrics.transactions.map(\.statusCode) == [302, 200])
      #expect(response.metrics.transactions.map(\.isReusedConnection) == [false, true])
      #expect(response.metrics.transactions[1].connectStart == nil)
    }
  }

  @Test func failedHandshakeSaysHowFarItCame() async throws {
    try await withServer(
      isSecure: true,
      configure: { $0.tls.roots = .certificates([]) }
    ) { session, server in
      let error = try await failure { try await session.data(from: "https://localhost:\(server.port)/") }
      let metrics = try #require(error.metrics?.transactions.last)
      #expect(metrics.connectEnd != nil)
      #expect(metrics.secureConnectionStart != nil)
      #expect(metrics.secureConnectionEnd == nil)
      #expect(metrics.requestStart == nil)
      #expect(metrics.statusCode == nil)
    }
  }

  /// So does one that nobody waits for any longer, because nothing moves or because the task was cancelled.
  @Test(arguments: [false, true]) func handshakesThatAreGivenUpSayHowFarTheyCame(_ isCancelled: Bool) async throws {
    try await withScript([[.waitForClose]]) { session, server in
      var request = try Request("https://127.0.0.1:\(server.port)/")
      request.timeoutInterval = isCancelled ? .seconds(60) : .seconds(2)
      let task = Task { [request] in try await session.data(for: request) }
      if isCancelled {
        #expect(await eventually { !server.bytesReceived(connection: 1).isEmpty })
        task.cancel()
      }
      let error = try await failure { try await task.value }
      #expect(error.code == (isCancelled ? .cancelled : .timedOut))
      let metrics = try #require(error.metrics?.transactions.last)
      #expect(metrics.phases.map(\.name).suffix(3) == ["connect", "tls", "total"])
      #expect(metrics.secureConnectionStart != nil && metrics.secureConnectionEnd == nil)
      #expect(metrics.remoteAddress == "127.0.0.1:\(server.port)")
      #expect(metrics.requestStart == nil && metrics.tlsVersion == nil)
    }
  }

  private func metrics(_ change: (inout TransactionMetrics.Times) -> Void) -> TransactionMetrics {
    var times = TransactionMetrics.Times()
    times.fetchStart = 100
    (times.connectStart, times.connectEnd) = (110, 120)
    (times.requestStart, times.requestEnd) = (120, 150)
    (times.responseStart, times.responseEnd) = (170, 200)
    change(&times)
    return TransactionMetrics(method: "POST", times: times)
  }

  /// Also where the answer came before the request had gone, or never came: what had begun ended with what came next.
  @Test func phasesCoverTheWholeExchange() {
    func expect(
      _ phases: String, sourceLocation: SourceLocation = #_sourceLocation,
      _ change: (inout TransactionMetrics.Times) -> Void
    ) {
      let metrics = metrics(change)
      let shown = metrics.phases.map { "\($0.name) \($0.end - $0.start)" }.joined(separator: ", ")
      #expect(shown == phases + ", total 100", sourceLocation: sourceLocation)
      #expect(HTTPArchive.Timings(metrics).total == .nanoseconds(100), sourceLocation: sourceLocation)
    }
    expect("wait 10, connect 10, send 30, firstByte 20, receive 30") { _ in }
    expect("wait 10, connect 10, send 50, receive 30") { $0.requestEnd = nil }
    expect("wait 10, connect 10, send 60, firstByte 0, receive 20") { $0.requestEnd = 180 }
    expect("wait 10, connect 10, send 80") { ($0.requestEnd, $0.responseStart) = (nil, nil) }
    expect("wait 10, connect 10, send 30, firstByte 50") { $0.responseStart = nil }
    func hasNotLeft(_ times: inout TransactionMetrics.Times) {
      (times.requestStart, times.requestEnd, times.responseStart) = (nil, nil, nil)
    }
    expect("wait 10, connect 90") {
      hasNotLeft(&$0)
      $0.connectEnd = nil
    }
    expect("wait 10, connect 10, tls 80") {
      hasNotLeft(&$0)
      $0.secureConnectionStart = 120
    }
    expect("wait 100") {
      hasNotLeft(&$0)
      ($0.connectStart, $0.connectEnd) = (nil, nil)
    }
  }

  /// The engine reads its clock once a turn, and a request that follows another may begin later in that turn.
  @Test func nothingOfAnExchangeLiesBeforeItsStart() {
    let metrics = metrics {
      ($0.requestStart, $0.requestEnd, $0.responseStart, $0.responseEnd) = (90, 91, 99, 101)
    }
    #expect(metrics.fetchStart == 100)
    #expect(
      [metrics.requestStart, metrics.requestEnd, metrics.responseStart, metrics.responseEnd] == [100, 100, 100, 101])
  }
}
