import LupineEngine
import LupineSimulation
import LupineTLS
import LupineTesting
import Testing

/// What TLS keeps of a connection that nobody uses: a part of a record is as little of the next response as bytes that can be read.
@Suite(.timeLimit(.minutes(1))) struct PartOfRecordTests {
  private static let empty = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
  private static let poison = Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".utf8)

  private func records(_ secure: SecureDrive) throws -> (response: [UInt8], poison: [UInt8]) {
    // The tickets, which come first, belong to nobody.
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    try secure.server.send(Self.empty.span)
    let response = secure.takeOutput()
    try secure.server.send(Self.poison.span)
    return (response, secure.takeOutput())
  }

  /// A second server hangs up on who is asking it.
  private func end(_ secure: SecureDrive) {
    if secure.drive.servers.count > 1 {
      secure.drive.servers[1].close()
      secure.drive.settle()
    }
    secure.drive.end()
  }

  /// It comes with the end of the response: the connection is closed.
  @Test(arguments: [1, 4, 5, 6, 40]) func behindAResponse(_ count: Int) throws {
    let secure = try SecureDrive { _ in }
    let (response, poison) = try records(secure)
    secure.deliver((response + poison[..<count])[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.map(\.status) == [200])
    #expect(secure.drive.servers[0].isHungUp)
    try secure.start("GET")
    secure.drive.settle()
    #expect(secure.drive.servers.count == 2)
    end(secure)
  }

  /// It comes while the connection is idle: no request gets it.
  @Test(arguments: [1, 4, 5, 6, 40]) func whileIdle(_ count: Int) throws {
    let secure = try SecureDrive { _ in }
    let (response, poison) = try records(secure)
    secure.deliver(response[...])
    secure.drive.settle()
    secure.deliver(poison[..<count])
    secure.drive.settle()
    #expect(secure.drive.outcomes.map(\.status) == [200])
    #expect(!secure.drive.servers[0].isHungUp)
    try secure.start("GET")
    secure.drive.settle()
    #expect(secure.drive.servers[0].isHungUp && secure.drive.servers.count == 2)
    end(secure)
  }

  /// A connection that has idled may be lost in any way: a GET goes to another one, a POST that has left does not.
  @Test(arguments: ["GET", "POST"]) func anAlertForAReusedConnection(_ method: String) throws {
    let secure = try SecureDrive { _ in }
    let (response, _) = try records(secure)
    secure.deliver(response[...])
    secure.drive.settle()
    try secure.start(method)
    secure.drive.settle()
    #expect(secure.drive.servers.count == 1)
    // What TLS refuses: a record that nobody can have written who has the keys.
    secure.deliver(([0x17, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32))[...])
    secure.drive.settle()
    #expect(secure.drive.servers[0].isHungUp)
    #expect(secure.drive.servers.count == (method == "GET" ? 2 : 1))
    if method == "POST" {
      guard case .tls? = secure.drive.outcomes.last?.failure?.error else {
        Issue.record("\(secure.drive.outcomes)")
        return
      }
    }
    end(secure)
  }

  /// A connection that is new is not at fault for its age.
  @Test func anAlertForAFreshConnection() throws {
    let secure = try SecureDrive { _ in }
    secure.deliver(secure.takeOutput()[...])
    secure.deliver(([0x17, 3, 3, 0, 32] + [UInt8](repeating: 0, count: 32))[...])
    secure.drive.settle()
    #expect(secure.drive.servers.count == 1 && secure.drive.outcomes.count == 1)
    end(secure)
  }
}
