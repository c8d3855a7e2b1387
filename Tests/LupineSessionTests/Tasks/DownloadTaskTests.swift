import Dispatch
import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Download tasks: delegates, handlers, resume data.
@Suite(.timeLimit(.minutes(5))) struct DownloadTaskTests {
  private static let tag = "\"v1\""

  /// A resource with a strong validator and ranges; the first answer stops after `cut` bytes until the latch is released.
  private func resource(_ body: [UInt8], cut: Int, _ latch: Latch) -> ServerRoute {
    ServerRoute("GET", "/file") { request, connection in
      let start = request.fields.first("Range").flatMap { Int($0.dropFirst("bytes=".count).dropLast()) }
      if let start {
        try connection.respond(
          206,
          fields: ["ETag": Self.tag, "Content-Range": "bytes \(start)-\(body.count - 1)/\(body.count)"],
          body: Array(body[start...]))
        return
      }
      try connection.begin(200, fields: ["ETag": Self.tag], framing: .length(body.count))
      try connection.write(body.prefix(cut))
      try connection.flush()
      guard try connection.stall(until: latch) == .released else { return }
      try connection.write(body.suffix(from: cut))
      try connection.finish()
    }
  }

  private var body: [UInt8] { (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) } }

  /// A delegate that keeps the bytes of the finished file, which is gone afterwards.
  private func keeping(_ content: Locked<[UInt8]>) -> RecordingDelegate.Answers {
    var answers = RecordingDelegate.Answers()
    answers.finished = { path in
      content.withLock { $0 = [UInt8]((try? Data(contentsOf: URL(filePath: path))) ?? Data()) }
    }
    return answers
  }

  @Test func delegateHearsOfBytesAndFile() async throws {
    let body = body
    let latch = try Latch()
    latch.release()
    let server = try LoopbackServer(routes: [resource(body, cut: 1_000, latch)])
    defer { server.shutdown() }
    let content = Locked<[UInt8]>([])
    let answers = keeping(content)
    try await withDelegate(.all, answers) { session, delegate in
      let task = session.downloadTask(with: try Request(server.url("/file")))
      task.resume()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["created", "wrote", "metrics", "finished", "completed well completed"])
      #expect(content.withLock { $0 } == body)
      #expect(delegate.sentBytes == Int64(body.count))
      // What each call has as new adds up to the file, and each knows its length.
      #expect(delegate.writtenBytes == Int64(body.count))
      let length: Set<Int64?> = [Int64(body.count)]
      #expect(delegate.expectedToWrite == length)
      #expect(task.progress.fractionReceived == 1)
    }
  }

  /// A data task that became a download can be cancelled so that it goes on later, as any download.
  @Test func cancelledAfterItBecameADownload() async throws {
    let latch = try Latch()
    let server = try LoopbackServer(routes: [resource(body, cut: 120_000, latch)])
    defer {
      latch.release()
      server.shutdown()
    }
    var answers = RecordingDelegate.Answers()
    answers.disposition = { _ in .becomeDownload }
    try await withDelegate(.all, answers) { session, delegate in
      let data = session.dataTask(with: try Request(server.url("/file")))
      data.resume()
      #expect(await eventually { data.countOfBytesReceived == 120_000 })
      let tasks = await session.tasks
      let download = try #require(tasks.first as? DownloadTask)
      #expect(download.taskIdentifier == data.taskIdentifier)
      let resumeData = try #require(await download.cancelByProducingResumeData())
      #expect(resumeData.receivedBytes == 120_000)
      #expect(await delegate.hasEnded())
      #expect(delegate.error?.resumeData == resumeData)
      #expect(await download.cancelByProducingResumeData() == resumeData)
    }
  }

  @Test func cancelledAndResumed() async throws {
    let body = body
    let latch = try Latch()
    let server = try LoopbackServer(routes: [resource(body, cut: 120_000, latch)])
    defer {
      latch.release()
      server.shutdown()
    }
    let content = Locked<[UInt8]>([])
    let answers = keeping(content)
    try await withDelegate(.all, answers) { session, delegate in
      let task = session.downloadTask(with: try Request(server.url("/file")))
      task.resume()
      #expect(await eventually { task.countOfBytesReceived == 120_000 })
      let resumeData = try #require(await task.cancelByProducingResumeData())
      #expect(await delegate.hasEnded())
      #expect(delegate.entries.last == "completed cancelled completed")
      #expect(delegate.writtenBytes == 120_000)
      #expect(task.error?.resumeData == resumeData)
      #expect(resumeData.receivedBytes == 120_000)
      #expect(await task.cancelByProducingResumeData() == resumeData)

      // Through bytes, as a caller keeps it.
      let second = session.downloadTask(withResumeData: try ResumeData(resumeData.bytes))
      second.resume()
      #expect(await eventually { delegate.entries.last == "completed well completed" })
      #expect(
        delegate.entries.suffix(6) == [
          "created", "resumed 120000", "wrote", "metrics", "finished", "completed well completed",
        ])
      let others = delegate.entries.filter { $0 != "wrote" }
      #expect(
        others == [
          "created", "metrics", "completed cancelled completed", "created", "resumed 120000", "metrics", "finished",
          "completed well completed",
        ])
      #expect(content.withLock { $0 } == body)
      // The second attempt has written the rest alone, and says how much there is in all.
      #expect(delegate.writtenBytes == Int64(body.count) && delegate.sentBytes == Int64(body.count))
      let (length, resumption): (Set<Int64?>, [Int64?]) = ([Int64(body.count)], [120_000, Int64(body.count)])
      #expect(delegate.expectedToWrite == length)
      #expect(delegate.resumptions == [resumption])
      #expect(server.recordedRequests.last?.fields.first("If-Range") == Self.tag)
      #expect(task.taskIdentifier < second.taskIdentifier)
    }
  }

  /// A task that is cancelled before its first byte, or before it begins, completes and leaves nothing.
  @Test func cancelledEarly() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = FileManager.default.temporaryDirectory.path + "/lupine-test-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try await withDelegate(configure: { $0.temporaryDirectory = folder }) { session, delegate in
      for round in 0..<50 {
        let task = session.downloadTask(with: try Request(server.url("/bytes?n=1000000000")))
        if round % 3 > 0 { task.resume() }
        if round % 3 == 1 { await Task.yield() }
        task.cancel()
        #expect(await eventually { delegate.entries.count { $0.hasPrefix("completed") } == round + 1 })
        #expect(task.error?.code == .cancelled)
        // Bytes that were quicker than the cancellation are kept to go on from.
        task.error?.resumeData?.discard(temporaryDirectory: folder)
      }
    }
    #expect(
      await eventually {
        ((try? FileManager.default.subpathsOfDirectory(atPath: folder)) ?? []).allSatisfy { !$0.hasSuffix(".part") }
      })
  }

  @Test func handlers() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate([]) { session, delegate in
      let results = Locked<[String]>([])
      for path in ["/bytes?n=5", "/status?code=404"] {
        session.downloadTask(with: try Request(server.url(path))) { result in
          dispatchPrecondition(condition: .onQueue(delegate.queue))
          let text =
            switch result {
            case .success(let file): "\((try? Data(contentsOf: URL(filePath: file.path)).count) ?? -1)"
            case .failure(let error): "\(error.code) \(error.response?.statusCode ?? 0)"
            }
          results.withLock { $0.append(text) }
        }.resume()
        #expect(
          await eventually { results.withLock { $0.last?.hasPrefix(path == "/bytes?n=5" ? "5" : "bad") ?? false } })
      }
      session.delegateQueue.sync {}
      #expect(results.withLock { $0 } == ["5", "badResponse 404"])
    }
  }

  /// Of uploads from memory and from files, too.
  @Test func uploadHandlers() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let directory = try ScratchDirectory()
    let path = try directory.write(Array("file".utf8), to: "body")
    try await withDelegate([]) { session, delegate in
      let results = Locked<[String]>([])
      let handler: DataTaskCompletion = { result in
        dispatchPrecondition(condition: .onQueue(delegate.queue))
        let text = (try? result.get()).map { String(decoding: $0.0, as: UTF8.self) } ?? "failed"
        results.withLock { $0.append(text) }
      }
      let request = try Request(server.url("/echo"), method: .post)
      session.uploadTask(with: request, from: Data("data".utf8), completionHandler: handler).resume()
      #expect(await eventually { results.withLock { $0.count } == 1 })
      session.uploadTask(with: request, fromFile: path, completionHandler: handler).resume()
      #expect(await eventually { results.withLock { $0.count } == 2 })
      session.delegateQueue.sync {}
      #expect(results.withLock { $0 } == ["data", "file"])
    }
  }
}
