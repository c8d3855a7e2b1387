import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Synchronization
import Testing

/// Questions that come up while a task is being ended by another thread: nothing is asked behind the last word of a task.
@Suite(.timeLimit(.minutes(2))) struct LateQuestionTests {
  /// A date that comes between a cancellation and the word of it asks nobody.
  @Test func aDateBehindTheCancellation() async throws {
    try await withDelegate([.willBeginDelayed, .completed]) { session, delegate in
      let task = session.dataTask(with: try Request("http://127.0.0.1:1/"))
      let date = Date(timeIntervalSinceNow: 2)
      task.earliestBeginDate = date
      task.resume()
      delegate.queue.suspend()
      task.cancel()
      let isEarly = date.timeIntervalSinceNow > 0
      #expect(isEarly, "the machine stood still")
      #expect(await eventually { date.timeIntervalSinceNow < -0.25 })
      delegate.queue.resume()
      #expect(await delegate.hasEnded())
      session.delegateQueue.sync {}
      #expect(delegate.entries == ["completed cancelled completed"])
    }
  }

  /// Answers with a whole redirect, at once.
  private final class Redirecting: Transport {
    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = IdleExchange()
      if let head = try? ResponseHead(status: 302, fields: [("Location", "/next")]) {
        receiver.receive(head: head, framing: .none, of: exchange)
      }
      receiver.end(nil, metrics: TransactionMetrics(), of: exchange)
      return exchange
    }
  }

  /// Tasks that are answered with a redirect, which their delegate refuses when it is told to.
  private func withRefusal(_ body: (Session, RecordingDelegate, KeptAnswers) async throws -> Void) async throws {
    let answers = KeptAnswers()
    var behaviour = RecordingDelegate.Answers()
    behaviour.redirection = { _ in nil }
    behaviour.manner = answers.manner
    let handled: CallbackSet = [.redirection, .response, .completed]
    try await withDelegate(handled, behaviour, configure: { $0.transport = Redirecting() }) { session, delegate in
      try await body(session, delegate, answers)
    }
  }

  /// Refused by one thread and cancelled by another at the same moment, a redirect leads to the question about its own response, or to none.
  @Test func aSecondQuestionAtTheMomentOfTheCancellation() async throws {
    try await withRefusal { session, delegate, answers in
      for round in 1...300 {
        let task = session.dataTask(with: try Request("http://a.example/"))
        task.resume()
        #expect(await answers.hasOne())
        let ready = Atomic<Int>(0)
        DispatchQueue.concurrentPerform(iterations: 2) { number in
          ready.add(1, ordering: .relaxed)
          // Both are there, or the other one has no processor.
          for _ in 0..<10_000 where ready.load(ordering: .relaxed) < 2 {}
          if number == 0 { answers.give() } else { task.cancel() }
        }
        #expect(await eventually { delegate.entries.count { $0.hasPrefix("completed") } == round })
        session.delegateQueue.sync {}
        answers.give()
      }
      #expect(delegate.entries.count { $0 == "redirect 302" } == 300)
      #expect(delegate.entries.count { $0 == "completed cancelled completed" } == 300)
    }
  }

  /// A task that was cancelled over its second question is over once, whatever is answered then.
  @Test func cancelledOverItsSecondQuestion() async throws {
    try await withRefusal { session, delegate, answers in
      let task = session.dataTask(with: try Request("http://a.example/"))
      task.resume()
      #expect(await answers.hasOne())
      answers.give()
      #expect(await answers.hasOne())
      #expect(delegate.entries == ["redirect 302", "response 302"])
      task.cancel()
      #expect(await delegate.hasEnded())
      answers.give()
      session.delegateQueue.sync {}
      #expect(delegate.entries == ["redirect 302", "response 302", "completed cancelled completed"])
    }
  }
}
