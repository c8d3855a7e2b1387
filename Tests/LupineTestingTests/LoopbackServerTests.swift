import Testing

@testable import LupineTesting

@Suite struct LoopbackServerTests {
  private static func unixPath() -> String { "/tmp/lupine-test-\(UInt64.random(in: 0 ... .max)).sock" }

  @Test(arguments: [LoopbackAddress.ipv4, .ipv6, .unix(Self.unixPath())])
  func servesSeveralRequestsOnOneConnection(_ address: LoopbackAddress) throws {
    let server = try LoopbackServer(address: address) { request, connection in
      try connection.respond(
        fields: ["X-Number": "\(request.requestNumber)"], text: "\(request.method) \(request.path)")
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    for number in 1...3 {
      let response = try client.get("/a?n=\(number)", fields: "X-Case: Kept\r\nx-case: again\r\n")
      #expect(response.status == 200)
      #expect(response.text == "GET /a")
      #expect(response.fields.first("x-number") == "\(number)")
    }
    let recorded = server.recordedRequests
    #expect(recorded.map { $0.requestNumber } == [1, 2, 3])
    #expect(recorded.allSatisfy { $0.connectionNumber == 1 && $0.version == "HTTP/1.1" })
    #expect(recorded[2].target == "/a?n=3")
    #expect(recorded[2].number("n") == 3)
    #expect(recorded[0].fields.map { $0.name } == ["Host", "X-Case", "x-case"])
    #expect(recorded[0].fields.values("X-CASE") == ["Kept", "again"])
    #expect(server.connectionCount == 1)
    #expect(server.problems == [])
  }

  /// The last of them, in their order, each with its own body.
  @Test(arguments: [0, 1, 3, 7, 8]) func recallsSoManyRequests(_ limit: Int) throws {
    let server = try LoopbackServer(recording: RequestRecording(requestLimit: limit)) { _, connection in
      _ = try connection.readBody()
      try connection.respond(text: "ok")
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    for number in 0..<7 {
      try client.send("POST /\(number) HTTP/1.1\r\nContent-Length: 1\r\n\r\n\(number)")
      #expect(try client.response().status == 200)
      #expect(server.requestCount == number + 1)
    }
    let wanted = Array((0..<7).suffix(limit).map { "/\($0)" })
    #expect(server.recordedRequests.map { $0.target } == wanted)
    #expect(server.recordedRequests.map { "/" + $0.text } == wanted)
  }

  @Test func recordsAChunkedBodyWithTrailers() throws {
    let server = try LoopbackServer { request, connection in
      let body = try connection.readBody()
      try connection.respond(body: body)
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    try client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: v\r\n\r\n")
    #expect(try client.response().text == "abcde")
    let requests = try server.waitForRequests(1)
    #expect(requests.count == 1)
    #expect(try client.get("/after").status == 200)
    let recorded = server.recordedRequests[0]
    #expect(recorded.text == "abcde")
    #expect(recorded.trailers.first("t") == "v")
    #expect(recorded.bodyIsComplete)
  }

  /// 100 comes before the response or not at all: behind its head it would be a part of the body.
  @Test func noContinueBehindTheResponse() throws {
    let refusal = Monitor<LoopbackError?>(nil)
    let server = try LoopbackServer { request, connection in
      try connection.begin(framing: .length(2))
      do throws(LoopbackError) {
        _ = try connection.readBodyPart()
      } catch {
        refusal.withLock { $0 = error }
      }
      try connection.write([0x6F, 0x6B])
      try connection.finish()
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    try client.send("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
    #expect(try client.response().text == "ok")
    guard case .misuse? = refusal.withLock({ $0 }) else {
      Issue.record("\(String(describing: refusal.withLock { $0 }))")
      return
    }
  }

  @Test(arguments: [
    "GET /\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nA : b\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    "GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", "GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
  ])
  func refusesWhatIsNoRequest(_ bytes: String) throws {
    let server = try LoopbackServer { _, connection in try connection.respond() }
    defer { server.shutdown() }
    let client = try RawClient(server)
    try client.send(bytes)
    #expect(try client.response().status == 400)
    #expect(try client.receive() == nil)
    client.finish()
    server.shutdown()
    #expect(server.problems.count == 1)
    #expect(server.recordedRequests.isEmpty)
  }

  /// A 204 has no framing fields, and a 304 the length of the 200 in whose place it comes, if somebody says it.
  @Test func responsesWithoutContentAreFramedByTheirStatus() throws {
    let server = try LoopbackServer { request, connection in
      switch request.path {
      case "/chunked":
        try connection.begin(204, framing: .chunked)
        try connection.write(Array("not sent".utf8))
        try connection.finish(trailers: ["X-Not": "sent"])
      case "/length": try connection.respond(304, fields: ["Content-Length": "100"])
      case "/body": try connection.respond(304, text: "not sent")
      default: try connection.respond(request.number("status") ?? 200)
      }
    }
    defer { server.shutdown() }
    let client = try RawClient(server)
    let cases: [(String, Int, String?)] = [
      ("/chunked", 204, nil), ("/length", 304, "100"), ("/body", 304, "8"), ("/?status=304", 304, nil),
      ("/?status=204", 204, nil), ("/", 200, "0"),
    ]
    for (target, status, length) in cases {
      let response = try client.get(target)
      #expect(response.status == status, "\(target)")
      #expect(response.fields.values("Content-Length") == (length.map { [$0] } ?? []), "\(target)")
      #expect(response.fields.first("Transfer-Encoding") == nil, "\(target)")
    }
    #expect(server.connectionCount == 1)
    #expect(server.problems == [])
  }

  @Test func aHandlerThatForgetsToAnswerGives500() throws {
    let server = try LoopbackServer { _, _ in }
    defer { server.shutdown() }
    #expect(try RawClient(server).get("/").status == 500)
  }

  /// Who lets a limit of the test decide waits for ever.
  @Test(arguments: [Double.infinity, .greatestFiniteMagnitude, .nan, -1])
  func anyTimeMayBeWaited(_ seconds: Double) throws {
    let latch = try Latch()
    latch.release()
    #expect(latch.wait(seconds: seconds))
    let server = try LoopbackServer { _, _ in }
    defer { server.shutdown() }
    #expect(try server.waitForRequests(0, seconds: seconds) == [])
    // Others may open what they like meanwhile: it is not waited for here.
    _ = DescriptorCensus.now().isRestored(withinSeconds: min(seconds, 0))
  }

  /// Whoever reads a body learns whether it makes no sense, or whether a line of it has no end.
  @Test func brokenBodiesAreToldApart() throws {
    let refusals = Monitor<[LoopbackError]>([])
    let server = try LoopbackServer { _, connection in
      do throws(LoopbackError) {
        _ = try connection.readBody()
      } catch {
        refusals.withLock { $0.append(error) }
        throw error
      }
    }
    defer { server.shutdown() }
    let limit = RequestReader.headLimit
    for body in ["x\r\n", String(repeating: "0", count: limit)] {
      let client = try RawClient(server)
      try client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
      try client.send(body)
      // The server closes when it has told.
      _ = try client.receiveAll()
    }
    let told = refusals.withLock { $0 }
    #expect(told == [.malformedRequest("chunk size"), .requestTooLarge(limit: limit)])
  }

  /// As if it had crashed, and been started again.
  @Test func droppedConnectionsEndAndOthersAreServed() throws {
    let server = try LoopbackServer { _, connection in try connection.respond(text: "ok") }
    defer { server.shutdown() }
    let client = try RawClient(server)
    #expect(try client.get("/").text == "ok")
    server.dropConnections()
    #expect(try client.receive() == nil)
    #expect(try RawClient(server).get("/").text == "ok")
    #expect(server.connectionCount == 2)
  }

  @Test func shutdownEndsStalledConnections() throws {
    let latch = try Latch()
    let ends = Monitor<[StallEnd]>([])
    let server = try LoopbackServer { _, connection in
      let end = try connection.stall(until: latch)
      ends.withLock { $0.append(end) }
    }
    let client = try RawClient(server)
    try client.send("GET / HTTP/1.1\r\n\r\n")
    _ = try server.waitForRequests(1)
    server.shutdown()
    #expect(ends.withLock { $0 } == [.stopped] || ends.withLock { $0 } == [.peerGone])
    #expect(server.openConnectionCount == 0)
  }
}
