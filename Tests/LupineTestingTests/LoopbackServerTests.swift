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

  @Test func aHandlerThatForgetsToAnswerGives500() throws {
    let server = try LoopbackServer { _, _ in }
    defer { server.shutdown() }
    #expect(try RawClient(server).get("/").status == 500)
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
