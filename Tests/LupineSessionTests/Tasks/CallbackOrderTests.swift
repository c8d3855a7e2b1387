import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Callbacks of connections, challenges and bodies within the whole order; `withDelegate` sees to their queue.
@Suite(.timeLimit(.minutes(5))) struct CallbackOrderTests {
  /// A body that a challenge has sent twice: each time before the answer to it, and the challenge between them. An answer that comes from elsewhere, and
  /// late, changes nothing.
  @Test(arguments: RecordingDelegate.Manner.all) func challengedUpload(_ manner: RecordingDelegate.Manner)
    async throws
  {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic))
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.challenge = { _ in .useCredential(AuthenticationTests.aladdin) }
    answers.manner = manner
    try await withDelegate(.all, answers, configure: { $0.credentialStorage = CredentialStorage() }) {
      session, delegate in
      let task = session.uploadTask(with: try Request(server.url("/"), method: .post), from: Data([1, 2, 3, 4, 5, 6]))
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == [
          "created", "sent", "challenge 401", "sent", "response 200", "data", "metrics", "completed well completed",
        ])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "welcome 6")
      #expect(delegate.sentBytes == 6 && delegate.metrics?.transactions.count == 2)
    }
  }

  /// Nobody is asked anything, nor told of anything but that the task is there, before the server is trusted; and once for a connection.
  @Test(arguments: RecordingDelegate.Manner.all) func serverTrust(_ manner: RecordingDelegate.Manner) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.manner = manner
    try await withDelegate(.all, answers) { session, delegate in
      let first = session.uploadTask(with: try Request(server.url("/echo"), method: .post), from: Data([1]))
      first.resume()
      #expect(await delegate.hasEnded())
      let rest = ["response 200", "data", "metrics", "completed well completed"]
      #expect(delegate.entries == ["created", "serverTrust", "sent"] + rest)
      session.dataTask(with: try Request(server.url("/hello"))).resume()
      #expect(await eventually { delegate.entries.count { $0.hasPrefix("completed") } == 2 })
      #expect(Array(delegate.entries.dropFirst(7)) == ["created"] + rest)
      session.finishTasksAndInvalidate()
      #expect(await delegate.hasEnded("invalid"))
      #expect(delegate.entries.count { $0 == "invalid" } == 1 && delegate.entries.last == "invalid")
    }
  }

  /// A server that is not trusted hears of no request.
  @Test func rejectedServer() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.server())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.trust = { _ in .reject }
    try await withDelegate(.all, answers) { session, delegate in
      session.uploadTask(with: try Request(server.url("/echo"), method: .post), from: Data([1])).resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == ["created", "serverTrust", "metrics", "completed serverCertificateUntrusted completed"])
      #expect(server.requestCount == 0)
    }
  }

  /// A challenge that nobody has an answer to: the 401 is the answer, with all that comes of one.
  @Test(arguments: RecordingDelegate.Manner.all) func challengeByDefault(_ manner: RecordingDelegate.Manner)
    async throws
  {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(AuthenticationTests.basic))
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.manner = manner
    try await withDelegate(.all, answers, configure: { $0.credentialStorage = CredentialStorage() }) {
      session, delegate in
      session.dataTask(with: try Request(server.url("/"))).resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == [
          "created", "challenge 401", "response 401", "data", "metrics", "completed well completed",
        ])
      #expect(String(decoding: delegate.data, as: UTF8.self) == "who?")
      #expect(server.requestCount == 1)
    }
  }

  /// A server that wants to see a certificate, and takes none: its own is judged first.
  @Test(arguments: RecordingDelegate.Manner.all) func clientCertificate(_ manner: RecordingDelegate.Manner)
    async throws
  {
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: try TestIdentity.asking())
    defer { server.shutdown() }
    var answers = RecordingDelegate.Answers()
    answers.manner = manner
    try await withDelegate(.all, answers) { session, delegate in
      session.dataTask(with: try Request(server.url("/hello"))).resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == [
          "created", "serverTrust", "clientCertificate", "response 200", "data", "metrics", "completed well completed",
        ])
    }
  }

  /// The engine finds no network twice: the task says so once, and before anything else comes of it.
  @Test func waitingForANetwork() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let attempts = Locked(0)
    try await withDelegate(configure: { $0.waitForNetwork(attempts) { $0 > 2 } }) { session, delegate in
      session.dataTask(with: try Request(server.url("/hello"))).resume()
      #expect(await delegate.hasEnded())
      #expect(
        delegate.entries == ["created", "waiting", "response 200", "data", "metrics", "completed well completed"])
      #expect(attempts.withLock { $0 } == 3)
    }
  }

  /// The list of tasks comes where the delegate is called.
  @Test func listsComeOnTheDelegateQueue() async throws {
    try await withDelegate { session, _ in
      let isOnQueue = Locked<Bool?>(nil)
      session.getAllTasks { _ in isOnQueue.withLock { $0 = RecordingDelegate.isOnQueue } }
      #expect(await eventually { isOnQueue.withLock { $0 } != nil })
      #expect(isOnQueue.withLock { $0 } == true)
    }
  }
}
