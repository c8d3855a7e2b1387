import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A slow reader stops the socket, a slow socket stops the producer, and memory stays flat whatever the size of the body.
@Suite(.timeLimit(.minutes(5))) struct BackPressureTests {
  /// What a kernel may still take in when it puts its buffers together.
  private static let slack = 1 << 20

  private static let other = ServerRoute("GET", "/other") { _, connection in try connection.respond(text: "other") }

  /// Nobody reads: what the server can get rid of is bounded by our watermark and the buffers of two sockets.
  @Test(arguments: [false, true]) func slowReaderStopsTheServer(_ isSecure: Bool) async throws {
    let total = 256 << 20
    let sent = Locked(0)
    let slice = [UInt8](repeating: 0x61, count: 64 * 1024)
    try await withServer(
      [
        ServerRoute("GET", "/flood") { _, connection in
          try connection.begin(framing: .length(total))
          for _ in 0..<(total / slice.count) {
            try connection.write(slice)
            sent.withLock { $0 += slice.count }
          }
          try connection.finish()
        }, Self.other,
      ], isSecure: isSecure
    ) { session, server in
      let (bytes, response) = try await session.bytes(for: Request(server.url("/flood")))
      #expect(response.expectedContentLength == Int64(total))
      // It comes to a standstill: no progress over many looks.
      var last = -1
      var calm = ContinuousClock.now
      let stands = await eventually {
        let now = sent.withLock { $0 }
        if now != last {
          last = now
          calm = ContinuousClock.now
        }
        return ContinuousClock.now - calm > .milliseconds(200)
      }
      #expect(stands)
      #expect(sent.withLock { $0 } < 32 << 20)
      // Nor does what the engine does for others let it go on.
      try await session.expect("other", from: server.url("/other"))
      #expect(sent.withLock { $0 } <= last + Self.slack)
      var received = 0
      for try await chunk in bytes.chunks { received += chunk.count }
      #expect(received == total)
    }
  }

  /// Chunks of one byte cost no array each while nobody reads.
  @Test func smallChunksArePutTogether() async throws {
    let total = 20_000
    let route = ServerRoute("GET", "/drip") { _, connection in
      try connection.sendRaw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
      try connection.sendRaw(String(repeating: "1\r\nx\r\n", count: total) + "0\r\n\r\n")
    }
    try await withServer([route]) { session, server in
      let keeper = TaskKeeper()
      let (bytes, _) = try await session.bytes(for: Request(server.url("/drip")), delegate: keeper)
      #expect(await eventually { keeper.task.withLock { $0?.countOfBytesReceived } == Int64(total) })
      var chunks: [Int] = []
      for try await chunk in bytes.chunks { chunks.append(chunk.count) }
      #expect(chunks.reduce(0, +) == total && chunks.count <= 3)
    }
  }

  /// Nobody reads what we send: the producer is asked for no more than the channel and the sockets hold.
  @Test(arguments: [false, true]) func slowSocketStopsTheProducer(_ isSecure: Bool) async throws {
    let go = try Latch()
    let count = 4096
    let produced = Counter()
    try await withServer(
      [
        ServerRoute("POST", "/slow") { _, connection in
          _ = try connection.stall(until: go)
          while try connection.readBodyPart() != nil {}
          try connection.respond(text: "\(connection.bodyLength)")
        }, Self.other,
      ], isSecure: isSecure
    ) { session, server in
      let chunk = [UInt8](repeating: 0x62, count: 64 * 1024)
      let chunks = AsyncStream<[UInt8]> { produced.next() < count ? chunk : nil }
      let task = Task {
        try await session.upload(for: Request(server.url("/slow"), method: .post), from: chunks).0
      }
      var last = -1
      var calm = ContinuousClock.now
      let stands = await eventually {
        if produced.value != last {
          last = produced.value
          calm = ContinuousClock.now
        }
        return last > 0 && ContinuousClock.now - calm > .milliseconds(200)
      }
      #expect(stands)
      #expect(produced.value * chunk.count < 32 << 20)
      try await session.expect("other", from: server.url("/other"))
      #expect((produced.value - last) * chunk.count <= Self.slack)
      go.release()
      let answer = try await task.value
      #expect(String(decoding: answer, as: UTF8.self) == "\(count * chunk.count)")
    }
  }

  /// Down and up, plaintext and TLS: the peak of a large body is within a few megabytes of that of a small one.
  /// `LUPINE_LARGE_BODY_BYTES` sets the size.
  @Test(arguments: [false, true]) func memoryIsFlat(_ isSecure: Bool) async throws {
    let size = unsafe getenv("LUPINE_LARGE_BODY_BYTES").flatMap { unsafe Int(String(cString: $0)) } ?? 16 << 20
    let directory = try ScratchDirectory()
    let path = try directory.write([], to: "body")
    try TextFile.truncate(path, to: size)
    try await withServer(isSecure: isSecure) { session, server in
      let (bytes, _) = try await session.bytes(for: Request(server.url("/bytes?n=\(size)")))
      var received = 0
      for try await chunk in bytes.chunks {
        guard PatternBody.matches(chunk.prefix(64), from: received) else {
          Issue.record("wrong bytes at \(received)")
          break
        }
        // The reader holds one chunk; whatever else is buffered is bounded by the watermark and one read.
        #expect(chunk.count <= 256 * 1024)
        received += chunk.count
      }
      #expect(received == size)
      let (answer, _) = try await session.upload(for: Request(server.url("/upload"), method: .post), fromFile: path)
      #expect(String(decoding: answer, as: UTF8.self).hasPrefix("{\"bytes\":\(size),"))
    }
  }
}
