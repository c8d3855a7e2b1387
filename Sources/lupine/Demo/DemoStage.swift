internal import LupineSession
internal import LupineTesting

/// The server of the demo and a session that trusts it.
struct DemoStage: Sendable {
  let server: LoopbackServer
  let session: Session
  /// The certificate of the authority that the server's is from.
  let authority: [UInt8]
  let configuration: SessionConfiguration

  init() throws {
    let authority = try CertificateAuthority(commonName: "Lupine demo authority")
    self.authority = authority.rootDER
    server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: authority), recording: .none)
    var configuration = SessionConfiguration()
    configuration.cookieStorage = CookieStorage()
    configuration.userAgent = "lupine-demo/0.1"
    configuration.tls.roots = .certificates([authority.rootDER])
    // The certificate is for "localhost", which not every container can resolve.
    configuration.nameOverrides = ["localhost:\(server.port)": "127.0.0.1:\(server.port)"]
    self.configuration = configuration
    session = try Session(configuration)
  }

  func url(_ path: String) -> String { server.url(path) }

  func request(_ path: String) throws -> Request { try Request(url(path)) }

  func close() {
    session.invalidateAndCancel()
    server.shutdown()
  }
}

/// A step that did not behave.
struct DemoFailure: Error, CustomStringConvertible {
  var description: String

  init(_ description: String) {
    self.description = description
  }
}

/// Throws unless `condition` holds.
func demand(_ condition: Bool, _ description: @autoclosure () -> String) throws(DemoFailure) {
  if !condition { throw DemoFailure(description()) }
}
