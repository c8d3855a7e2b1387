import LupineBase
import LupineTLS
import LupineTesting
import Testing

/// How bytes travel between the two ends of a `Pair`.
enum Feeding: String, CaseIterable, Sendable, CustomTestStringConvertible {
  case whole
  case dripped

  var testDescription: String { rawValue }
}

/// One end of a `Pair`, with everything it received.
final class End {
  let connection: TLSConnection
  var received: [UInt8] = []
  var result: ReceiveResult = .handshaking
  var failure: TLSError?
  /// Bytes of ciphertext that this end has produced.
  var produced = 0

  init(_ connection: TLSConnection) {
    self.connection = connection
  }

  /// Takes everything that waits for the peer.
  func takeOutput() -> [UInt8] {
    var bytes: [UInt8] = []
    connection.drainOutput { waiting in
      bytes = unsafe waiting.withUnsafeBytes { unsafe Array($0) }
      return waiting.count
    }
    produced += bytes.count
    return bytes
  }

  /// Feeds ciphertext and keeps what comes of it. After a failure further bytes are dropped.
  func feed(_ bytes: [UInt8], _ feeding: Feeding = .whole) {
    switch feeding {
    case .whole: feedOnce(bytes)
    case .dripped: for byte in bytes { feedOnce([byte]) }
    }
  }

  private func feedOnce(_ bytes: [UInt8]) {
    guard failure == nil else { return }
    do {
      result = try connection.receive(bytes.span) { span in
        unsafe span.withUnsafeBytes { unsafe self.received += Array($0) }
      }
    } catch {
      failure = error
    }
  }

  func send(_ bytes: [UInt8]) throws {
    try connection.send(bytes.span)
  }
}

/// A client and a server in memory.
final class Pair {
  let client: End
  let server: End
  let feeding: Feeding

  init(client: TLSConnection, server: TLSConnection, feeding: Feeding = .whole) {
    self.client = End(client)
    self.server = End(server)
    self.feeding = feeding
  }

  /// Carries bytes until neither side has any.
  func settle() {
    while true {
      let toServer = client.takeOutput()
      server.feed(toServer, feeding)
      let toClient = server.takeOutput()
      client.feed(toClient, feeding)
      if toServer.isEmpty && toClient.isEmpty { return }
    }
  }

  /// Starts the client and runs until nothing moves.
  func run() {
    do { _ = try client.connection.handshake() } catch { client.failure = error }
    settle()
  }
}

/// Authorities and certificates that many tests share; minted once per run.
struct Mint: Sendable {
  let root: CertificateAuthority
  let middle: CertificateAuthority
  let otherRoot: CertificateAuthority
  let leaf: MintedCertificate

  static let shared: Mint = {
    do {
      let root = try CertificateAuthority()
      let middle = try root.issueAuthority()
      return Mint(
        root: root, middle: middle, otherRoot: try CertificateAuthority(commonName: "Somebody else"),
        leaf: try middle.issue())
    } catch { fatalError("minting failed: \(error)") }
  }()
}

extension TLSIdentity {
  init(_ minted: MintedCertificate) {
    self.init(.der(chain: minted.chainDER, privateKey: minted.privateKeyDER))
  }
}

extension TLSPolicy {
  /// Trusts the shared root and speaks exactly `version`, or both.
  static func trusting(_ root: CertificateAuthority = Mint.shared.root, _ version: TLSVersion? = nil) -> TLSPolicy {
    var policy = TLSPolicy()
    policy.roots = .certificates([root.rootDER])
    if let version {
      policy.minimumVersion = version
      policy.maximumVersion = version
    }
    return policy
  }

  static func changed(_ change: (inout TLSPolicy) -> Void) -> TLSPolicy {
    var policy = TLSPolicy.trusting()
    change(&policy)
    return policy
  }
}

/// A server's context that speaks exactly `version`, or both.
func serverContext(
  _ minted: MintedCertificate = Mint.shared.leaf, _ version: TLSVersion? = nil,
  _ authentication: TLSContext.ClientAuthentication = .none
) throws -> TLSContext {
  try TLSContext(
    server: TLSIdentity(minted), policy: .trusting(Mint.shared.root, version), clientAuthentication: authentication)
}

/// A client and a server that have not yet said anything.
func makePair(
  client policy: TLSPolicy = .trusting(), server: TLSContext? = nil, host: String = "localhost",
  feeding: Feeding = .whole, options change: (inout TLSClientOptions) -> Void = { _ in }
) throws -> Pair {
  var options = TLSClientOptions(serverName: try ServerName(host))
  change(&options)
  let context = try TLSContext.client(for: policy)
  return Pair(
    client: try TLSConnection(client: context, options: options),
    server: try TLSConnection(server: try server ?? serverContext()), feeding: feeding)
}

/// A handshake, whatever comes of it.
func connect(
  client policy: TLSPolicy = .trusting(), server: TLSContext? = nil, host: String = "localhost",
  feeding: Feeding = .whole, options change: (inout TLSClientOptions) -> Void = { _ in }
) throws -> Pair {
  let pair = try makePair(client: policy, server: server, host: host, feeding: feeding, options: change)
  pair.run()
  return pair
}
