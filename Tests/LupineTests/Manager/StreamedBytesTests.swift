import Foundation
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// Bodies that are read as they arrive, of requests and responses that a manager looks after.
@Suite(.timeLimit(.minutes(5))) struct StreamedBytesTests {
  /// The body is handed out while the server is still at it.
  @Test func bodiesComeAsTheyArrive() async throws {
    let wasRead = try Latch()
    let route = ServerRoute("GET", "/v1/events") { request, connection in
      let type = request.fields.first("Accept") ?? ""
      try connection.begin(fields: ["Content-Type": type], framing: .chunked)
      try connection.write(Array("data: \(request.query("q") ?? "")\n\n".utf8))
      _ = try connection.stall(until: wasRead)
      try connection.write(Array("data: 2\n\n".utf8))
      try connection.finish()
    }
    try await withManager([route], path: "/v1") { manager, server in
      let (bytes, response) = try await manager.bytes(
        .get, "events", parameters: ["q": "1"], headers: ["Accept": "text/event-stream"])
      #expect(response.statusCode == 200 && response.mimeType == "text/event-stream")
      var events = bytes.events.makeAsyncIterator()
      #expect(try await events.next()?.data == "1")
      wasRead.release()
      #expect(try await events.next()?.data == "2")
      #expect(try await events.next() == nil)
    }
  }

  /// Which statuses are acceptable is up to the manager; an error has the body, and the connection serves again.
  @Test func statusesAreValidated() async throws {
    try await withManager { manager, server in
      let error = await #expect(throws: SerializationError.self) {
        try await manager.bytes(.get, "status?code=404&body=gone")
      }
      #expect(error?.code == .unacceptableStatusCode && error?.data == Data("gone".utf8))
      #expect(error?.response?.statusCode == 404 && error?.failingURL == server.url("/status?code=404&body=gone"))
      var serializer = JSONResponseSerializer()
      serializer.acceptableStatusCodes = [404]
      manager.responseSerializer = serializer
      let (bytes, _) = try await manager.bytes(.get, "status?code=404&body=gone")
      #expect(try await bytes.collect(upTo: 4) == Array("gone".utf8))
      #expect(server.connectionCount == 1)
    }
  }

  /// Of an error's body no more than 64 KiB is read, however long it is.
  @Test(arguments: [(64 << 10) - 1, 64 << 10, (64 << 10) + 1, 64 << 20])
  func bodiesOfErrorsAreBounded(_ size: Int) async throws {
    let sent = Recorder<Int>()
    let route = ServerRoute("GET", "/refused") { _, connection in
      try connection.begin(503, framing: .length(size))
      let piece = [UInt8](repeating: 0x61, count: min(size, 65_537))
      var rest = size
      while rest > 0 {
        try connection.write(Array(piece.prefix(rest)))
        rest -= min(rest, piece.count)
      }
      try connection.finish()
      sent.add(size)
    }
    try await withManager([route]) { manager, server in
      let error = await #expect(throws: SerializationError.self) { try await manager.bytes(.get, "refused") }
      #expect(error?.data?.count == min(size, 64 << 10))
    }
    // Nobody is connected any more, so that what is not sent now never will be; the kernel's buffers hold less.
    #expect(size < 64 << 20 || sent.values.isEmpty)
  }

  /// How a call for a body ends is told, once: it was handed out, refused, or never came.
  @Test func endsAreTold() async throws {
    try await withManager(ServerRoute.standard()) { manager, server in
      let told = Recorder<String>()
      manager.callDidComplete = { _, response, error in
        told.add("\(response?.statusCode ?? 0) \(error.map { "\(type(of: $0))" } ?? "good")")
      }
      _ = try await manager.bytes(.get, "hello")
      #expect(await eventually { told.values.count == 1 })
      await #expect(throws: SerializationError.self) { try await manager.bytes(.get, "status?code=404") }
      #expect(await eventually { told.values.count == 2 })
      await #expect(throws: SessionError.self) { try await manager.bytes(for: Request("http://127.0.0.1:1/")) }
      #expect(await eventually { told.values.count == 3 })
      #expect(told.values == ["200 good", "404 SerializationError", "0 SessionError"])
    }
  }

  /// Every attempt is adapted; what fails is sent again before anybody has a body, on the same connection, and interceptors see what there was.
  @Test func attemptsAreRepeatedBeforeTheBody() async throws {
    let count = Recorder<String?>()
    let route = ServerRoute("GET", "/flaky") { request, connection in
      count.add(request.fields.first("X-Attempt"))
      if count.values.count < 3 {
        try connection.respond(503, text: "busy")
      } else {
        try connection.respond(text: "done")
      }
    }
    try await withManager([route]) { manager, server in
      let seen = Recorder<String>()
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in } }
      let name = try #require(HTTPField.Name("X-Attempt"))
      manager.interceptors = [
        ClosureInterceptor(
          adapt: { request, attempt in
            var request = request
            request.fields[name] = "\(attempt)"
            return request
          },
          decide: { failure in
            seen.add("\(failure.attempt) \(String(decoding: failure.data, as: UTF8.self))")
            return .undecided
          })
      ]
      let (bytes, response) = try await manager.bytes(.get, "flaky")
      #expect(try await bytes.collect(upTo: 4) == Array("done".utf8) && response.statusCode == 200)
      #expect(count.values == ["1", "2", "3"] && seen.values == ["1 busy", "2 busy"] && server.connectionCount == 1)
    }
  }

  /// A status of 400 and above that is acceptable may be repeated all the same; its body is not touched, and of the last attempt it is handed out.
  @Test func acceptableRefusalsKeepTheirBody() async throws {
    let count = Recorder<Int>()
    let route = ServerRoute("GET", "/busy") { _, connection in
      count.add(1)
      try connection.respond(503, text: "busy \(count.values.count)")
    }
    try await withManager([route]) { manager, server in
      var serializer = JSONResponseSerializer()
      serializer.acceptableStatusCodes = nil
      manager.responseSerializer = serializer
      manager.interceptors = [
        ClosureInterceptor(decide: { $0.data.isEmpty && $0.attempt == 1 ? .retry(after: .zero) : .doNotRetry })
      ]
      let (bytes, _) = try await manager.bytes(.get, "busy")
      #expect(try await bytes.collect(upTo: 100) == Array("busy 2".utf8))
    }
  }

  /// What an interceptor throws, the call throws; a hook that gives a challenge up, likewise; cancelling ends the call.
  @Test func callsEndAsTheOthersDo() async throws {
    struct NoToken: Error {}
    let wasAsked = try Latch()
    let silent = ServerRoute("GET", "/silent") { _, connection in
      wasAsked.release()
      try connection.begin(500, framing: .length(10))
      try connection.write(Array("12345".utf8))
      _ = try connection.stall(until: nil)
    }
    try await withManager(ServerRoute.standard() + [silent]) { manager, server in
      let call = Task { try await manager.bytes(.get, "silent") }
      #expect(await eventually { wasAsked.isReleased })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
      manager.authenticationChallengeHandler = { _, _, _, _ in .error(NoToken()) }
      await #expect(throws: NoToken.self) { try await manager.bytes(.get, "basic-auth?user=u&password=p") }
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw NoToken() })]
      await #expect(throws: NoToken.self) { try await manager.bytes(.get, "hello") }
    }
  }
}
