import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// Bodies whose producers take their time.
@Suite(.timeLimit(.minutes(5))) struct SlowProducerTests {
  /// A stream that has given all that was announced, and has not ended.
  private func unfinished(_ bytes: [UInt8]) -> (stream: AsyncStream<[UInt8]>, end: AsyncStream<[UInt8]>.Continuation) {
    let (stream, continuation) = AsyncStream<[UInt8]>.makeStream()
    continuation.yield(bytes)
    return (stream, continuation)
  }

  /// The last byte of an announced length ends the request, though its producer has not: the answer is the answer, and the connection is kept.
  @Test(arguments: [5, 0], [false, true]) func theLengthEndsTheBody(_ count: Int, isSecure: Bool) async throws {
    try await withServer(isSecure: isSecure) { session, server in
      let bytes = PatternBody.bytes(count)
      let (stream, end) = unfinished(bytes)
      let request = try Request(server.url("/echo"), method: .post)
      let (body, _) = try await session.upload(for: request, from: stream, length: Int64(count))
      #expect(Array(body) == bytes)
      try await session.expect("Hello, world!", from: server.url("/hello"))
      #expect(server.connectionCount == 1)
      end.finish()
    }
  }

  /// The time for the first byte counts from there, and the time for sending ends.
  @Test func theLengthEndsTheTimeForSending() async throws {
    try await withScript(
      [[.readHead, .waitForClose]],
      configure: {
        $0.sendTimeout = .seconds(3600)
        $0.firstByteTimeout = .milliseconds(50)
      }
    ) { session, server in
      let (stream, end) = unfinished([1, 2, 3])
      let error = try await failure {
        try await session.upload(for: Request(server.url(), method: .post), from: stream, length: 3)
      }
      #expect(error.code == .timedOut && error.phase == .firstByte, "\(error)")
      end.finish()
    }
  }

  /// A refusal is the answer, whatever the producer of a body that has been sent says behind it.
  @Test func aLateFailureReplacesNoRefusal() async throws {
    let latch = try Latch()
    let refusal = ServerRoute("POST", "/refused") { _, connection in
      _ = try connection.readBody()
      try connection.begin(500, framing: .length(4))
      try connection.write(Array("so".utf8))
      _ = try connection.stall(until: latch)
      try connection.write(Array("ry".utf8))
      try connection.finish()
    }
    try await withServer([refusal]) { session, server in
      let (stream, continuation) = AsyncThrowingStream<[UInt8], any Error>.makeStream()
      continuation.yield([1, 2, 3])
      var request = try Request(server.url("/refused"), method: .post)
      request.body = .stream(length: 3, isReplayable: false) { BodyStream(stream) }
      let (bytes, response) = try await session.bytes(for: request)
      continuation.finish(throwing: UploadTests.ProducerFailure())
      latch.release()
      #expect(try await bytes.collect(upTo: 4) == Array("sory".utf8))
      #expect(response.statusCode == 500)
    }
  }

  /// What makes a stream may wait, for another request of the same session as well: nothing else waits with it.
  @Test func makingAStreamHoldsNobodyUp() async throws {
    try await withServer { session, server in
      let (made, answered) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
      let isInTime = Locked<Bool?>(nil)
      let body = Request.Body.stream(length: nil, isReplayable: false) {
        made.signal()
        isInTime.withLock { $0 = answered.wait(timeout: .now() + 20) == .success }
        return BodyStream([[1, 2, 3]])
      }
      let request = try Request(server.url("/echo"), method: .post, body: body)
      async let upload = session.data(for: request)
      await withCheckedContinuation { continuation in
        DispatchQueue.global().async {
          made.wait()
          continuation.resume()
        }
      }
      try await session.expect("Hello, world!", from: server.url("/hello"))
      answered.signal()
      #expect(try await upload.1.statusCode == 200)
      #expect(isInTime.withLock { $0 } == true)
    }
  }
}
