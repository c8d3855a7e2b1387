import FoundationEssentials
import Glibc
import LupineBase
import LupineEngine
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// Runs `body` with a session on an engine of its own, against a server that plays scripts, one for each connection. Afterwards nothing may
/// be left: no client socket is open, and every script was played as written.
func withScript(
  _ scripts: [[ScriptStep]], surplus: ScriptedServer.Surplus = .problem, isSecure: Bool = false,
  address: LoopbackAddress = .ipv4, expectsProblems: Bool = false,
  configure: (inout SessionConfiguration) -> Void = { _ in }, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (Session, ScriptedServer) async throws -> Void
) async throws {
  let server = try ScriptedServer(
    scripts, surplus: surplus, tls: isSecure ? try TestIdentity.server() : nil, address: address)
  defer { server.shutdown() }
  try await withSession(ports: [server.port], configure: configure, sourceLocation: sourceLocation) { session in
    try await body(session, server)
  }
  server.shutdown()
  if !expectsProblems { #expect(server.problems == [], sourceLocation: sourceLocation) }
}

/// The same against a server with routes.
func withServer(
  _ routes: [ServerRoute] = ServerRoute.standard(), isSecure: Bool = false, address: LoopbackAddress = .ipv4,
  configure: (inout SessionConfiguration) -> Void = { _ in }, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (Session, LoopbackServer) async throws -> Void
) async throws {
  let server = try LoopbackServer(routes: routes, tls: isSecure ? try TestIdentity.server() : nil, address: address)
  defer { server.shutdown() }
  try await withSession(ports: [server.port], configure: configure, sourceLocation: sourceLocation) { session in
    try await body(session, server)
  }
}

/// Runs `body` with a session on an engine of its own that trusts the tests' authority; afterwards no socket of this process leads to any
/// of `ports`.
func withSession(
  ports: [Int] = [], configure: (inout SessionConfiguration) -> Void = { _ in },
  sourceLocation: SourceLocation = #_sourceLocation, _ body: (Session) async throws -> Void
) async throws {
  try await NetworkGate.shared.pass {
    try await runSession(ports, configure, sourceLocation, body)
  }
}

/// Lets a few network tests run at a time: each has threads of its own, and all of them at once would time each other out.
private actor NetworkGate {
  static let shared = NetworkGate(places: 6)
  /// A test that is inside already passes at once.
  @TaskLocal private static var isInside = false

  private var free: Int
  private var waiting: [CheckedContinuation<Void, Never>] = []

  init(places: Int) { free = places }

  nonisolated func pass(_ body: () async throws -> Void) async throws {
    if Self.isInside { return try await body() }
    await enter()
    do {
      try await Self.$isInside.withValue(true) { try await body() }
    } catch {
      await leave()
      throw error
    }
    await leave()
  }

  private func enter() async {
    guard free == 0 else {
      free -= 1
      return
    }
    await withCheckedContinuation { waiting.append($0) }
  }

  private func leave() {
    guard waiting.isEmpty else { return waiting.removeFirst().resume() }
    free += 1
  }
}

private func runSession(
  _ ports: [Int], _ configure: (inout SessionConfiguration) -> Void, _ sourceLocation: SourceLocation,
  _ body: (Session) async throws -> Void
) async throws {
  var configuration = SessionConfiguration()
  configuration.engine = .own
  // Cookies do not know ports: tests must not see each other's.
  configuration.cookieStorage = CookieStorage()
  configuration.credentialStorage = CredentialStorage()
  configuration.tls.roots = .certificates([try TestIdentity.authority.get().rootDER])
  configure(&configuration)
  let session = try Session(configuration)
  do {
    try await body(session)
  } catch {
    session.invalidateAndCancel()
    throw error
  }
  session.invalidateAndCancel()
  for port in ports where port != 0 {
    #expect(
      await eventually { ClientSockets.count(to: port) == 0 }, "client sockets are left open",
      sourceLocation: sourceLocation)
  }
}

/// The error of a request that must fail.
func failure<Result>(
  sourceLocation: SourceLocation = #_sourceLocation, _ work: () async throws -> Result
) async throws -> SessionError {
  do {
    _ = try await work()
  } catch let error as SessionError {
    // Not by `#expect(throws:)`, which describes what it is thrown: a partial body byte by byte.
    return error
  }
  Issue.record("nothing was thrown", sourceLocation: sourceLocation)
  throw NothingThrown()
}

private struct NothingThrown: Error {}

/// Expects a request to fail like that.
func expectFailure<Result>(
  _ code: SessionError.Code, sourceLocation: SourceLocation = #_sourceLocation, _ work: () async throws -> Result
) async throws {
  let error = try await failure(sourceLocation: sourceLocation, work)
  #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
}

extension SessionError {
  /// What the parser objected to.
  var wireError: WireError? {
    if case .wire(let error)? = underlying as? EngineError { error } else { nil }
  }
}

/// One authority for all tests of the process.
enum TestIdentity {
  static let authority = Result { () throws(MintError) in try CertificateAuthority() }

  /// A server's identity for `localhost` and the loopback addresses, or what the order says.
  static func server(_ order: CertificateOrder = .loopback) throws -> ServerTLS {
    try ServerTLS.minted(by: authority.get(), order)
  }

  /// A proxy over TLS that shows this identity, with TLS settings of its own.
  static func proxy(_ port: Int) throws -> Proxy {
    var proxy = try Proxy("https://localhost:\(port)")
    proxy.tls = TLSConfiguration()
    proxy.tls?.roots = .certificates([try authority.get().rootDER])
    return proxy
  }

  /// That of a server which asks for a certificate of the tests' authority.
  ///
  /// - Parameter insists: refuse clients that have none.
  static func asking(insists: Bool = false) throws -> ServerTLS {
    var tls = try server()
    tls.clientAuthorities = try authority.get().rootPEM
    tls.requiresClientCertificate = insists
    return tls
  }
}

/// A small complete response.
func reply(_ body: String, _ fields: String = "") -> ScriptBytes {
  ScriptBytes("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\(fields)\r\n\(body)")
}

extension Session {
  /// The body as text, and the response.
  func text(_ request: Request) async throws -> (String, Response) {
    let (body, response) = try await data(for: request)
    return (String(decoding: body, as: UTF8.self), response)
  }

  /// The body as text, and the response.
  func text(_ url: String) async throws -> (String, Response) {
    try await text(Request(url))
  }
}

extension Response {
  /// Whether the last request of the task went over a connection that had served before.
  var wasReused: Bool { metrics.transactions.last?.isReusedConnection ?? false }
}

extension Session {
  /// Fetches, and expects this text.
  @discardableResult
  func expect(
    _ text: String, from request: Request, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> Response {
    let (body, response) = try await self.text(request)
    #expect(body == text, sourceLocation: sourceLocation)
    return response
  }

  /// Fetches, and expects this text.
  @discardableResult
  func expect(
    _ text: String, from url: String, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> Response {
    try await expect(text, from: Request(url), sourceLocation: sourceLocation)
  }
}

extension LoopbackServer {
  /// The `Authorization` of each request so far.
  var authorizations: [String?] { recordedRequests.map { $0.fields.first("Authorization") } }
}

extension ScriptedServer {
  /// Whether so many scripts come to their end; other tests go on meanwhile.
  func hasPlayed(_ count: Int) async -> Bool {
    await eventually { self.waitUntilPlayed(count, seconds: 0) }
  }
}

/// Runs `body`; without the program, a failure where the environment says `CI=true`, else a message that says what to install.
func withTool(_ body: () async throws -> Void) async throws {
  do {
    try await body()
  } catch LoopbackError.missingTool(let name, let install) {
    let isCI = unsafe getenv("CI").map { unsafe String(cString: $0) } == "true"
    #expect(!isCI, "\(name) is missing; install it with: \(install)")
    print("a test is skipped because \(name) is missing; install it with: \(install)")
  }
}

/// Of a transport that says by itself what there is to say: whatever is asked of it changes nothing.
final class IdleExchange: TransportExchange {
  func cancel() {}
  func setPaused(_ state: PauseState) {}
  func discardBody() {}
}

/// Keeps the task that is made for a call.
final class TaskKeeper: SessionTaskDelegate {
  let task = Locked<SessionTask?>(nil)
  let handledCallbacks: CallbackSet = .createdTask

  func session(_ session: Session, didCreateTask task: SessionTask) { self.task.withLock { $0 = task } }
}

extension SessionConfiguration {
  /// Waits for a network, which is there for the attempts to connect that `isThere` names, counted from 1.
  mutating func waitForNetwork(_ attempts: Locked<Int>, _ isThere: @escaping @Sendable (Int) -> Bool) {
    allowsCellularAccess = false
    waitsForConnectivity = true
    routes = { _ in
      let number = attempts.withLock { count in
        count += 1
        return count
      }
      return NetworkInterface(name: "if0", medium: isThere(number) ? .wireless : .cellular)
    }
  }
}
