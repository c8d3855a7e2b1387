import FoundationEssentials
import Glibc
import HTTPTypes
import LupineEngine
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Each deadline is its own error, in the phase that was under way, and none is late.
@Suite(.timeLimit(.minutes(5))) struct DeadlineTests {
  /// Long enough for a machine under load to come to the step that is to time out.
  private static let short = Duration.milliseconds(150)
  /// Long enough for that where the same time has to do for every step before it.
  private static let stepwise = Duration.seconds(1)
  /// Long enough for a server to answer first, also where everything takes several times as long.
  private static let long = Duration.seconds(2)

  /// Expects a time-out of `phase`, not before it was due and not long after.
  private func expectTimeout(
    _ phase: SessionError.Phase, sourceLocation: SourceLocation = #_sourceLocation,
    _ work: () async throws -> some Any
  ) async throws {
    let start = ContinuousClock.now
    let error = try await failure(sourceLocation: sourceLocation) { try await work() }
    let elapsed = ContinuousClock.now - start
    #expect(error.code == .timedOut, "\(error)", sourceLocation: sourceLocation)
    #expect(error.phase == phase, sourceLocation: sourceLocation)
    #expect(elapsed >= Self.short && elapsed < .seconds(50), "\(elapsed)", sourceLocation: sourceLocation)
  }

  /// What no clock counts up to is no limit, wherever it is set.
  @Test func timesWithoutEnd() async throws {
    let endless = Duration(attoseconds: .max)
    try await withServer(configure: {
      $0.connectionIdleTimeout = endless
      $0.connectionLifetime = endless
      $0.timeoutIntervalForRequest = endless
      $0.timeoutIntervalForResource = endless
      $0.poolWaitTimeout = endless
      $0.dnsCacheTimeout = endless
      $0.connectTimeout = endless
      $0.sendTimeout = endless
      $0.firstByteTimeout = endless
      $0.drainTimeout = endless
      $0.tcpKeepAlive = TCPKeepAlive(idleTime: endless, interval: endless)
    }) { session, server in
      var request = try Request(server.url("/hello"))
      request.timeoutInterval = endless
      request.totalTimeout = endless
      let (_, response) = try await session.data(for: request)
      #expect(response.statusCode == 200)
      await session.shutDown(within: endless)
    }
  }

  @Test func poolWait() async throws {
    try await withScript(
      [[.readHead, .stall(nil)]],
      configure: {
        $0.maximumConnectionsPerHost = 1
        $0.poolWaitTimeout = Self.short
      }
    ) { session, server in
      let first = Task { try await session.data(from: server.url()) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      try await expectTimeout(.poolWait) { try await session.data(from: server.url()) }
      first.cancel()
      try await expectFailure(.cancelled) { try await first.value }
    }
  }

  @Test func connect() async throws {
    let full = try FullListener()
    try await withSession(configure: { $0.connectTimeout = Self.short }) { session in
      try await expectTimeout(.connect) { try await session.data(from: "http://127.0.0.1:\(full.port)/") }
    }
  }

  /// The first opening answers for whoever waited when it began, the second for all who queued behind it.
  @Test func deadHostFailsAllWhoWait() async throws {
    let full = try FullListener()
    try await withSession(configure: {
      // So long that all have begun to wait by the second one.
      $0.connectTimeout = .milliseconds(600)
      $0.maximumConnectionsPerHost = 1
    }) { session in
      let url = "http://127.0.0.1:\(full.port)/"
      try await withThrowingTaskGroup(of: SessionError.self) { group in
        for _ in 0..<40 { group.addTask { try await failure { try await session.data(from: url) } } }
        for try await error in group { #expect(error.phase == .connect, "\(error)") }
      }
      let failed = try #require(await session.poolStatistics().closes["openFailed"])
      #expect(failed < 10, "\(failed) openings for 40 requests")
    }
  }

  /// Nothing moves while a connection is being opened.
  @Test func idleWhileConnecting() async throws {
    let full = try FullListener()
    try await withSession(configure: { $0.timeoutIntervalForRequest = Self.short }) { session in
      try await expectTimeout(.connect) { try await session.data(from: "http://127.0.0.1:\(full.port)/") }
    }
    try await withScript([[.stall(nil)]], configure: { $0.timeoutIntervalForRequest = Self.stepwise }) {
      session, server in
      try await expectTimeout(.tls) { try await session.data(from: "https://127.0.0.1:\(server.port)/") }
    }
  }

  /// Waiting behind requests that are under way is bounded by `poolWaitTimeout`, not by the time in which nothing moves.
  @Test func queueingIsNotIdle() async throws {
    let go = try Latch()
    try await withScript(
      [[.readHead, .stall(go), .send(reply("one")), .readHead, .send(reply("two")), .waitForClose]],
      configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      let first = Task { try await session.text(server.url()).0 }
      #expect(await eventually { server.recordedRequests.count == 1 })
      var request = try Request(server.url())
      request.timeoutInterval = .seconds(3)
      let second = Task { [request] in try await session.text(request).0 }
      // It waits: its time would run from here, if it ran.
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      let start = ContinuousClock.now
      _ = await eventually { ContinuousClock.now - start > .milliseconds(3_800) }
      go.release()
      #expect(try await first.value == "one")
      #expect(try await second.value == "two")
    }
  }

  /// The connection that was waited for ends, and another is opened: only from then on does nothing move.
  @Test func openingAfterQueueingHasTheWholeTime() async throws {
    let (go, later) = (try Latch(), try Latch())
    let tunnel = ScriptBytes("HTTP/1.1 200 OK\r\n\r\n")
    let last = ScriptBytes("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\none")
    let proxy = try ScriptedServer([
      [.readHead, .send(tunnel), .readHead, .stall(go), .send(last), .waitForClose],
      [.readHead, .stall(later), .send(tunnel), .readHead, .send(reply("two")), .waitForClose],
    ])
    defer { proxy.shutdown() }
    var way = try Proxy("http://127.0.0.1:\(proxy.port)")
    way.tunnelsPlaintext = true
    try await withSession(ports: [proxy.port]) { [way] configuration in
      configuration.maximumConnectionsPerHost = 1
      configuration.proxy = .proxy(way)
    } _: { session in
      let first = Task { try await session.text("http://a.example/1").0 }
      #expect(await eventually { proxy.recordedRequests.count == 2 })
      var request = try Request("http://a.example/2")
      request.timeoutInterval = .seconds(3)
      let second = Task { [request] in try await session.text(request).0 }
      let start = ContinuousClock.now
      #expect(await eventually { await session.poolStatistics().waits == 2 })
      _ = await eventually { ContinuousClock.now - start > .milliseconds(2_200) }
      go.release()
      #expect(await eventually { proxy.recordedRequests.count == 3 })
      _ = await eventually { ContinuousClock.now - start > .milliseconds(3_800) }
      later.release()
      #expect(try await first.value == "one")
      #expect(try await second.value == "two")
    }
  }

  /// A server that accepts and says nothing.
  @Test func handshake() async throws {
    try await withScript([[.stall(nil)]], configure: { $0.tlsTimeout = Self.short }) { session, server in
      try await expectTimeout(.tls) { try await session.data(from: "https://127.0.0.1:\(server.port)/") }
      #expect(await server.hasPlayed(1))
    }
  }

  /// A peer that reads nothing: the body fills the buffers of both sockets, and then nothing moves.
  @Test(arguments: [false, true]) func send(_ isSecure: Bool) async throws {
    try await withScript([[.readHead, .stall(nil)]], isSecure: isSecure, configure: { $0.sendTimeout = Self.short }) {
      session, server in
      let request = try Request(
        server.url(), method: .put, body: .bytes([UInt8](repeating: 1, count: 32 << 20)))
      try await expectTimeout(.send) { try await session.data(for: request) }
    }
  }

  @Test func idleWhileSending() async throws {
    try await withScript([[.readHead, .stall(nil)]], configure: { $0.timeoutIntervalForRequest = Self.stepwise }) {
      session, server in
      let request = try Request(server.url(), method: .put, body: .bytes([UInt8](repeating: 1, count: 32 << 20)))
      try await expectTimeout(.send) { try await session.data(for: request) }
    }
  }

  /// Nothing moves because the body of the request does not come: the error says whose fault that is, and which setting ended it.
  @Test func lateBody() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for setting in ["timeoutIntervalForRequest", "timeoutIntervalForResource", "sendTimeout"] {
        for expectsContinue in [false, true] { group.addTask { try await lateBody(setting, expectsContinue) } }
      }
      try await group.waitForAll()
    }
  }

  private func lateBody(_ setting: String, _ expectsContinue: Bool) async throws {
    try await withScript(
      [[.readHead] + (expectsContinue ? [.send("HTTP/1.1 100 Continue\r\n\r\n")] : []) + [.stall(nil)]],
      configure: {
        switch setting {
        case "timeoutIntervalForRequest": $0.timeoutIntervalForRequest = Self.long
        case "timeoutIntervalForResource": $0.timeoutIntervalForResource = Self.long
        default: $0.sendTimeout = Self.long
        }
      }
    ) { session, server in
      let (chunks, continuation) = AsyncStream.makeStream(of: [UInt8].self)
      defer { continuation.finish() }
      continuation.yield([1, 2, 3])
      var request = try Request(server.url(), method: .put, body: .sequence(chunks))
      request.expectsContinue = expectsContinue
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .timedOut)
      #expect(error.message.contains("the body of the request had nothing to send"), "\(error)")
      #expect(error.message.contains(setting), "\(error)")
      #expect(await server.hasPlayed(1))
    }
  }

  /// The body is there, and the server does not take it.
  @Test func lateServerIsNotTheBodysFault() async throws {
    try await withScript([[.readHead, .stall(nil)]], configure: { $0.timeoutIntervalForRequest = .seconds(1) }) {
      session, server in
      let chunk = [UInt8](repeating: 1, count: 1 << 20)
      let request = try Request(
        server.url(), method: .put,
        body: .stream(length: nil, isReplayable: true) { BodyStream([[UInt8]](repeating: chunk, count: 32)) })
      let error = try await failure { try await session.data(for: request) }
      #expect(error.code == .timedOut && error.phase == .send)
      #expect(!error.message.contains("nothing to send"), "\(error)")
    }
  }

  @Test(arguments: [false, true]) func firstByte(_ isSecure: Bool) async throws {
    try await withScript(
      [[.readHead, .stall(nil)]], isSecure: isSecure, configure: { $0.firstByteTimeout = Self.short }
    ) { session, server in
      try await expectTimeout(.firstByte) { try await session.data(from: server.url()) }
      #expect(await server.hasPlayed(1))
    }
  }

  @Test func idleBeforeTheFirstByte() async throws {
    try await withScript([[.readHead, .stall(nil)]]) { session, server in
      var request = try Request(server.url())
      request.timeoutInterval = Self.stepwise
      try await expectTimeout(.firstByte) { try await session.data(for: request) }
    }
  }

  /// All at a time: each takes as long as its limit.
  @Test func idleInside() async throws {
    let parts = [
      "HTTP/1.1 200 OK\r\nConte", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe", "HTTP/1.1 103 Early\r\n\r\n",
      "HTTP/1.1 200 OK\r\n\r\nhe",
    ]
    try await withThrowingTaskGroup(of: Void.self) { group in
      for part in parts { group.addTask { try await idleInside(part) } }
      try await group.waitForAll()
    }
  }

  private func idleInside(_ part: String) async throws {
    try await withScript(
      [[.readHead, .send(ScriptBytes(part)), .stall(nil)]],
      configure: { $0.timeoutIntervalForRequest = Self.long }
    ) { session, server in
      try await expectTimeout(.receive) { try await session.data(from: server.url()) }
      #expect(await server.hasPlayed(1))
    }
  }

  /// A drip defeats the idle deadline, never the total one.
  @Test func total() async throws {
    let drip = ScriptBytes([UInt8](repeating: 0x61, count: 1 << 20))
    try await withScript(
      [[.readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .drip(drip), .stall(nil)]], expectsProblems: true,
      configure: { $0.timeoutIntervalForResource = Self.short }
    ) { session, server in
      try await expectTimeout(.total) { try await session.data(from: server.url()) }
    }
  }

  @Test func totalCoversWaitingAndRedirects() async throws {
    let redirect: ScriptBytes = "HTTP/1.1 302 F\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"
    try await withScript(
      [[.readHead, .send(redirect), .readHead, .stall(nil)]],
      configure: { $0.maximumConnectionsPerHost = 1 }
    ) { session, server in
      var request = try Request(server.url())
      request.totalTimeout = Self.long
      try await expectTimeout(.total) { [request] in try await session.data(for: request) }
      #expect(server.recordedRequests.map(\.path) == ["/", "/next"])
    }
    try await withScript([[.readHead, .stall(nil)]], configure: { $0.maximumConnectionsPerHost = 1 }) {
      session, server in
      let first = Task { try await session.data(from: server.url()) }
      #expect(await eventually { server.recordedRequests.count == 1 })
      var request = try Request(server.url())
      request.totalTimeout = Self.short
      try await expectTimeout(.total) { [request] in try await session.data(for: request) }
      first.cancel()
      _ = await first.result
    }
  }

  /// 100 (Continue) does not come: the body goes all the same.
  @Test func awaitContinueEndsWaiting() async throws {
    try await withScript(
      [[.readHead, .readBody, .send(reply("taken")), .waitForClose]], configure: { $0.continueTimeout = Self.short }
    ) { session, server in
      var request = try Request(server.url(), method: .put, body: .bytes(Array("body".utf8)))
      request.expectsContinue = true
      let start = ContinuousClock.now
      try await session.expect("taken", from: request)
      #expect(ContinuousClock.now - start >= Self.short)
      #expect(server.recordedRequests.first?.fields.first("Expect") == "100-continue")
      #expect(server.recordedRequests.first?.text == "body")
    }
  }

  /// After an early final response nothing is sent any more, so that the send deadline is off.
  @Test func sendDeadlineEndsWithAnEarlyResponse() async throws {
    let go = try Latch()
    try await withScript(
      [
        [
          .readHead, .send("HTTP/1.1 413 Too Large\r\nContent-Length: 400000\r\n\r\n"), .stall(go),
          .sendPattern(400_000), .waitForClose,
        ]
      ], configure: { $0.sendTimeout = Self.long }
    ) { session, server in
      // A producer that never comes to its end.
      let (chunks, _) = AsyncStream<[UInt8]>.makeStream()
      let request = try Request(server.url(), method: .post, body: .sequence(chunks))
      let start = ContinuousClock.now
      let (bytes, response) = try await session.bytes(for: request)
      #expect(response.statusCode == 413)
      _ = await eventually { ContinuousClock.now - start > Self.long + .milliseconds(200) }
      go.release()
      let body = try await bytes.collect(upTo: 400_000)
      #expect(body.count == 400_000)
    }
  }

  /// A reader that takes its time is no fault of the peer.
  @Test func pausedReaderIsNotIdle() async throws {
    let size = 4 << 20
    try await withServer(configure: { $0.timeoutIntervalForRequest = .seconds(3) }) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/bytes?n=\(size)")))
      let start = ContinuousClock.now
      _ = await eventually { ContinuousClock.now - start > .milliseconds(3_800) }
      #expect(try await bytes.collect(upTo: size).count == size)
    }
  }

  /// Several deadlines armed one after the other on one kept-alive connection do not mix.
  @Test func deadlinesOfOneRequestDoNotReachTheNext() async throws {
    try await withServer { session, server in
      for index in 0..<20 {
        var request = try Request(server.url("/hello"))
        request.timeoutInterval = .milliseconds(index % 2 == 0 ? 3_000 : 60_000)
        try await session.expect("Hello, world!", from: request)
      }
      let start = ContinuousClock.now
      _ = await eventually { ContinuousClock.now - start > .milliseconds(3_200) }
      try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(server.connectionCount == 1)
    }
  }
}

/// A listener whose queue is full: connecting to it never ends.
final class FullListener {
  let port: Int
  private var descriptors: [Int32] = []

  init() throws {
    let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    descriptors = [listener]
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let bound = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(listener, $0, length) }
    }
    guard bound == 0, listen(listener, 0) == 0 else { throw LoopbackError.system(call: "bind", code: errno) }
    _ = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe getsockname(listener, $0, &length) }
    }
    port = Int(UInt16(bigEndian: address.sin_port))
    // A queue of 0 holds one connection; the next ones wait for ever.
    for _ in 0..<4 {
      let client = socket(
        AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
      descriptors.append(client)
      _ = unsafe withUnsafeMutablePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe Glibc.connect(client, $0, length) }
      }
    }
  }

  deinit { for descriptor in descriptors { close(descriptor) } }
}
