import Foundation
import HTTPTypes
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// The one hook that hears how every call of a manager ended.
@Suite(.timeLimit(.minutes(5))) struct CallHookTests {
  private struct End: Sendable {
    var target: String
    var status: Int?
    var error: (any Error)?
    var hasMetrics: Bool

    /// As a short text.
    var text: String {
      let failure =
        (error as? SerializationError)?.code.rawValue ?? (error as? SessionError)?.code.rawValue
        ?? error.map { "\(type(of: $0))" }
      return "\(target) \(status.map(String.init) ?? "-") \(failure ?? "ok")"
    }
  }

  private let routes =
    [
      ServerRoute(nil, "/ok") { _, connection in
        _ = try connection.readBody()
        try connection.respond(fields: ["Content-Type": "application/json"], text: "{}")
      },
      ServerRoute(nil, "/page") { _, connection in
        try connection.respond(fields: ["Content-Type": "text/html"], text: "<p>")
      },
      ServerRoute(nil, "/missing") { _, connection in
        _ = try connection.readBody()
        try connection.respond(404, fields: ["Content-Type": "application/json"], text: "{}")
      },
      ServerRoute(nil, "/gone") { _, connection in
        try connection.respond(410, fields: ["Content-Type": "application/json"], text: "{}")
      },
      ServerRoute(nil, "/lost") { _, connection in connection.abort(reset: true) },
    ] + ServerRoute.standard()

  private func withEnds(_ body: (HTTPSessionManager, LoopbackServer, Recorder<End>) async throws -> Void) async throws {
    try await withManager(routes) { manager, server in
      let ends = Recorder<End>()
      let queue = manager.delegateQueue
      manager.callDidComplete = { request, response, error in
        dispatchPrecondition(condition: .onQueue(queue))
        let metrics = response?.metrics ?? (error as? SessionError)?.metrics
        ends.add(
          End(
            target: String(request.urlString.drop { $0 != "/" }.dropFirst(2).drop { $0 != "/" }),
            status: response?.statusCode, error: error, hasMetrics: !(metrics?.transactions.isEmpty ?? true)))
      }
      try await body(manager, server, ends)
    }
  }

  private struct Number: Decodable { var number: Int }

  /// Calls that give a value: what they throw is told, and success too.
  @Test func asyncCallsAreToldOf() async throws {
    try await withEnds { manager, server, ends in
      _ = try await manager.get("ok", as: JSONValue.self)
      for path in ["page", "missing", "lost"] {
        await #expect(throws: (any Error).self) { try await manager.get(path, as: JSONValue.self) }
      }
      await #expect(throws: SerializationError.self) { try await manager.post("ok", as: Number.self) }
      _ = try await manager.post("ok", as: EmptyResponse.self) { $0.append(Data("a".utf8), name: "b") }
      let request = try manager.request(.get, "missing")
      await #expect(throws: SerializationError.self) {
        try await manager.response(for: request, serializer: JSONResponseSerializer())
      }
      #expect(await eventually { ends.values.count == 7 })
      #expect(
        ends.values.map(\.text) == [
          "/ok 200 ok", "/page 200 unacceptableContentType", "/missing 404 unacceptableStatusCode",
          "/lost - connectionLost", "/ok 200 cannotParseResponse", "/ok 200 ok", "/missing 404 unacceptableStatusCode",
        ])
      #expect(ends.values.allSatisfy { $0.hasMetrics })
    }
  }

  /// Tasks with handlers, uploads and downloads are told of too, once each.
  @Test func tasksAreToldOf() async throws {
    let folder = try ScratchFolder()
    try await withEnds { manager, server, ends in
      _ = await ended { manager.get("ok", success: $0, failure: $1) }
      _ = await ended { manager.get("missing", success: $0, failure: $1) }
      _ = await ended { manager.get("lost", success: $0, failure: $1) }
      _ = try await manager.upload(
        for: manager.request(.post, "ok"), from: Data("a".utf8), serializer: JSONResponseSerializer())
      _ = try await manager.download("ok", to: folder.file("ok"))
      await #expect(throws: SerializationError.self) { try await manager.download("missing", to: folder.file("no")) }
      #expect(await eventually { ends.values.count == 6 })
      #expect(
        ends.values.map(\.text) == [
          "/ok 200 ok", "/missing 404 unacceptableStatusCode", "/lost - connectionLost", "/ok 200 ok", "/ok 200 ok",
          "/missing 404 unacceptableStatusCode",
        ])
      #expect(ends.values.allSatisfy { $0.hasMetrics })
    }
  }

  /// A call that is sent several times is one call; what an interceptor throws, and a cancellation, are its end.
  @Test func aCallIsToldOfOnce() async throws {
    struct Refused: Error {}
    try await withEnds { manager, server, ends in
      var policy = RetryPolicy()
      policy.baseDelay = .zero
      policy.statusCodes = [404]
      manager.retryPolicy = policy
      await #expect(throws: SerializationError.self) { try await manager.get("missing", as: JSONValue.self) }
      #expect(server.requestCount == 3)
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw Refused() })]
      await #expect(throws: Refused.self) { try await manager.get("ok", as: JSONValue.self) }
      _ = await ended { manager.get("ok", success: $0, failure: $1) }
      manager.interceptors = []
      let call = Task { try await manager.get("slow", as: JSONValue.self) }
      #expect(await eventually { server.requestCount == 4 })
      call.cancel()
      await #expect(throws: SessionError.self) { try await call.value }
      #expect(await eventually { ends.values.count == 4 })
      #expect(
        ends.values.map(\.text)
          == ["/missing 404 unacceptableStatusCode", "/ok - Refused", "/ok - Refused", "/slow - cancelled"])
    }
  }

  /// An interceptor's error may have the response of a request of its own, as of one for a token: that is no response of this call, which had none, or another.
  @Test func anInterceptorsResponseIsNotTheCalls() async throws {
    try await withEnds { manager, server, ends in
      let (_, other) = try await manager.session.data(for: manager.request(.get, "missing"))
      let error = SessionError(.badResponse, phase: .receive, message: "no token", response: other)
      let refusing = ClosureInterceptor(adapt: { _, _ in throw error })
      let failing = ClosureInterceptor(decide: { _ in .fail(error) })
      for interceptor in [refusing, failing] {
        manager.interceptors = [interceptor]
        await #expect(throws: SessionError.self) { try await manager.get("gone", as: JSONValue.self) }
        await #expect(throws: SessionError.self) { try await manager.bytes(.get, "gone") }
        _ = await ended { manager.get("gone", success: $0, failure: $1) }
      }
      #expect(await eventually { ends.values.count == 6 })
      let (none, own) = ("/gone - badResponse", "/gone 410 badResponse")
      #expect(ends.values.map(\.text) == [none, none, none, own, own, own])
      // Those of a body that nobody read to its end are not complete.
      #expect(ends.values[3].hasMetrics && ends.values[5].hasMetrics)
    }
  }

  /// Whom nobody listens to goes the short way: nothing is asked of the hook.
  @Test func unsetItIsNotThere() async throws {
    try await withEnds { manager, server, ends in
      #expect(!manager.isPlain)
      manager.callDidComplete = nil
      #expect(manager.isPlain)
      _ = try await manager.get("ok", as: JSONValue.self)
      _ = await ended { manager.get("ok", success: $0, failure: $1) }
      await withCheckedContinuation { continuation in manager.delegateQueue.async { continuation.resume() } }
      #expect(ends.values.isEmpty)
    }
  }
}
