import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineTLS
import LupineTesting
import LupineWire
import Testing

/// A driven engine and a server with TLS.
final class SecureDrive {
  private static let second: Int64 = 1_000_000_000

  let drive: Drive
  private(set) var server: TLSConnection
  /// What the server has been asked.
  private(set) var request: [UInt8] = []
  /// What was started first.
  private(set) var transfer: Transfer?
  private let policy: TLSPolicy
  private let serverContext: TLSContext
  /// Which of the drive's servers it is.
  private var index = 0

  /// Starts a GET, or what is asked for, for a server whose certificate is trusted or not.
  init(
    isTrusted: Bool, _ deadlines: Deadlines = Deadlines(), method: String = "GET", keyLogPath: String? = nil
  ) throws {
    let authority = try CertificateAuthority()
    let leaf = try authority.issue()
    var policy = TLSPolicy()
    policy.roots = .certificates([isTrusted ? authority.rootDER : try CertificateAuthority().rootDER])
    let serverPolicy = policy
    policy.keyLogPath = keyLogPath
    self.policy = policy
    let identity = TLSIdentity(.der(chain: leaf.chainDER, privateKey: leaf.privateKeyDER))
    serverContext = try TLSContext(server: identity, policy: serverPolicy, clientAuthentication: .none)
    server = try TLSConnection(server: serverContext)
    drive = try Drive()
    transfer = drive.start(try transferRequest(method, deadlines))
  }

  /// From now on it is the server that was connected to last which speaks. It has the same certificate.
  func turnToLastServer() throws {
    server = try TLSConnection(server: serverContext)
    index = drive.servers.count - 1
    request = []
  }

  @discardableResult
  func start(_ method: String, _ deadlines: Deadlines = Deadlines()) throws -> Transfer {
    drive.start(try transferRequest(method, deadlines))
  }

  func transferRequest(
    _ method: String, _ deadlines: Deadlines = Deadlines(), body: RequestBody = .none, target: String = "/"
  ) throws -> TransferRequest {
    let framing: RequestFraming = if case .none = body { .none } else { .chunked }
    let plain = try LupineEngineTests.request(host: "h", port: 443, method: method, framing: framing, target: target)
    return TransferRequest(
      key: PoolKey(ConnectionIdentity(host: "h", serverName: "localhost", port: 443, tls: policy)), method: method,
      head: plain.head, context: RequestContext(), body: body, deadlines: deadlines)
  }

  /// Both have shaken hands; the request has arrived, and what the server says next is held back.
  convenience init(_ change: (inout Deadlines) -> Void) throws {
    var deadlines = Deadlines()
    change(&deadlines)
    try self.init(isTrusted: true, deadlines)
    try exchange { !request.isEmpty }
    #expect(String(decoding: request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"), "\(drive.outcomes)")
  }

  /// Carries to and fro what both say, until something is so. The policy is read on a file thread, which takes its time.
  func exchange(until isDone: () -> Bool) throws {
    let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30 * Self.second)
    while drive.outcomes.isEmpty, EventLoop.monotonicNow() < end {
      drive.settle()
      if isDone() { break }
      deliver(takeOutput()[...])
      let bytes = drive.receive(index)
      _ = try server.receive(bytes.span) { plaintext in request += [UInt8](plaintext) }
      if isDone() { break }
    }
  }

  /// The ciphertext that the server has to send.
  func takeOutput() -> [UInt8] {
    var output: [UInt8] = []
    server.drainOutput { bytes in
      output += [UInt8](bytes)
      return bytes.count
    }
    return output
  }

  func deliver(_ bytes: ArraySlice<UInt8>) {
    guard !bytes.isEmpty else { return }
    let bytes = Array(bytes)
    #expect(drive.servers[index].send(bytes.span) == bytes.count)
  }

  func pass(_ nanoseconds: Int64) {
    drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: nanoseconds)
    drive.settle()
  }
}
