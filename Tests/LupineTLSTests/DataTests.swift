import LupineTLS
import LupineTesting
import Testing

@Suite("Data and its end")
struct DataTests {
  static func pattern(_ count: Int) -> [UInt8] {
    // What is not optimised takes several times as long for a closure.
    var bytes = [UInt8](repeating: 0, count: count)
    var index = 0
    while index < count {
      bytes[index] = UInt8(truncatingIfNeeded: index &* 31 &+ index >> 9)
      index += 1
    }
    return bytes
  }

  @Test("Much data, both ways at once", arguments: TLSVersion.allCases)
  func bulk(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    let down = Self.pattern(3_000_001)
    let up = Self.pattern(1_234_567)
    try pair.server.send(down)
    try pair.client.send(up)
    pair.settle()
    #expect(pair.client.received == down)
    #expect(pair.server.received == up)
  }

  @Test("Cut anywhere, the plaintext is the same", arguments: TLSVersion.allCases)
  func split(version: TLSVersion) throws {
    for cut in [1, 4, 5, 6, 16_383, 16_384, 16_405, 16_406, 20_000] {
      let pair = try connect(client: .trusting(Mint.shared.root, version))
      let down = Self.pattern(40_000)
      try pair.server.send(down)
      let wire = pair.server.takeOutput()
      for start in stride(from: 0, to: wire.count, by: cut) {
        pair.client.feed(Array(wire[start..<min(start + cut, wire.count)]))
      }
      #expect(pair.client.received == down)
    }
  }

  /// Also between a record's header of five bytes and its body, where OpenSSL before 3.0.14 goes on in freed memory (CVE-2024-4741).
  @Test("Buffers can be given back at any time", arguments: TLSVersion.allCases, [1000, 5])
  func releasedBuffers(version: TLSVersion, size: Int) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    let down = Self.pattern(20_000)
    try pair.server.send(down)
    pair.server.connection.releaseBuffers()
    let wire = pair.server.takeOutput()
    for start in stride(from: 0, to: wire.count, by: size) {
      pair.client.feed(Array(wire[start..<min(start + size, wire.count)]))
      pair.client.connection.releaseBuffers()
    }
    #expect(pair.client.received == down)
  }

  @Test("A connection is at rest between records", arguments: TLSVersion.allCases)
  func rest(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    #expect(pair.client.connection.isAtRest)
    try pair.server.send(Self.pattern(20_000))
    let wire = pair.server.takeOutput()
    let end = 5 + Int(wire[3]) << 8 + Int(wire[4])
    for index in wire.indices {
      pair.client.feed([wire[index]])
      let isBetween = index == end - 1 || index == wire.count - 1
      guard pair.client.connection.isAtRest == isBetween else {
        Issue.record("wrong behind byte \(index) of \(wire.count), a record ending at \(end)")
        return
      }
    }
  }

  @Test("Nothing sent is nothing", arguments: TLSVersion.allCases)
  func empty(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    try pair.client.send([])
    #expect(pair.client.takeOutput().isEmpty)
    pair.client.feed([])
    #expect(pair.client.result == .open)
  }

  @Test("close_notify is an end, and says that all has arrived", arguments: TLSVersion.allCases, Feeding.allCases)
  func closeNotify(version: TLSVersion, feeding: Feeding) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version), feeding: feeding)
    try pair.server.send([1, 2, 3])
    pair.server.connection.close()
    pair.settle()
    #expect(pair.client.received == [1, 2, 3])
    #expect(pair.client.result == .closedByPeer)
    #expect(pair.client.connection.isClosedByPeer)
    try pair.client.connection.endOfInput()
    // What follows is dropped (RFC 8446, 6.1).
    pair.client.feed([1, 2, 3, 4, 5])
    #expect(pair.client.result == .closedByPeer)
    #expect(pair.client.received == [1, 2, 3])
    // The other direction is still open.
    try pair.client.send([4])
    pair.settle()
    #expect(pair.server.received == [4])
  }

  @Test("The end without close_notify is truncation", arguments: TLSVersion.allCases)
  func truncated(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    try pair.server.send(Self.pattern(100))
    let wire = pair.server.takeOutput()
    pair.client.feed(Array(wire.dropLast()))
    #expect(pair.client.received.isEmpty)
    #expect(throws: TLSError.truncated) { try pair.client.connection.endOfInput() }
    #expect(throws: TLSError.truncated) { try pair.client.send([1]) }
  }

  @Test("The end within a handshake is truncation, wherever it comes", arguments: TLSVersion.allCases)
  func truncatedHandshake(version: TLSVersion) throws {
    for count in [0, 1, 5, 60, 200] {
      let pair = try makePair(client: .trusting(Mint.shared.root, version))
      _ = try pair.client.connection.handshake()
      pair.server.feed(pair.client.takeOutput())
      pair.client.feed(Array(pair.server.takeOutput().prefix(count)))
      #expect(pair.client.result == .handshaking)
      #expect(throws: TLSError.truncated) { try pair.client.connection.endOfInput() }
      #expect(throws: TLSError.truncated) { try pair.client.connection.handshake() }
    }
  }

  @Test("After close nothing can be sent, but much received", arguments: TLSVersion.allCases)
  func closed(version: TLSVersion) throws {
    let pair = try connect(client: .trusting(Mint.shared.root, version))
    pair.client.connection.close()
    pair.client.connection.close()
    #expect(throws: TLSError.closed) { try pair.client.send([1]) }
    pair.settle()
    #expect(pair.server.result == .closedByPeer)
    try pair.server.send([1, 2, 3])
    pair.settle()
    #expect(pair.client.received == [1, 2, 3])
  }

  @Test("Calls out of turn are refused")
  func outOfTurn() throws {
    let pair = try makePair()
    #expect(throws: TLSError.notNow) { try pair.client.send([1]) }
    pair.run()
    try pair.server.send([1])
    var nested: TLSError?
    let bytes = pair.server.takeOutput()
    let connection = pair.client.connection
    _ = try connection.receive(bytes.span) { _ in
      do {
        _ = try connection.receive([UInt8](repeating: 0, count: 1).span) { _ in }
      } catch { nested = error as? TLSError }
    }
    #expect(nested == .notNow)
  }

  @Test("A sink may answer and close")
  func answering() throws {
    let pair = try connect()
    try pair.server.send([1])
    let connection = pair.client.connection
    let bytes = pair.server.takeOutput()
    _ = try connection.receive(bytes.span) { plaintext in
      do { try connection.send(plaintext) } catch { Issue.record(error) }
      connection.close()
    }
    pair.settle()
    #expect(pair.server.received == [1])
    #expect(pair.server.result == .closedByPeer)
  }

  @Test("TLS within TLS, sharing a scratch", arguments: TLSVersion.allCases)
  func nested(version: TLSVersion) throws {
    let scratch = TLSScratch()
    let policy = TLSPolicy.trusting(Mint.shared.root, version)
    let outer = try connect(client: policy)
    let context = try TLSContext.client(for: policy)
    let outerClient = try TLSConnection(
      client: context, options: TLSClientOptions(serverName: try ServerName("localhost")), scratch: scratch)
    let tunnel = Pair(client: outerClient, server: try TLSConnection(server: try serverContext()))
    tunnel.run()
    let inner = Pair(
      client: try TLSConnection(
        client: context, options: TLSClientOptions(serverName: try ServerName("localhost")), scratch: scratch),
      server: try TLSConnection(server: try serverContext()))
    _ = try inner.client.connection.handshake()
    var up = inner.client.takeOutput()
    while !up.isEmpty {
      try tunnel.client.send(up)
      tunnel.server.feed(tunnel.client.takeOutput())
      inner.server.feed(tunnel.server.received)
      tunnel.server.received = []
      if inner.server.result == .open, inner.server.failure == nil { try inner.server.send(Self.pattern(50_000)) }
      try tunnel.server.send(inner.server.takeOutput())
      let wire = tunnel.server.takeOutput()
      _ = try outerClient.receive(wire.span) { plaintext in
        unsafe inner.client.feed(plaintext.withUnsafeBytes { unsafe Array($0) })
      }
      up = inner.client.takeOutput()
    }
    #expect(inner.client.failure == nil)
    #expect(inner.client.received == Self.pattern(50_000))
    #expect(outer.client.failure == nil)
  }
}
