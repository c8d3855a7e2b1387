import LupineTLS
import LupineTesting
import Testing

/// A server may send a ticket at any time, and a long one goes over several records, of which some may be late. OpenSSL encrypts nothing meanwhile.
@Suite("Data that is sent in the middle of a ticket")
struct PartOfTicketTests {
  /// Both have shaken hands, and the tickets are on their way.
  private func connected() throws -> (server: RawServer, client: End, tickets: [UInt8]) {
    let server = try RawServer(Mint.shared.leaf, version: .tls13, hasLongTickets: true)
    let options = TLSClientOptions(serverName: try ServerName("localhost"))
    let context = try TLSContext.client(for: .trusting(Mint.shared.root, .tls13))
    let client = End(try TLSConnection(client: context, options: options))
    _ = try client.connection.handshake()
    server.feed(client.takeOutput())
    client.feed(server.takeOutput())
    #expect(client.result == .open && client.failure == nil)
    server.feed(client.takeOutput())
    return (server, client, server.takeOutput())
  }

  private func endOfRecord(_ bytes: [UInt8]) throws -> Int {
    try #require(bytes.count > 5)
    let end = 5 + Int(bytes[3]) << 8 + Int(bytes[4])
    try #require(end < bytes.count)
    return end
  }

  @Test("It goes out when the rest has come, in order")
  func held() throws {
    let (server, client, tickets) = try connected()
    let end = try endOfRecord(tickets)
    client.feed(Array(tickets[..<end]))
    #expect(!client.connection.isAtRest && !client.connection.isSendHeld)
    let first = [UInt8](repeating: 1, count: 40_000)
    let second: [UInt8] = [2, 3]
    try client.send(first)
    try client.send(second)
    #expect(client.connection.isSendHeld && !client.connection.hasOutput)
    // All but the last byte of the last ticket: the first has ended, and the next one is begun.
    client.feed(Array(tickets[end..<tickets.count - 1]))
    try client.send([4])
    client.feed([tickets[tickets.count - 1]])
    #expect(client.failure == nil)
    #expect(client.connection.isAtRest && !client.connection.isSendHeld)
    server.feed(client.takeOutput())
    #expect(server.failure == nil)
    #expect(server.received == first + second + [4])
  }

  @Test("A connection that is closed then says nothing more")
  func closed() throws {
    let (_, client, tickets) = try connected()
    let end = try endOfRecord(tickets)
    client.feed(Array(tickets[..<end]))
    try client.send([1])
    client.connection.close()
    client.feed(Array(tickets[end...]))
    #expect(client.failure == nil)
    #expect(!client.connection.hasOutput)
  }
}
