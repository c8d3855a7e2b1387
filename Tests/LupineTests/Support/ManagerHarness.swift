import Foundation
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// Runs `body` with a client of a server with routes. Afterwards nothing may be left of the client: no socket leads to the server.
func withManager(
  _ routes: [ServerRoute] = ServerRoute.standard(), tls: ServerTLS? = nil, path: String = "/",
  configure: (inout SessionConfiguration) throws -> Void = { _ in },
  sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (HTTPSessionManager, LoopbackServer) async throws -> Void
) async throws {
  let server = try LoopbackServer(routes: routes, tls: tls)
  defer { server.shutdown() }
  try await use(server, path, configure, body)
  #expect(
    await eventually { server.openConnectionCount == 0 }, "connections are left open", sourceLocation: sourceLocation)
}

/// Apart, so that the manager is gone when this returns.
private func use(
  _ server: LoopbackServer, _ path: String, _ configure: (inout SessionConfiguration) throws -> Void,
  _ body: (HTTPSessionManager, LoopbackServer) async throws -> Void
) async throws {
  var configuration = SessionConfiguration.ephemeral
  configuration.engine = .own
  try configure(&configuration)
  let manager = try HTTPSessionManager(baseURL: server.url(path), configuration: configuration)
  try await body(manager, server)
}

/// What the handlers of success and failure were told.
struct CallEnd: Sendable {
  var task: DataTask?
  var value: (any Sendable)?
  var error: (any Error)?

  var isSuccess: Bool { error == nil }
}

/// Waits for the handler of success or failure.
func ended(_ call: (@escaping SuccessHandler, @escaping FailureHandler) -> DataTask?) async -> CallEnd {
  await withCheckedContinuation { continuation in
    _ = call(
      { continuation.resume(returning: CallEnd(task: $0, value: $1)) },
      { continuation.resume(returning: CallEnd(task: $0, error: $1)) })
  }
}

/// What a completion handler was told.
struct TaskEnd: Sendable {
  var response: Response?
  var value: (any Sendable)?
  var error: (any Error)?
}

/// Begins a task and waits for its handler.
func ended(_ make: (@escaping DataTaskHandler) -> DataTask) async -> TaskEnd {
  await withCheckedContinuation { continuation in
    make { continuation.resume(returning: TaskEnd(response: $0, value: $1, error: $2)) }.resume()
  }
}

/// Begins a download and waits for its handler; the value is the place of the file.
func downloaded(_ make: (@escaping DownloadTaskHandler) -> DownloadTask) async -> TaskEnd {
  await withCheckedContinuation { continuation in
    make { continuation.resume(returning: TaskEnd(response: $0, value: $1, error: $2)) }.resume()
  }
}

/// Keeps what is told from any thread.
final class Recorder<Value: Sendable>: Sendable {
  private let kept = Locked<[Value]>([])

  var values: [Value] { kept.withLock { $0 } }
  func add(_ value: Value) { kept.withLock { $0.append(value) } }
}

/// Notifications of one name about one object, from now on.
///
/// `@unchecked`, because of the token, which is only given back.
final class NotificationRecorder: @unchecked Sendable {
  private let kept = Recorder<[String: String]>()
  private let token: any NSObjectProtocol
  /// Held: the centre knows objects by their addresses, and another one at this address would be heard of too.
  private let object: AnyObject?

  /// - Parameter describe: what to keep of each.
  init(
    _ name: Notification.Name, object: AnyObject?,
    _ describe: @escaping @Sendable (Notification) -> [String: String] = { _ in [:] }
  ) {
    let kept = kept
    self.object = object
    token = NotificationCenter.default.addObserver(forName: name, object: object, queue: nil) {
      kept.add(describe($0))
    }
  }

  deinit { NotificationCenter.default.removeObserver(token) }

  var count: Int { kept.values.count }
  var values: [[String: String]] { kept.values }
}

/// A folder of one test, removed with what is in it.
final class ScratchFolder: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appendingPathComponent("lupine-tests-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  func file(_ name: String) -> URL { url.appendingPathComponent(name) }
  var names: [String] { ((try? FileManager.default.contentsOfDirectory(atPath: url.path)) ?? []).sorted() }
}

private let mainQueueKey: DispatchSpecificKey<Bool> = {
  let key = DispatchSpecificKey<Bool>()
  DispatchQueue.main.setSpecific(key: key, value: true)
  return key
}()

/// Whether this runs on the main queue, which on Linux need not be the main thread.
var isOnMainQueue: Bool { DispatchQueue.getSpecific(key: mainQueueKey) ?? false }
