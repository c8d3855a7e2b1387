import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Logging
import Testing

/// What is logged of the end of a task.
@Suite(.timeLimit(.minutes(5))) struct TaskLogTests {
  /// Keeps the records of the ends of tasks.
  private final class EndKeeper: Sendable {
    struct Record: Sendable {
      var message: String
      var level: Logger.Level
      var facts: [String: String]
    }

    private struct Handler: LogHandler {
      let keeper: EndKeeper
      var metadata: Logger.Metadata = [:]
      var logLevel: Logger.Level

      func log(event: LogEvent) {
        guard let metadata = event.metadata else { return }
        let record = Record(
          message: "\(event.message)", level: event.level, facts: metadata.mapValues { "\($0)" })
        keeper.kept.withLock { $0.append(record) }
      }

      subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
      }
    }

    private let kept = Locked<[Record]>([])
    private let level: Logger.Level

    init(_ level: Logger.Level = .debug) { self.level = level }

    var logger: Logger { Logger(label: "ends") { _ in Handler(keeper: self, logLevel: self.level) } }
    var records: [Record] { kept.withLock { $0 } }
    var last: [String: String] { records.last?.facts ?? [:] }
  }

  /// One record for each task, which is there when its result is: what was asked, what came, how much, and how.
  @Test func answersAreLogged() async throws {
    let log = EndKeeper()
    try await withServer(configure: { $0.logger = log.logger }) { session, server in
      var request = try Request("http://user:S3CRET@127.0.0.1:\(server.port)/bytes?n=1000&access_token=S3CRET")
      request.fields[.cookie] = "name=S3CRET"
      _ = try await session.data(for: request)
      #expect(log.records.count == 1 && log.records.first?.message == "task answered")
      #expect(log.records.first?.level == .debug)
      var facts = log.last
      #expect(facts.removeValue(forKey: "task").flatMap { Int($0) } != nil)
      #expect((facts.removeValue(forKey: "milliseconds").flatMap { Double($0) } ?? 0) > 0)
      #expect(
        facts == [
          "method": "GET", "url": server.url("/bytes?n=1000&access_token=REDACTED"), "status": "200", "bytes": "1000",
          "requests": "1", "reused": "false",
        ])
      _ = try await session.data(from: server.url("/redirect?n=2"))
      #expect(log.records.count == 2 && log.last["requests"] == "3" && log.last["reused"] == "true")
      _ = try await session.data(from: server.url("/status?code=404"))
      #expect(log.records.count == 3 && log.last["status"] == "404" && log.records.last?.message == "task answered")
    }
    #expect(log.records.count == 3)
  }

  /// Of every kind of task, streams, tasks with handlers, and what was cancelled before it began among them.
  @Test func everyKindOfTask() async throws {
    let log = EndKeeper()
    try await withServer(configure: { $0.logger = log.logger }) { session, server in
      let url = server.url("/bytes?n=70000")
      let (bytes, _) = try await session.bytes(for: Request(url))
      #expect(try await bytes.collect(upTo: 70_000).count == 70_000)
      #expect(log.records.count == 1 && log.last["bytes"] == "70000")
      let (path, _) = try await session.download(for: Request(url))
      try FileManager.default.removeItem(atPath: path)
      #expect(log.records.count == 2 && log.last["status"] == "200" && log.last["bytes"] == "70000")
      let request = try Request(url)
      await withCheckedContinuation { continuation in
        session.dataTask(with: request) { _ in continuation.resume() }.resume()
      }
      #expect(log.records.count == 3 && log.last["status"] == "200")
      let task = session.dataTask(with: request)
      task.cancel()
      #expect(await eventually { log.records.count == 4 })
      #expect(log.last["error"] == "cancelled" && log.last["requests"] == "0" && log.last["bytes"] == "0")
    }
    #expect(log.records.count == 4)
  }

  /// Failures with what failed and when, and without the token.
  @Test func failuresAreLogged() async throws {
    let log = EndKeeper()
    try await withScript(
      [
        [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"), .close],
        [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n1234567890"), .waitForClose],
      ],
      configure: {
        $0.logger = log.logger
        $0.maximumBufferedBodySize = 9
      }
    ) { session, server in
      try await expectFailure(.truncatedResponse) { try await session.data(from: server.url("/?sig=S3CRET")) }
      #expect(log.records.count == 1 && log.records.first?.message == "task failed")
      #expect(log.records.first?.level == .debug && log.last["error"] == "truncatedResponse")
      #expect(log.last["phase"] == "receive" && log.last["status"] == "200" && log.last["bytes"] == "5")
      #expect(log.last["url"] == server.url("/?sig=REDACTED"))
      try await expectFailure(.bodyTooLarge) { try await session.data(from: server.url()) }
      #expect(log.records.count == 2 && log.last["error"] == "bodyTooLarge" && log.last["phase"] == "receive")
      try await expectFailure(.cannotConnect) { try await session.data(from: "http://127.0.0.1:1/") }
      #expect(log.records.count == 3 && log.last["error"] == "cannotConnect" && log.last["status"] == nil)
      #expect(log.last["url"] == "http://127.0.0.1:1/" && log.last["phase"] == "connect")
    }
  }

  /// Nothing is made for a logger that does not want it.
  @Test func quietLoggers() async throws {
    let log = EndKeeper(.info)
    try await withServer(configure: { $0.logger = log.logger }) { session, server in
      _ = try await session.data(from: server.url("/hello"))
      try await expectFailure(.cannotConnect) { try await session.data(from: "http://127.0.0.1:1/") }
    }
    #expect(log.records.isEmpty)
  }
}
