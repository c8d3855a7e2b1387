import Glibc
import Testing

@testable import LupineTesting

@Suite struct ScriptedServerTests {
  private static let get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
  private static let hi: ScriptBytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"

  private func client(_ server: ScriptedServer) throws -> RawClient {
    try RawClient(server.address, port: server.port)
  }

  @Test func playsTheDeadReuseRace() throws {
    let server = try ScriptedServer([
      [.readHead, .send(Self.hi), .readHead, .close], [.readHead, .send(Self.hi), .waitForClose],
    ])
    defer { server.shutdown() }
    let first = try client(server)
    #expect(try first.get("/1").text == "hi")
    try first.send(Self.get)
    #expect(try first.receive() == nil)
    let second = try client(server)
    #expect(try second.get("/2").text == "hi")
    second.finish()
    #expect(server.waitUntilPlayed(2))
    #expect(server.recordedRequests.map { $0.target } == ["/1", "/", "/2"])
    #expect(server.problems == [])
  }

  @Test func resets() throws {
    let server = try ScriptedServer([[.readHead, .send("HTTP/1.1 2"), .reset]])
    defer { server.shutdown() }
    let client = try client(server)
    try client.send(Self.get)
    #expect(throws: LoopbackError.peerReset) { try client.receiveAll() }
  }

  @Test func acceptsThenCloses() throws {
    let server = try ScriptedServer([[], [.close]])
    defer { server.shutdown() }
    for _ in 1...2 { #expect(try client(server).receive() == nil) }
    #expect(server.problems == [])
  }

  @Test func sendsDataAndEndInOneSegment() throws {
    let server = try ScriptedServer([[.readHead, .sendAndFinish(Self.hi), .waitForClose]], surplus: .repeatLast)
    defer { server.shutdown() }
    var (together, single) = (0, 0)
    for _ in 1...50 {
      let client = try client(server)
      try client.send(Self.get)
      if client.dataAndEndArriveTogether() { together += 1 }
      #expect(try client.response().text == "hi")
      #expect(try client.receive() == nil)
      if client.segmentsReceived() == 1 { single += 1 }
    }
    // The kernel holds data back for 200 ms, in which the server's thread may not get to its end.
    #expect(together >= 45 && single >= 45)
    #expect(server.problems == [])
  }

  @Test func dripsByteByByte() throws {
    let server = try ScriptedServer([[.readHead, .drip("0123456789"), .waitForClose]], surplus: .repeatLast)
    defer { server.shutdown() }
    var counts: [Int] = []
    // A busy kernel may put what waits to be sent into one segment, or send one again.
    while counts.count < 5, counts.last != 10 {
      let client = try client(server)
      try client.send(Self.get)
      #expect(try client.receive(count: 10) == Array("0123456789".utf8))
      counts.append(client.segmentsReceived())
    }
    #expect(counts.last == 10, "\(counts)")
  }

  @Test func stallsUntilReleased() throws {
    let latch = try Latch()
    let server = try ScriptedServer([[.readHead, .stall(latch), .send(Self.hi), .waitForClose]])
    defer { server.shutdown() }
    let client = try client(server)
    try client.send(Self.get)
    _ = try server.waitForRequests(1)
    #expect(!SystemCalls.readable([client.descriptor], milliseconds: 0)[0])
    latch.release()
    #expect(try client.response().text == "hi")
  }

  @Test func reportsWhatItDidNotExpect() throws {
    let server = try ScriptedServer([[.readHead], [.expectNothing], [.read(5)]])
    defer { server.shutdown() }
    for bytes in ["nonsense\r\n\r\n", "x", "1234"] {
      let client = try client(server)
      try client.send(bytes)
      client.halfClose()
      _ = try? client.receiveAll()
    }
    _ = try client(server).receive()
    #expect(server.waitUntilPlayed(4))
    #expect(server.problems.count == 4)
    #expect(server.problems[1] == #"connection 2, step 1 (expectNothing): misuse("bytes came: x")"#)
    #expect(server.problems[3] == "connection 4: there is no script for it")
    #expect(server.bytesReceived(connection: 3) == Array("1234".utf8))
  }

  /// A connection that was accepted has not been played before its script has begun: here not for as long as the thread of the one before lasts.
  @Test func whatHasNotBegunIsNotPlayed() throws {
    let (lasting, stalled) = (try Latch(), try Latch())
    var made = pthread_key_t()
    let code = unsafe pthread_key_create(&made, waitAtTheEnd)
    try #require(code == 0)
    let key = made
    defer { pthread_key_delete(key) }
    let server = try ScriptedServer([
      [.perform { _ = unsafe pthread_setspecific(key, Unmanaged.passRetained(lasting).toOpaque()) }], [.stall(stalled)],
    ])
    defer {
      lasting.release()
      stalled.release()
      server.shutdown()
    }
    #expect(try client(server).receive() == nil)
    #expect(server.waitUntilPlayed(1))
    let second = try client(server)
    #expect(!server.waitUntilPlayed(2, seconds: 0.1))
    lasting.release()
    stalled.release()
    #expect(server.waitUntilPlayed(2))
    second.finish()
    #expect(server.connectionCount == 2)
    #expect(server.problems == [])
  }

  @Test func answersBeforeTheRequestAndAfterIt() throws {
    let server = try ScriptedServer(
      [[.send(Self.hi), .readHead, .send(Self.hi + "garbage"), .expectNothing]], surplus: .repeatLast)
    defer { server.shutdown() }
    for _ in 1...2 {
      let client = try client(server)
      #expect(try client.response().text == "hi")
      try client.send(Self.get)
      #expect(try client.response().text == "hi")
      #expect(try client.receive(count: 7) == Array("garbage".utf8))
    }
    #expect(server.waitUntilPlayed(2))
    #expect(server.problems == [])
  }

  @Test func readsAChunkedBody() throws {
    let server = try ScriptedServer([[.readHead, .readBody, .send(Self.hi), .waitForClose]])
    defer { server.shutdown() }
    let client = try client(server)
    try client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    #expect(try client.response().text == "hi")
    #expect(server.recordedRequests[0].text == "hello")
  }

  @Test func startsTLSWhenTheScriptSaysSo() throws {
    let authority = try CertificateAuthority()
    let server = try ScriptedServer([
      [
        .readHead, .send("HTTP/1.1 200 Established\r\n\r\n"), .startTLS(try .minted(by: authority)), .readHead,
        .sendAndFinish(Self.hi),
      ]
    ])
    defer { server.shutdown() }
    let raw = try client(server)
    try raw.send("CONNECT localhost:443 HTTP/1.1\r\n\r\n")
    #expect(try raw.head().status == 200)
    let client = try RawTLSClient(raw, trusting: authority)
    try client.send(Self.get)
    #expect(try client.receiveAll().text.hasSuffix("hi"))
    #expect(server.recordedRequests.map { $0.method } == ["CONNECT", "GET"])
    #expect(server.problems == [])
  }
}

/// What a thread does when its work is done and it is still to be joined: waits for the latch that it was left with.
private func waitAtTheEnd(_ context: UnsafeMutableRawPointer?) {
  guard let context = unsafe context else { return }
  _ = unsafe Unmanaged<Latch>.fromOpaque(context).takeRetainedValue().wait(seconds: 60)
}
