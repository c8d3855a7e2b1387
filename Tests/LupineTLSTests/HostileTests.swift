import LupineTLS
import LupineTesting
import Testing

@Suite("Peers that misbehave")
struct HostileTests {
  static func client(_ version: TLSVersion? = nil) throws -> End {
    let context = try TLSContext.client(for: .trusting(Mint.shared.root, version))
    let end = End(
      try TLSConnection(client: context, options: TLSClientOptions(serverName: try ServerName("localhost"))))
    _ = try end.connection.handshake()
    return end
  }

  @Test(
    "What is not TLS is told by its first byte",
    arguments: [
      "HTTP/1.1 400 Bad Request\r\n\r\n", "220 mail.example ESMTP\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\0", "x",
    ], Feeding.allCases)
  func notTLS(answer: String, feeding: Feeding) throws {
    let end = try Self.client()
    let bytes = Array(answer.utf8)
    end.feed(bytes, feeding)
    #expect(end.failure == .notTLS(firstByte: bytes[0]))
  }

  @Test("Garbage behind a plausible first byte is a typed error, however it is split")
  func garbage() throws {
    for prefix: [UInt8] in [
      [22, 3, 3, 255, 255], [22, 9, 9, 0, 1, 0], [21, 3, 3, 0, 0], [22, 3, 3, 0, 4, 99, 0, 0, 0],
    ] {
      var failures: [TLSError?] = []
      for feeding in Feeding.allCases {
        let end = try Self.client()
        end.feed(prefix + [UInt8](repeating: 0xA5, count: 20_000), feeding)
        failures.append(end.failure)
      }
      guard case .protocolViolation = failures[0] else {
        Issue.record("\(prefix): \(String(describing: failures[0]))")
        continue
      }
      #expect(failures[0] == failures[1])
    }
  }

  /// 0 is close_notify, upon which rustls went round for ever (CVE-2024-32650).
  @Test("An alert instead of a handshake", arguments: [0, 40, 70, 112] as [UInt8], Feeding.allCases)
  func alert(code: UInt8, feeding: Feeding) throws {
    let end = try Self.client()
    end.feed([21, 3, 3, 0, 2, code == 0 ? 1 : 2, code], feeding)
    #expect(end.failure == (code == 70 ? .noCommonVersion : .alert(TLSAlert(rawValue: code))))
  }

  @Test("What others left in OpenSSL's queue of errors says nothing about a connection", arguments: TLSVersion.allCases)
  func foreignErrors(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    #expect(leaveForeignError())
    try pair.client.send([1, 2, 3])
    pair.settle()
    #expect(pair.server.received == [1, 2, 3])
    try pair.server.send([4, 5])
    let wire = pair.server.takeOutput()
    #expect(leaveForeignError())
    pair.client.feed(wire, .dripped)
    #expect(pair.client.received == [4, 5])
    pair.server.connection.close()
    #expect(leaveForeignError())
    pair.client.feed(pair.server.takeOutput())
    #expect(pair.client.result == .closedByPeer)
    #expect(pair.client.failure == nil)
  }

  @Test("A changed record is noticed", arguments: TLSVersion.allCases)
  func tampered(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    try pair.server.send([1, 2, 3])
    var wire = pair.server.takeOutput()
    wire[wire.count - 1] ^= 1
    pair.client.feed(wire)
    #expect(pair.client.failure == .badRecord)
    #expect(pair.client.received.isEmpty)
    #expect(throws: TLSError.badRecord) { try pair.client.connection.endOfInput() }
  }

  @Test("Every flipped byte of a server's first flight ends in a typed error or in waiting")
  func flippedFlight() throws {
    let probe = try Self.client(.tls13)
    let server = End(try TLSConnection(server: try serverContext()))
    server.feed(probe.takeOutput())
    let length = server.takeOutput().count
    for index in stride(from: 0, to: length, by: 7) {
      let client = try Self.client(.tls13)
      let server = End(try TLSConnection(server: try serverContext()))
      server.feed(client.takeOutput())
      var wire = server.takeOutput()
      guard index < wire.count else { continue }
      wire[index] ^= 0x80
      client.feed(wire)
      #expect(client.result != .open, "byte \(index)")
    }
  }

  @Test("A chain of more than 64 KiB", arguments: TLSVersion.allCases)
  func hugeChain(version: TLSVersion) throws {
    var leaf = Mint.shared.leaf
    leaf.intermediatesDER += Array(repeating: Mint.shared.middle.certificateDER, count: 200)
    let pair = try connect(client: .trusting(Mint.shared.root, version), server: serverContext(leaf))
    #expect(pair.client.failure == .handshakeMessageTooLarge)
  }

  @Test("A flood of KeyUpdates (Go CVE-2026-56862) stops us early")
  func keyUpdates() throws {
    let client = try Self.client(.tls13)
    let server = try RawServer(Mint.shared.leaf, version: .tls13)
    server.handshake(with: client)
    #expect(client.result == .open)
    server.updateKeys(20)
    client.feed(server.takeOutput())
    #expect(client.failure == nil)
    server.updateKeys(10_000)
    client.feed(server.takeOutput())
    #expect(client.failure == .postHandshakeFlood(limit: 32))
  }

  @Test("KeyUpdates along with data are no flood")
  func keyUpdatesWithData() throws {
    let client = try Self.client(.tls13)
    let server = try RawServer(Mint.shared.leaf, version: .tls13)
    server.handshake(with: client)
    for _ in 0..<200 {
      server.updateKeys(1)
      server.write([UInt8](repeating: 1, count: 64 * 1024))
      client.feed(server.takeOutput())
    }
    #expect(client.failure == nil)
    #expect(client.received.count == 200 * 64 * 1024)
  }

  @Test("KeyUpdates that ask for an answer get one, and the connection lives")
  func keyUpdateRequested() throws {
    let client = try Self.client(.tls13)
    let server = try RawServer(Mint.shared.leaf, version: .tls13)
    server.handshake(with: client)
    server.updateKeys(1, requestingAnswer: true)
    client.feed(server.takeOutput())
    server.feed(client.takeOutput())
    try client.send([9, 8, 7])
    server.feed(client.takeOutput())
    #expect(server.received == [9, 8, 7])
    #expect(client.failure == nil)
  }

  @Test("A renegotiation is not taken part in")
  func renegotiation() throws {
    let client = try Self.client(.tls12)
    let server = try RawServer(Mint.shared.leaf, version: .tls12)
    server.handshake(with: client)
    #expect(client.result == .open)
    server.renegotiate()
    client.feed(server.takeOutput())
    #expect(client.failure == nil)
    let answer = client.takeOutput()
    // One alert record (RFC 5246, 7.2.2: no_renegotiation), no ClientHello.
    #expect(answer.first == 21)
    server.feed(answer)
    #expect(server.failure == "no renegotiation")
  }
}
