import Foundation
import Lupine
import LupineTesting
import Testing

/// A folder of its own, removed with everything in it when the last reference goes.
final class MultipartFolder: Sendable {
  let url: URL

  init() throws {
    url = FileManager.default.temporaryDirectory.appending(path: "lupine-multipart-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false)
  }

  deinit { try? FileManager.default.removeItem(at: url) }

  func path(_ name: String) -> String { url.appending(path: name).path(percentEncoded: false) }

  @discardableResult
  func write(_ data: Data, to name: String) throws -> URL {
    let file = url.appending(path: name)
    try data.write(to: file)
    return file
  }

  func contents(of name: String) throws -> Data { try Data(contentsOf: url.appending(path: name)) }
}

/// One authority for the forms' TLS tests.
enum MultipartIdentity {
  static let authority = Result { () throws(MintError) in try CertificateAuthority() }
}

/// Runs `body` with a session on an engine of its own against a loopback server; afterwards no connection is open.
func withFormServer(
  _ routes: [ServerRoute] = ServerRoute.standard(), isSecure: Bool = false,
  recording: RequestRecording = RequestRecording(),
  _ body: (Session, LoopbackServer) async throws -> Void
) async throws {
  let tls = isSecure ? try ServerTLS.minted(by: MultipartIdentity.authority.get(), .loopback) : nil
  let server = try LoopbackServer(routes: routes, tls: tls, recording: recording)
  defer { server.shutdown() }
  try await withFormSession { session in try await body(session, server) }
  let deadline = ContinuousClock.now + .seconds(60)
  while server.openConnectionCount > 0, ContinuousClock.now < deadline { await Task.yield() }
  #expect(server.openConnectionCount == 0, "connections are left open")
}

func withFormSession(_ body: (Session) async throws -> Void) async throws {
  var configuration = SessionConfiguration()
  configuration.engine = .own
  configuration.cookieStorage = CookieStorage()
  configuration.credentialStorage = CredentialStorage()
  configuration.tls.roots = .certificates([try MultipartIdentity.authority.get().rootDER])
  let session = try Session(configuration)
  defer { session.invalidateAndCancel() }
  try await body(session)
}

/// The error of a request that must fail.
func formFailure<Result>(
  sourceLocation: SourceLocation = #_sourceLocation, _ work: () async throws -> Result
) async throws -> SessionError {
  let error = await #expect(throws: SessionError.self, sourceLocation: sourceLocation) { _ = try await work() }
  return try #require(error, sourceLocation: sourceLocation)
}
