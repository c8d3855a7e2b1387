import LupineBase
import LupineIO
import LupineSimulation
import LupineTLS
import LupineTestSupport
import Testing

@testable import LupineEngine

/// What a server does while a connection waits for its secrets to be written. The disk hangs; time passes when the test says so.
/// One at a time: each keeps a thread of the process.
@Suite(.serialized, .timeLimit(.minutes(1))) struct KeyLogWaitTests {
  private static let answer = Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
  private static let early = Array("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n".utf8)

  private static func isOpen(_ connection: TLSConnection) -> Bool {
    let nothing: [UInt8] = []
    return (try? connection.send(nothing.span)) != nil
  }

  /// Both have shaken hands, and the request waits.
  private func waiting(
    _ pipe: FullPipe, _ method: String = "GET", _ deadlines: Deadlines = Deadlines()
  ) throws -> SecureDrive {
    let secure = try SecureDrive(isTrusted: true, deadlines, method: method, keyLogPath: pipe.path)
    try secure.exchange { Self.isOpen(secure.server) }
    secure.drive.settle()
    #expect(Self.isOpen(secure.server) && secure.request.isEmpty && secure.drive.outcomes.isEmpty)
    return secure
  }

  /// The disk is heard of, and hangs again when it has all there was for it.
  private func hearOfDisk(_ pipe: FullPipe) throws {
    let log = try KeyLog.shared(path: pipe.path, fileWork: KeyLog.atOnce)
    let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30_000_000_000)
    while !log.isSettled, EventLoop.monotonicNow() < end { _ = pipe.read() }
    #expect(log.isSettled)
    pipe.fill()
  }

  /// Every server hangs up, those included that are connected to because others did.
  private func end(_ secure: SecureDrive) {
    var closed = 0
    while closed < secure.drive.servers.count {
      secure.drive.servers[closed].close()
      closed += 1
      secure.drive.settle()
    }
    secure.drive.end()
  }

  /// With what the server has for every client, tickets, it goes on.
  @Test(arguments: [false, true]) func theRequestGoesOut(_ isWritten: Bool) throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.pass(milliseconds: 999)
    #expect(secure.drive.receive(0).isEmpty && secure.drive.outcomes.isEmpty)
    if isWritten { _ = pipe.read() } else { secure.drive.pass(milliseconds: 1) }
    try secure.exchange { !secure.request.isEmpty }
    #expect(String(decoding: secure.request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"))
    try secure.server.send(Self.answer.span)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    #expect(secure.drive.outcomes.map(\.status) == [200])
    end(secure)
  }

  /// Nothing was asked of it: whatever the request is, it goes to another connection, also where it took several openings to find a descriptor. But to
  /// one only, although the disk hangs there too.
  @Test(arguments: ["GET", "POST"], [1, 2])
  func aServerThatHangsUpIsConnectedToAgain(_ method: String, _ openings: Int) throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe, method)
    for case let connection? in secure.drive.pool.connections.value { connection.openings = openings }
    secure.drive.servers[0].close()
    secure.drive.settle()
    #expect(secure.drive.servers.count == 1 && secure.drive.outcomes.isEmpty)
    secure.drive.pass(milliseconds: 1_000)
    #expect(secure.drive.servers.count == 2 && secure.drive.outcomes.isEmpty, "\(secure.drive.outcomes)")
    try hearOfDisk(pipe)
    try secure.turnToLastServer()
    try secure.exchange { Self.isOpen(secure.server) }
    secure.drive.settle()
    #expect(Self.isOpen(secure.server) && secure.request.isEmpty && secure.drive.outcomes.isEmpty)
    secure.drive.servers[1].close()
    secure.drive.settle()
    #expect(secure.drive.servers.count == 2 && secure.drive.outcomes.isEmpty)
    secure.drive.pass(milliseconds: 1_000)
    #expect(secure.drive.servers.count == 2)
    let failure = secure.drive.outcomes.first?.failure
    #expect(secure.drive.outcomes.count == 1 && failure?.requestBytesSent == false)
    end(secure)
  }

  /// One has waited in vain: others are used at once while the disk hangs.
  @Test func whoComesLaterDoesNotWait() throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe)
    secure.drive.pass(milliseconds: 1_000)
    try secure.exchange { !secure.request.isEmpty }
    try secure.start("GET")
    secure.drive.settle()
    #expect(secure.drive.servers.count == 2)
    try secure.turnToLastServer()
    try secure.exchange { !secure.request.isEmpty }
    #expect(String(decoding: secure.request, as: UTF8.self).hasPrefix("GET / HTTP/1.1\r\n"))
    end(secure)
  }

  /// What it says unasked is the answer to nothing.
  @Test func aServerThatSpeaksIsNotAsked() throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe)
    try secure.server.send(Self.early.span)
    secure.deliver(secure.takeOutput()[...])
    secure.drive.settle()
    secure.drive.pass(milliseconds: 1_000)
    let outcome = try #require(secure.drive.outcomes.first)
    guard case .unsolicitedBytes? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
    #expect(outcome.status == nil && secure.drive.servers.count == 1)
    end(secure)
  }

  /// It was idle for as long, and may have been lost on the way of the request: a GET goes to another connection, a POST that has left does not.
  @Test(arguments: ["GET", "POST"]) func aConnectionThatHasWaitedMayHaveDied(_ method: String) throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe, method)
    secure.drive.pass(milliseconds: 1_000)
    try secure.exchange { !secure.request.isEmpty }
    #expect(String(decoding: secure.request, as: UTF8.self).hasPrefix(method))
    secure.drive.servers[0].close()
    secure.drive.settle()
    #expect(secure.drive.servers.count == (method == "GET" ? 2 : 1))
    #expect(secure.drive.outcomes.isEmpty == (method == "GET"))
    end(secure)
  }

  /// It is not the server that is slow.
  @Test func aLimitForTheServerDoesNotCountTheDisk() throws {
    let pipe = try FullPipe()
    var deadlines = Deadlines()
    deadlines.idle = 300_000_000
    let secure = try waiting(pipe, "GET", deadlines)
    secure.drive.pass(milliseconds: 500)
    #expect(secure.drive.outcomes.isEmpty, "\(secure.drive.outcomes)")
    secure.drive.pass(milliseconds: 500)
    try secure.exchange { !secure.request.isEmpty }
    #expect(!secure.request.isEmpty)
    end(secure)
  }

  /// Whoever gives up does not wait.
  @Test func cancelledWhileItWaits() throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe)
    let transfer = try #require(secure.transfer)
    secure.drive.engine.cancel(transfer)
    secure.drive.settle()
    let outcome = try #require(secure.drive.outcomes.first)
    guard case .cancelled? = outcome.failure?.error else {
      Issue.record("\(outcome)")
      return
    }
    secure.drive.pass(milliseconds: 1_000)
    #expect(secure.drive.outcomes.count == 1)
    end(secure)
  }

  /// Nor does a session that ends.
  @Test func closedWhileItWaits() throws {
    let pipe = try FullPipe()
    let secure = try waiting(pipe)
    secure.drive.pool.close(cancelling: true)
    secure.drive.settle()
    #expect(secure.drive.outcomes.count == 1 && secure.drive.servers[0].isHungUp)
    secure.drive.pass(milliseconds: 1_000)
    #expect(secure.drive.outcomes.count == 1)
    end(secure)
  }
}
