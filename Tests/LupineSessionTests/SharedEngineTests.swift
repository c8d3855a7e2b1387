import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// The end of the process-wide engine: in processes of their own, as other tests use theirs.
@Suite(.timeLimit(.minutes(5))) struct SharedEngineTests {
  private struct Wrong: Error, CustomStringConvertible {
    let description: String
  }

  /// What was under way is told so, once; thread and descriptors are gone; a later session has a new engine; and so on.
  @Test func itEndsAndBeginsAnew() async {
    await #expect(processExitsWith: .success) {
      try Session.shutDownSharedEngine()  // there is none
      try await Self.beginAndEnd()  // starts what the process keeps: resolver, file threads
      let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
      for round in 0..<3 {
        try await Self.beginAndEnd()
        guard before.isRestored(withinSeconds: 60) else {
          throw Wrong(description: "round \(round) left \(before.newcomers())")
        }
      }
    }
  }

  private static func beginAndEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let session = try Session(.ephemeral)
    let body = try await session.data(from: server.url("/hello")).0
    guard body.count == 13, hasEngine else { throw Wrong(description: "\(body.count) bytes, engine: \(hasEngine)") }
    let ends = Locked(0)
    let request = try Request(server.url("/slow"))
    _ = session.data(for: request) { _ in ends.withLock { $0 += 1 } }
    let slow = Task { try await session.data(from: server.url("/slow")) }
    _ = await eventually { server.recordedRequests.count { $0.path == "/slow" } == 2 }
    try Session.shutDownSharedEngine()
    guard await eventually({ ends.withLock { $0 } == 1 }) else { throw Wrong(description: "no end was told") }
    let cancelled = try await failure { try await slow.value }
    guard cancelled.code == .cancelled else { throw cancelled }
    guard await eventually({ !hasEngine && ClientSockets.count(to: server.port) == 0 }) else {
      throw Wrong(description: "the engine is there: \(hasEngine)")
    }
    let late = try await failure { try await session.data(from: server.url("/hello")) }
    guard late.code == .sessionInvalidated, late.message.contains("engine") else { throw late }
    try Session.shutDownSharedEngine()
    session.invalidateAndCancel()
    let count = ends.withLock { $0 }
    guard count == 1 else { throw Wrong(description: "\(count) ends were told") }
  }

  /// Whether the process has the thread of an engine.
  private static var hasEngine: Bool {
    DirectoryListing.names("/proc/self/task").contains { TextFile.read("/proc/self/task/\($0)/comm") == "lupine\n" }
  }

  /// Who asks again whatever comes, by completions or on the engine's executor, keeps nobody who ends the engine, and goes on to be told.
  @Test func itEndsThoughEverythingIsAskedAgain() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer(routes: ServerRoute.standard())
      defer { server.shutdown() }
      let session = try Session(.ephemeral)
      let isOver = Locked(false)
      let (ends, rounds) = (Locked(0), Locked(0))
      let url = server.url("/slow")
      let request = try Request(url)
      @Sendable func ask() {
        _ = session.data(for: request) { _ in
          ends.withLock { $0 += 1 }
          if !isOver.withLock({ $0 }) { ask() }
        }
      }
      ask()
      let task = Task(executorPreference: session.engineExecutor) {
        while !isOver.withLock({ $0 }) {
          _ = try? await session.data(from: url)
          rounds.withLock { $0 += 1 }
        }
      }
      _ = await eventually { server.requestCount == 2 }
      let other = Task.detached { try Session.shutDownSharedEngine() }
      try Session.shutDownSharedEngine()
      try await other.value
      let (before, earlier) = (ends.withLock { $0 }, rounds.withLock { $0 })
      let goesOn = await eventually { ends.withLock { $0 } > before + 10 && rounds.withLock { $0 } > earlier + 10 }
      isOver.withLock { $0 = true }
      await task.value
      guard goesOn, before > 0, earlier > 0 else {
        throw Wrong(description: "\(before) and \(earlier) ends, then none")
      }
    }
  }

  /// Sessions are made and used while others end the engine again and again: each request ends once.
  @Test func everythingEndsOnceWhateverEndsTheEngine() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer(routes: ServerRoute.standard())
      defer { server.shutdown() }
      let request = try Request(server.url("/hello"))
      let (begun, ended, wrong) = (Locked(0), Locked(0), Locked<[String]>([]))
      try onThreads(5) { thread in
        for _ in 0..<40 {
          guard thread < 4 else {
            do { try Session.shutDownSharedEngine() } catch { wrong.withLock { $0.append("\(error)") } }
            continue
          }
          guard let session = try? Session(.ephemeral) else { continue }
          begun.withLock { $0 += 1 }
          _ = session.data(for: request) { result in
            ended.withLock { $0 += 1 }
            if case .failure(let error) = result, error.code != .cancelled, error.code != .sessionInvalidated {
              wrong.withLock { $0.append("\(error)") }
            }
          }
        }
      }
      let isOver = await eventually { begun.withLock { $0 } == ended.withLock { $0 } }
      let text = wrong.withLock { $0.joined(separator: ", ") }
      guard isOver, text.isEmpty else { throw Wrong(description: "\(ended.withLock { $0 }) ends; \(text)") }
      try await Session(.ephemeral).expect("Hello, world!", from: request)
      try Session.shutDownSharedEngine()
    }
  }

  /// It could only wait for itself.
  @Test func itsOwnThreadIsRefused() async {
    await #expect(processExitsWith: .success) {
      let session = try Session(.ephemeral)
      let code = await withCheckedContinuation { (continuation: CheckedContinuation<SessionError.Code?, Never>) in
        session.onEngine {
          do throws(SessionError) {
            try Session.shutDownSharedEngine()
            continuation.resume(returning: nil)
          } catch {
            continuation.resume(returning: error.code)
          }
        }
      }
      guard code == .badRequest, Self.hasEngine else { throw Wrong(description: "\(String(describing: code))") }
      try Session.shutDownSharedEngine()
      guard await eventually({ !Self.hasEngine }) else { throw Wrong(description: "the engine goes on") }
      // Nobody is left to do it elsewhere, and it is not forgotten.
      let isDone = Locked(false)
      session.onEngine { isDone.withLock { $0 = true } }
      guard isDone.withLock({ $0 }) else { throw Wrong(description: "the work was lost") }
    }
  }

  /// Whoever is told of the end goes on with a session of the next engine, before that of the first has come.
  @Test func theNextBeginsWhileTheFirstEnds() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer(routes: ServerRoute.standard())
      defer { server.shutdown() }
      let session = try Session(.ephemeral)
      let (slow, hello) = (try Request(server.url("/slow")), try Request(server.url("/hello")))
      let told = Task { () -> String in
        await withCheckedContinuation { (continuation: CheckedContinuation<String, Never>) in
          _ = session.data(for: slow) { ended in
            guard let next = try? Session(.ephemeral) else { return continuation.resume(returning: "\(ended)") }
            _ = next.data(for: hello) { answer in
              switch answer {
              case .success((_, let response)): continuation.resume(returning: "\(response.statusCode)")
              case .failure(let error): continuation.resume(returning: "\(error)")
              }
            }
          }
        }
      }
      _ = await eventually { server.requestCount == 1 }
      try Session.shutDownSharedEngine()
      let text = await told.value
      guard text == "200", Self.hasEngine else { throw Wrong(description: text) }
      try Session.shutDownSharedEngine()
    }
  }

  /// What a session has in store is given out without an engine, or refused; nobody waits for ever.
  @Test func storedResponsesNeedNoEngine() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer { _, connection in
        try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "stored")
      }
      defer { server.shutdown() }
      var configuration = SessionConfiguration.ephemeral
      configuration.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      configuration.mergesCacheMisses = true
      let session = try Session(configuration)
      let first = try await session.text(server.url("/a")).0
      try Session.shutDownSharedEngine()
      // By a completion, which is called on the engine's thread where there is one.
      let request = try Request(server.url("/a"))
      let again = await withCheckedContinuation { (continuation: CheckedContinuation<String, Never>) in
        _ = session.data(for: request) { answer in
          switch answer {
          case .success((let body, _)): continuation.resume(returning: String(decoding: body, as: UTF8.self))
          case .failure(let error): continuation.resume(returning: "\(error)")
          }
        }
      }
      guard first == "stored", again == "stored", server.requestCount == 1 else {
        throw Wrong(description: "\(first), \(again), \(server.requestCount)")
      }
      try await Self.expectLate(session, server.url("/b"))
    }
  }

  private static func expectLate(_ session: Session, _ url: String) async throws {
    let late = try await failure { try await session.data(from: url) }
    guard late.code == .sessionInvalidated else { throw late }
  }
}
