import Testing

@testable import LupineTesting

@Suite struct RouteTests {
  private func withClient(latch: Latch? = nil, _ body: (RawClient, LoopbackServer) throws -> Void) throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: latch))
    defer { server.shutdown() }
    try body(RawClient(server), server)
    #expect(server.problems == [])
  }

  @Test func answersTheSimpleOnesOnOneConnection() throws {
    try withClient { client, server in
      #expect(try client.get("/hello").text == "Hello, world!")
      #expect(try client.get("/json").text.hasPrefix("{"))
      #expect(try client.get("/nowhere").status == 404)
      #expect(try client.get("/status?code=418&reason=Tea%20pot&body=short").text == "short")
      #expect(try client.get("/headers", fields: "x-Odd: 1\r\n").text == "GET /headers HTTP/1.1\nHost: x\nx-Odd: 1\n")
      let trailers = try client.get("/trailers")
      #expect(trailers.text == "trailers follow")
      #expect(trailers.trailers.first("X-Checksum") == "15")
      #expect(try client.get("/drip?n=9&chunked=1").body == PatternBody.bytes(9))
      #expect(try client.get("/drip?n=9").body == PatternBody.bytes(9))
      #expect(try client.get("/cookies/set?a=1&b=2").fields.values("set-cookie") == ["a=1; Path=/", "b=2; Path=/"])
      #expect(try client.get("/cookies", fields: "Cookie: a=1; b=2\r\n").text == "a=1; b=2")
      #expect(try client.get("/basic-auth").fields.first("WWW-Authenticate") == "Basic realm=\"lupine\"")
      #expect(
        try client.get("/basic-auth", fields: "Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n").text == "Welcome, user.")
      try client.send("POST /cookies HTTP/1.1\r\n\r\n")
      #expect(try client.response().fields.first("Allow") == "GET")
      try client.send("HEAD /hello HTTP/1.1\r\n\r\n")
      #expect(try client.response(toHead: true).fields.first("Content-Length") == "13")
      #expect(try client.get("/close").fields.first("Connection") == "close")
      #expect(try client.receive() == nil)
      #expect(server.connectionCount == 1)
    }
  }

  @Test func sendsInformationalResponsesFirst() throws {
    try withClient { client, _ in
      try client.send("GET /early-hints HTTP/1.1\r\n\r\n")
      let hints = try client.head()
      #expect(hints.status == 103)
      #expect(hints.fields.first("Link") != nil)
      #expect(try client.response().text == "hinted")
    }
  }

  @Test(arguments: [0, 1, 65_520, 65_521, 65_522, 1_000_000])
  func streamsAPatternOfAnySize(_ count: Int) throws {
    try withClient { client, _ in
      let plain = try client.get("/bytes?n=\(count)").body
      let chunked = try client.get("/chunked?n=\(count)&size=70000").body
      #expect(plain == PatternBody.bytes(count))
      #expect(chunked == PatternBody.bytes(count))
    }
  }

  @Test(arguments: [
    ("bytes=0-0", 206, 0..<1), ("bytes=10-", 206, 10..<100), ("bytes=-10", 206, 90..<100),
    ("bytes=90-1000", 206, 90..<100), ("bytes=100-", 416, 0..<0), ("bytes=5-4", 416, 0..<0), ("bytes=-0", 416, 0..<0),
    ("lines=1-2", 200, 0..<100), ("bytes", 200, 0..<100), ("Bytes=1-2", 206, 1..<3),
  ])
  func answersRanges(_ range: String, _ status: Int, _ expected: Range<Int>) throws {
    try withClient { client, _ in
      let response = try client.get("/bytes?n=100", fields: "Range: \(range)\r\n")
      #expect(response.status == status)
      #expect(response.body == PatternBody.bytes(expected.count, from: expected.lowerBound))
      if status == 206 {
        let text = "bytes \(expected.lowerBound)-\(expected.upperBound - 1)/100"
        #expect(response.fields.first("Content-Range") == text)
      }
    }
  }

  /// Across the end of the pattern, which is a prime.
  @Test func everyByteIsKnownFromItsPosition() {
    let bytes = PatternBody.bytes(10, from: 65_516)
    #expect(bytes == (65_516..<65_526).map { PatternBody.byte(at: $0) })
    #expect(PatternBody.byte(at: 65_521) == PatternBody.byte(at: 0))
  }

  /// Ranges are defined for GET alone.
  @Test func answersHeadAsAWhole() throws {
    try withClient { client, _ in
      try client.send("HEAD /bytes?n=100 HTTP/1.1\r\nRange: bytes=0-1\r\n\r\n")
      let response = try client.response(toHead: true)
      #expect(response.status == 200)
      #expect(response.fields.first("Content-Length") == "100")
      #expect(response.fields.first("Content-Range") == nil)
    }
  }

  @Test func honoursIfRangeAndIfNoneMatch() throws {
    try withClient { client, _ in
      let tag = try #require(try client.get("/bytes?n=100").fields.first("ETag"))
      let unchanged = try client.get("/bytes?n=100", fields: "If-None-Match: \(tag)\r\n")
      #expect(unchanged.status == 304)
      // The 200 would have another.
      #expect(unchanged.fields.first("Content-Length") == nil)
      #expect(try client.get("/bytes?n=100", fields: "Range: bytes=50-\r\nIf-Range: \(tag)\r\n").body.count == 50)
      #expect(try client.get("/bytes?n=100&etag=new", fields: "Range: bytes=50-\r\nIf-Range: \(tag)\r\n").status == 200)
    }
  }

  @Test func cutsABodyShort() throws {
    try withClient { client, _ in
      try client.send("GET /bytes?n=100&cut=40 HTTP/1.1\r\n\r\n")
      #expect(try client.head().fields.first("Content-Length") == "100")
      #expect(try client.receiveAll() == PatternBody.bytes(40))
    }
  }

  /// A client of HTTP/1.0 knows neither chunks nor informational responses.
  @Test func answersHTTP10() throws {
    try withClient { client, _ in
      try client.send("GET /chunked?n=10&size=4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      let head = try client.head()
      #expect(head.status == 200 && head.fields.first("Transfer-Encoding") == nil)
      #expect(head.fields.values("Connection") == ["close"])
      #expect(try client.receiveAll() == PatternBody.bytes(10))
    }
    try withClient { client, _ in
      try client.send("POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
      let head = try client.head()
      #expect(head.status == 200)
      #expect(try client.receiveAll() == Array("hi".utf8))
    }
    try withClient { client, _ in
      try client.send("GET /early-hints HTTP/1.0\r\n\r\n")
      let head = try client.head()
      #expect(head.status == 200)
      #expect(try client.receiveAll() == Array("hinted".utf8))
    }
  }

  @Test func compresses() throws {
    try withClient { client, _ in
      let gzip = try client.get("/gzip?n=300000&members=3")
      #expect(gzip.fields.first("Content-Encoding") == "gzip")
      #expect(try Inflater.inflate(gzip.body, .gzip) == PatternBody.bytes(300_000))
      #expect(try Inflater.inflate(client.get("/deflate?n=5000").body, .zlib) == PatternBody.bytes(5000))
      #expect(try Inflater.inflate(client.get("/deflate?n=5000&raw=1").body, .rawDeflate) == PatternBody.bytes(5000))
      let bomb = try client.get("/gzip?n=10000000&zeros=1")
      #expect(bomb.body.count < 20_000)
      #expect(try Inflater.inflate(bomb.body, .gzip) == [UInt8](repeating: 0, count: 10_000_000))
    }
  }

  /// No number of a request ends the process, or the connection.
  @Test(arguments: [
    "/gzip?n=9223372036854775807", "/gzip?n=9&members=9223372036854775807", "/gzip?members=0", "/deflate?n=-1",
    "/slow?after=-1", "/slow?n=-1", "/slow?n=9223372036854775807", "/bytes?n=-1", "/bytes?n=99999999999999999999",
    "/bytes?n=x", "/bytes?cut=-1", "/chunked?n=-1", "/chunked?size=0", "/drip?n=-1", "/status?code=-1",
    "/status?code=100", "/redirect?status=1000", "/redirect?n=-1",
  ])
  func refusesNumbersOutOfTheirRange(_ target: String) throws {
    try withClient { client, _ in
      let refused = try client.get(target).status
      let served = try client.get("/hello").status
      #expect(refused == 400 && served == 200)
    }
  }

  @Test(arguments: Compression.allCases)
  func encodesInOneGo(_ format: Compression) throws {
    for count in [0, 1, 100_000] {
      let bytes = PatternBody.bytes(count)
      #expect(try Inflater.inflate(format.encode(bytes), format) == bytes)
    }
  }

  @Test(arguments: [10, -2, Int.max, Int.min])
  func refusesLevelsThatZlibDoesNotKnow(_ level: Int) {
    #expect(throws: LoopbackError.self) { try Compression.gzip.encode([1], level: level) }
  }

  @Test func countsAndHashesUploads() throws {
    try withClient { client, server in
      try client.send("POST /upload HTTP/1.1\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n")
      #expect(try client.head().status == 100)
      try client.send("3\r\nabc\r\n0\r\nX-T: \"v\"\r\n\r\n")
      let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
      #expect(
        try client.response().text
          == #"{"bytes":3,"sha256":"\#(digest)","chunked":true,"trailers":{"X-T":"\"v\""}}"#)
      try client.send("PUT /upload?early=1 HTTP/1.1\r\nContent-Length: 3\r\n\r\n")
      #expect(try client.response().text == "early\n")
      try client.send("abc")
      try client.send("PUT /upload?refuse=1 HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
      #expect(try client.response().status == 417)
      #expect(try client.receive() == nil)
      #expect(server.recordedRequests.map { $0.bodyLength } == [3, 3, 0])
    }
  }

  @Test func redirectsInChains() throws {
    try withClient { client, _ in
      #expect(try client.get("/redirect?to=%2Fx%3Fa&status=308").fields.first("Location") == "/x?a")
      var target = "/redirect?n=3"
      var hops = 0
      while case let response = try client.get(target), let next = response.fields.first("Location") {
        target = next
        hops += 1
      }
      #expect(hops == 3)
      #expect(target == "/hello")
    }
  }

  @Test func waitsForTheLatch() throws {
    let latch = try Latch()
    try withClient(latch: latch) { client, server in
      try client.send("GET /slow?n=10&after=4 HTTP/1.1\r\n\r\n")
      _ = try client.head()
      #expect(try client.receive(count: 4) == PatternBody.bytes(4))
      #expect(!SystemCalls.readable([client.descriptor], milliseconds: 0)[0])
      latch.release()
      #expect(try client.receive(count: 6) == PatternBody.bytes(6, from: 4))
    }
  }
}
