import FoundationEssentials
import Glibc
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Many interruptions of one download, and what is whole in the end.
@Suite(.timeLimit(.minutes(30))) struct InterruptionTests {
  private static func number(_ name: String) -> Int? {
    unsafe getenv(name).flatMap { unsafe Int(String(cString: $0)) }
  }

  /// A file of `LUPINE_LARGE_BODY_BYTES` (default 16 MiB), interrupted 20 times at random: the server resets the connection, the client gives up
  /// while the server stalls, or in full flow. Each time it goes on exactly where the leftover ends. `LUPINE_SEED` repeats a run.
  @Test func twentyInterruptions() async throws {
    let size = Self.number("LUPINE_LARGE_BODY_BYTES") ?? 16 << 20
    let seed = Self.number("LUPINE_SEED") ?? Int.random(in: 0..<1_000_000)
    print("twentyInterruptions: \(size) bytes, LUPINE_SEED=\(seed)")
    var random = SeededGenerator(seed: UInt64(seed))
    let points = (0..<20).map { _ in Int.random(in: 1..<(size / 20 * 19), using: &random) }.sorted()
    // A reset may take away what is under way, and make no progress. The client sees bytes before it gives up: so often the offset grows for certain.
    let kinds = [1] + (0..<19).map { $0 % 3 }.shuffled(using: &random)
    let file = FileServer(.init(size: size))
    try await withFileServer(file) { session, server, folder in
      var data: ResumeData?
      var offsets: [Int64] = []
      for (index, point) in points.enumerated() {
        let there = Int(data?.receivedBytes ?? 0)
        let next = try await interrupt(kinds[index], at: point, there, size, file, session, server, data)
        let least = kinds[index] == 0 ? there : there + 1
        #expect(next.receivedBytes >= least && next.receivedBytes < size, "LUPINE_SEED=\(seed)")
        offsets.append(next.receivedBytes)
        #expect(folder.partials.count == 1)
        data = try ResumeData(next.bytes)
      }
      let last = try #require(data)
      let (path, response) = try await session.download(
        resumeFrom: last, to: DownloadDestination(path: folder.target))
      #expect(response.statusCode == 206)
      #expect(Pattern.matches(path, size), "LUPINE_SEED=\(seed)")
      #expect(server.requestCount == 21)
      #expect(Set(offsets).count >= 10, "LUPINE_SEED=\(seed)")
      let requests = server.recordedRequests
      var ranges: [String?] = [nil]
      for offset in offsets { ranges.append("bytes=\(offset)-") }
      #expect(requests.map { $0.fields.first("Range") } == ranges, "LUPINE_SEED=\(seed)")
      #expect(requests.first?.fields.first("If-Range") == nil)
      #expect(requests.dropFirst().allSatisfy { $0.fields.first("If-Range") == "\"v1\"" })
    }
  }

  private func interrupt(
    _ kind: Int, at point: Int, _ there: Int, _ size: Int, _ file: FileServer, _ session: Session,
    _ server: LoopbackServer, _ data: ResumeData?
  ) async throws -> ResumeData {
    let count = max(1, point - there)
    let goal = Int64(there + count)
    switch kind {
    case 0: file.next(.init(cut: count, resets: true))
    case 1: file.next(.init(stallsAfter: count))
    default: file.next(.init(stallsAfter: count + (size - there - count) / 2))
    }
    let latch = try Latch()
    let request = try Request(server.url("/file"))
    let task = Task {
      let progress: @Sendable (Int64, Int64?) -> Void = { received, _ in if received >= goal { latch.release() } }
      return if let data {
        try await session.download(resumeFrom: data, progress: progress)
      } else {
        try await session.download(for: request, progress: progress)
      }
    }
    if kind > 0 {
      #expect(await eventually(seconds: 120) { latch.isReleased })
      task.cancel()
    }
    return try await leftover { try await task.value }
  }

  /// Interruptions of small downloads, by a real server with its own tags.
  @Test func nginx() async throws {
    let size = 4_000_000
    try await withTool {
      // What a second may take goes out at once: a tenth of the file, which takes seconds in which it can be cancelled. What goes on need not wait.
      let server = try NginxServer(
        files: ["data.bin": PatternBody.bytes(size)],
        directives: #"if ($http_range = "") { set $limit_rate 400k; }"#)
      defer { server.stop() }
      try await download(size, from: server)
    }
  }

  private func download(_ size: Int, from server: NginxServer) async throws {
    let folder = try DownloadFolder()
    let url = "http://127.0.0.1:\(server.port)/data.bin"
    try await withSession(ports: [server.port], configure: { $0.temporaryDirectory = folder.parentPath }) { session in
      var data = try await cancelled(url, session, at: 300_000)
      #expect(data.expectedBytes == Int64(size) && data.receivedBytes < size)
      let (path, response) = try await session.download(
        resumeFrom: data, to: DownloadDestination(path: folder.target))
      #expect(response.statusCode == 206 && Pattern.matches(path, size))

      // Everything is there: 416 with the length.
      data = try await cancelled(url, session, at: 100_000)
      let whole = try completed(data, size, folder)
      let (other, answer) = try await session.download(resumeFrom: whole)
      #expect(answer.statusCode == 416 && Pattern.matches(other, size))
      unsafe unlink(other)

      // nginx makes its tags weak when it compresses.
      var request = try Request("http://127.0.0.1:\(server.port)/gzip/data.bin")
      request.acceptsCompressedContent = true
      let latch = try Latch()
      let task = Task { [request] in try await session.download(for: request) { _, _ in latch.release() } }
      #expect(await eventually { latch.isReleased })
      task.cancel()
      let uncoded = try await failure { try await task.value }
      #expect(uncoded.resumeData == nil)
      #expect(folder.partials == [])
    }
  }

  /// All is there, as a 416 says: so does the progress, whatever the length of the error page.
  @Test func progressOfWhatIsThereAlready() async throws {
    let folder = try DownloadFolder()
    let route = ServerRoute("GET", "/file") { request, connection in
      guard request.fields.first("Range") == nil else {
        return try connection.respond(416, fields: ["Content-Range": "bytes */1000"], text: "no such range")
      }
      try connection.begin(fields: ["ETag": "\"v1\""], framing: .chunked)
      try connection.write(PatternBody.bytes(1000))
      try connection.flush()
      connection.abort()
    }
    try await withServer([route], configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let request = try Request(server.url("/file"))
      var data = try await leftover { try await session.download(for: request) }
      #expect(data.receivedBytes == 1000)
      let delegate = RecordingDelegate([.resumedAtOffset, .wroteData, .finishedDownload, .completed])
      let task = session.downloadTask(withResumeData: data)
      task.delegate = delegate
      let updates = task.progressUpdates
      task.resume()
      var last: TaskProgress?
      for await progress in updates { last = progress }
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["resumed 1000", "finished", "completed well completed"])
      #expect(last?.fractionReceived == 1 && task.progress.fractionReceived == 1)
      #expect(task.countOfBytesExpectedToReceive == 13)

      data = try await leftover { try await session.download(for: request) }
      let told = Locked<[[Int64?]]>([])
      let (path, response) = try await session.download(resumeFrom: data) { received, expected in
        told.withLock { $0.append([received, expected]) }
      }
      #expect(response.statusCode == 416 && Pattern.matches(path, 1000))
      #expect(told.withLock { $0 } == [[1000, 1000]])
      unsafe unlink(path)
    }
    #expect(folder.partials == [])
  }

  private func cancelled(_ url: String, _ session: Session, at point: Int64) async throws -> ResumeData {
    let latch = try Latch()
    let task = Task {
      try await session.download(for: Request(url)) { received, _ in if received >= point { latch.release() } }
    }
    #expect(await eventually { latch.isReleased })
    task.cancel()
    return try await leftover { try await task.value }
  }

  /// The same data once somebody has put everything into the file.
  private func completed(_ data: ResumeData, _ size: Int, _ folder: DownloadFolder) throws -> ResumeData {
    let record = try ResumeRecord(decoding: data.bytes)
    let bytes = PatternBody.bytes(size)
    let descriptor = unsafe open(folder.partial(record.partialName), O_WRONLY | O_CLOEXEC)
    defer { close(descriptor) }
    #expect(unsafe bytes.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) } == size)
    let (head, tail) = (Array(bytes.prefix(65_536)), Array(bytes.suffix(Int(ResumeRecord.tailSpan))))
    return try ResumeData(
      ResumeRecord(
        url: record.url, source: record.source, validator: record.validator, offset: Int64(size),
        total: Int64(size), headHash: ResumeHash.digest(head.span),
        tailHash: ResumeHash.digest(tail.span), partialName: record.partialName, createdAt: record.createdAt
      ).encoded())
  }
}
