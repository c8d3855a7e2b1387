import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// A server and a session for operations, whose handlers are called on `queue`.
///
/// Besides the standard routes: `/parts?n=&version=&repeat=` sends half of `n` bytes and the rest when the latch is open; of a request for a range, the
/// range. `version` is its `ETag`, weak with `weak=1`; with `changes=1` a range gets the whole of a new version instead, with
/// `fails=` an error page of that status.
struct OperationService {
  let server: LoopbackServer
  let session: Session
  let latch: Latch
  let queue = DispatchQueue(label: "operations")

  init() throws {
    let latch = try Latch()
    self.latch = latch
    let parts = ServerRoute("GET", "/parts") { request, connection in try Self.sendParts(request, connection, latch) }
    server = try LoopbackServer(routes: [parts] + ServerRoute.standard(latch: latch))
    var configuration = SessionConfiguration()
    configuration.cookieStorage = CookieStorage()
    configuration.credentialStorage = CredentialStorage()
    session = try Session(configuration)
  }

  private static func sendParts(_ request: ServerRequest, _ connection: ServerConnection, _ latch: Latch) throws {
    let count = request.number("n") ?? 0
    let bytes = PatternBody.bytes(count)
    var fields: ServerFields = [:]
    if let version = request.query("version") { fields.append("ETag", "\"\(version)\"") }
    if request.query("changes") != nil { fields = ["ETag": "\"new\""] }
    if let status = request.number("fails"), request.fields.first("Range") != nil {
      return try connection.respond(status, body: Array("no".utf8))
    }
    if let range = request.fields.first("Range"), request.query("changes") == nil {
      let start = Int(range.dropFirst(6).dropLast()) ?? 0
      fields.append("Content-Range", "bytes \(start)-\(count - 1)/\(count)")
      return try connection.respond(206, fields: fields, body: Array(bytes[start...]))
    }
    if request.fields.first("Range") != nil { return try connection.respond(fields: fields, body: bytes) }
    if request.query("changes") != nil { fields = ["ETag": "\"old\""] }
    try connection.begin(fields: fields, framing: .length(count))
    try connection.write(bytes[..<(count / 2)])
    guard try connection.stall(until: latch) == .released else { return }
    try connection.write(bytes[(count / 2)...])
    try connection.finish()
  }

  func operation(_ path: String) throws -> HTTPRequestOperation {
    let operation = HTTPRequestOperation(request: try Request(server.url(path)), session: session)
    operation.completionQueue = queue
    return operation
  }
}

extension HTTPRequestOperation {
  /// What it tells at its end, from now on.
  func outcomes() -> Calls<OperationOutcome> {
    let calls = Calls<OperationOutcome>()
    setCompletion(
      success: { _, value in calls.note(.success(value as? Data)) },
      failure: { _, error in calls.note(.failure(error)) })
    return calls
  }
}

enum OperationOutcome: Sendable {
  case success(Data?)
  case failure(any Error)

  var data: Data? { if case .success(let data) = self { data } else { nil } }
  var error: (any Error)? { if case .failure(let error) = self { error } else { nil } }
  var isCancelled: Bool { (error as? SessionError)?.code == .cancelled }
}

/// Runs `body`; afterwards nothing may be connected.
func withOperations(_ body: (OperationService) async throws -> Void) async throws {
  let service = try OperationService()
  defer { service.server.shutdown() }
  try await body(service)
  service.latch.release()
  service.session.invalidateAndCancel()
  #expect(await until { service.server.openConnectionCount == 0 }, "a session that is invalid is still connected")
}
