import Foundation
import HTTPTypes
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// Tokens of calls, tasks and operations: sent where they belong, and refreshed once for all.
@Suite(.timeLimit(.minutes(5))) struct TokenInterceptorTests {
  private struct Expired: Error {}

  /// Answers 200 to one token, and 401 to everything else.
  private func secret(_ path: String = "/secret", accepts token: String = "new") -> ServerRoute {
    ServerRoute(nil, path) { request, connection in
      _ = try connection.readBody()
      let isRight = request.fields.first("Authorization") == "Bearer \(token)"
      try connection.respond(isRight ? 200 : 401, text: isRight ? "in" : "out")
    }
  }

  private func tokens(_ server: LoopbackServer) -> [String?] {
    server.recordedRequests.map { $0.fields.first("Authorization") }
  }

  /// Twenty calls are refused at once: one refresh, and each is sent again once.
  @Test func refusalsShareOneRefresh() async throws {
    // Nobody is refused before all have the token.
    let adapted = Recorder<Bool>()
    let allHaveIt = try Latch()
    let route = ServerRoute(nil, "/secret") { request, connection in
      let isRight = request.fields.first("Authorization") == "Bearer new"
      if !isRight { _ = allHaveIt.wait(seconds: 60) }
      try connection.respond(isRight ? 200 : 401, text: isRight ? "in" : "out")
    }
    try await withManager([route]) { manager, server in
      let expired = Recorder<String?>()
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) {
          expired.add($0)
          #expect(await eventually { server.requestCount == 20 })
          return "new"
        },
        ClosureInterceptor(adapt: { request, _ in
          adapted.add(true)
          if adapted.values.count == 20 { allHaveIt.release() }
          return request
        }),
      ]
      try await withThrowingTaskGroup(of: Data.self) { group in
        for _ in 0..<20 { group.addTask { try await manager.get("secret", as: Data.self) } }
        for try await data in group { #expect(data == Data("in".utf8)) }
      }
      #expect(expired.values == ["old"])
      #expect(tokens(server).count { $0 == "Bearer old" } == 20 && tokens(server).count { $0 == "Bearer new" } == 20)
      _ = try await manager.get("secret", as: Data.self)
      #expect(server.requestCount == 41 && expired.values.count == 1)
    }
  }

  /// A task that a refresh leaves behind is not a part of it any more: its requests have the token as all others.
  @Test func whatOutlivesTheRefreshHasTheToken() async throws {
    try await withManager([secret()]) { manager, server in
      let release = try Latch()
      let left = Locked<Task<Data, any Error>?>(nil)
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { [weak manager] _ in
          left.withLock { left in
            left = Task {
              await withCheckedContinuation { continuation in
                DispatchQueue.global().async {
                  _ = release.wait(seconds: 60)
                  continuation.resume()
                }
              }
              return try await manager?.get("secret", as: Data.self) ?? Data()
            }
          }
          return "new"
        }
      ]
      _ = try await manager.get("secret", as: Data.self)
      release.release()
      let data = try await left.withLock { $0 }?.value
      #expect(data == Data("in".utf8) && tokens(server) == ["Bearer old", "Bearer new", "Bearer new"])
    }
  }

  /// A refusal that comes when the token has been replaced needs no refresh.
  @Test func lateRefusalsAreRepeatedAtOnce() async throws {
    let release = try Latch()
    let late = ServerRoute(nil, "/late") { request, connection in
      let isRight = request.fields.first("Authorization") == "Bearer new"
      if !isRight { _ = release.wait(seconds: 60) }
      try connection.respond(isRight ? 200 : 401, text: isRight ? "late" : "out")
    }
    try await withManager([secret(), late]) { manager, server in
      let expired = Recorder<String?>()
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) {
          expired.add($0)
          return "new"
        }
      ]
      async let slow = manager.get("late", as: Data.self)
      #expect(await eventually { server.requestCount == 1 })
      let quick = try await manager.get("secret", as: Data.self)
      #expect(quick == Data("in".utf8))
      release.release()
      let data = try await slow
      #expect(data == Data("late".utf8))
      #expect(expired.values == ["old"] && server.requestCount == 4)
    }
  }

  /// Without a token the first request asks for one, and the others wait for it.
  @Test func theFirstTokenIsAskedFor() async throws {
    try await withManager([secret()]) { manager, server in
      let expired = Recorder<String?>()
      manager.interceptors = [
        try TokenInterceptor(token: nil, origins: [server.url("/")]) {
          expired.add($0)
          return "new"
        }
      ]
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<20 { group.addTask { _ = try await manager.get("secret", as: Data.self) } }
        try await group.waitForAll()
      }
      #expect(expired.values == [nil] && tokens(server) == Array(repeating: "Bearer new", count: 20))
    }
  }

  /// A request is sent again once: what the server says to the new token is the result.
  @Test func aSecondRefusalIsTheResult() async throws {
    try await withManager([secret(accepts: "none")]) { manager, server in
      let count = Recorder<String?>()
      manager.interceptors = [
        try TokenInterceptor(token: "0", origins: [server.url("/")]) {
          count.add($0)
          return "\(count.values.count)"
        }
      ]
      let error = await #expect(throws: SerializationError.self) { try await manager.get("secret", as: Data.self) }
      #expect(error?.response?.statusCode == 401 && error?.data == Data("out".utf8))
      #expect(tokens(server) == ["Bearer 0", "Bearer 1"] && count.values == ["0"])
    }
  }

  /// Nobody makes it refresh without end: five in 30 seconds, then the refusal stands.
  @Test func refreshesAreLimited() async throws {
    try await withManager([secret(accepts: "none")]) { manager, server in
      let (count, seconds) = (Recorder<Void>(), Locked(0))
      manager.interceptors = [
        try TokenInterceptor(token: "0", origins: [server.url("/")], now: { .seconds(seconds.withLock { $0 }) }) { _ in
          count.add(())
          return "\(count.values.count)"
        }
      ]
      for _ in 0..<8 {
        let error = await #expect(throws: SerializationError.self) { try await manager.get("secret", as: Data.self) }
        #expect(error?.response?.statusCode == 401)
      }
      #expect(count.values.count == 5 && server.requestCount == 13)
      seconds.withLock { $0 = 30 }
      await #expect(throws: SerializationError.self) { try await manager.get("secret", as: Data.self) }
      #expect(count.values.count == 6 && server.requestCount == 15)
    }
  }

  // MARK: Failures

  /// What the refresh throws, everything that waited for it ends with: calls, tasks, operations.
  @Test func failuresOfTheRefreshAreTheResult() async throws {
    try await withManager([secret()]) { manager, server in
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in throw Expired() }
      ]
      await #expect(throws: Expired.self) { try await manager.get("secret", as: Data.self) }
      let end = await ended { manager.get("secret", success: $0, failure: $1) }
      #expect(end.error is Expired && end.task?.response?.statusCode == 401)
      #expect(server.requestCount == 2)
    }
  }

  @Test func operationsEndWithTheFailureToo() async throws {
    let server = try LoopbackServer(routes: [secret()])
    defer { server.shutdown() }
    let manager = try HTTPRequestOperationManager(baseURL: server.url("/"))
    manager.completionQueue = DispatchQueue(label: "operations")
    manager.sessionManager.interceptors = [
      try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in throw Expired() }
    ]
    let error = await withCheckedContinuation { continuation in
      _ = manager.get("secret") { _, _ in
        continuation.resume(returning: nil)
      } failure: { _, error in
        continuation.resume(returning: error)
      }
    }
    #expect(error is Expired && server.requestCount == 1)
  }

  /// After too many that failed, the last failure is the result; without a token nothing is sent.
  @Test func theLastFailureIsKept() async throws {
    try await withManager([secret()]) { manager, server in
      let count = Recorder<Void>()
      for (token, requests) in [(nil, 0), ("old", 7)] as [(String?, Int)] {
        let before = count.values.count
        manager.interceptors = [
          try TokenInterceptor(token: token, origins: [server.url("/")], now: { .zero }) { _ in
            count.add(())
            throw Expired()
          }
        ]
        for _ in 0..<7 { await #expect(throws: Expired.self) { try await manager.get("secret", as: Data.self) } }
        #expect(count.values.count - before == 5 && server.requestCount == requests)
      }
    }
  }

  /// A token that could end the field is sent nowhere, and shown nowhere.
  @Test(arguments: ["", "a b", "a\r\nX-Evil: 1", "\u{E9}"]) func badTokensAreRefused(_ token: String) async throws {
    try await withManager([secret()]) { manager, server in
      let made = #expect(throws: SessionError.self) {
        try TokenInterceptor(token: token, origins: []) { _ in "new" }
      }
      #expect(made?.code == .badRequest && made?.message.contains("Evil") == false)
      manager.interceptors = [try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in token }]
      let error = await #expect(throws: SessionError.self) { try await manager.get("secret", as: Data.self) }
      #expect(error?.code == .badRequest && server.requestCount == 1)
    }
  }

  @Test func badOriginsAreRefused() {
    for origin in ["", "example.org", "ftp://example.org", "http://"] {
      let error = #expect(throws: SessionError.self) {
        try TokenInterceptor(token: "a", origins: [origin]) { _ in "b" }
      }
      #expect(error?.code == .badURL)
    }
  }

  /// Who cancels a call that waits ends that call alone: the refresh goes on for the others.
  @Test func cancellingOneLeavesTheRefresh() async throws {
    try await withManager([secret()]) { manager, server in
      let (begun, mayEnd) = (Recorder<Void>(), Locked(false))
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in
          begun.add(())
          #expect(await eventually { mayEnd.withLock { $0 } })
          #expect(!Task.isCancelled)
          return "new"
        }
      ]
      let first = Task { try await manager.get("secret", as: Data.self) }
      #expect(await eventually { begun.values.count == 1 })
      let refused = Task { try await manager.get("secret", as: Data.self) }
      let other = Task { try await manager.get("secret", as: Data.self) }
      // The first has begun the refresh, and has been refused; the second may not have been adapted yet. Both end.
      first.cancel()
      refused.cancel()
      for call in [first, refused] {
        let error = await #expect(throws: SessionError.self) { try await call.value }
        #expect(error?.code == .cancelled)
      }
      mayEnd.withLock { $0 = true }
      let data = try await other.value
      #expect(data == Data("in".utf8))
      #expect(begun.values.count == 1 && tokens(server) == ["Bearer old", "Bearer new"])
    }
  }

  // MARK: Whom it is for

  /// No other origin is sent the token, by a call or by a redirect; nor can it cause a refresh.
  @Test func otherOriginsSeeNoToken() async throws {
    let other = try LoopbackServer(routes: [secret()])
    defer { other.shutdown() }
    let target = other.url("/secret")
    let away = ServerRoute(nil, "/away") { _, connection in
      try connection.respond(307, fields: ["Location": target])
    }
    try await withManager([secret(), away]) { manager, server in
      let count = Recorder<Void>()
      manager.interceptors = [
        try TokenInterceptor(token: "new", origins: [server.url("/anywhere?a#b")]) { _ in
          count.add(())
          return "newer"
        }
      ]
      let data = try await manager.get("secret", as: Data.self)
      #expect(data == Data("in".utf8))
      for url in [target, "away"] {
        let error = await #expect(throws: SerializationError.self) { try await manager.get(url, as: Data.self) }
        #expect(error?.response?.statusCode == 401)
      }
      #expect(tokens(other) == [nil, nil] && tokens(server) == ["Bearer new", "Bearer new"] && count.values.isEmpty)
    }
  }

  /// A redirect leads away and back: what the origin says then was said to no token, and a new one would not be shown to it either. A delegate that sets it
  /// again has it shown.
  @Test(arguments: [false, true]) func aWayBackHasNoToken(_ isSetAgain: Bool) async throws {
    let back = Locked("")
    let other = try LoopbackServer(routes: [
      ServerRoute(nil, "/there") { _, connection in
        try connection.respond(307, fields: ["Location": back.withLock { $0 }])
      }
    ])
    defer { other.shutdown() }
    let target = other.url("/there")
    let away = ServerRoute(nil, "/away") { _, connection in
      try connection.respond(307, fields: ["Location": target])
    }
    try await withManager([secret(), away]) { manager, server in
      back.withLock { $0 = server.url("/secret") }
      let count = Recorder<Void>()
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in
          count.add(())
          return "new"
        }
      ]
      if isSetAgain {
        let token = Locked("Bearer old")
        manager.taskWillPerformHTTPRedirection = { _, _, response, request in
          guard response.urlString == target else { return request }
          var request = request
          request.fields[.authorization] = token.withLock { token in
            defer { token = "Bearer new" }
            return token
          }
          return request
        }
        let data = try await manager.get("away", as: Data.self)
        #expect(data == Data("in".utf8) && count.values.count == 1)
      } else {
        for _ in 0..<2 {
          let error = await #expect(throws: SerializationError.self) { try await manager.get("away", as: Data.self) }
          #expect(error?.response?.statusCode == 401)
        }
        #expect(tokens(server) == ["Bearer old", nil, "Bearer old", nil] && count.values.isEmpty)
      }
    }
  }

  /// Who says who is asking is left alone, and so is what the server says to that.
  @Test func ownCredentialsAreLeftAlone() async throws {
    try await withManager([secret()]) { manager, server in
      let count = Recorder<Void>()
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in
          count.add(())
          return "new"
        }
      ]
      for own in ["Basic YTpi", "Bearer other"] {
        await #expect(throws: SerializationError.self) {
          try await manager.get("secret", as: Data.self, headers: ["Authorization": own])
        }
      }
      var request = try manager.request(.get, "secret")
      request.credential = .password(user: "a", password: "b")
      _ = try? await manager.response(for: request, serializer: HTTPResponseSerializer())
      #expect(tokens(server) == ["Basic YTpi", "Bearer other", nil] && count.values.isEmpty)
    }
  }

  // MARK: What waits, and what does not

  /// A refresh that asks by the same manager passes: its requests have no token, and wait for none. As a call, a task with handlers, a download.
  @Test(arguments: 0..<3) func theRefreshMayUseTheSameManager(_ way: Int) async throws {
    let token = ServerRoute(nil, "/token") { _, connection in try connection.respond(text: "new") }
    let folder = try ScratchFolder()
    try await withManager([secret(), token]) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [server.url("/")]) { [weak manager] _ in
          guard let manager else { throw Expired() }
          switch way {
          case 0: return String(decoding: try await manager.post("token", as: Data.self), as: UTF8.self)
          case 1:
            let end = await ended { manager.post("token", success: $0, failure: $1) }
            return String(decoding: end.value as? Data ?? Data(), as: UTF8.self)
          default:
            let file = try await manager.download("token", to: folder.file("token")).file
            return try String(contentsOf: file, encoding: .utf8)
          }
        }
      ]
      let data = try await manager.get("secret", as: Data.self)
      #expect(data == Data("in".utf8))
      #expect(server.recordedRequests.map(\.path) == ["/secret", "/token", "/secret"])
      #expect(tokens(server) == ["Bearer old", nil, "Bearer new"])
    }
  }

  /// Tasks with handlers and uploads with progress are sent again as calls are.
  @Test func tasksAreSentAgain() async throws {
    try await withManager([secret()]) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let interceptor = try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in "new" }
      manager.interceptors = [interceptor]
      let end = await ended { manager.get("secret", success: $0, failure: $1) }
      #expect(end.value as? Data == Data("in".utf8) && tokens(server) == ["Bearer old", "Bearer new"])
      manager.interceptors = [try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in "new" }]
      let (data, _) = try await manager.upload(
        for: manager.request(.post, "secret"), from: Data("body".utf8), serializer: HTTPResponseSerializer())
      #expect(data == Data("in".utf8) && server.requestCount == 4)
      #expect(server.recordedRequests.filter(\.bodyIsComplete).suffix(2).map(\.text) == ["body", "body"])
    }
  }

  /// What can be sent only once is not sent again; the token is refreshed for the next.
  @Test func bodiesThatCanBeSentOnceAreNot() async throws {
    try await withManager([secret()]) { manager, server in
      manager.interceptors = [try TokenInterceptor(token: "old", origins: [server.url("/")]) { _ in "new" }]
      var request = try manager.request(.post, "secret")
      request.body = .sequence(AsyncStream<[UInt8]> { $0.finish() })
      let error = await #expect(throws: SerializationError.self) {
        try await manager.response(for: request, serializer: HTTPResponseSerializer())
      }
      #expect(error?.response?.statusCode == 401)
      let data = try await manager.get("secret", as: Data.self)
      #expect(data == Data("in".utf8) && server.requestCount == 2)
    }
  }

  /// Nothing that describes it names a token.
  @Test func tokensAreNotShown() async throws {
    let interceptor = try TokenInterceptor(token: "secret-1", origins: ["https://example.org"]) { _ in "secret-2" }
    let request = try await interceptor.adapt(Request("https://example.org/a"), attempt: 1)
    #expect(request.fields[.authorization] == "Bearer secret-1")
    var text = "\(interceptor) \(String(reflecting: interceptor))"
    dump(interceptor, to: &text)
    #expect(!text.contains("secret"))
  }

  /// An interceptor may have a call fail with an error of its own.
  @Test func interceptorsMayFail() async throws {
    try await withManager([secret()]) { manager, server in
      manager.interceptors = [ClosureInterceptor(decide: { _ in .fail(Expired()) })]
      await #expect(throws: Expired.self) { try await manager.get("secret", as: Data.self) }
      let end = await ended { manager.get("secret", success: $0, failure: $1) }
      #expect(end.error is Expired && server.requestCount == 2)
      await #expect(throws: Expired.self) {
        try await manager.upload(
          for: manager.request(.post, "secret"), from: Data("body".utf8), serializer: HTTPResponseSerializer())
      }
      #expect(server.requestCount == 3)
    }
  }
}
