import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// The `async` twins of the verbs.
@Suite struct AsyncVerbTests {
  struct Greeting: Codable, Equatable {
    var greeting: String
    var count: Int
  }

  /// The type that is asked for decides what is made of the body.
  @Test func typesDecide() async throws {
    try await withManager { manager, server in
      let greeting: Greeting = try await manager.get("json")
      #expect(greeting == Greeting(greeting: "Hello, world!", count: 13))
      let json = try await manager.get("json", as: JSONValue.self)
      #expect(json["count"] == .integer(13))
      let data = try await manager.get("hello", as: Data.self)
      #expect(data == Data("Hello, world!".utf8))
      let nothing = try await manager.get("status?code=204", as: JSONValue.self)
      #expect(nothing == .null)
      #expect(server.connectionCount == 1)
    }
  }

  /// Every verb arrives as itself.
  @Test func verbs() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let parameters = ["key": "value"]
      let told: [Anything] = [
        try await manager.get("anything", parameters: parameters),
        try await manager.post("anything", parameters: parameters),
        try await manager.put("anything", parameters: parameters),
        try await manager.patch("anything", parameters: parameters),
        try await manager.delete("anything", parameters: parameters, headers: ["field": "x"]),
      ]
      #expect(told.map(\.method) == ["GET", "POST", "PUT", "PATCH", "DELETE"])
      #expect(told.map { $0.arguments.merging($0.form) { $1 } } == Array(repeating: parameters, count: 5))
      #expect(told.last?.headers["field"] == "x")
      let head = try await manager.head("json")
      #expect(head.statusCode == 200)
    }
  }

  /// Errors are typed: of the session, or of the serializer, with response and body.
  @Test func errorsAreTyped() async throws {
    try await withManager { manager, server in
      let status = await #expect(throws: SerializationError.self) {
        try await manager.get("status?code=404&body=gone", as: Data.self)
      }
      #expect(status?.code == .unacceptableStatusCode && status?.data == Data("gone".utf8))
      let type = await #expect(throws: SerializationError.self) {
        try await manager.get("hello", as: JSONValue.self)
      }
      #expect(type?.code == .unacceptableContentType)
      let time = await #expect(throws: SessionError.self) {
        try await manager.get("slow", as: Data.self, timeout: .milliseconds(50))
      }
      #expect(time?.code == .timedOut)
    }
  }

  /// The manager's own serializer says which statuses are acceptable.
  @Test func acceptableStatusesAreTheManagers() async throws {
    try await withManager { manager, server in
      var serializer = JSONResponseSerializer()
      serializer.acceptableStatusCodes = [404]
      manager.responseSerializer = serializer
      let data = try await manager.get("status?code=404&body=gone", as: Data.self)
      #expect(data == Data("gone".utf8))
    }
  }

  /// Whatever of its names the media type has, a body is decoded, a blank one is nil or nothing, and what is wrong with it is told in the same way.
  @Test(arguments: ["application/json", "Application/JSON", "application/json; charset=utf-8", "text/json"])
  func bodiesAreJudgedAlike(type: String) async throws {
    let bodies = ["value": #"{"greeting": "Hi", "count": 2}"#, "blank": " \r\n\t ", "none": "", "broken": "{"]
    let routes = bodies.map { path, body in
      ServerRoute(nil, "/" + path) { _, connection in
        try connection.respond(fields: ["Content-Type": type], text: body)
      }
    }
    try await withManager(routes) { manager, server in
      let value = try await manager.get("value", as: Greeting.self)
      #expect(value == Greeting(greeting: "Hi", count: 2))
      _ = try await manager.get("value", as: EmptyResponse.self)
      for path in ["blank", "none"] {
        let value = try await manager.get(path, as: Greeting?.self)
        #expect(value == nil)
        _ = try await manager.get(path, as: EmptyResponse.self)
        let error = await #expect(throws: SerializationError.self) { try await manager.get(path, as: Greeting.self) }
        #expect(error?.code == .cannotParseResponse && error?.message.contains("empty") == true)
        #expect(error?.response?.statusCode == 200 && error?.data == Data((bodies[path] ?? "").utf8))
      }
      let error = await #expect(throws: SerializationError.self) {
        try await manager.get("broken", as: Greeting.self)
      }
      #expect(error?.code == .cannotParseResponse && error?.underlying is DecodingError)
      #expect(error?.data == Data("{".utf8))
    }
  }

  /// A decoder that puts braces around a body is not asked about a blank one.
  @Test(arguments: ["application/json", "application/json; charset=utf-8"])
  func blankBodiesAreNoObjects(type: String) async throws {
    let bodies = ["none": "", "blank": " \r\n"]
    let routes = bodies.map { path, body in
      ServerRoute(nil, "/" + path) { _, connection in
        try connection.respond(fields: ["Content-Type": type], text: body)
      }
    }
    try await withManager(routes) { manager, server in
      manager.decoder.assumesTopLevelDictionary = true
      for (path, body) in bodies {
        let value = try await manager.get(path, as: [String: Int]?.self)
        #expect(value == nil)
        let error = await #expect(throws: SerializationError.self) {
          try await manager.get(path, as: [String: Int].self)
        }
        #expect(error?.code == .cannotParseResponse && error?.data == Data(body.utf8))
      }
    }
  }

  /// Statuses that the manager's serializer does not accept are errors, 200 as well; with nil, any is accepted.
  @Test func statusesOfSuccessMayBeRefused() async throws {
    let routes = [200, 299, 500].map { status in
      ServerRoute(nil, "/\(status)") { _, connection in
        try connection.respond(status, fields: ["Content-Type": "application/json"], text: "[1]")
      }
    }
    let rows: [(Set<Int>?, Set<String>)] = [
      (ResponseValidation.successfulStatusCodes, ["200", "299"]), ([299, 500], ["299", "500"]), ([], []),
      (nil, ["200", "299", "500"]), (Set(200...500), ["200", "299", "500"]),
    ]
    try await withManager(routes) { manager, server in
      for (accepted, good) in rows {
        var serializer = JSONResponseSerializer()
        serializer.acceptableStatusCodes = accepted
        manager.responseSerializer = serializer
        for path in ["200", "299", "500"] {
          do {
            let value = try await manager.get(path, as: [Int].self)
            #expect(value == [1] && good.contains(path))
          } catch let error as SerializationError {
            #expect(error.code == .unacceptableStatusCode && error.value as? [Int] == [1] && !good.contains(path))
          }
        }
      }
    }
  }

  /// Hooks and interceptors are asked by the calls between their setting and their removal, and by no others.
  @Test func settingsHoldWhileTheyAreSet() async throws {
    try await withManager { manager, server in
      let heard = Recorder<String>()
      func call(_ name: String) async throws {
        heard.add(name)
        _ = try await manager.get("hello", as: Data.self)
      }
      try await call("plain")
      manager.taskDidFinishCollectingMetrics = { _, _, _ in heard.add("metrics") }
      try await call("hook")
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          heard.add("adapt")
          return request
        })
      ]
      try await call("both")
      manager.taskDidFinishCollectingMetrics = nil
      try await call("interceptor")
      manager.interceptors = []
      manager.retryPolicy = RetryPolicy()
      manager.retryPolicy = nil
      try await call("none")
      #expect(
        heard.values == ["plain", "hook", "metrics", "both", "adapt", "metrics", "interceptor", "adapt", "none"])
    }
  }

  /// The serializer's limit on all of a call ends calls and tasks, however patient they are with a silence; another one is what `timeout:` means.
  @Test func totalTimeOfCalls() async throws {
    try await withManager { manager, server in
      manager.requestSerializer.base.totalTimeout = .milliseconds(100)
      let call = await #expect(throws: SessionError.self) {
        try await manager.get("slow", as: Data.self, timeout: .seconds(600))
      }
      let end = await ended { manager.get("slow", timeout: .seconds(600), success: $0, failure: $1) }
      for error in [call, end.error as? SessionError] {
        #expect(error?.code == .timedOut && error?.phase == .total)
      }
      let form = try manager.multipartRequest(.post, "slow") { $0.append(Data("a".utf8), name: "b") }
      #expect(form.totalTimeout == .milliseconds(100) && form.timeoutInterval == nil)
      manager.requestSerializer.base.totalTimeout = .seconds(600)
      let silence = await #expect(throws: SessionError.self) {
        try await manager.get("slow", as: Data.self, timeout: .milliseconds(100))
      }
      #expect(silence?.code == .timedOut && silence?.phase != .total)
    }
  }

  /// Cancelling the task cancels the request.
  @Test func cancellationReachesTheRequest() async throws {
    try await withManager { manager, server in
      let call = Task { try await manager.get("slow", as: Data.self) }
      #expect(await eventually { server.requestCount == 1 })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
      #expect(await eventually { server.openConnectionCount == 0 })
    }
  }

  /// Without hooks a call has no delegate, and posts nothing; with one, the hook is called.
  @Test func hooksOfTheExchangeAreCalled() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let posted = NotificationRecorder(.taskDidComplete, object: nil) { notification in
        ["session": (notification.object as? SessionTask)?.originalRequest.urlString ?? ""]
      }
      _ = try await manager.get("anything", as: Data.self)
      let asked = Recorder<Int>()
      manager.taskWillPerformHTTPRedirection = { _, _, response, request in
        asked.add(response.statusCode)
        return request
      }
      _ = try await manager.get("redirect?to=/anything", as: Data.self)
      #expect(asked.values == [302])
      // Behind what the ends of the calls would have had posted: ends are told on the one queue, notifications are posted on the other.
      await withCheckedContinuation { continuation in manager.delegateQueue.async { continuation.resume() } }
      await withCheckedContinuation { continuation in DispatchQueue.main.async { continuation.resume() } }
      #expect(!posted.values.contains { $0["session"]?.hasPrefix(server.url("/")) ?? false })
    }
  }

  /// An optional means what its value means: the body as it is, and JSON as the manager reads it.
  @Test func optionalsOfWhatIsNotDecoded() async throws {
    let json = ServerRoute("GET", "/json") { _, connection in
      try connection.respond(fields: ["Content-Type": "application/json"], text: #"{"a":null,"b":1}"#)
    }
    let text = ServerRoute("GET", "/text") { _, connection in
      try connection.respond(fields: ["Content-Type": "application/json"], text: #""aGk=""#)
    }
    let plain = ServerRoute("GET", "/plain") { _, connection in
      try connection.respond(fields: ["Content-Type": "text/plain"], text: "hello")
    }
    let empty = ServerRoute("GET", "/empty") { _, connection in try connection.respond(204) }
    try await withManager([json, text, plain, empty]) { manager, _ in
      var serializer = JSONResponseSerializer()
      serializer.removesKeysWithNullValues = true
      manager.responseSerializer = serializer
      for path in ["json", "text", "plain"] {
        let data = try await manager.get(path, as: Data.self)
        #expect(try await manager.get(path, as: Data?.self) == data)
      }
      #expect(try await manager.get("json", as: JSONValue?.self) == .object(["b": .integer(1)]))
      #expect(try await manager.get("empty", as: JSONValue?.self) == .some(.null))
    }
  }
}
