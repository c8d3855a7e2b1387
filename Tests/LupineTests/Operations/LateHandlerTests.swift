import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// Handlers that are set when the operation runs already, as of one that a verb of a manager has put into its queue.
@Suite struct LateHandlerTests {
  private func withSession(
    delegate: (any SessionDelegate)? = nil, _ body: (Session, LoopbackServer, ResponseCache) async throws -> Void
  ) async throws {
    let fresh = ServerRoute("GET", "/fresh") { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
    }
    let server = try LoopbackServer(routes: [fresh] + ServerRoute.standard())
    defer { server.shutdown() }
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    var configuration = SessionConfiguration()
    configuration.responseCache = cache
    configuration.credentialStorage = CredentialStorage()
    let session = try Session(configuration, delegate: delegate)
    defer { session.invalidateAndCancel() }
    try await body(session, server, cache)
  }

  private func operation(_ path: String, _ session: Session, _ server: LoopbackServer) throws -> HTTPRequestOperation {
    var request = try Request(server.url(path))
    if path == "/upload" {
      request.method = .post
      request.body = .bytes(PatternBody.bytes(100_000))
    }
    let operation = HTTPRequestOperation(request: request, session: session)
    operation.completionQueue = DispatchQueue(label: "late")
    return operation
  }

  private static let paths = ["/upload", "/redirect?to=/hello", "/basic-auth?user=u&password=p", "/fresh"]

  @Test(arguments: paths) func areCalledWhenTheyAreDue(_ path: String) async throws {
    try await withSession { session, server, cache in
      let operation = try operation(path, session, server)
      let told = Calls<String>()
      // Nothing of the exchange is told meanwhile.
      session.delegateQueue.suspend()
      operation.start()
      operation.setUploadProgress { _, total, _ in if total == 100_000 { told.note("/upload") } }
      operation.setRedirection { _, request in
        told.note("/redirect?to=/hello")
        return request
      }
      operation.setChallenge { _, answer in
        told.note("/basic-auth?user=u&password=p")
        answer(.useCredential(.password(user: "u", password: "p", persistence: .none)))
      }
      operation.setCacheResponse { proposed in
        told.note("/fresh")
        return proposed
      }
      session.delegateQueue.resume()
      #expect(await until { operation.isFinished })
      #expect(operation.response?.statusCode == 200 && operation.error == nil)
      #expect(await until { told.all.contains(path) })
    }
  }

  /// Both are set in one step: an operation that ends as the former ones go, here because they do, has the one that is due.
  @Test func bothAreSetAtOnce() async throws {
    try await withSession { session, server, _ in
      let operation = try operation("/hello", session, server)
      let told = Calls<String>()
      func setFormer() {
        let farewell = Farewell { operation.start() }
        operation.setCompletion(success: { _, _ in withExtendedLifetime(farewell) {} }, failure: nil)
      }
      setFormer()
      operation.cancel()
      operation.setCompletion(success: { _, _ in told.note("success") }, failure: { _, _ in told.note("failure") })
      #expect(await until { operation.isFinished })
      #expect(await until { told.all == ["failure"] })
    }
  }

  private final class Delegate: SessionDataDelegate {
    let told = Calls<String>()
    let handledCallbacks: CallbackSet = [.redirection, .taskChallenge, .sentBodyData, .willCacheResponse]

    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      if totalBytesSent == 100_000 { told.note("/upload") }
    }

    func session(
      _ session: Session, task: SessionTask, willPerformHTTPRedirection response: Response,
      newRequest request: Request, completionHandler: @escaping @Sendable (Request?) -> Void
    ) {
      told.note("/redirect?to=/hello")
      completionHandler(request)
    }

    func session(
      _ session: Session, task: SessionTask, didReceive challenge: AuthenticationChallenge,
      completionHandler: @escaping @Sendable (ChallengeDisposition) -> Void
    ) {
      told.note("/basic-auth?user=u&password=p")
      completionHandler(.useCredential(.password(user: "u", password: "p", persistence: .none)))
    }

    func session(
      _ session: Session, dataTask: DataTask, willCacheResponse proposedResponse: CachedResponse,
      completionHandler: @escaping @Sendable (CachedResponse?) -> Void
    ) {
      told.note("/fresh")
      completionHandler(proposedResponse)
    }
  }

  /// What an operation has no handler for is the session's delegate's.
  @Test(arguments: paths) func delegatesAreAskedWithoutHandlers(_ path: String) async throws {
    let delegate = Delegate()
    try await withSession(delegate: delegate) { session, server, _ in
      let operation = try operation(path, session, server)
      operation.start()
      #expect(await until { operation.isFinished })
      #expect(operation.response?.statusCode == 200 && operation.error == nil)
      #expect(await until { delegate.told.all.contains(path) })
    }
  }

  /// Without handlers and without a delegate it is as if nobody had been asked.
  @Test(arguments: paths) func nobodyIsAsked(_ path: String) async throws {
    try await withSession { session, server, cache in
      let operation = try operation(path, session, server)
      operation.start()
      #expect(await until { operation.isFinished })
      #expect(operation.response?.statusCode == (path.hasPrefix("/basic-auth") ? 401 : 200))
      if path == "/fresh" { #expect(await until { cache.currentMemoryUsage > 0 }) }
    }
  }
}
