import FoundationEssentials
import LupineBase
import LupineIO
import LupineRules
import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// The engine's thread waits for no disk.
@Suite(.timeLimit(.minutes(5))) struct DiskTests {
  private static func isOnEngine(_ session: Session) -> Bool {
    (session.transport as? EngineTransport)?.loop.isCurrent ?? false
  }

  /// A request with a file that begins on the engine's thread, and looks at the file elsewhere, arrives as any other.
  @Test func filesOfRequestsFromTheEngineArrive() async throws {
    let directory = try ScratchDirectory()
    let path = try directory.write(PatternBody.bytes(1000), to: "body")
    try await withServer { session, server in
      let bodies: [Request.Body] = [
        .bytes(PatternBody.bytes(1000)), .file(path: path),
        .segments([.bytes(PatternBody.bytes(10)), .file(path: path, offset: 10)]),
      ]
      for body in bodies {
        let request = try Request(server.url("/echo"), method: .put, body: body)
        let answer = await withCheckedContinuation {
          (continuation: CheckedContinuation<Result<(Data, Response), SessionError>, Never>) in
          let run = BufferedRun(request, session: session) { continuation.resume(returning: $0) }
          session.onEngine { run.start() }
        }
        #expect(PatternBody.matches(try answer.get().0, from: 0))
      }
    }
  }

  /// A list of public suffixes that is there when the latch opens.
  private func slowJar(_ isThere: Latch, _ isAsked: Locked<Int>) -> CookieStorage {
    CookieStorage {
      isAsked.withLock { $0 += 1 }
      _ = isThere.wait(seconds: 20)
      let list: [UInt8] = Array("com\n".utf8)
      return PublicSuffixList(reading: list.span)
    }
  }

  private static let routes = [
    ServerRoute(nil, "/from") { _, connection in
      try connection.respond(302, fields: ["Location": "/to", "Set-Cookie": "a=1"], text: "moved")
    },
    ServerRoute(nil, "/to") { request, connection in
      try connection.respond(text: request.fields.first("Cookie") ?? "none")
    },
  ]

  /// While the list is being read, others go on; the cookie is kept before anything is done with its response.
  @Test func suffixesAreReadElsewhere() async throws {
    let isThere = try Latch()
    let isAsked = Locked(0)
    let jar = slowJar(isThere, isAsked)
    try await withServer(Self.routes, configure: { $0.cookieStorage = jar }) { session, server in
      let (onEngine, text) = (Locked<Bool?>(nil), Locked<String?>(nil))
      session.data(for: try Request(server.url("/from"))) { result in
        onEngine.withLock { $0 = Self.isOnEngine(session) }
        text.withLock { $0 = (try? result.get().0).map { String(decoding: $0, as: UTF8.self) } }
      }
      #expect(await eventually { isAsked.withLock { $0 } == 1 })
      try await session.expect("none", from: server.url("/to"))
      #expect(jar.isEmpty && text.withLock { $0 } == nil)
      isThere.release()
      #expect(await eventually { text.withLock { $0 } != nil })
      #expect(text.withLock { $0 } == "a=1" && onEngine.withLock { $0 } == true)
      try await session.expect("a=1", from: server.url("/from"))
      #expect(isAsked.withLock { $0 } == 1)
    }
  }

  @Test func cancelledWhileSuffixesAreRead() async throws {
    let isThere = try Latch()
    let isAsked = Locked(0)
    let jar = slowJar(isThere, isAsked)
    try await withServer(Self.routes, configure: { $0.cookieStorage = jar }) { session, server in
      let task = Task { try await session.text(server.url("/from")).0 }
      #expect(await eventually { isAsked.withLock { $0 } == 1 })
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      #expect(!isThere.isReleased && jar.isEmpty)
      isThere.release()
      try await session.expect("a=1", from: server.url("/from"))
    }
  }

  /// What the cache asks about, and answers a question about with a cookie that no task sees.
  private static func kept(_ status: Int) -> ServerRoute {
    ServerRoute(nil, "/kept") { request, connection in
      let isQuestion = request.fields.first("If-None-Match") != nil
      var fields: ServerFields = ["Cache-Control": "max-age=0, stale-if-error=1000", "ETag": "\"1\""]
      if isQuestion { fields.append("Set-Cookie", "a=1; Path=/") }
      try connection.respond(isQuestion ? status : 200, fields: fields, text: isQuestion ? "" : "kept")
    }
  }

  private func withHiddenCookie(
    _ status: Int, _ isThere: Latch, _ isAsked: Locked<Int>,
    _ body: (Session, LoopbackServer, CookieStorage) async throws -> Void
  ) async throws {
    let jar = slowJar(isThere, isAsked)
    try await withServer(Self.routes + [Self.kept(status)]) {
      $0.cookieStorage = jar
      $0.responseCache = ResponseCache()
    } _: { session, server in
      try await session.expect("kept", from: server.url("/kept"))
      #expect(isAsked.withLock { $0 } == 0)
      try await body(session, server, jar)
    }
  }

  /// Behind a cache as well others go on while the list is being read, and the cookie is kept before the stored answer is seen.
  @Test(arguments: [304, 503]) func suffixesForAHiddenHeadAreReadElsewhere(_ status: Int) async throws {
    let (isThere, isAsked) = (try Latch(), Locked(0))
    try await withHiddenCookie(status, isThere, isAsked) { session, server, jar in
      let answer = Locked<(text: String?, cookies: Int)?>(nil)
      session.data(for: try Request(server.url("/kept"))) { result in
        let text = (try? result.get().0).map { String(decoding: $0, as: UTF8.self) }
        answer.withLock { $0 = (text, jar.count) }
      }
      #expect(await eventually { isAsked.withLock { $0 } == 1 })
      try await session.expect("none", from: server.url("/to"))
      #expect(jar.isEmpty && answer.withLock { $0 == nil })
      isThere.release()
      #expect(await eventually { answer.withLock { $0 != nil } })
      let (text, cookies) = try #require(answer.withLock { $0 })
      #expect(text == "kept" && cookies == 1)
    }
  }

  /// Neither holds the list up a task that is cancelled, or has no time left; the cookie is kept all the same.
  @Test(arguments: [SessionError.Code.cancelled, .timedOut])
  func endedWhileSuffixesForAHiddenHeadAreRead(_ code: SessionError.Code) async throws {
    let (isThere, isAsked) = (try Latch(), Locked(0))
    try await withHiddenCookie(304, isThere, isAsked) { session, server, jar in
      var request = try Request(server.url("/kept"))
      if code == .timedOut { request.totalTimeout = .seconds(4) }
      let task = Task { [request] in try await session.text(request).0 }
      #expect(await eventually { isAsked.withLock { $0 } == 1 })
      if code == .cancelled { task.cancel() }
      try await expectFailure(code) { try await task.value }
      #expect(!isThere.isReleased && jar.isEmpty)
      isThere.release()
      #expect(await eventually { jar.count == 1 })
    }
  }
}
