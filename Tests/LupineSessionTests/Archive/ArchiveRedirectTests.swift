import FoundationEssentials
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// What an archive of a task has of the redirects that were followed.
@Suite(.timeLimit(.minutes(5))) struct ArchiveRedirectTests {
  /// Status and target of each entry, and whether the head of its request is known.
  private func lines(_ archive: HTTPArchive) -> [String] {
    archive.entries.map { entry in
      let sent = entry.request.first(named: "host") == nil ? "unknown" : "sent"
      return "\(entry.response?.status ?? 0) \(entry.response?.first(named: "location") ?? "-") \(sent)"
    }
  }

  @Test func failuresKeepTheRedirectsBeforeThem() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"), .readHead,
        .sendAndFinish("HTTP/1.1 200 OK\r\nContent-"), .waitForClose,
      ]
    ]) { session, server in
      let request = try Request(server.url())
      let error = try await failure { try await session.data(for: request) }
      #expect(error.response == nil)
      var archive = HTTPArchive()
      archive.append(request, error: error)
      #expect(lines(archive) == ["302 /next sent", "0 - sent"])
      #expect(archive.entries.map { $0.failure?.code } == [nil, error.code.rawValue])
    }
  }

  private final class Empty: SessionTaskDelegate {
    let handledCallbacks: CallbackSet = .needNewBodyStream
  }

  /// The delegate has no body for the request that would be next: the redirect is the last exchange that there was.
  @Test func aFailureMayBeThatOfFollowing() async throws {
    try await withScript([
      [
        .readHead, .readBody, .send("HTTP/1.1 307 R\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n"), .waitForClose,
      ]
    ]) { session, server in
      let body = Request.Body.stream(length: 1, isReplayable: false) { BodyStream([[1]]) }
      let request = try Request(server.url(), method: .post, body: body)
      let error = try await failure { try await session.data(for: request, delegate: Empty()) }
      #expect(error.code == .requestBodyFailed)
      var archive = HTTPArchive()
      archive.append(request, error: error)
      #expect(lines(archive) == ["307 /next sent"])
    }
  }

  /// What is stored is a redirect, whatever the server said to the question whether it holds.
  @Test func redirectsThatACacheConfirmedAreKnown() async throws {
    let routes = [
      ServerRoute(nil, "/start") { request, connection in
        let isKnown = request.fields.first("If-None-Match") != nil
        try connection.respond(
          isKnown ? 304 : 301, fields: ["Location": "/end", "ETag": "\"1\"", "Cache-Control": "max-age=0"])
      },
      ServerRoute(nil, "/end") { _, connection in
        try connection.respond(fields: ["Cache-Control": "no-store"], text: "end")
      },
    ]
    try await withServer(routes, configure: { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }) {
      session, server in
      let request = try Request(server.url("/start"))
      try await session.expect("end", from: request)
      let response = try await session.expect("end", from: request)
      #expect(response.metrics.transactions.map(\.statusCode) == [304, 200])
      var archive = HTTPArchive()
      archive.append(request, response: response)
      #expect(lines(archive) == ["301 /end sent", "200 - sent"])
    }
  }

  /// The redirects that a response has are those of the attempt that it ended.
  @Test func redirectsBelongToTheLastAttempt() async throws {
    let redirect = ScriptBytes("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")
    let busy = ScriptBytes("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    try await withScript([
      [
        .readHead, .send(redirect), .readHead, .send(busy), .readHead, .send(redirect), .readHead, .send(reply("end")),
        .waitForClose,
      ]
    ]) { session, server in
      let request = try Request(server.url("/start"))
      let task = session.dataTask(with: request)
      task.delegate = RepetitionTests.Patient()
      task.resume()
      #expect(await eventually { task.state == .completed })
      var archive = HTTPArchive()
      archive.append(request, response: try #require(task.response))
      #expect(lines(archive) == ["302 - unknown", "503 - unknown", "302 /next sent", "200 - sent"])
    }
  }

  /// Redirects, and answers, without a word about what it did.
  private final class Wordless: Transport {
    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      let status = request.path == "/start" ? 302 : 200
      if let head = try? ResponseHead(status: status, fields: [("Location", "/end")]) {
        receiver.receive(head: head, framing: .none, of: exchange)
      }
      receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
      return exchange
    }
  }

  /// Exchanges without times began with their task, or when they were recorded, and not when the machine did.
  @Test func whatATransportDoesNotSayIsKnownOtherwise() async throws {
    let recording = RecordingTransport(Wordless())
    let request = try Request("http://a.example/start")
    let (_, response) = try await Session(over: recording).data(for: request)
    var archive = HTTPArchive()
    archive.append(request, response: response)
    for archive in [archive, await recording.archive()] {
      #expect(archive.entries.map(\.request.method) == ["GET", "GET"])
      #expect(archive.entries.map(\.request.url) == ["http://a.example/start", "http://a.example/end"])
      #expect(archive.entries.map { $0.response?.status } == [302, 200])
      #expect(archive.entries.allSatisfy { abs($0.startedAt.timeIntervalSinceNow) < 60 })
    }
  }

  /// Nor did a request that cannot be sent.
  @Test func refusedRequestsHaveATime() async throws {
    try await withSession { session in
      let request = try Request("http://127.0.0.1:1/", method: .post, body: .file(path: "/nowhere/at/all"))
      let error = try await failure { try await session.data(for: request) }
      #expect(error.code == .fileFailed)
      let metrics = try #require(error.metrics)
      #expect(metrics.transactions.map { $0.fetchStart >= metrics.start } == [true])
    }
  }
}
