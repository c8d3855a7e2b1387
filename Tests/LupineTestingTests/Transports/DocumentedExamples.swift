import Foundation
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// A client such as is tested.
private struct UserClient {
  private struct User: Decodable {
    var name: String
  }

  private let session: Session

  init(configuration: SessionConfiguration) throws { session = try Session(configuration) }

  func name(_ id: Int) async throws -> String {
    let (body, _) = try await session.data(from: "https://api.example/users/\(id)")
    return try JSONDecoder().decode(User.self, from: body).name
  }
}

/// Every example of Docs/Testing.md, word for word.
@Suite(.timeLimit(.minutes(5))) struct DocumentedExamples {
  @Test func cannedRepliesAndFaults() async throws {
    let transport = CannedTransport([
      .init("GET", "https://api.example/users/*", .json(#"{"name": "Ada"}"#)),
      .init("POST", "/users", .text("made", status: 201)),
    ])
    var configuration = SessionConfiguration()
    configuration.transport = transport
    let session = try Session(configuration)
    let (body, response) = try await session.data(from: "https://api.example/users/7?full=1")
    #expect(response.statusCode == 200)
    #expect(body == Data(#"{"name": "Ada"}"#.utf8))
    #expect(transport.requests.map(\.target) == ["/users/7?full=1"])
    var settings = SessionConfiguration.ephemeral
    settings.transport = transport
    let client = try UserClient(configuration: settings)
    let name = try await client.name(7)
    #expect(name == "Ada")
    transport.add(.init("PUT", "/echo") { request in CannedReply(status: 200, body: request.body) })
    transport.add(.init(nil, "/flaky", inTurn: [.failure(.connectionLost), .text("at last")]))
    let request = try Request("http://any.example/echo", method: .put, body: .bytes([1, 2, 3]))
    #expect(try await Array(session.data(for: request).0) == [1, 2, 3])
    #expect(try await failure { try await session.data(from: "http://any.example/flaky") }.code == .connectionLost)
    #expect(try await session.text("http://any.example/flaky").0 == "at last")
    let faulty = FaultTransport(
      transport, seed: 42,
      faults: [(.lostInBody(after: 5), 0.3), (.delay(.milliseconds(1)), 0.5), (.refused, 0.1)])
    let unlucky = try Session(over: faulty)
    for _ in 0..<20 { _ = try? await unlucky.data(from: "https://api.example/users/1") }
    print(faulty.injections.map(\.faults))
    #expect(!faulty.injections.isEmpty)
  }

  @Test func time() async throws {
    let clock = ManualClock()
    let silent = CannedTransport([.init(nil, "*", .silence)], clock: .manual(clock))
    let patient = try Session(over: silent)
    let task = Task { try await patient.data(from: "http://a.example/") }
    while silent.requests.isEmpty { await Task.yield() }
    clock.advance(by: .seconds(3_600))
    let error = await #expect(throws: SessionError.self) { _ = try await task.value }
    #expect(error?.code == .timedOut)
  }

  @Test func recordingAndReplaying() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let recording = RecordingTransport(try NetworkTransport())
    let live = try Session(over: recording)
    _ = try await live.data(from: server.url("/hello"))
    let file = await recording.archive().json()
    let replay = ReplayTransport(try HTTPArchive(json: file), matching: .strict, order: .recorded)
    let offline = try Session(over: replay)
    let (greeting, _) = try await offline.data(from: server.url("/hello"))
    #expect(greeting == Data("Hello, world!".utf8))
    #expect(replay.remaining.isEmpty)
  }

  @Test func ownTransport() async throws {
    let session = try Session(over: TeapotTransport())
    let (text, response) = try await session.text("http://a.example/")
    #expect(text == "short")
    #expect(response.statusCode == 418)
    #expect(response.metrics.transactions.first?.statusCode == 418)
  }

  /// So that page and test stay the same.
  @Test func everyExampleOfThePageIsHere() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    let page = try String(contentsOf: folder.appending(path: "../../../Docs/Testing.md"), encoding: .utf8)
    let here = try String(contentsOf: URL(filePath: #filePath), encoding: .utf8)
    func lines(_ text: Substring) -> [Substring] {
      text.split(separator: "\n").map { $0.drop { $0 == " " } }
    }
    let code = lines(here[...]).joined(separator: "\n")
    let examples = page.split(separator: "```swift\n").dropFirst().map { $0.split(separator: "```")[0] }
    #expect(examples.count == 9)
    for example in examples {
      #expect(code.contains(lines(example).joined(separator: "\n")), "not in the tests: \(example)")
    }
  }
}

final class TeapotTransport: Transport {
  func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let exchange = TeapotExchange()
    Task.detached {
      var times = TransactionMetrics.Times()
      times.fetchStart = TransactionMetrics.Times.now
      // A body, whatever it is, can be read.
      _ = try? await request.body.collect(upTo: 1 << 20)
      guard let head = try? ResponseHead(status: 418, fields: [("Content-Length", "5")]) else { return }
      receiver.receive(head: head, framing: .length(5), of: exchange)
      receiver.receive(body: Array("short".utf8).span, of: exchange)
      times.responseEnd = TransactionMetrics.Times.now
      receiver.end(nil, metrics: TransactionMetrics(request, statusCode: 418, times: times), of: exchange)
    }
    return exchange
  }
}

private final class TeapotExchange: TransportExchange {
  func cancel() {}
  func setPaused(_ state: PauseState) {}
  func discardBody() {}
}
