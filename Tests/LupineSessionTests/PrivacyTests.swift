import Foundation
import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

@Suite struct PrivacyTests {
  /// Whether the first request of a session, made after those of `others`, resumes a TLS session.
  private func isResumed(
    after others: [SessionConfiguration], _ last: SessionConfiguration,
    configure: (inout SessionConfiguration, LoopbackServer) throws -> Void = { _, _ in }
  ) async throws -> Bool {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(tls: .minted(by: authority)) { _, connection in
      try connection.respond(200, body: Array("hello".utf8))
    }
    defer { server.shutdown() }
    var answers: [Bool] = []
    for var configuration in others + [last] {
      configuration.tls.roots = .certificates([authority.rootDER])
      try configure(&configuration, server)
      let session = try Session(configuration)
      let (_, response) = try await session.data(for: Request(server.url("/")))
      answers.append(response.metrics.transactions.last?.isTLSResumed ?? false)
      session.invalidateAndCancel()
    }
    return answers.last == true
  }

  /// By a TLS session that is resumed a server knows its client again: what an ephemeral session learns stays with it, and it is told nothing.
  @Test func ephemeralSessionsShareNoTLSSessions() async throws {
    #expect(try await isResumed(after: [.default], .default))
    #expect(try await !isResumed(after: [.ephemeral], .default))
    #expect(try await !isResumed(after: [.default], .ephemeral))
    #expect(try await !isResumed(after: [.ephemeral], .ephemeral))
  }

  enum Way: CaseIterable { case direct, override, localAddress, proxy, sameProxyAsOther }

  /// Who takes another way, or the same proxy as somebody else, is not known again by a session of before; on its own way each is.
  @Test func eachWayToAServerHasItsOwnTLSSessions() async throws {
    try await withTool {
      let program = try ProxyProgram(.microsocks)
      defer { program.stop() }
      func resumes(_ first: Way, _ second: Way) async throws -> Bool {
        var ways = [first, second]
        return try await isResumed(after: [.default], .default) { configuration, server in
          let proxy = { (user: String) throws in try Proxy("socks5h://\(user):secret@127.0.0.1:\(program.port)") }
          switch ways.removeFirst() {
          case .direct: break
          case .override:
            let place = "localhost:\(server.port)"
            configuration.nameOverrides = [place: "127.0.0.1:\(server.port)"]
          case .localAddress: configuration.localAddress = "127.0.0.1"
          case .proxy: configuration.proxy = .proxy(try proxy("one"))
          case .sameProxyAsOther: configuration.proxy = .proxy(try proxy("other"))
          }
        }
      }
      for first in Way.allCases {
        for second in Way.allCases {
          #expect(try await resumes(first, second) == (first == second), "\(first), then \(second)")
        }
      }
    }
  }

  /// Tokens of a query are neither logged nor part of an error's description.
  @Test func tokensOfQueriesAreNotShown() async throws {
    let log = LogKeeper()
    try await withSession(configure: { $0.logger = log.logger }) { session in
      let error = try await failure { try await session.data(from: "http://127.0.0.1:1/x?access_token=S3CRET&page=2") }
      #expect(!"\(error)".contains("S3CRET") && "\(error)".contains("page=2"))
      #expect(error.failingURL?.contains("S3CRET") == true)
    }
    #expect(log.text.contains("/x?") && !log.text.contains("S3CRET"))
  }

  /// What the configuration marks is as secret in an archive as what the request marks.
  @Test func archivesHideWhatTheConfigurationMarks() async throws {
    let name = try #require(HTTPField.Name("X-Own-Key"))
    try await withServer(configure: {
      $0.additionalFields[name] = "S3CRET"
      $0.sensitiveFields = [name]
    }) { session, server in
      let request = try Request(server.url("/hello"))
      let (body, response) = try await session.data(for: request)
      var archive = HTTPArchive()
      archive.append(request, response: response, body: body, configuration: session.configuration)
      let text = String(decoding: archive.json(), as: UTF8.self)
      #expect(text.contains("X-Own-Key") && !text.contains("S3CRET"))
    }
  }
}

@Suite struct UnwantedBodyTests {
  private final class Follower: SessionTaskDelegate {
    private let asked: Latch?

    /// - Parameter asked: opened when the head of a redirect is there.
    init(telling asked: Latch? = nil) { self.asked = asked }

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response, newRequest request: Request,
      completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      asked?.release()
      session.delegateQueue.async { completionHandler(request) }
    }
  }

  /// A redirect's body that never comes holds nobody up for longer than 50 ms, also where a delegate has to be asked first.
  @Test func aDelegateDoesNotWaitForTheBodyOfARedirect() async throws {
    let server = try ScriptedServer([
      [.readHead, .send("HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 10\r\n\r\n"), .waitForClose],
      [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"), .waitForClose],
    ])
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let start = ContinuousClock.now
      let (body, _) = try await session.data(for: Request("http://127.0.0.1:\(server.port)/"), delegate: Follower())
      #expect(body == Data("ok".utf8))
      // Without the limit it is the 60 s of `timeoutIntervalForRequest`, and an error.
      #expect(start.duration(to: .now) < .seconds(30))
    }
  }

  /// One byte more than the limit, and the request that follows goes over another connection; also where a cache would keep the redirect.
  @Test(.timeLimit(.minutes(2)), arguments: [0, 999, 1_000], [false, true])
  func howMuchIsReceivedForAConnectionIsASetting(_ limit: Int, _ isCached: Bool) async throws {
    let redirect =
      ScriptBytes("HTTP/1.1 302 Found\r\nLocation: /next\r\nCache-Control: max-age=60\r\nContent-Length: 1000\r\n\r\n")
      + ScriptBytes(String(repeating: "x", count: 1_000))
    let isKept = limit >= 1_000
    let scripts: [[ScriptStep]] =
      isKept
      ? [[.readHead, .send(redirect), .readHead, .send(reply("ok")), .waitForClose]]
      : [[.readHead, .send(redirect), .waitForClose], [.readHead, .send(reply("ok")), .waitForClose]]
    try await withScript(
      scripts,
      configure: {
        $0.maximumDrainedBodySize = limit
        $0.drainTimeout = .seconds(600)
        if isCached { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }
      }
    ) { session, server in
      let response = try await session.expect("ok", from: server.url("/"))
      #expect(response.wasReused == isKept)
    }
  }

  /// A body is waited for that comes only after another session has given one up.
  @Test(.timeLimit(.minutes(2)), arguments: [false, true]) func howLongIsWaitedIsASetting(_ isCached: Bool) async throws
  {
    let (asked, rest) = (try Latch(), try Latch())
    let head = ScriptBytes(
      "HTTP/1.1 302 Found\r\nLocation: /next\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n")
    let quick = try ScriptedServer([
      [.readHead, .send(head), .waitForClose], [.readHead, .send(reply("quick")), .waitForClose],
    ])
    defer { quick.shutdown() }
    try await withScript(
      [[.readHead, .send(head), .stall(rest), .send("0123456789"), .readHead, .send(reply("slow")), .waitForClose]],
      configure: {
        $0.drainTimeout = .seconds(600)
        if isCached { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }
      }
    ) { patient, slow in
      let url = slow.url("/")
      let answer = Task { try await patient.data(for: Request(url), delegate: Follower(telling: asked)) }
      #expect(await eventually { asked.isReleased })
      try await withSession(
        ports: [quick.port], configure: { if isCached { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) } }
      ) { session in
        try await session.expect("quick", from: quick.url("/"))
      }
      rest.release()
      let (body, response) = try await answer.value
      #expect(body == Data("slow".utf8) && response.wasReused)
    }
  }
}
