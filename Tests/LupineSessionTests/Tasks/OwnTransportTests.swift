import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Transports of others, which need not stop a body that nobody wants: it is no part of the answer all the same.
@Suite(.timeLimit(.minutes(5))) struct OwnTransportTests {
  /// Moves whoever asks to another place, with a body, and reports every byte of it, wanted or not.
  private final class MovingTransport: Transport {
    private let queue = DispatchQueue(label: "test.transport")
    private let key = DispatchSpecificKey<Bool>()
    /// Whether exchanges were begun on its own queue.
    let startsOnQueue = Locked<[Bool]>([])
    private let moved: ResponseHead
    private let found: ResponseHead

    private let times: TransactionMetrics.Times

    /// - Parameter clock: what it says when an exchange ends.
    init(status: Int = 302, clock: Int64 = 0) throws {
      var times = TransactionMetrics.Times()
      times.responseEnd = clock
      self.times = times
      queue.setSpecific(key: key, value: true)
      moved = try ResponseHead(status: status, fields: [("Location", "/there"), ("Content-Length", "5")])
      found = try ResponseHead(status: 200, fields: [("Content-Length", "5")])
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      let isOnQueue = DispatchQueue.getSpecific(key: key) ?? false
      startsOnQueue.withLock { $0.append(isOnQueue) }
      let (head, text) = request.path == "/there" ? (found, "Hello") : (moved, "moved")
      queue.async {
        receiver.receive(head: head, framing: .length(5), of: exchange)
        receiver.receive(body: Array(text.utf8).span, of: exchange)
        receiver.end(nil, metrics: TransactionMetrics(method: request.method, times: self.times), of: exchange)
      }
      return exchange
    }
  }

  private func withTransport(_ body: (Session, Request) async throws -> Void) async throws {
    let transport = try MovingTransport()
    try await withSession(configure: { $0.transport = transport }) { session in
      try await body(session, Request("http://a.example/here"))
    }
  }

  /// The origin of its clock does not matter, and is not that of the task's.
  @Test(arguments: [1, 1_800_000_000_000_000_000]) func itsClockIsItsOwn(_ clock: Int64) async throws {
    let transport = try MovingTransport(clock: clock)
    try await withSession(configure: { $0.transport = transport }) { session in
      let (_, response) = try await session.data(from: "http://a.example/there")
      #expect(response.metrics.duration > .zero && response.metrics.duration < .seconds(3_600))
    }
  }

  @Test func collected() async throws {
    try await withTransport { session, request in
      let response = try await session.expect("Hello", from: request)
      #expect(response.redirects.count == 1)
    }
  }

  @Test func collectedForACompletion() async throws {
    try await withTransport { session, request in
      let result = await withCheckedContinuation {
        (continuation: CheckedContinuation<Result<(Data, Response), SessionError>, Never>) in
        session.data(for: request) { continuation.resume(returning: $0) }
      }
      let (body, response) = try result.get()
      #expect(String(decoding: body, as: UTF8.self) == "Hello")
      #expect(response.redirects.count == 1)
    }
  }

  /// To know its length, the file of a body is looked at where the exchange begins; its thread may be the engine's, which waits for no disk.
  @Test func filesAreNotLookedAtOnItsThread() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write(Array("body".utf8), to: "body")
    let transport = try MovingTransport(status: 307)
    try await withSession(configure: { $0.transport = transport }) { session in
      let request = try Request("http://a.example/here", method: .put, body: .file(path: path))
      let response = try await session.expect("Hello", from: request)
      #expect(response.redirects.count == 1)
      #expect(transport.startsOnQueue.withLock { $0 } == [false, false])
    }
  }

  /// Looks at its task whenever it is asked for the head of a request, and where its exchange goes.
  private final class CuriousTransport: Transport {
    private final class Exchange: TransportExchange {
      private let task: Locked<SessionTask?>

      init(_ task: Locked<SessionTask?>) { self.task = task }

      deinit { _ = task.withLock { $0 }?.state }

      var requestHead: [UInt8] {
        let task = task.withLock { $0 }
        return Array("\(task?.state ?? .completed)".utf8)
      }

      func cancel() {}
      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    let task = Locked<SessionTask?>(nil)
    private let queue = DispatchQueue(label: "test.curious")
    private let heads: [String: ResponseHead]

    init() throws {
      heads = [
        "/moved": try ResponseHead(status: 302, fields: [("Location", "/asked")]),
        "/kept": try ResponseHead(status: 307, fields: [("Location", "/found")]),
        "/asked": try ResponseHead(status: 401, fields: [("WWW-Authenticate", "Basic realm=\"lupine\"")]),
        "/nowhere": try ResponseHead(status: 302, fields: [("Location", "gopher://a.example/")]),
        "/found": try ResponseHead(status: 200, fields: [("Content-Length", "0")]),
      ]
    }

    /// It has told all, and keeps nothing.
    func waitUntilTold() { queue.sync {} }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = Exchange(task)
      let head = heads[request.path]
      queue.async {
        if let head { receiver.receive(head: head, framing: .none, of: exchange) }
        receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
      }
      return exchange
    }
  }

  /// Whatever it is asked for, it may ask the task in turn.
  @Test(arguments: [("/moved", 401), ("/nowhere", 302)]) func itMayLookAtItsTask(_ path: String, _ status: Int)
    async throws
  {
    let transport = try CuriousTransport()
    var answers = RecordingDelegate.Answers()
    answers.redirection = { [task = transport.task] request in
      // By way of the head as well, while the exchange is under way.
      _ = task.withLock { $0 }?.countOfBytesExpectedToSend
      return request
    }
    try await withDelegate(.all, answers, configure: { $0.transport = transport }) { session, delegate in
      let task = session.dataTask(with: try Request("http://a.example\(path)"))
      transport.task.withLock { $0 = task }
      task.resume()
      #expect(await delegate.hasEnded())
      let response = try #require(task.error?.response ?? task.response)
      #expect(response.statusCode == status && String(decoding: response.requestHead, as: UTF8.self) == "running")
      transport.task.withLock { $0 = nil }
    }
  }

  /// The end waits for the delegate, and nobody but the task has the exchange by then.
  @Test func itMayLookAtItsTaskWhereItGoes() async throws {
    let transport = try CuriousTransport()
    let hasBegun = DispatchSemaphore(value: 0)
    var answers = RecordingDelegate.Answers()
    answers.disposition = { _ in
      hasBegun.wait()
      transport.waitUntilTold()
      return .allow
    }
    try await withDelegate(.all, answers, configure: { $0.transport = transport }) { session, delegate in
      let task = session.dataTask(with: try Request("http://a.example/found"))
      transport.task.withLock { $0 = task }
      task.resume()
      hasBegun.signal()
      #expect(await delegate.hasEnded())
      #expect(task.error == nil && task.state == .completed)
      transport.task.withLock { $0 = nil }
    }
  }

  /// A body that looks at its task where it goes.
  private struct CuriousBody: Sequence {
    private final class Source: Sendable {
      private let task: Locked<SessionTask?>

      init(_ task: Locked<SessionTask?>) { self.task = task }

      deinit { _ = task.withLock { $0 }?.state }
    }

    private let source: Source

    init(_ task: Locked<SessionTask?>) { source = Source(task) }

    func makeIterator() -> IndexingIterator<[[UInt8]]> { [[1]].makeIterator() }
  }

  /// Of a transport that keeps no body the task is the last to have it, and lets go of it for the next one.
  @Test func aBodyMayLookAtItsTaskWhereItGoes() async throws {
    let transport = try CuriousTransport()
    var answers = RecordingDelegate.Answers()
    answers.newBody = { [task = transport.task] in BodyStream(CuriousBody(task)) }
    try await withDelegate(.all, answers, configure: { $0.transport = transport }) { session, delegate in
      let task = session.uploadTask(withStreamedRequest: try Request("http://a.example/kept", method: .put))
      transport.task.withLock { $0 = task }
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(task.error == nil && task.response?.statusCode == 200 && task.response?.redirects.count == 1)
      #expect(delegate.entries.count { $0 == "newBody" } == 2)
      transport.task.withLock { $0 = nil }
    }
  }

  /// Answers before `start` returns: moves whoever asks to another place, and has a hint for who asks there.
  private final class PromptTransport: Transport {
    private let moved: ResponseHead
    private let hint: ResponseHead
    private let found: ResponseHead

    init() throws {
      moved = try ResponseHead(status: 302, fields: [("Location", "/there")])
      hint = try ResponseHead(status: 103, fields: [("Link", "</style.css>")])
      found = try ResponseHead(status: 200, fields: [("Content-Length", "5")])
    }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      if request.path == "/there" {
        receiver.receive(informational: hint, of: exchange)
        receiver.receive(head: found, framing: .length(5), of: exchange)
        receiver.receive(body: Array("Hello".utf8).span, of: exchange)
      } else {
        receiver.receive(head: moved, framing: .none, of: exchange)
      }
      receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
      return exchange
    }
  }

  /// The delegate's word on the redirect comes when that is over, and begins the next exchange: what comes of it before its head is told before its head.
  @Test func whatComesBehindAnAnsweredRedirectKeepsItsOrder() async throws {
    let transport = try PromptTransport()
    try await withDelegate(configure: { $0.transport = transport }) { session, delegate in
      let task = session.dataTask(with: try Request("http://a.example/here"))
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == [
          "created", "redirect 302", "informational 103", "response 200", "data", "metrics", "completed well completed",
        ])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "Hello")
      #expect(task.response?.informational.map(\.status) == [103])
    }
  }

  @Test func streamed() async throws {
    try await withTransport { session, request in
      let (bytes, response) = try await session.bytes(for: request)
      #expect(try await bytes.collect(upTo: 100) == Array("Hello".utf8))
      #expect(response.redirects.count == 1)
    }
  }
}
