import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Synchronization
import Testing

/// A session that is cancelled while one of its tasks waits for something: the task is told its end once, and then the session its own.
@Suite(.timeLimit(.minutes(2))) struct SessionEndMomentTests {
  enum Moment: CaseIterable, Sendable {
    case noNetwork, serverTrust, challenge, download, suspendedInItsBody

    /// What the task hears before it waits.
    var entries: [String] {
      switch self {
      case .noNetwork: ["created", "waiting"]
      case .serverTrust: ["created", "serverTrust"]
      case .challenge: ["created", "challenge 401"]
      case .download: ["created", "wrote"]
      case .suspendedInItsBody: ["created", "response 200", "data"]
      }
    }
  }

  @Test(arguments: Moment.allCases) func theTaskIsCancelled(_ moment: Moment) async throws {
    let isOver = try Latch()
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/challenged") { _, connection in
          try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"a\""], body: [])
        },
        ServerRoute(nil, "/begun") { _, connection in
          try connection.begin(framing: .length(200_000))
          try connection.write(PatternBody.bytes(100_000))
          try connection.stall(until: isOver)
        },
      ], tls: moment == .serverTrust ? try TestIdentity.server() : nil)
    defer {
      isOver.release()
      server.shutdown()
    }
    let answers = KeptAnswers()
    var behaviour = RecordingDelegate.Answers()
    behaviour.manner = answers.manner
    let folder = try DownloadFolder()
    try await withDelegate(.all, behaviour) {
      if moment == .noNetwork { $0.waitForNetwork(Locked(0)) { _ in false } }
      $0.credentialStorage = CredentialStorage()
      $0.temporaryDirectory = folder.parentPath
    } _: { session, delegate in
      let request = try Request(server.url(moment == .challenge ? "/challenged" : "/begun"))
      let task: SessionTask =
        moment == .download ? session.downloadTask(with: request) : session.dataTask(with: request)
      task.resume()
      if moment == .suspendedInItsBody {
        #expect(await answers.hasOne())
        answers.give()
        #expect(await eventually { delegate.data.count == 100_000 })
        task.suspend()
      }
      #expect(await eventually { delegate.entries == moment.entries })
      session.invalidateAndCancel()
      #expect(await delegate.hasEnded("invalid"))
      answers.give()
      session.delegateQueue.sync {}
      let end = ["metrics", "completed cancelled completed", "invalid"]
      #expect(delegate.entries == moment.entries + end)
      #expect(task.state == .completed && task.error?.code == .cancelled)
      #expect(await session.tasks.isEmpty)
      #expect(await eventually { ClientSockets.count(to: server.port) == 0 })
    }
    #expect(folder.partials == [])
  }
}
