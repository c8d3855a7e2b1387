import CLupineOpenSSL
import LupineBase
import LupineEngine
@testable import LupineTLS
import Testing

/// A server may send a ticket in the middle of an upload, and a long one goes over several records, of which some may be late.
@Suite(.timeLimit(.minutes(1))) struct PartOfTicketTests {
  private static let empty = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)

  /// Has the tickets of a server go over several records each.
  private func lengthenTickets(of server: TLSConnection) {
    unsafe SSL_ctrl(server.ssl, SSL_CTRL_SET_MAX_SEND_FRAGMENT, 512, nil)
    unsafe SSL_CTX_set_session_ticket_cb(
      server.context.pointer,
      { ssl, _ in
        let data = [UInt8](repeating: 7, count: 2_000)
        return unsafe SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), data, data.count)
      }, nil, nil)
  }

  /// One more ticket of the server's.
  private func ticket(_ secure: SecureDrive) -> [UInt8] {
    unsafe SSL_new_session_ticket(secure.server.ssl)
    unsafe SSL_do_handshake(secure.server.ssl)
    return secure.takeOutput()
  }

  /// What the client sends, until it has nothing to send.
  private func receive(_ secure: SecureDrive, _ request: inout [UInt8]) throws {
    while true {
      secure.drive.settle()
      let bytes = secure.drive.receive(0)
      guard !bytes.isEmpty else { return }
      var plain: [UInt8] = []
      _ = try secure.server.receive(bytes.span) { plaintext in plain += [UInt8](plaintext) }
      request += plain
    }
  }

  /// The upload waits for the rest of the ticket, without gathering what its producer gives, and then goes on.
  @Test func anUploadGoesOn() throws {
    let secure = try SecureDrive { _ in }
    secure.deliver(secure.takeOutput()[...])
    try secure.server.send(Self.empty.span)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.map(\.status) == [200])

    let channel = Locked<BodyChannel?>(nil)
    let upload = StreamBody(length: nil, isReplayable: false) { given in channel.withLock { $0 = given } }
    secure.drive.start(try secure.transferRequest("POST", body: .stream(upload)))
    secure.drive.settle()
    let head = secure.drive.receive(0)
    lengthenTickets(of: secure.server)
    var request: [UInt8] = []
    _ = try secure.server.receive(head.span) { plaintext in request += [UInt8](plaintext) }
    let long = ticket(secure)
    try #require(long.count > 1_000)
    let end = 5 + Int(long[3]) << 8 + Int(long[4])
    secure.deliver(long[..<end])
    secure.drive.settle()

    let given = channel.withLock { $0 }
    let body = try #require(given)
    let written = Locked(0)
    // A letter that is in no head, and in no size of a chunk.
    let letter = UInt8(ascii: "z")
    let piece = [UInt8](repeating: letter, count: 300_000)
    for _ in 0..<2 {
      body.write(piece) { _ in written.withLock { $0 += 1 } }
      secure.drive.settle()
    }
    #expect(secure.drive.outcomes.count == 1)
    #expect(secure.drive.receive(0).isEmpty)
    // The first piece has been taken, and the second is held back.
    let taken = written.withLock { $0 }
    #expect(taken == 1)
    secure.deliver(long[end...])
    try receive(secure, &request)
    body.finish()
    try receive(secure, &request)
    let letters = request.count { $0 == letter }
    let isWhole = request.suffix(5).elementsEqual("0\r\n\r\n".utf8)
    #expect(letters == 2 * piece.count && isWhole)
    try secure.server.send(Self.empty.span)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.map(\.status) == [200, 200])
    #expect(secure.drive.servers.count == 1)
    secure.drive.end()
  }
}
