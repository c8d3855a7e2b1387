import Dispatch
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Downloads that end while the threads for files are held.
extension PieceTests {
  /// Cancelled when all has been written and the file is not complete yet: nobody is given it, and what can be gone on from is kept.
  @Test(arguments: [false, true]) func cancelledBeforeTheFileIsComplete(_ isNamed: Bool) async throws {
    let folder = try DownloadFolder()
    let transport = HandTransport()
    try await withDelegate(configure: {
      $0.temporaryDirectory = folder.parentPath
      $0.transport = transport
    }) { session, delegate in
      let task = session.downloadTask(with: try Request("http://a.example/file"))
      task.resume()
      #expect(await eventually { transport.body != nil })
      let body = try #require(transport.body)
      try body.giveHead(isNamed: isNamed)
      body.give(1000)
      #expect(await eventually { folder.size == 1000 })
      let held = try HeldFileThreads()
      body.end()
      task.cancel()
      #expect(task.state == .canceling)
      held.release()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["created", "wrote", "metrics", "completed cancelled completed"])
      #expect(task.error?.response?.statusCode == 200)
      #expect(task.error?.resumeData?.receivedBytes == (isNamed ? 1000 : nil))
      #expect(folder.partials.count == (isNamed ? 1 : 0))
    }
  }

  /// So is an `async` download, whose file is not put into its place.
  @Test func anAsyncDownloadCancelledBeforeItsFileIsComplete() async throws {
    try await withHandedBody(leaves: 1) { body, folder, download in
      body.give(1000)
      #expect(await eventually { folder.size == 1000 })
      let held = try HeldFileThreads()
      body.end()
      download.cancel()
      held.release()
      let data = try await leftover { try await download.value }
      #expect(data.receivedBytes == 1000 && folder.size == 1000)
    }
  }

  /// Nobody knows when there is a thread to make the file: the task has its time, and can be cancelled, meanwhile.
  @Test func endedBeforeTheFileIsMade() async throws {
    let folder = try DownloadFolder()
    let transport = HandTransport()
    try await withDelegate([.completed]) {
      $0.temporaryDirectory = folder.parentPath
      $0.transport = transport
    } _: { session, delegate in
      let held = try HeldFileThreads()
      var request = try Request("http://a.example/file")
      let cancelled = session.downloadTask(with: request)
      cancelled.resume()
      cancelled.cancel()
      #expect(cancelled.state == .completed && cancelled.error?.code == .cancelled)
      request.totalTimeout = .milliseconds(300)
      let late = session.downloadTask(with: request)
      late.resume()
      #expect(await eventually(seconds: 20) { late.state == .completed })
      #expect(late.error?.code == .timedOut && late.error?.phase == .total)
      held.release()
      // What was left to do is done, and it is nothing.
      try HeldFileThreads().release()
      // A task is over a moment before that is told.
      #expect(await eventually { delegate.entries.count >= 2 })
      session.delegateQueue.sync {}
      #expect(delegate.entries == ["completed cancelled completed", "completed timedOut completed"])
      #expect(folder.partials == [] && transport.body == nil)
    }
  }
}
