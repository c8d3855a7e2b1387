import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Downloads that are cancelled so that they can go on, however early, and by whatever handle.
@Suite(.timeLimit(.minutes(5))) struct CancelledResumptionTests {
  private static let size = 300_000
  private static let cut = 100_000

  /// Breaks off what begins at the first byte; of what goes on it gives the head, and the body once the latch is open.
  private func file(until go: Latch) -> ServerRoute {
    ServerRoute("GET", "/file") { request, connection in
      let range = request.fields.first("Range")
      guard let start = range.flatMap({ Int($0.dropFirst("bytes=".count).dropLast()) }) else {
        try connection.begin(fields: ["ETag": "\"v1\""], framing: .length(Self.size))
        try connection.write(PatternBody.bytes(Self.cut))
        try connection.flush()
        connection.abort()
        return
      }
      try connection.begin(
        206, fields: ["ETag": "\"v1\"", "Content-Range": "bytes \(start)-\(Self.size - 1)/\(Self.size)"],
        framing: .length(Self.size - start))
      guard try connection.stall(until: go) == .released else { return }
      try connection.write(PatternBody.bytes(Self.size - start, from: start))
      try connection.finish()
    }
  }

  /// Whoever has the data may go on at once: the file is free by then, however far the attempt before had come.
  @Test func cancelledEarlyAndResumedManyTimes() async throws {
    let go = try Latch()
    let folder = try DownloadFolder()
    try await withServer([file(until: go)], configure: { $0.temporaryDirectory = folder.parentPath }) {
      session, server in
      let first = try await leftover { try await session.download(for: Request(server.url("/file"))) }
      #expect(first.receivedBytes == Int64(Self.cut))
      var data = first
      for round in 0..<51 {
        let requests = server.requestCount
        let task = session.downloadTask(withResumeData: data)
        task.resume()
        // While the file is looked at, soon after, and when the server has been asked.
        if round % 3 == 1 { await Task.yield() }
        if round % 3 == 2 { #expect(await eventually { server.requestCount > requests }) }
        data = try #require(await task.cancelByProducingResumeData())
      }
      #expect(data == first)
      #expect(folder.partials.count == 1 && folder.partials.allSatisfy { $0.hasSuffix(".part") })
      go.release()
      let (path, response) = try await session.download(
        resumeFrom: data, to: DownloadDestination(path: folder.target))
      #expect(response.statusCode == 206 && Pattern.matches(path, Self.size))
      // Nobody began anew meanwhile because the file was in use.
      let ranges = server.recordedRequests.dropFirst().map { $0.fields.first("Range") }
      #expect(!ranges.isEmpty && ranges.allSatisfy { $0 == "bytes=\(Self.cut)-" })
    }
    #expect(folder.partials == [])
  }

  /// The handle on an `async` download gives what the error of the call has.
  @Test func anAsyncDownloadIsCancelledByItsHandle() async throws {
    let file = FileServer(.init(size: Self.size), [.init(stallsAfter: 120_000)])
    try await withFileServer(file) { session, server, folder in
      let call = Task { try await session.download(for: Request(server.url("/file"))) }
      #expect(await eventually { server.requestCount == 1 })
      let tasks = await session.tasks
      let task = try #require(tasks.first as? DownloadTask)
      #expect(await eventually { task.countOfBytesReceived == 120_000 })
      let data = try #require(await task.cancelByProducingResumeData())
      #expect(data.receivedBytes == 120_000)
      let error = try await failure { try await call.value }
      #expect(error.code == .cancelled && error.resumeData == data)
      // Asked again when it is over, it says the same.
      #expect(await task.cancelByProducingResumeData() == data)
      let (path, response) = try await session.download(
        resumeFrom: data, to: DownloadDestination(path: folder.target))
      #expect(response.statusCode == 206 && Pattern.matches(path, Self.size))
    }
  }

  /// Nothing is called behind the end of the session, whose last task this was.
  @Test(arguments: [false, true]) func theHandlerIsCalledBeforeTheSessionIsInvalid(_ isAsync: Bool) async throws {
    let file = FileServer(.init(size: Self.size), [.init(stallsAfter: 120_000)])
    let server = try LoopbackServer(routes: [file.route])
    defer { server.shutdown() }
    let folder = try DownloadFolder()
    try await withDelegate([.becameInvalid], configure: { $0.temporaryDirectory = folder.parentPath }) {
      session, delegate in
      let request = try Request(server.url("/file"))
      let call: Task<Void, any Error>? = isAsync ? Task { _ = try await session.download(for: request) } : nil
      if !isAsync { session.downloadTask(with: request).resume() }
      #expect(await eventually { await session.tasks.first?.countOfBytesReceived == 120_000 })
      let tasks = await session.tasks
      let task = try #require(tasks.first as? DownloadTask)
      session.finishTasksAndInvalidate()
      let heard = Locked<(count: Int64, before: [String])?>(nil)
      task.cancelByProducingResumeData { data in
        let entries = delegate.entries
        heard.withLock { $0 = (data?.receivedBytes ?? 0, entries) }
      }
      #expect(await eventually { delegate.entries == ["invalid"] })
      #expect(await eventually { heard.withLock { $0 != nil } })
      let (count, before) = try #require(heard.withLock { $0 })
      #expect(count == 120_000 && before == [])
      _ = await call?.result
    }
  }
}
