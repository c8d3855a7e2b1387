import FoundationEssentials
import LupineSession
import LupineTestSupport
import Testing

@testable import LupineTesting

@Suite(.timeLimit(.minutes(5))) struct ArchiveRecorderTests {
  /// Who asks for an archive while files are read takes nothing from those who ask later.
  @Test func everyFileIsWaitedFor() async throws {
    let folder = FileManager.default.temporaryDirectory.path
    let (large, small) = (folder + "/lupine-large-\(UUID().uuidString)", folder + "/lupine-small-\(UUID().uuidString)")
    try Data(count: 16 << 20).write(to: URL(filePath: large))
    try Data(count: 1 << 20).write(to: URL(filePath: small))
    defer { for path in [large, small] { try? FileManager.default.removeItem(atPath: path) } }
    let recorder = ArchiveRecorder()
    func record(_ path: String) throws {
      let request = HTTPArchive.Request(method: "PUT", url: "http://a.example/")
      let entry = HTTPArchive.Entry(startedAt: Date(), request: request, response: nil)
      recorder.record(entry, at: try #require(recorder.reserve()), body: .file(path: path))
    }
    try record(large)
    let begun = Total()
    let early = Task {
      begun.set(1)
      return await recorder.archive()
    }
    #expect(await eventually { begun.value == 1 })
    for _ in 0..<50 { try record(small) }
    _ = await early.value
    let archive = await recorder.archive()
    #expect(archive.entries.map { $0.request.body?.count } == [16 << 20] + Array(repeating: 1 << 20, count: 50))
  }

  /// Whoever finds an entry waits for its file, at whatever moment.
  @Test func anEntryComesWithItsFile() async throws {
    let path = FileManager.default.temporaryDirectory.path + "/lupine-moment-\(UUID().uuidString)"
    try Data([1]).write(to: URL(filePath: path))
    defer { try? FileManager.default.removeItem(atPath: path) }
    for _ in 0..<2000 {
      let recorder = ArchiveRecorder()
      let index = try #require(recorder.reserve())
      async let archive = {
        while recorder.unfinishedCount > 0 { await Task.yield() }
        return await recorder.archive()
      }()
      let request = HTTPArchive.Request(method: "PUT", url: "http://a.example/")
      let entry = HTTPArchive.Entry(startedAt: Date(), request: request, response: nil)
      recorder.record(entry, at: index, body: .file(path: path))
      let bodies = await archive.entries.map(\.request.body)
      #expect(bodies == [[1]])
    }
  }

  /// Records requests with these bodies over a transport that answers nothing to speak of, and plays them again, to the last byte the same.
  private func replay(_ bodies: [Request.Body], _ change: (inout ArchiveRecorder.Limits) -> Void) async throws
    -> [HTTPArchive.Entry]
  {
    var limits = ArchiveRecorder.Limits()
    change(&limits)
    let transport = RecordingTransport(
      CannedTransport([.init(nil, "*", CannedReply(status: 204))]), recorder: ArchiveRecorder(limits: limits))
    let requests = try bodies.map { try Request("http://a.example/", method: .post, body: $0) }
    for request in requests { _ = try await Session(over: transport).data(for: request) }
    let archive = await transport.archive()
    let replayed = ReplayTransport(try HTTPArchive(json: archive.json()), matching: .strict, order: .recorded)
    for request in requests {
      #expect(try await Session(over: replayed).data(for: request).1.statusCode == 204)
    }
    return archive.entries
  }

  private static func stream(_ counts: Int...) -> Request.Body {
    .stream(length: nil, isReplayable: true) { BodyStream(counts.map { PatternBody.bytes($0) }) }
  }

  /// A body that is too long is left out, whatever it is made of: no part of it can be taken for the whole.
  @Test func requestBodiesPastTheLimitAreLeftOut() async throws {
    let entries = try await replay([
      .bytes(PatternBody.bytes(101)), .bytes(PatternBody.bytes(100)), Self.stream(90, 20, 5), Self.stream(90, 10),
    ]) { $0.bodyBytes = 100 }
    #expect(entries.map { $0.request.body?.count } == [nil, 100, nil, 100])
    #expect(entries.map { $0.request.bodyBytes } == [101, 100, 115, 100])
    #expect(entries.map { $0.comment == HTTPArchive.Entry.cutBodyComment } == [true, false, true, false])
  }

  /// A file that is too long, or finds no room, is said to be left out; one that is gone is only not there.
  @Test func filesPastTheLimitsAreSaidToBeLeftOut() async throws {
    let folder = FileManager.default.temporaryDirectory.path + "/lupine-files-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    var limits = ArchiveRecorder.Limits()
    (limits.bodyBytes, limits.totalBodyBytes) = (100, 150)
    let recorder = ArchiveRecorder(limits: limits)
    func record(_ count: Int?) async throws {
      let path = "\(folder)/\(count ?? 0)"
      if let count { try Data(count: count).write(to: URL(filePath: path)) }
      let request = HTTPArchive.Request(method: "PUT", url: "http://a.example/")
      let entry = HTTPArchive.Entry(startedAt: Date(), request: request, response: nil)
      recorder.record(entry, at: try #require(recorder.reserve()), body: .file(path: path))
      _ = await recorder.archive()
    }
    for count in [101, 100, 60, nil] { try await record(count) }
    let entries = await recorder.archive().entries
    #expect(entries.map { $0.request.body?.count } == [nil, 100, nil, nil])
    let cut = HTTPArchive.Entry.cutBodyComment
    #expect(entries.map(\.comment) == [cut, nil, cut, nil])
  }

  /// What was left out takes no room from those that come after it.
  @Test func requestBodiesShareTheRoom() async throws {
    let entries = try await replay([
      .bytes(PatternBody.bytes(60)), Self.stream(30, 20), .bytes(PatternBody.bytes(41)), .bytes(PatternBody.bytes(40)),
      Self.stream(1),
    ]) { $0.totalBodyBytes = 100 }
    #expect(entries.map { $0.request.body?.count } == [60, nil, nil, 40, nil])
  }
}
