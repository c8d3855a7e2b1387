import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// Fields behind the body of a request, as transports and recorders see them.
@Suite(.timeLimit(.minutes(5))) struct RequestTrailerTransportTests {
  private static let sum = HTTPField.Name("X-Sum") ?? .eTag

  private static func request(_ url: String, _ value: String?, length: Int64? = nil) throws -> Request {
    var fields = HTTPFields()
    fields[sum] = value
    let given = fields
    var request = try Request(
      url, method: .post,
      body: .stream(length: length, isReplayable: true) { BodyStream([[1, 2], [3]]).withTrailers { given } })
    request.trailerNames = [sum]
    return request
  }

  @Test(arguments: [nil, 3] as [Int64?]) func cannedTransportsSeeThem(_ length: Int64?) async throws {
    let transport = CannedTransport([
      .init(nil, "*") { seen in .text("\(seen.trailers.first("X-Sum") ?? "none") behind \(seen.body.count)") }
    ])
    let session = try Session(over: transport)
    let (body, response) = try await session.data(for: Self.request("http://a.example/", "6", length: length))
    #expect(String(decoding: body, as: UTF8.self) == "6 behind 3")
    let seen = try #require(transport.requests.first)
    #expect(seen.trailers.map(\.name) == ["X-Sum"] && seen.trailers.first("X-Sum") == "6")
    #expect(seen.bodyIsComplete && seen.fields.first("Trailer") == "X-Sum")
    let head = String(decoding: response.requestHead, as: UTF8.self).lowercased()
    #expect(head.contains("transfer-encoding: chunked\r\n") && !head.contains("content-length"))
  }

  /// As on the network: before anything is sent, and when they are given.
  @Test func refusals() async throws {
    let transport = CannedTransport([.init(nil, "*", .text("x"))])
    let session = try Session(over: transport)
    var request = try Self.request("http://a.example/", "6")
    request.trailerNames = [.authorization]
    let early = try await failure { [request] in try await session.data(for: request) }
    #expect(early.code == .badTrailers && early.phase == .prepare && !early.requestBytesSent)
    #expect(transport.requests.isEmpty)
    request.trailerNames = [.eTag]
    let late = try await failure { [request] in try await session.data(for: request) }
    #expect(late.code == .badTrailers && late.phase == .send && late.requestBytesSent)
    #expect(transport.requests.map(\.bodyIsComplete) == [false])
  }

  @Test func areRecordedAndCompared() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let recording = RecordingTransport(try NetworkTransport())
    let session = try Session(over: recording)
    let url = server.url("/upload")
    for (value, length) in [("6", nil), (nil, nil), ("7", 3)] as [(String?, Int64?)] {
      _ = try await session.data(for: Self.request(url, value, length: length))
    }
    session.invalidateAndCancel()
    #expect(server.recordedRequests.map { $0.trailers.first("X-Sum") } == ["6", nil, "7"])
    let archive = await recording.archive()
    let trailers = archive.entries.map(\.request.trailers)
    let expected: [[HTTPArchive.Field]] = [[.init("X-Sum", "6")], [], [.init("X-Sum", "7")]]
    #expect(trailers == expected)
    #expect(archive.entries.map { $0.request.body?.count } == [3, 3, 3])
    // Through a file and back.
    let read = try HTTPArchive(json: archive.json())
    #expect(read.entries.map(\.request.trailers) == trailers)

    let strict = ReplayTransport(read, matching: .strict)
    let replayed = try Session(over: strict)
    for value in ["7", nil, "6"] as [String?] { _ = try await replayed.data(for: Self.request(url, value)) }
    #expect(strict.remaining == [])
    let other = try Session(over: ReplayTransport(read, matching: .strict))
    let error = try await failure { try await other.data(for: Self.request(url, "8")) }
    guard case .differs(_, _, let difference)? = error.underlying as? NoAnswer else { throw error }
    #expect(difference.hasPrefix("behind its body ") && difference.contains("x-sum"))
    // Loosely any will do.
    let loose = try Session(over: ReplayTransport(read))
    _ = try await loose.data(for: Self.request(url, "8"))
  }

  /// What is refused when it is given was not sent.
  @Test func refusedOnesAreNotRecorded() async throws {
    let recording = RecordingTransport(CannedTransport([.init(nil, "*", .text("x"))]))
    let session = try Session(over: recording)
    for value in ["6", String(repeating: "x", count: 16 << 10)] {
      var request = try Self.request("http://a.example/", value)
      if value == "6" { request.trailerNames = [.eTag] }
      let error = try await failure { [request] in try await session.data(for: request) }
      #expect(error.code == .badTrailers)
    }
    let archive = await recording.archive()
    #expect(archive.entries.map { $0.request.trailers.count } == [0, 0])
  }

  /// Begins to read a body, reads all of another stream of it, and what is left of the first only then.
  private final class LateProducerTransport: Transport {
    private final class Exchange: TransportExchange {
      func cancel() {}
      func setPaused(_ state: PauseState) {}
      func discardBody() {}
    }

    private let release: @Sendable () -> Void

    init(_ release: @escaping @Sendable () -> Void) { self.release = release }

    func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
      let exchange = Exchange()
      let release = release
      Task {
        let (chunks, chunk) = AsyncStream<Void>.makeStream()
        let late = Task {
          _ = try? await request.readBody { _ in
            chunk.yield()
            return true
          }
        }
        for await _ in chunks { break }
        _ = try? await request.readBody { _ in true }
        release()
        await late.value
        receiver.end(
          SessionError(.connectionLost, phase: .receive, message: "gone"), metrics: TransactionMetrics(), of: exchange)
      }
      return exchange
    }
  }

  /// An attempt that was given up may have a producer that goes on for a while: nothing of it is what was sent last.
  @Test func lateProducersAreNotRecorded() async throws {
    let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
    producer.yield([1])
    let recording = RecordingTransport(
      LateProducerTransport {
        producer.yield([9])
        producer.finish()
      })
    let session = try Session(over: recording)
    let made = Total()
    var request = try Request(
      "http://a.example/", method: .post,
      body: .stream(length: nil, isReplayable: true) {
        let isFirst = made.value == 0
        made.add(1)
        let stream: BodyStream = isFirst ? BodyStream(chunks) : BodyStream([[1], [2]])
        return stream.withTrailers { [Self.sum: isFirst ? "late" : "3"] }
      })
    request.trailerNames = [Self.sum]
    _ = try await failure { [request] in try await session.data(for: request) }
    #expect(made.value == 2)
    let entry = try #require(await recording.archive().entries.first)
    #expect(entry.request.body == [1, 2])
    #expect(entry.request.trailers == [.init("X-Sum", "3")])
  }

  /// What a recorder marks as a secret is one here too.
  @Test func secretsAreLeftOutOfTheFile() async throws {
    let canned = CannedTransport([.init(nil, "*", .text("x"))])
    let recording = RecordingTransport(canned, recorder: ArchiveRecorder(sensitiveFields: ["x-sum"]))
    let session = try Session(over: recording)
    _ = try await session.data(for: Self.request("http://a.example/", "s3cret"))
    let archive = await recording.archive()
    #expect(archive.entries.first?.request.trailers.first?.value == "s3cret")
    #expect(!String(decoding: archive.json(), as: UTF8.self).contains("s3cret"))
  }
}
