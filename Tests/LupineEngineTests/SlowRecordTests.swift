import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineTLS
import LupineTesting
import LupineWire
import Testing

/// What arrives over TLS moves before it can be read: a record is read when it is complete.
@Suite(.timeLimit(.minutes(1))) struct SlowRecordTests {
  private static let second: Int64 = 1_000_000_000

  /// A driven engine and a server with TLS, which have shaken hands; the request has arrived, and what the server says next is held back.
  private final class SecureDrive {
    let drive: Drive
    let server: TLSConnection
    private(set) var request: [UInt8] = []

    init(_ change: (inout Deadlines) -> Void) throws {
      let authority = try CertificateAuthority()
      let leaf = try authority.issue()
      var policy = TLSPolicy()
      policy.roots = .certificates([authority.rootDER])
      let identity = TLSIdentity(.der(chain: leaf.chainDER, privateKey: leaf.privateKeyDER))
      server = try TLSConnection(
        server: try TLSContext(server: identity, policy: policy, clientAuthentication: .none))
      drive = try Drive()
      var deadlines = Deadlines()
      change(&deadlines)
      let plain = try LupineEngineTests.request(host: "h", port: 443)
      drive.start(
        TransferRequest(
          key: PoolKey(ConnectionIdentity(host: "h", serverName: "localhost", port: 443, tls: policy)), method: "GET",
          head: plain.head, context: RequestContext(), deadlines: deadlines))
      // The policy is read on a file thread.
      let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30 * SlowRecordTests.second)
      while request.isEmpty, drive.outcomes.isEmpty, EventLoop.monotonicNow() < end {
        drive.settle()
        if !request.isEmpty { break }
        deliver(takeOutput()[...])
        let bytes = drive.receive(0)
        _ = try server.receive(bytes.span) { plaintext in request += [UInt8](plaintext) }
      }
      #expect(String(decoding: request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"), "\(drive.outcomes)")
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
      #expect(drive.servers[0].send(bytes.span) == bytes.count)
    }

    func pass(_ nanoseconds: Int64) {
      drive.engine.world.now = drive.engine.world.now.advanced(byNanoseconds: nanoseconds)
      drive.settle()
    }
  }

  /// 16 KiB that take 40 s: nothing of the response can be read for so long, and something moves all the time.
  @Test func aRecordThatTakesLongerThanTheIdleLimitArrives() throws {
    let secure = try SecureDrive { $0.idle = 5 * Self.second }
    let body = PatternBody.bytes(16_000)
    try secure.server.send((Array("HTTP/1.1 200 OK\r\nContent-Length: 16000\r\n\r\n".utf8) + body).span)
    let record = secure.takeOutput()
    #expect(record.count > 16_000)
    let size = record.count / 10 + 1
    for start in stride(from: 0, to: record.count, by: size) {
      #expect(secure.drive.outcomes.isEmpty)
      secure.pass(4 * Self.second)
      secure.deliver(record[start..<min(record.count, start + size)])
      secure.drive.settle()
    }
    #expect(secure.drive.outcomes.first?.failure == nil)
    #expect(secure.drive.outcomes.first?.body == body)
    secure.drive.end()
  }

  /// The limit counts from the last byte that came.
  @Test func aRecordThatStopsRunsIntoTheIdleLimit() throws {
    let secure = try SecureDrive { $0.idle = 5 * Self.second }
    try secure.server.send([UInt8](repeating: 0, count: 16_000).span)
    let record = secure.takeOutput()
    secure.pass(4 * Self.second)
    secure.deliver(record[..<1000])
    secure.drive.settle()
    secure.pass(5 * Self.second - 1)
    #expect(secure.drive.outcomes.isEmpty)
    secure.pass(1)
    guard case .deadline? = secure.drive.outcomes.first?.failure?.error else {
      Issue.record("\(secure.drive.outcomes)")
      return
    }
    secure.drive.end()
  }

  /// What the server says of TLS after the handshake is nothing of its response.
  @Test func sessionTicketsAreNoFirstByte() throws {
    let secure = try SecureDrive { $0.firstByte = 5 * Self.second }
    let tickets = secure.takeOutput()
    #expect(!tickets.isEmpty)
    secure.pass(4 * Self.second)
    secure.deliver(tickets[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.isEmpty)
    secure.pass(Self.second)
    guard case .deadline(.firstByte)? = secure.drive.outcomes.first?.failure?.error else {
      Issue.record("\(secure.drive.outcomes)")
      return
    }
    secure.drive.end()
  }
}
