import Foundation
import HTTPTypes
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// The rule of repetition, without a clock, and calls that follow it.
@Suite struct RetryTests {
  // MARK: The rule

  struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var method = HTTPRequest.Method.get
    var status: Int?
    var retryAfter: String?
    var error: SessionError.Code?
    var sent = true
    var isReplayable = true
    var isKeyed = false
    var attempt = 1
    var random = 0.0
    /// Seconds; nil: no repetition.
    var delay: Double?
    var testDescription: String { name }
  }

  /// Sun, 06 Nov 1994 08:49:37 GMT.
  private static let now: Int64 = 784_111_777

  static let cases = [
    Case(name: "503", status: 503, delay: 0.5),
    Case(name: "the second wait is twice as long", status: 503, attempt: 2, delay: 1),
    Case(name: "chance takes off up to half", status: 503, random: 1, delay: 0.25),
    Case(name: "as often as is said", status: 503, attempt: 3, delay: nil),
    Case(name: "200", status: 200, delay: nil),
    Case(name: "404", status: 404, delay: nil),
    Case(name: "PUT is idempotent", method: .put, status: 500, delay: 0.5),
    Case(name: "POST is not", method: .post, status: 503, delay: nil),
    Case(name: "POST with a key", method: .post, status: 503, isKeyed: true, delay: 0.5),
    Case(name: "POST with a key that had left", method: .post, error: .connectionLost, isKeyed: true, delay: 0.5),
    Case(
      name: "POST with a key and a body that can be sent once", method: .post, status: 503, isReplayable: false,
      isKeyed: true, delay: nil),
    Case(name: "POST that had not left", method: .post, error: .cannotConnect, sent: false, delay: 0.5),
    Case(name: "POST that had left", method: .post, error: .connectionLost, delay: nil),
    Case(name: "a body that can be sent once", method: .put, status: 503, isReplayable: false, delay: nil),
    Case(name: "lost", error: .connectionLost, delay: 0.5),
    Case(name: "a deadline", error: .timedOut, delay: 0.5),
    Case(name: "cancelled", error: .cancelled, delay: nil),
    Case(name: "untrusted", error: .serverCertificateUntrusted, delay: nil),
    Case(name: "Retry-After in seconds", status: 429, retryAfter: "7", delay: 7),
    Case(name: "Retry-After in seconds with a fraction", status: 429, retryAfter: "2.5", delay: 3),
    Case(name: "Retry-After 0 waits all the same", status: 429, retryAfter: "0", delay: 0.5),
    Case(name: "Retry-After as a date", status: 503, retryAfter: "Sun, 06 Nov 1994 08:49:47 GMT", delay: 10),
    Case(name: "Retry-After as mail has dates", status: 503, retryAfter: "Sun, 6 Nov 1994 08:49:47 UTC", delay: 10),
    Case(name: "Retry-After in the past", status: 503, retryAfter: "Sun, 06 Nov 1994 08:49:27 GMT", delay: 0.5),
    Case(name: "Retry-After of the old form", status: 503, retryAfter: "Sunday, 06-Nov-94 08:49:47 GMT", delay: 10),
    Case(name: "too long a wait", status: 503, retryAfter: "61", delay: nil),
    Case(name: "too long a number", status: 503, retryAfter: "99999999999999999999999", delay: nil),
    Case(name: "Retry-After of nonsense", status: 503, retryAfter: "-1", delay: 0.5),
    Case(name: "Retry-After of nothing", status: 503, retryAfter: "", delay: 0.5),
    Case(name: "Retry-After of a 404", status: 404, retryAfter: "1", delay: nil),
  ]

  @Test(arguments: cases)
  func rule(_ example: Case) {
    let failure = FailedAttempt(
      method: example.method, isReplayable: example.isReplayable, status: example.status,
      retryAfter: example.retryAfter, error: example.error, requestBytesSent: example.sent,
      hasIdempotencyKey: example.isKeyed)
    let delay = RetryPolicy().delay(
      after: failure, attempt: example.attempt, now: Self.now, random: example.random)
    #expect(delay == example.delay.map { .seconds($0) })
  }

  /// The wait grows up to its limit, and no number is too large.
  @Test func waitsAreCapped() {
    var policy = RetryPolicy()
    policy.maximumAttempts = 1000
    let failure = FailedAttempt(method: .get, isReplayable: true, status: 503)
    let delays = [1, 2, 3, 7, 8, 900].map { policy.delay(after: failure, attempt: $0, now: 0, random: 0) }
    #expect(delays == [0.5, 1, 2, 30, 30, 30].map { .seconds($0) })
    policy.multiplier = .infinity
    #expect(policy.delay(after: failure, attempt: 900, now: 0, random: 0) == .seconds(30))
    policy.jitter = .nan
    policy.maximumDelay = Duration(attoseconds: .max)
    let longest = policy.delay(after: failure, attempt: 2, now: 0, random: 0) ?? .zero
    #expect(longest > .seconds(9_000_000_000))
  }

  /// A policy may allow longer waits, other methods and other errors.
  @Test func allowancesMayBeOthers() {
    var policy = RetryPolicy()
    func delay(_ failure: FailedAttempt) -> Duration? { policy.delay(after: failure, attempt: 1, now: 0, random: 0) }
    let patient = FailedAttempt(method: .get, isReplayable: true, status: 503, retryAfter: "90")
    let posted = FailedAttempt(method: .post, isReplayable: true, status: 503)
    let broken = FailedAttempt(method: .get, isReplayable: true, error: .badResponse)
    let lost = FailedAttempt(method: .get, isReplayable: true, error: .connectionLost)
    #expect([patient, posted, broken].map(delay) == [nil, nil, nil])
    policy.maximumRetryAfter = .seconds(90)
    #expect(delay(patient) == .seconds(90))
    policy.errorCodes = [.badResponse]
    #expect([broken, lost].map(delay) == [.seconds(0.5), nil])
    policy.methods = [.post]
    #expect([posted, patient].map(delay) == [.seconds(0.5), nil])
  }

  /// However often nothing is multiplied, and by what.
  @Test func noWaitStaysNone() {
    var failure = FailedAttempt(method: .get, isReplayable: true, status: 503)
    for base in [Duration.zero, .seconds(-1)] {
      for multiplier in [2, 1e300, Double.infinity, .nan] {
        var policy = RetryPolicy()
        policy.maximumAttempts = 1000
        policy.baseDelay = base
        policy.multiplier = multiplier
        failure.retryAfter = nil
        #expect(policy.delay(after: failure, attempt: 1, now: 0, random: 0) == .zero)
        #expect(policy.delay(after: failure, attempt: 900, now: 0, random: 0) == .zero)
        failure.retryAfter = "7"
        #expect(policy.delay(after: failure, attempt: 900, now: 0, random: 0) == .seconds(7))
      }
    }
  }

  // MARK: Calls

  /// Answers 503 so many times, then 200.
  private func flaky(_ failures: Int) -> ServerRoute {
    let count = Recorder<Int>()
    return ServerRoute(nil, "/flaky") { _, connection in
      count.add(1)
      if count.values.count <= failures {
        try connection.respond(503, fields: ["Retry-After": "2"], text: "busy")
      } else {
        try connection.respond(text: "done")
      }
    }
  }

  /// A call is repeated until it succeeds; time is the test's.
  @Test func callsAreRepeated() async throws {
    try await withManager([flaky(2)]) { manager, server in
      let waits = Recorder<Duration>()
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { waits.add($0) } }
      let data = try await manager.get("flaky", as: Data.self)
      #expect(data == Data("done".utf8))
      #expect(waits.values == [.seconds(2), .seconds(2)] && server.requestCount == 3)
      #expect(server.connectionCount == 1)
    }
  }

  /// The last failure is the result, with its body.
  @Test func theLastFailureIsTheResult() async throws {
    try await withManager([flaky(9)]) { manager, server in
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in } }
      let error = await #expect(throws: SerializationError.self) { try await manager.get("flaky", as: Data.self) }
      #expect(error?.response?.statusCode == 503 && error?.data == Data("busy".utf8))
      #expect(server.requestCount == 3)
    }
  }

  /// Without a policy nothing is repeated; a POST is not either.
  @Test func nothingIsRepeatedUnasked() async throws {
    try await withManager([flaky(9)]) { manager, server in
      await #expect(throws: SerializationError.self) { try await manager.get("flaky", as: Data.self) }
      manager.retryPolicy = RetryPolicy()
      await #expect(throws: SerializationError.self) { try await manager.post("flaky", as: Data.self) }
      #expect(server.requestCount == 2)
    }
  }

  /// A POST by whose key the server notices a repetition is.
  @Test(arguments: ["Idempotency-Key", "x-idempotency-key"]) func keyedCallsAreRepeated(_ name: String) async throws {
    try await withManager([flaky(1)]) { manager, server in
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in } }
      let data = try await manager.post("flaky", as: Data.self, headers: [name: "k"])
      #expect(data == Data("done".utf8) && server.requestCount == 2)
    }
  }

  /// Cancelling a call that waits ends it.
  @Test func waitingCallsAreCancelled() async throws {
    try await withManager([flaky(9)]) { manager, server in
      let waits = Recorder<Duration>()
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change {
        $0.retrying.sleep = { delay in
          waits.add(delay)
          try await Task.sleep(for: .seconds(3600))
        }
      }
      let call = Task { try await manager.get("flaky", as: Data.self) }
      #expect(await eventually { waits.values.count == 1 })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
    }
  }

  /// What left with one attempt has left, though the next one found nobody, or never came.
  @Test func attemptsBeforeTheLastCount() async throws {
    try await withManager([flaky(9)]) { manager, server in
      var policy = RetryPolicy()
      policy.maximumAttempts = 2
      manager.retryPolicy = policy
      let other = ["Idempotency-Key": "k"]
      let gone = Recorder<RefusingPort>()
      manager.core.settings.change {
        $0.retrying.sleep = { _ in
          server.shutdown()
          gone.add(try RefusingPort(server.port))
        }
      }
      let lost = await #expect(throws: SessionError.self) {
        try await manager.post("flaky", as: Data.self, headers: other)
      }
      #expect(lost?.code == .cannotConnect && lost?.requestBytesSent == true && gone.values.count == 1)
    }
    try await withManager([flaky(9)]) { manager, _ in
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in throw CancellationError() } }
      let cancelled = await #expect(throws: SessionError.self) {
        try await manager.post("flaky", as: Data.self, headers: ["Idempotency-Key": "k"])
      }
      #expect(cancelled?.code == .cancelled && cancelled?.requestBytesSent == true)
    }
  }

  /// An interceptor that throws in the place of the next attempt makes none of those before undone.
  @Test func whatIsThrownForTheNextAttemptKnowsOfTheFirst() async throws {
    try await withManager([flaky(9)]) { manager, _ in
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in } }
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, attempt in
          guard attempt > 1 else { return request }
          throw SessionError(.cannotConnect, phase: .connect, message: "no token")
        })
      ]
      let error = await #expect(throws: SessionError.self) { try await manager.get("flaky", as: Data.self) }
      #expect(error?.code == .cannotConnect && error?.requestBytesSent == true)
    }
  }

  /// A POST that an interceptor sends again is not sent a third time by the policy, as the first has left.
  @Test func thePolicyKnowsOfEarlierAttempts() async throws {
    // Closed, so that the next attempt meets no connection that is about to end.
    let route = ServerRoute(nil, "/flaky") { request, connection in
      _ = try connection.readBody()
      try connection.respond(503, fields: ["Connection": "close"], text: "no")
    }
    try await withManager([route]) { manager, server in
      manager.retryPolicy = RetryPolicy()
      let waits = Recorder<Duration>()
      let gone = Recorder<RefusingPort>()
      manager.interceptors = [
        ClosureInterceptor(decide: { failure in
          guard failure.attempt == 1 else { return .undecided }
          server.shutdown()
          if let port = try? RefusingPort(server.port) { gone.add(port) }
          return .retry(after: .zero)
        })
      ]
      manager.core.settings.change { $0.retrying.sleep = { waits.add($0) } }
      let error = await #expect(throws: SessionError.self) { try await manager.post("flaky", as: Data.self) }
      #expect(error?.code == .cannotConnect && waits.values == [.zero] && gone.values.count == 1)
    }
  }

  // MARK: Interceptors

  /// A token is put into every attempt; a 401 renews it.
  @Test func tokensAreRenewed() async throws {
    let route = ServerRoute(nil, "/secret") { request, connection in
      let isRight = request.fields.first("Authorization") == "Bearer 2"
      try connection.respond(isRight ? 200 : 401, text: isRight ? "in" : "out")
    }
    try await withManager([route]) { manager, server in
      let token = Recorder<Int>()
      token.add(1)
      manager.interceptors = [
        ClosureInterceptor(
          adapt: { request, _ in
            var request = request
            request.fields[.authorization] = "Bearer \(token.values.count)"
            return request
          },
          decide: { failure in
            guard failure.response?.statusCode == 401, failure.attempt == 1 else { return .undecided }
            token.add(2)
            return .retry(after: .zero)
          })
      ]
      let data = try await manager.get("secret", as: Data.self)
      #expect(data == Data("in".utf8))
      #expect(server.recordedRequests.map { $0.fields.first("Authorization") } == ["Bearer 1", "Bearer 2"])
    }
  }

  enum Call: CaseIterable { case data, bytes, download, task }

  /// An interceptor that gives a request another URL moves none of its secrets, those that the session marks included.
  @Test(arguments: Call.allCases) func secretsOfARequestThatIsMovedStayAtHome(_ call: Call) async throws {
    let away = try LoopbackServer { _, connection in try connection.respond(text: "there") }
    defer { away.shutdown() }
    let key = try #require(HTTPField.Name("X-Own-Key"))
    try await withManager(configure: { $0.sensitiveFields = [key] }) { manager, home in
      manager.interceptors = [
        ClosureInterceptor(adapt: { [url = away.url("/there")] request, _ in
          var request = request
          try request.setURL(url)
          return request
        })
      ]
      let fields = ["X-Own-Key": "s", "Accept-Language": "en"]
      var request = try Request(home.url("/hello"))
      for (name, value) in fields { request.fields[try #require(HTTPField.Name(name))] = value }
      switch call {
      case .data: _ = try await manager.get("hello", as: Data.self, headers: fields)
      case .bytes: for try await _ in try await manager.bytes(for: request).0.chunks {}
      case .download:
        let name = "lupine-moved-\(UInt64.random(in: 0 ... .max))"
        let file = FileManager.default.temporaryDirectory.appending(path: name)
        defer { try? FileManager.default.removeItem(at: file) }
        _ = try await manager.download(for: request, to: file)
      case .task: _ = await ended { manager.dataTask(with: request, completion: $0) }
      }
      #expect(home.requestCount == 0)
      let there = try #require(away.recordedRequests.first)
      #expect(there.fields.first("Accept-Language") == "en" && there.fields.first(key.rawName) == nil)
    }
  }

  /// What an interceptor throws, the call throws; one that forbids a repetition is asked before the policy.
  @Test func interceptorsDecide() async throws {
    struct NoToken: Error {}
    try await withManager([flaky(9)]) { manager, server in
      manager.retryPolicy = RetryPolicy()
      manager.interceptors = [ClosureInterceptor(decide: { _ in .doNotRetry })]
      await #expect(throws: SerializationError.self) { try await manager.get("flaky", as: Data.self) }
      #expect(server.requestCount == 1)
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw NoToken() })]
      await #expect(throws: NoToken.self) { try await manager.get("flaky", as: Data.self) }
      #expect(server.requestCount == 1)
    }
  }
}
