import Dispatch
import FoundationEssentials
import LupineBase
import LupineEngine
import LupineIO
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What holds when a session says that it is invalid: everything is done, and nothing is called any more.
@Suite(.timeLimit(.minutes(2))) struct SessionEndTests {
  /// What others use too has no end.
  @Test func nobodyEndsTheSharedSession() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    Session.shared.invalidateAndCancel()
    Session.shared.finishTasksAndInvalidate()
    await Session.shared.shutDown(within: .zero)
    try await Session.shared.expect("Hello, world!", from: server.url("/hello"))
    Session.shared.flush()
  }

  /// What the delegate does at the end comes behind its last word. A callback that does it is on the same queue.
  @Test func nothingIsCalledBehindTheEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await withDelegate { session, delegate in
      let request = try Request(server.url("/hello"))
      session.dataTask(with: request).resume()
      #expect(await delegate.hasEnded())
      // It has told its end, and gives up its place behind that: on the loop, in the same turn.
      await Task(executorPreference: session.engineExecutor) {}.value
      let last = RecordingDelegate([.completed], name: "own ")
      let late = session.delegateQueue.sync { () -> [SessionTask] in
        session.invalidateAndCancel()
        let (cancelled, begun) = (session.dataTask(with: request), session.dataTask(with: request))
        let (download, own) = (session.downloadTask(with: request), session.dataTask(with: request))
        own.delegate = last
        cancelled.cancel()
        begun.resume()
        download.cancel()
        own.cancel()
        return [begun, cancelled, download, own]
      }
      #expect(await eventually { late.allSatisfy { $0.state == .completed } })
      // Whatever they had to say is behind the end by now.
      session.delegateQueue.sync {}
      let first = ["created", "response 200", "data", "metrics", "completed well completed"]
      #expect(delegate.entries == first + ["invalid"])
      // The delegate of a task is not the session's.
      #expect(last.entries == ["own completed cancelled completed"])
      #expect(late.first?.error?.code == .sessionInvalidated)
    }
  }

  /// An `async` download whose file is still being made is a task already: it finishes, or is cancelled, and the session is invalid behind it.
  @Test(arguments: [true, false], [true, false]) func aDownloadIsATaskWhileItsFileIsMade(
    _ isCancelled: Bool, _ hasPlace: Bool
  ) async throws {
    let directory = try ScratchDirectory()
    let disk = try Latch()
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      disk.release()
      server.shutdown()
    }
    try await withDelegate([.becameInvalid]) { session, delegate in
      let request = try Request(server.url("/hello"))
      let destination = DownloadDestination(path: directory.path + (hasPlace ? "/file" : "/none/file"))
      // As many as there are: the file waits.
      let threads = try Engine.processFiles.get()
      for _ in 0..<2 {
        threads.run { () throws(IOError) in
          _ = disk.wait(seconds: 60)
        } completion: { _ in
        }
      }
      // Up to where it waits for the file.
      let call = Task.immediate { try await session.download(for: request, to: destination).path }
      if isCancelled { session.invalidateAndCancel() } else { session.finishTasksAndInvalidate() }
      await expectNoTask(of: session, request)
      session.delegateQueue.sync {}
      #expect(delegate.entries == [])
      disk.release()
      if hasPlace, !isCancelled {
        #expect(try await call.value == directory.path + "/file")
      } else {
        try await expectFailure(hasPlace ? .cancelled : .fileFailed) { try await call.value }
      }
      #expect(await eventually { delegate.entries == ["invalid"] })
      #expect(server.requestCount == (hasPlace && !isCancelled ? 1 : 0))
    }
  }

  private func expectNoTask(of session: Session, _ request: Request) async {
    let error = await #expect(throws: SessionError.self) { try await session.data(for: request) }
    #expect(error?.code == .sessionInvalidated)
  }

  /// The file of an `async` download is in its place then, however long the disk takes for it.
  @Test(arguments: [false, true]) func theFileOfADownloadIsThere(_ isObserved: Bool) async throws {
    final class Last: SessionDelegate {
      let path: String
      let found = Locked<Bool?>(nil)

      init(_ path: String) { self.path = path }

      func session(_ session: Session, didBecomeInvalidWithError error: SessionError?) {
        let isThere = FileManager.default.fileExists(atPath: path)
        found.withLock { $0 = isThere }
      }
    }
    let directory = try ScratchDirectory()
    let path = directory.path + "/file"
    let (goOn, disk) = (try Latch(), try Latch())
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: goOn))
    defer {
      goOn.release()
      disk.release()
      server.shutdown()
    }
    var configuration = SessionConfiguration()
    configuration.engine = .own
    let last = Last(path)
    let session = try Session(configuration, delegate: last)
    let request = try Request(server.url("/slow?n=100000&after=50000"))
    let own = isObserved ? RecordingDelegate([.metrics]) : nil
    let received = Locked<Int64>(0)
    let call = Task {
      try await session.download(for: request, to: DownloadDestination(path: path), delegate: own) { count, _ in
        received.withLock { $0 = count }
      }
    }
    #expect(await eventually { received.withLock { $0 } == 50_000 })
    // As many as there are: whatever else is to be written waits.
    let threads = try Engine.processFiles.get()
    for _ in 0..<2 {
      threads.run { () throws(IOError) in
        _ = disk.wait(seconds: 60)
      } completion: { _ in
      }
    }
    session.finishTasksAndInvalidate()
    goOn.release()
    #expect(await eventually { received.withLock { $0 } == 100_000 })
    // Its connection goes when the response is complete.
    #expect(await eventually { await !session.poolStatistics().closes.isEmpty })
    session.delegateQueue.sync {}
    disk.release()
    #expect(await eventually { last.found.withLock { $0 != nil } })
    #expect(last.found.withLock { $0 } == true)
    #expect(try await call.value.path == path)
    #expect(PatternBody.matches(TextFile.bytes(path), from: 0) && TextFile.bytes(path).count == 100_000)
  }

  /// A session with an engine of its own, and a request whose answer stops in the middle until the server's latch is released.
  private func heldTask(
    _ server: LoopbackServer, _ delegate: RecordingDelegate? = nil
  ) throws -> (Session, Request) {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    let session = try Session(configuration, delegate: delegate, delegateQueue: delegate?.queue)
    return (session, try Request(server.url("/slow?n=1000&after=500")))
  }

  /// It returns behind the handler of the last task, and behind what the delegate is told.
  @Test(arguments: [false, true]) func shuttingDownWaits(_ hasDelegate: Bool) async throws {
    let goOn = try Latch()
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: goOn))
    defer {
      goOn.release()
      server.shutdown()
    }
    let delegate = hasDelegate ? RecordingDelegate([.becameInvalid]) : nil
    let (session, request) = try heldTask(server, delegate)
    let events = Locked<[String]>([])
    let task = session.dataTask(with: request) { result in
      let count = (try? result.get())?.0.count ?? 0
      events.withLock { $0.append("\(count) bytes") }
    }
    task.resume()
    // Up to where it waits.
    let end = Task.immediate {
      await session.shutDown()
      events.withLock { $0.append("over") }
    }
    await expectNoTask(of: session, request)
    events.withLock { $0.append("released") }
    goOn.release()
    await end.value
    #expect(events.withLock { $0 } == ["released", "1000 bytes", "over"])
    let told = delegate?.entries ?? ["invalid"]
    #expect(told == ["invalid"])
    // There is nothing left to wait for.
    await session.shutDown()
  }

  /// What is not over in time is cancelled, and so is what nobody waits for any more.
  @Test(arguments: [true, false]) func shuttingDownCancels(_ hasGrace: Bool) async throws {
    let goOn = try Latch()
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: goOn))
    defer {
      goOn.release()
      server.shutdown()
    }
    let (session, request) = try heldTask(server)
    let call = Task.immediate { try await session.data(for: request) }
    let end = Task.immediate { await session.shutDown(within: hasGrace ? Duration.zero : nil) }
    if !hasGrace { end.cancel() }
    await end.value
    try await expectFailure(.cancelled) { try await call.value }
  }
}
