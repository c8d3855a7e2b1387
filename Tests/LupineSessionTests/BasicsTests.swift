import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// What a plain request looks like on the wire, and what comes back of its response.
@Suite(.timeLimit(.minutes(5))) struct BasicsTests {
  @Test func getReturnsBodyHeadAndMetrics() async throws {
    try await withServer { session, server in
      let (body, response) = try await session.text(server.url("/hello?x=1"))
      #expect(body == "Hello, world!")
      #expect(response.statusCode == 200)
      #expect(response.mimeType == "text/plain")
      #expect(response.expectedContentLength == 13)
      let transaction = try #require(response.metrics.transactions.first)
      #expect(transaction.responseBodyBytes == 13)
      #expect(transaction.isReusedConnection == false)
      #expect(transaction.remoteAddress == "127.0.0.1:\(server.port)")
      let request = try #require(server.recordedRequests.first)
      #expect(request.method == "GET")
      #expect(request.target == "/hello?x=1")
      #expect(request.version == "HTTP/1.1")
      #expect(request.fields.first("Host") == "127.0.0.1:\(server.port)")
      #expect(request.fields.first("Content-Length") == nil)
      #expect(request.fields.first("Transfer-Encoding") == nil)
    }
  }

  @Test func foundationURLServesEverywhere() async throws {
    try await withServer { session, server in
      let url = try #require(URL(string: server.url("/bytes?n=1000")))
      let expected = Data(PatternBody.bytes(1000))
      #expect(try await session.data(from: url).0 == expected)
      for (bytes, _) in [try await session.bytes(from: url), try await session.bytes(from: url.absoluteString)] {
        #expect(try await bytes.collect(upTo: 2000) == [UInt8](expected))
      }
      for download in [try await session.download(from: url), try await session.download(from: url.absoluteString)] {
        #expect(try Data(contentsOf: URL(fileURLWithPath: download.path)) == expected)
        try FileManager.default.removeItem(atPath: download.path)
      }
      let ends = Locked<[Data]>([])
      try session.dataTask(with: url) { result in ends.withLock { $0.append((try? result.get().0) ?? Data()) } }
        .resume()
      try session.downloadTask(with: url) { result in
        let data = (try? result.get().path).flatMap { try? Data(contentsOf: URL(fileURLWithPath: $0)) }
        ends.withLock { $0.append(data ?? Data()) }
      }.resume()
      #expect(await eventually { ends.withLock { $0 } == [expected, expected] })
    }
  }

  @Test func urlThatCannotBeFetchedIsRefusedBeforeATaskIsMade() async throws {
    try await withServer { session, _ in
      let url = try #require(URL(string: "mailto:nobody@example.org"))
      for call in [
        { _ = try session.dataTask(with: url) }, { _ = try session.downloadTask(with: url) },
        { _ = try session.dataTask(with: url) { _ in } }, { _ = try session.downloadTask(with: url) { _ in } },
      ] as [() throws -> Void] {
        #expect(throws: SessionError.self) { try call() }
      }
      let error = try await failure { try await session.data(from: url) }
      #expect(error.code == .badURL)
    }
  }

  @Test func headHasNoBodyWhateverItsFieldsSay() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"), .readHead,
        .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"), .readHead,
        .send(reply("end")), .waitForClose,
      ]
    ]) { session, server in
      let (body, response) = try await session.data(for: Request(server.url(), method: .head))
      #expect(body.isEmpty)
      #expect(response.expectedContentLength == 1000)
      #expect(try await session.data(for: Request(server.url(), method: .head)).0.isEmpty)
      let (text, last) = try await session.text(server.url())
      #expect(text == "end")
      #expect(last.wasReused)
    }
  }

  @Test(arguments: [204, 304]) func bodilessStatusKeepsTheConnection(_ status: Int) async throws {
    try await withScript([
      [.readHead, .send("HTTP/1.1 \(status) X\r\n\r\n"), .readHead, .send(reply("next")), .waitForClose]
    ]) { session, server in
      let (body, response) = try await session.data(from: server.url())
      #expect(body.isEmpty)
      #expect(response.statusCode == status)
      try await session.expect("next", from: server.url())
    }
  }

  @Test func postSendsItsBytesAndLength() async throws {
    try await withServer { session, server in
      let bytes = PatternBody.bytes(70_000)
      let request = try Request(server.url("/echo"), method: .post, body: .bytes(bytes))
      let (body, _) = try await session.data(for: request)
      #expect(Array(body) == bytes)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.fields.values("Content-Length") == ["70000"])
      // What it is nobody has said: URLSession on Linux calls it a form.
      #expect(recorded.fields.values("Content-Type") == [])
    }
  }

  @Test(arguments: ["POST", "PUT", "PATCH"]) func emptyBodyIsAnnouncedWhereItMeansSomething(_ method: String)
    async throws
  {
    try await withServer { session, server in
      let request = try Request(server.url("/echo"), method: try #require(HTTPRequest.Method(method)))
      _ = try await session.data(for: request)
      #expect(server.recordedRequests.first?.fields.values("Content-Length") == ["0"])
    }
  }

  @Test func fieldsKeepOrderAndDefaultsYieldToTheCaller() async throws {
    try await withServer(configure: { $0.additionalFields[.acceptLanguage] = "de" }) { session, server in
      var request = try Request(server.url("/headers"))
      request.fields[try #require(HTTPField.Name("X-One"))] = "1"
      request.fields[.userAgent] = "mine"
      request.fields[try #require(HTTPField.Name("X-Two"))] = "2"
      _ = try await session.data(for: request)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.fields.map { $0.name }.prefix(4) == ["Host", "X-One", "User-Agent", "X-Two"])
      #expect(recorded.fields.values("User-Agent") == ["mine"])
      #expect(recorded.fields.values("Accept-Language") == ["de"])
      #expect(recorded.fields.values("Accept") == ["*/*"])
    }
  }

  @Test func userInformationAndFragmentNeverReachTheWire() async throws {
    try await withServer { session, server in
      let url = "http://user:secret@127.0.0.1:\(server.port)/hello#part"
      _ = try await session.data(from: url)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.target == "/hello")
      #expect(recorded.fields.first("Host") == "127.0.0.1:\(server.port)")
      #expect(recorded.fields.allSatisfy { !$0.value.contains("secret") })
    }
  }

  @Test func informationalResponsesAreSurfaced() async throws {
    try await withScript([
      [
        .readHead,
        .send(
          "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"
        ), .waitForClose,
      ]
    ]) { session, server in
      let (body, response) = try await session.text(server.url())
      #expect(body == "x")
      #expect(response.informational.map { $0.status } == [102, 103])
      #expect(response.informational.last?.fields.first(named: "link") == "</a.css>")
    }
  }

  @Test func trailersAreSurfacedBufferedAndStreamed() async throws {
    try await withServer { session, server in
      let (body, response) = try await session.text(server.url("/trailers"))
      #expect(body == "trailers follow")
      #expect(response.trailers.first(named: "x-checksum") == "15")
      let (bytes, head) = try await session.bytes(for: Request(server.url("/trailers")))
      #expect(head.trailers.count == 0)
      #expect(String(decoding: try await bytes.collect(upTo: 100), as: UTF8.self) == "trailers follow")
      #expect(bytes.finalResponse?.trailers.first(named: "x-note") == "after the body")
    }
  }

  @Test func fieldBytesSurviveInOrderAndCase() async throws {
    try await withScript([
      [
        .readHead,
        .send(
          ScriptBytes(Array("HTTP/1.1 200 Fine\r\nX-b: 1\r\nx-A: ".utf8) + [0xE9])
            + "\r\nX-B: 2\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
      ]
    ]) { session, server in
      let (_, response) = try await session.data(from: server.url())
      #expect(response.head.reason == "Fine")
      let names = (0..<response.head.fields.count).map { response.head.fields.name(at: $0) }
      #expect(names == ["X-b", "x-A", "X-B", "Content-Length"])
      #expect(response.head.fields.first(named: "X-a") == "\u{e9}")
      #expect(response.head.fields.values(named: "x-b") == ["1", "2"])
    }
  }

  @Test func ipv6AndUnixSockets() async throws {
    try await withServer(address: .ipv6) { session, server in
      let (body, _) = try await session.text(server.url("/hello"))
      #expect(body == "Hello, world!")
      #expect(server.recordedRequests.first?.fields.first("Host") == "[::1]:\(server.port)")
    }
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    try await withServer(address: .unix(path), configure: { $0.unixSocketPath = path }) { session, server in
      let (body, _) = try await session.text("http://any.example/hello")
      #expect(body == "Hello, world!")
      #expect(server.recordedRequests.first?.fields.first("Host") == "any.example")
    }
  }

  @Test func nameOverridesReplaceTheResolver() async throws {
    let server = try LoopbackServer(
      routes: ServerRoute.standard(),
      tls: try TestIdentity.server(
        CertificateOrder(dnsNames: ["service.example"])))
    defer { server.shutdown() }
    let port = server.port
    try await withSession(
      ports: [port],
      configure: {
        $0.nameOverrides = ["Service.example:443": "127.0.0.1:\(port)"]
      }
    ) { session in
      let (body, response) = try await session.text("https://service.example/hello")
      #expect(body == "Hello, world!")
      #expect(response.metrics.transactions.first?.resolveStart == nil)
      #expect(server.recordedRequests.first?.fields.first("Host") == "service.example")
      #expect(server.tlsSummaries[1]?.serverName == "service.example")
    }
  }

  /// Names mean the host that a URL means by them, however it is spelt.
  @Test(arguments: [
    ("bücher.example", "xn--bcher-kva.example"), ("XN--Bcher-KVA.example", "b\u{FC}cher.example"),
    ("[2001:DB8:0::1]", "[2001:db8::1]"), ("[2001:db8::0.0.0.1]", "[2001:db8:0:0::1]"),
  ]) func overridesAreReadAsURLsAre(_ name: String, _ host: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let port = server.port
    try await withSession(ports: [port], configure: { $0.nameOverrides = ["\(name):\(port)": "127.0.0.1:\(port)"] }) {
      session in try await session.expect("Hello, world!", from: "http://\(host):\(port)/hello")
    }
  }

  @Test(arguments: [
    ("a:80", "not an address"), ("a", "127.0.0.1:80"), ("a:", "127.0.0.1:80"), ("a:0", "127.0.0.1:80"),
    ("", "127.0.0.1:80"), (":80", "127.0.0.1:80"), ("u@a:80", "127.0.0.1:80"), ("a:80/", "127.0.0.1:80"),
    ("a b:80", "127.0.0.1:80"), ("2001:db8::1:80", "127.0.0.1:80"), ("[::1]", "127.0.0.1:80"),
    ("[fe80::1%25eth0]:80", "127.0.0.1:80"), ("*:80", "127.0.0.1:80"), ("http://a:80", "127.0.0.1:80"),
  ]) func badOverrideIsRefusedAtOnce(_ name: String, _ address: String) throws {
    var configuration = SessionConfiguration()
    configuration.nameOverrides = [name: address]
    let error = #expect(throws: SessionError.self) { try Session(configuration) }
    #expect(error?.code == .badRequest)
  }

  /// Which of two a dictionary shows last is nobody's choice.
  @Test func overridesOfOneHostAreAlike() throws {
    var configuration = SessionConfiguration()
    configuration.nameOverrides = ["a.example:80": "127.0.0.1:80", "A.example:80": "127.0.0.2:80"]
    let error = #expect(throws: SessionError.self) { try Session(configuration) }
    #expect(error?.code == .badRequest)
    configuration.nameOverrides = ["a.example:80": "127.0.0.1:80", "A.example:80": "127.0.0.1:80"]
    _ = try Session(configuration)
  }

  /// What nobody sets has a limit all the same.
  @Test func limitsThatNobodySets() {
    let it = SessionConfiguration()
    #expect(it.maximumConnectionsPerHost == 6 && it.maximumConnections == 256 && it.maximumWaitingRequests == 10_000)
    #expect(it.timeoutIntervalForRequest == .seconds(60) && it.timeoutIntervalForResource == .seconds(604_800))
    #expect(it.resolveTimeout == .seconds(10) && it.connectTimeout == .seconds(10))
    #expect(it.proxyTimeout == .seconds(10) && it.tlsTimeout == .seconds(10))
    #expect(it.trustDecisionTimeout == .seconds(60) && it.connectionIdleTimeout == .seconds(60))
    #expect(it.dnsCacheTimeout == .seconds(30) && it.continueTimeout == .seconds(1))
    #expect(it.maximumDecompressionRatio == 100 && it.maximumContentCodings == 5)
    #expect(it.maximumBufferedBodySize == 256 << 20 && it.maximumDrainedBodySize == 64 << 10)
    #expect(it.drainTimeout == .milliseconds(50))
  }
}
