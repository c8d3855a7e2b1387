import FoundationEssentials
import HTTPTypes
import LupineEngine
import LupineSession
import LupineTestSupport
import LupineTesting
import LupineWire
import Testing

/// Servers that drip, split, cut and reset.
@Suite(.timeLimit(.minutes(5))) struct FaultTests {
  /// A body of every kind: name, head fields, body on the wire, body as the caller gets it, whether its end is the end of the connection.
  struct Kind: Sendable, CustomTestStringConvertible {
    let name: String
    let response: ScriptBytes
    var body = "hello"
    var endsWithConnection = false
    var testDescription: String { name }

    static func all() throws -> [Kind] {
      let packed = try Compression.gzip.encode(Array("hello".utf8))
      return [
        Kind(name: "length", response: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        Kind(
          name: "chunked",
          response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"),
        Kind(
          name: "trailers",
          response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\nC: d\r\n\r\n"),
        Kind(name: "until close", response: "HTTP/1.1 200 OK\r\n\r\nhello", endsWithConnection: true),
        Kind(
          name: "gzip",
          response: ScriptBytes("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(packed.count)\r\n\r\n")
            + ScriptBytes(packed)),
        Kind(
          name: "gzip until close",
          response: ScriptBytes("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n") + ScriptBytes(packed),
          endsWithConnection: true),
        Kind(name: "none", response: "HTTP/1.1 204 No Content\r\n\r\n", body: ""),
        Kind(
          name: "informational before",
          response: "HTTP/1.1 103 E\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
      ]
    }
  }

  /// The peer takes no more of the upload and stays connected: its answer counts if one comes, else the error of the write, and soon.
  @Test(arguments: [true, false]) func writeFailsAndTheReadSideStays(_ answers: Bool) async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    let answer: ScriptBytes = "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n"
    let isOver = try Latch()
    try await withScript(
      // Not `stall`, which would take our own end of reading for the peer's.
      [
        [.readHead, .finishReading, .send("HTTP/1.1 100 Continue\r\n\r\n")] + (answers ? [.send(answer)] : [])
          + [.perform { _ = isOver.wait(seconds: 100) }]
      ],
      address: .unix(path),
      configure: {
        $0.unixSocketPath = path
        $0.timeoutIntervalForRequest = .seconds(100)
      }
    ) { session, _ in
      let body = [UInt8](repeating: 1, count: 8 << 20)
      var request = try Request("http://any.example/", method: .put, body: .bytes(body))
      request.expectsContinue = true
      let start = ContinuousClock.now
      defer { isOver.release() }
      if answers {
        let response = try await session.expect("no\n", from: request)
        #expect(response.statusCode == 413)
      } else {
        let error = try await failure { [request] in try await session.data(for: request) }
        #expect(error.code == .connectionLost, "\(error)")
        #expect(error.message.contains("Broken pipe"), "\(error.message)")
      }
      #expect(ContinuousClock.now - start < .seconds(60))
    }
  }

  /// A connection that was kept refuses the whole of a request: of that attempt nothing has been sent, and there is another one.
  @Test func refusedHeadIsNotSent() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/socket"
    let isOver = try Latch()
    try await withScript(
      [
        [.readHead, .finishReading, .send(reply("a")), .perform { _ = isOver.wait(seconds: 100) }],
        [.readHead, .send(reply("b")), .waitForClose],
      ],
      address: .unix(path),
      configure: {
        $0.unixSocketPath = path
        $0.timeoutIntervalForRequest = .seconds(100)
      }
    ) { session, _ in
      defer { isOver.release() }
      try await session.expect("a", from: "http://any.example/")
      let response = try await session.expect("b", from: "http://any.example/")
      let transactions = response.metrics.transactions
      try #require(transactions.count == 2)
      #expect(transactions[0].isReusedConnection && transactions[0].requestStart != nil)
      #expect(transactions[0].requestEnd == nil && transactions[1].requestEnd != nil)
    }
  }

  @Test(arguments: try Kind.all(), [false, true]) func dataAndEndInOneSegment(_ kind: Kind, _ isSecure: Bool)
    async throws
  {
    try await withScript([[.readHead, .sendAndFinish(kind.response), .waitForClose]], isSecure: isSecure) {
      session, server in
      try await session.expect(kind.body, from: server.url())
    }
  }

  /// Byte by byte: over TLS each byte is a record of its own, which splits every token of the response.
  @Test(arguments: try Kind.all(), [false, true]) func oneByteDrip(_ kind: Kind, _ isSecure: Bool) async throws {
    try await withScript([[.readHead, .drip(kind.response), .finishSending, .waitForClose]], isSecure: isSecure) {
      session, server in
      try await session.expect(kind.body, from: server.url())
    }
  }

  /// Cut at every byte: an end in order and a reset are both errors, and never a shorter body.
  @Test(arguments: try Kind.all()) func cutAtEveryByte(_ kind: Kind) async throws {
    let bytes = kind.response.bytes
    let scripts: [[ScriptStep]] = (0..<bytes.count).map { count in
      count % 2 == 0
        ? [.readHead, .sendAndFinish(ScriptBytes(Array(bytes[..<count]))), .waitForClose]
        : [.readHead, .send(ScriptBytes(Array(bytes[..<count]))), .reset]
    }
    try await withScript(scripts, expectsProblems: true) { session, server in
      for count in 0..<bytes.count {
        do {
          let (body, _) = try await session.text(server.url())
          #expect(kind.endsWithConnection, "cut at \(count): \(body)")
          // A body without a length that ends in order is complete, as far as anybody can tell.
          #expect(count % 2 == 0, "a reset at \(count) passed for an end")
        } catch let error as SessionError {
          #expect(
            [.connectionLost, .truncatedResponse, .cannotDecodeContent].contains(error.code),
            "cut at \(count): \(error)")
        }
      }
      #expect(server.connectionCount == bytes.count)
    }
  }

  @Test(arguments: [
    ("HTTP/1.1 200 OK\r\nContent-", WireError.Reason.truncatedHead, ""),
    ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello", .truncatedBody(missing: 5), "hello"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhello", .truncatedChunkedBody, "hello"),
    ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: ", .truncatedChunkedBody, "hello"),
  ]) func truncationIsTypedAndKeepsWhatCame(_ row: (String, WireError.Reason, String)) async throws {
    try await withScript([[.readHead, .send(ScriptBytes(row.0)), .close]]) { session, server in
      let error = try await failure { try await session.data(from: server.url()) }
      #expect(error.code == .truncatedResponse)
      #expect(error.phase == .receive)
      #expect(error.wireError?.reason == row.1)
      #expect(error.wireError?.offset == row.0.utf8.count)
      #expect(error.partialBody == Array(row.2.utf8))
      #expect((error.response != nil) == !row.2.isEmpty)
    }
  }

  /// Over TLS only close_notify ends a body without a length: a bare FIN can come from anybody on the path.
  @Test func untilCloseBodyNeedsCloseNotify() async throws {
    let body: ScriptBytes = "HTTP/1.1 200 OK\r\n\r\nhello"
    for allowsTruncation in [false, true] {
      try await withScript(
        [[.readHead, .sendAndFinishWithoutNotify(body), .waitForClose]], isSecure: true,
        configure: { $0.tls.allowsTruncation = allowsTruncation }
      ) { session, server in
        if allowsTruncation {
          try await session.expect("hello", from: server.url())
        } else {
          let error = try await failure { try await session.data(from: server.url()) }
          #expect(error.code == .truncatedResponse)
          #expect(error.partialBody == Array("hello".utf8))
        }
      }
    }
  }

  /// Of what a proxy forwards, the proxy's TLS says where it ends: that it need not is for the proxy's own setting to say, and no origin's.
  @Test(arguments: [(false, true), (true, true), (false, false)])
  func forwardedBodiesNeedTheProxysCloseNotify(_ allowsTruncation: Bool, _ hasOwn: Bool) async throws {
    let body: ScriptBytes = "HTTP/1.1 200 OK\r\n\r\nhello"
    let server = try ScriptedServer(
      [[.readHead, .sendAndFinishWithoutNotify(body), .waitForClose]], tls: try TestIdentity.server())
    defer { server.shutdown() }
    var proxy = try TestIdentity.proxy(server.port)
    proxy.tls?.allowsTruncation = allowsTruncation
    if !hasOwn { proxy.tls = nil }
    let chosen = proxy
    try await withSession(ports: [server.port]) {
      $0.proxy = .proxy(chosen)
      $0.tls.allowsTruncation = !allowsTruncation
    } _: { session in
      if allowsTruncation {
        try await session.expect("hello", from: "http://a.example/")
      } else {
        try await expectFailure(.truncatedResponse) { try await session.text("http://a.example/") }
      }
    }
  }

  /// A body with a length is complete when its bytes are there, however the connection ends after it.
  @Test func completeBodyNeedsNoCloseNotify() async throws {
    try await withScript([[.readHead, .sendAndFinishWithoutNotify(reply("hello")), .waitForClose]], isSecure: true) {
      session, server in
      try await session.expect("hello", from: server.url())
    }
  }

  @Test(arguments: [false, true]) func largeBodiesArriveWhole(_ isSecure: Bool) async throws {
    try await withServer(isSecure: isSecure) { session, server in
      for path in ["/bytes?n=3000001", "/chunked?n=3000001&size=777", "/bytes?n=3000001&close=1"] {
        let (body, _) = try await session.data(from: server.url(path))
        #expect(body.count == 3_000_001)
        #expect(PatternBody.matches(body, from: 0))
      }
    }
  }

  /// A reader that has fallen behind exactly when the response and the connection end still gets the end.
  @Test(arguments: [false, true]) func endArrivesWhileTheReaderIsPaused(_ isSecure: Bool) async throws {
    let size = 256 * 1024
    for round in 0..<10 {
      let sent = try Latch()
      try await withScript(
        [
          [
            .readHead,
            .sendAndFinish(
              ScriptBytes("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: \(size)\r\n\r\n")
                + ScriptBytes(PatternBody.bytes(size))), .release(sent), .waitForClose,
          ]
        ], isSecure: isSecure
      ) { session, server in
        let (bytes, _) = try await session.bytes(for: Request(server.url()))
        if round % 2 == 0 { #expect(await eventually { sent.isReleased }) }
        #expect(try await bytes.collect(upTo: size).count == size)
      }
    }
  }
}
