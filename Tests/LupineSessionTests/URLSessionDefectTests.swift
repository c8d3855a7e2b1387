import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// Defects of URLSession on Linux that no other test has as its subject; Docs/URLSessionOnLinux.md has them all.
@Suite(.timeLimit(.minutes(5))) struct URLSessionDefectTests {
  private struct Wrong: Error, CustomStringConvertible {
    let description: String
  }

  /// swift-corelibs-foundation #4965: a line like that made the request fail there.
  @Test func noSpaceBehindTheColon() async throws {
    let answer: ScriptBytes = "HTTP/1.1 200 OK\r\nContent-Length:2\r\nX-Mark:here\r\n\r\nok"
    try await withScript([[.readHead, .send(answer), .waitForClose]]) { session, server in
      let response = try await session.expect("ok", from: server.url())
      #expect(response.head.fields.first(named: "X-Mark") == "here")
    }
  }

  /// The dictionary of a URLRequest has one value for each name.
  @Test func fieldsOfARequestMayBeRepeated() async throws {
    let name = try #require(HTTPField.Name("X-Mark"))
    try await withServer { session, server in
      var request = try Request(server.url("/hello"))
      request.fields.append(HTTPField(name: name, value: "1"))
      request.fields.append(HTTPField(name: name, value: "2"))
      try await session.expect("Hello, world!", from: request)
      let recorded = try #require(server.recordedRequests.first)
      #expect(recorded.fields.values("X-Mark") == ["1", "2"])
    }
  }

  /// All sessions share one serial queue there (swift-corelibs-foundation #5321). Here not even an engine that they
  /// share is held up.
  @Test func aDelegateThatIsHeldUpHoldsNoOtherSession() async throws {
    let (go, open) = (try Latch(), try Latch())
    defer { go.release() }
    open.release()
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withSession(configure: { $0.engine = .shared }) { first in
      try await withSession(configure: { $0.engine = .shared }) { second in
        let (held, free) = (HoldingDelegate(until: go), HoldingDelegate(until: open))
        let task = first.dataTask(with: try Request(server.url("/hello")))
        task.delegate = held
        task.resume()
        #expect(await eventually { held.taken.withLock { !$0.isEmpty } })
        let other = second.dataTask(with: try Request(server.url("/hello")))
        other.delegate = free
        other.resume()
        #expect(await eventually(seconds: 50) { free.hasEnded.withLock { $0 } })
        #expect(!held.hasEnded.withLock { $0 })
        go.release()
        #expect(await eventually { held.hasEnded.withLock { $0 } })
        #expect(free.taken.withLock { $0 } == held.taken.withLock { $0 })
      }
    }
  }

  /// swift-corelibs-foundation #3497: sessions tie up threads of their own there.
  @Test func sessionsShareTheirThread() async {
    await #expect(processExitsWith: .success) {
      let server = try LoopbackServer(routes: ServerRoute.standard())
      let sessions = try (0..<30).map { _ in try Session(.ephemeral) }
      for session in sessions { _ = try await session.data(from: server.url("/hello")) }
      let census = DescriptorCensus.now(
        threadsNamed: "lupine", except: ["lupine-testing", "lupine-dns", "lupine-file"])
      guard (1...4).contains(census.threads) else { throw Wrong(description: "\(census.threads) threads") }
      for session in sessions { session.invalidateAndCancel() }
      server.shutdown()
    }
  }

  /// swift-corelibs-foundation #5321, #5411, #5016: several threads were in OpenSSL at once there, and the remedy was
  /// one queue for all.
  @Test func handshakesOnSeveralThreads() async throws {
    try await withServer(isSecure: true, configure: { $0.engine = .several(4, spreading: true) }) { session, server in
      try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<80 { group.addTask { try await session.text(server.url("/close")).0 } }
        for try await text in group { #expect(text == "Good bye.") }
      }
      // Each is the last on its connection.
      #expect(server.requestCount == 80 && server.connectionCount >= 80)
    }
  }

  /// swift-corelibs-foundation #5469: OpenSSL's handler at exit took away what threads of the client still used. A
  /// session is the first here to use it.
  @Test func opensslOutlivesTheSessionsThread() async {
    await #expect(processExitsWith: .success) {
      // The first handler is the last that runs.
      atexit { if (try? CertificateAuthority()) == nil { _exit(3) } }
      let server = try ScriptedServer([[.read(5), .close]], surplus: .repeatLast)
      let session = try Session(.ephemeral)
      let error = try await failure { try await session.data(from: "https://127.0.0.1:\(server.port)/") }
      guard error.phase == .tls else { throw error }
    }
  }
}
