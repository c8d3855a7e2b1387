@testable import LupineTLS
import LupineTesting
import Testing

@Suite("Ciphertext is given out record by record")
struct RecordGrantTests {
  static let lengths = [0, 1, 255, 256, 16_401, 3, 0, 40_000, 7]

  @Test(
    "No answer crosses the end of a record", arguments: [1, 2, 3, 4, 5, 6, 7, 100, 16_384, 65_536], [5, 16_704, 70_000])
  func boundaries(piece: Int, limit: Int) {
    let stream = Self.lengths.flatMap { length in
      [23, 3, 3, UInt8(length >> 8), UInt8(length & 255)] + [UInt8](repeating: 0xFF, count: length)
    }
    var ends = Set<Int>()
    for length in Self.lengths { ends.insert((ends.max() ?? 0) + 5 + length) }
    var grant = RecordGrant()
    var given = 0
    while given < stream.count {
      let upTo = min(stream.count, given / piece * piece + piece)
      let count = grant.take(from: stream.span.extracting(given..<upTo), limit: limit)
      #expect(count > 0 && count <= limit && given + count <= upTo)
      guard count > 0 else { return }
      let crossed = (given + 1..<given + count).filter { ends.contains($0) }
      #expect(crossed.isEmpty, "\(count) bytes from \(given)")
      given += count
    }
  }

  @Test("A record that is there as a whole takes one question")
  func whole() {
    var grant = RecordGrant()
    let bytes: [UInt8] = [23, 3, 3, 0, 4, 1, 2, 3, 4, 23, 3, 3, 0, 1, 9]
    let first = grant.take(from: bytes.span, limit: 16_704)
    let second = grant.take(from: bytes.span.extracting(9...), limit: 16_704)
    #expect(first == 9)
    #expect(second == 6)
  }

  @Test("Of a flood that comes at once, nothing behind the first message too many is answered")
  func flood() throws {
    let client = try HostileTests.client(.tls13)
    let server = try RawServer(Mint.shared.leaf, version: .tls13)
    server.handshake(with: client)
    _ = client.takeOutput()
    server.updateKeys(400, requestingAnswer: true)
    client.feed(server.takeOutput())
    #expect(client.failure == .postHandshakeFlood(limit: 32))
    let answer = client.takeOutput()
    var records = 0
    var offset = 0
    while offset + 5 <= answer.count {
      offset += 5 + Int(answer[offset + 3]) << 8 + Int(answer[offset + 4])
      records += 1
    }
    #expect((20...33).contains(records), "\(records) records")
  }
}
