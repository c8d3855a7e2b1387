import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineRules
import LupineSimulation
import LupineTesting
import LupineWire
import Testing

/// A connection that always has more to do leaves turns of the loop to the others.
@Suite(.timeLimit(.minutes(1))) struct FairnessTests {
  private static let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

  /// Counts pieces of a body, sent or received, and calls somebody at each.
  private final class Pieces: TransferHandler {
    private(set) var count = 0
    var onPiece: (Int) -> Void = { _ in }

    private func note() {
      count += 1
      onPiece(count)
    }

    func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
    func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
    func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) { note() }
    func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
    func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) { note() }
    func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {}
  }

  /// An engine, and on server 0 a request that waits for its answer.
  private func driveWithAWaitingRequest() throws -> Drive {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    #expect(drive.received(0).hasPrefix("GET / "))
    return drive
  }

  /// Takes turns until the waiting request has its answer, and says how many pieces of the other's body there were by then.
  private func pieces(of pieces: Pieces, until drive: Drive) -> Int {
    for _ in 0..<100 where drive.outcomes.isEmpty { _ = drive.engine.context.turn() }
    #expect(drive.outcomes.first?.body == Array("hello".utf8))
    return pieces.count
  }

  /// The body is there, and the server takes whatever we send.
  @Test func anUploadLeavesTurnsToOthers() throws {
    let drive = try driveWithAWaitingRequest()
    let channelSize = 128
    let body = RequestBody.stream(
      StreamBody(length: nil, isReplayable: false) { channel in
        for _ in 0..<channelSize { channel.write([1]) { _ in } }
        channel.finish()
      })
    let upload = Pieces()
    upload.onPiece = { if $0 == 1 { drive.send(0, Self.answer) } }
    let put = try request(host: "h", port: 80, method: "PUT", framing: .chunked, body: body)
    drive.engine.start(Transfer(put, handler: upload, createdAt: drive.engine.context.now), in: drive.pool)
    let sent = pieces(of: upload, until: drive)
    #expect(sent > 0 && sent < channelSize / 2, "\(sent)")
    drive.settle()
    #expect(upload.count == channelSize)
    upload.onPiece = { _ in }
    drive.servers[1].close()
    drive.end()
  }

  /// The server has sent as much again before we have read what it sent.
  @Test func aDownloadLeavesTurnsToOthers() throws {
    let drive = try driveWithAWaitingRequest()
    // As much as a system with no settings of its own gives, which doubles it: more than one read.
    drive.serverBuffer = 212_992
    let download = Pieces()
    drive.engine.start(
      Transfer(try request(host: "h", port: 80), handler: download, createdAt: drive.engine.context.now), in: drive.pool
    )
    drive.settle()
    #expect(drive.received(1).hasPrefix("GET / "))
    let bytes = [UInt8](repeating: 1, count: 2 * LoopContext.readBufferSize)
    let limit = 64
    download.onPiece = { count in
      if count == 1 { drive.send(0, Self.answer) }
      if count < limit { _ = drive.servers[1].send(bytes.span) }
    }
    drive.send(1, "HTTP/1.1 200 OK\r\n\r\n")
    #expect(drive.servers[1].send(bytes.span) > LoopContext.readBufferSize)
    let received = pieces(of: download, until: drive)
    #expect(received > 0 && received < limit / 2, "\(received)")
    download.onPiece = { _ in }
    drive.servers[1].close()
    drive.end()
  }

  /// A connection to a proxy that gives out one message for each read, however many wait.
  private final class Messages {
    let far: Int32
    private var near: Int32?

    init() throws {
      var ends: [Int32] = [-1, -1]
      let kind = Int32(SOCK_SEQPACKET.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
      let result = unsafe socketpair(AF_UNIX, kind, 0, &ends)
      try #require(result == 0)
      near = ends[0]
      far = ends[1]
    }

    deinit { _ = Glibc.close(far) }

    func takeNear() -> Int32? { near.take() }

    func send(_ text: String) {
      let bytes = Array(text.utf8)
      #expect(unsafe Glibc.send(far, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }
  }

  private func requestThroughProxy() throws -> TransferRequest {
    var head: [UInt8] = []
    try RequestEncoder.head(method: "GET", target: "/", fields: [("Host", "a.example")], into: &head)
    var identity = ConnectionIdentity(host: "a.example", serverName: "a.example", port: 80, tls: nil)
    let endpoint = try ProxyURLReader.read("http://127.0.0.1:80").endpoint
    identity.route = .proxy(ProxyRoute(kind: .http, endpoint: endpoint, tunnels: true))
    return TransferRequest(key: PoolKey(identity), method: "GET", head: head, context: RequestContext())
  }

  /// The proxy has said more than is read in a turn, and after its last word a short read does not say that there is nothing more.
  @Test func aProxyLeavesTurnsToOthers() throws {
    let messages = try Messages()
    let world = DrivenWorld { _ throws(IOError) in
      guard let near = messages.takeNear() else { throw .refused }
      return StartedSocket(Descriptor(adopting: near), .connected)
    }
    let resolver = TableResolver(["127.0.0.1": [SocketAddress.v4(.loopback, port: 80)]])
    let engine = try DrivenEngine(world: world, resolver: resolver)
    let pool = engine.makePool(PoolConfiguration())
    let recorder = Recorder { _ in }
    engine.start(Transfer(try requestThroughProxy(), handler: recorder, createdAt: engine.context.now), in: pool)
    #expect(engine.runUntilQuiet(limit: 1000) != nil)
    // Ten, as a socket keeps no more.
    messages.send("HTTP/1.1 403 Forbidden\r\n")
    for _ in 0..<8 { messages.send("X: y\r\n") }
    messages.send("Content-Length: 0\r\n\r\n")
    #expect(Glibc.shutdown(messages.far, Int32(SHUT_WR)) == 0)
    var turns = 0
    while recorder.outcome.ends == 0, turns < 100 {
      _ = engine.context.turn()
      turns += 1
    }
    #expect(turns > 1)
    if case .proxy(.tunnel(.refused))? = recorder.outcome.failure?.error {} else { Issue.record("\(recorder.outcome)") }
    engine.forget(pool)
    #expect(engine.runUntilQuiet(limit: 1000) != nil)
    engine.shutdown()
  }
}
