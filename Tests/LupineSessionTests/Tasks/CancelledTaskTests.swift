import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// A task that was cancelled says so, whatever else came to its end before that.
@Suite(.timeLimit(.minutes(2))) struct CancelledTaskTests {
  /// Cancels its task where it is asked, when the test says so.
  private final class Canceller: SessionDataDelegate {
    let handledCallbacks: CallbackSet = [.response, .redirection, .taskChallenge]
    let answer = Locked<(@Sendable () -> Void)?>(nil)

    private func keep(_ answer: @escaping @Sendable () -> Void) { self.answer.withLock { $0 = answer } }

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      keep { completionHandler(.cancel) }
    }

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      keep {
        task.cancel()
        completionHandler(request)
      }
    }

    func session(
      _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
      completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
    ) {
      keep {
        task.cancel()
        completionHandler(.performDefaultHandling)
      }
    }
  }

  /// The body breaks while the delegate is asked about the head before it.
  @Test(arguments: [
    "200 OK", "302 Found\r\nLocation: /next", "401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"lupine\"",
  ])
  func aBrokenBodyBehindTheQuestion(_ head: String) async throws {
    let response = ScriptBytes("HTTP/1.1 \(head)\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n")
    try await withScript([[.readHead, .send(response), .waitForClose]]) { session, server in
      let task = session.dataTask(with: try Request(server.url()))
      let canceller = Canceller()
      task.delegate = canceller
      task.resume()
      #expect(await eventually { canceller.answer.withLock { $0 != nil } })
      // Until the engine has worked off what it has read.
      _ = await session.poolStatistics()
      let answer = canceller.answer.withLock { $0.take() }
      answer?()
      #expect(await eventually { task.state == .completed })
      #expect(task.error?.code == .cancelled)
      #expect((task.error?.response?.statusCode == 200) == head.hasPrefix("200"))
      #expect(task.error?.requestBytesSent == true)
    }
  }

  /// Redirects its only exchange when it is closed, and refuses the one that this leads to.
  private final class ClosingTransport: Transport {
    private struct State {
      var first: (receiver: any TransportReceiver, exchange: IdleExchange)?
      var isClosed = false
    }

    private let state = Locked(State())
    private let head: ResponseHead

    init() throws { head = try ResponseHead(status: 302, fields: [("Location", "/next")]) }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      let isClosed = state.withLock { state in
        if !state.isClosed { state.first = (receiver, exchange) }
        return state.isClosed
      }
      if isClosed {
        let error = SessionError(.sessionInvalidated, phase: .poolWait, message: "closed")
        receiver.end(error, metrics: TransactionMetrics(), of: exchange)
      }
      return exchange
    }

    func invalidate(cancelling: Bool) {
      let first = state.withLock { state in
        state.isClosed = true
        return state.first.take()
      }
      guard let first else { return }
      first.receiver.receive(head: head, framing: .none, of: first.exchange)
      first.receiver.end(nil, metrics: TransactionMetrics(), of: first.exchange)
    }
  }

  /// The pool is closed first: what a task asks of it between that and its own turn is refused.
  @Test func aSessionThatIsCancelledBetweenTwoExchanges() async throws {
    let transport = try ClosingTransport()
    try await withSession(configure: { $0.transport = transport }) { session in
      let task = session.dataTask(with: try Request("http://a.example/"))
      task.resume()
      session.invalidateAndCancel()
      #expect(await eventually { task.state == .completed })
      #expect(task.error?.code == .cancelled, "\(String(describing: task.error))")
    }
  }
}
