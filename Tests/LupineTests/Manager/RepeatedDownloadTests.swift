import Foundation
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

@testable import Lupine

/// Awaited downloads under interceptors and a retry policy.
@Suite(.timeLimit(.minutes(5))) struct RepeatedDownloadTests {
  private static let count = 300_000

  /// The connection is cut `cuts` times, each time after so much; who asks for the rest gets it, if the file has a version.
  private func cutting(_ cuts: Int, hasVersion: Bool = true) -> ServerRoute {
    let left = Locked(cuts)
    return ServerRoute(nil, "/file") { request, connection in
      let start = request.fields.first("Range").flatMap { Int($0.dropFirst("bytes=".count).dropLast()) } ?? 0
      let isCut = left.withLock { left -> Bool in
        left -= 1
        return left >= 0
      }
      var fields: ServerFields = hasVersion ? ["ETag": "\"v\""] : [:]
      if start > 0 { fields.append("Content-Range", "bytes \(start)-\(Self.count - 1)/\(Self.count)") }
      try connection.begin(start > 0 ? 206 : 200, fields: fields, framing: .length(Self.count - start))
      let end = isCut ? min(start + 100_000, Self.count) : Self.count
      try connection.write(Array(PatternBody.bytes(Self.count)[start..<end]))
      try connection.flush()
      if isCut { connection.abort() }
    }
  }

  private func withRetries(
    _ routes: [ServerRoute], _ body: (HTTPSessionManager, LoopbackServer, Recorder<Duration>) async throws -> Void
  ) async throws {
    let temporary = try ScratchFolder()
    defer { withExtendedLifetime(temporary) {} }
    try await withManager(routes, configure: { $0.temporaryDirectory = temporary.url.path }) { manager, server in
      let waits = Recorder<Duration>()
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { waits.add($0) } }
      try await body(manager, server, waits)
    }
  }

  /// What a lost connection left is gone on with; without a version it begins anew. One call, one end.
  @Test(arguments: [true, false]) func lostConnectionsAreGoneOnFrom(_ hasVersion: Bool) async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(2, hasVersion: hasVersion)]) { manager, server, waits in
      let ends = Recorder<Int?>()
      manager.callDidComplete = { _, response, error in if error == nil { ends.add(response?.statusCode) } }
      let fractions = Recorder<Double>()
      let (file, response) = try await manager.download(
        "file", to: folder.file("file"), progress: { fractions.add($0.fractionCompleted) })
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(Self.count)))
      #expect(waits.values.count == 2 && server.requestCount == 3)
      let ranges = server.recordedRequests.map { $0.fields.first("Range") ?? "" }
      #expect(ranges == (hasVersion ? ["", "bytes=100000-", "bytes=200000-"] : ["", "", ""]))
      #expect(response.statusCode == (hasVersion ? 206 : 200) && fractions.values.last == 1)
      #expect(await eventually { ends.values == [response.statusCode] })
    }
  }

  /// One object is the progress of all attempts.
  @Test func oneProgressForAllAttempts() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(2)]) { manager, _, _ in
      let seen = Recorder<Progress>()
      _ = try await manager.download("file", to: folder.file("file"), progress: { seen.add($0) })
      let first = try #require(seen.values.first)
      #expect(seen.values.allSatisfy { $0 === first } && first.fractionCompleted == 1)
    }
  }

  /// Has the progress told something in the pause before the next attempt, and waits until it has told the task.
  private static func tell(
    _ progress: Progress?, _ handler: ReferenceWritableKeyPath<Progress, (@Sendable () -> Void)?>,
    _ command: (Progress) -> Void
  ) async {
    guard let progress else { return }
    let isTold = DispatchSemaphore(value: 0)
    let former = progress[keyPath: handler]
    progress[keyPath: handler] = {
      former?()
      isTold.signal()
    }
    command(progress)
    await withCheckedContinuation { continuation in
      DispatchQueue.global().async {
        isTold.wait()
        continuation.resume()
      }
    }
  }

  /// A progress that is paused between two attempts begins the next one when it is resumed.
  @Test func aProgressThatIsPausedBetweenAttempts() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(1)]) { manager, server, _ in
      let seen = Recorder<Progress>()
      manager.core.settings.change {
        $0.retrying.sleep = { _ in await Self.tell(seen.values.first, \.pausingHandler) { $0.pause() } }
      }
      let download = Task {
        try await manager.download("file", to: folder.file("file"), progress: { seen.add($0) })
      }
      #expect(await eventually { seen.values.first?.isPaused == true })
      #expect(await eventually(seconds: 1) { server.requestCount == 2 } == false)
      seen.values.first?.resume()
      let (file, _) = try await download.value
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(Self.count)) && server.requestCount == 2)
    }
  }

  /// One that is cancelled there makes none, and leaves what there is.
  @Test func aProgressThatIsCancelledBetweenAttempts() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(2)]) { manager, server, _ in
      let seen = Recorder<Progress>()
      manager.core.settings.change {
        $0.retrying.sleep = { _ in await Self.tell(seen.values.first, \.cancellationHandler) { $0.cancel() } }
      }
      let error = await #expect(throws: SessionError.self) {
        try await manager.download("file", to: folder.file("file"), progress: { seen.add($0) })
      }
      #expect(error?.code == .cancelled && error?.resumeData?.receivedBytes == 100_000)
      #expect(server.requestCount == 1)
    }
  }

  /// The hook that hears of a task may pause it by its progress: the task begins behind the hook, and not before it is resumed.
  @Test(arguments: [false, true]) func aProgressThatIsPausedBeforeItsTaskBegins(_ isOfUpload: Bool) async throws {
    let folder = try ScratchFolder()
    try await withManager([cutting(0)]) { manager, server in
      let paused = Locked<Progress?>(nil)
      manager.taskWasCreated = { [weak manager] _, task in
        let wanted = isOfUpload ? manager?.uploadProgress(for: task) : manager?.downloadProgress(for: task)
        guard let progress = wanted else { return }
        let isTold = DispatchSemaphore(value: 0)
        let former = progress.pausingHandler
        progress.pausingHandler = {
          former?()
          isTold.signal()
        }
        progress.pause()
        isTold.wait()
        paused.withLock { $0 = progress }
      }
      let download = Task { try await manager.download("file", to: folder.file("file")) }
      #expect(await eventually { paused.withLock { $0 } != nil })
      // Behind the beginning of the task, which is behind the hook.
      await withCheckedContinuation { continuation in manager.session.delegateQueue.async { continuation.resume() } }
      #expect(await eventually(seconds: 1) { server.requestCount == 1 } == false)
      paused.withLock { $0 }?.resume()
      let (file, _) = try await download.value
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(Self.count)) && server.requestCount == 1)
    }
  }

  /// The last failure is the result; what came by then can be gone on from by hand.
  @Test func theLastFailureHasResumeData() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(2)]) { manager, server, waits in
      // Fewer than the file needs.
      manager.retryPolicy?.maximumAttempts = 2
      let error = await #expect(throws: SessionError.self) {
        try await manager.download("file", to: folder.file("file"))
      }
      #expect(error?.code == .truncatedResponse || error?.code == .connectionLost, "\(String(describing: error))")
      let data = try #require(error?.resumeData)
      #expect(data.receivedBytes == 200_000 && waits.values.count == 1)
      let end = try await manager.download(resumeFrom: data, to: folder.file("file"))
      #expect(try Data(contentsOf: end.file) == Data(PatternBody.bytes(Self.count)))
      #expect(server.requestCount == 3 && folder.names == ["file"])
    }
  }

  /// A status that time may heal, whatever statuses the serializer accepts; one that it does not is the result at once.
  @Test(arguments: [false, true]) func statuses(_ acceptsAll: Bool) async throws {
    let folder = try ScratchFolder()
    let asked = Locked(0)
    let route = ServerRoute(nil, "/busy") { _, connection in
      let number = asked.withLock { asked -> Int in
        asked += 1
        return asked
      }
      try connection.respond(number < 3 ? 503 : 200, fields: ["Retry-After": "2"], text: "\(number)")
    }
    try await withRetries([route] + ServerRoute.standard()) { manager, server, waits in
      var serializer = HTTPResponseSerializer()
      serializer.acceptableStatusCodes = acceptsAll ? nil : serializer.acceptableStatusCodes
      manager.responseSerializer = serializer
      let (file, _) = try await manager.download("busy", to: folder.file("file"))
      #expect(try Data(contentsOf: file) == Data("3".utf8) && waits.values == [.seconds(2), .seconds(2)])
      await #expect(throws: (any Error).self) {
        try await manager.download("status?code=404", to: folder.file("missing"))
      }
      #expect(server.requestCount == 4 && folder.names == ["file"])
    }
  }

  /// A token that has expired is renewed for a download too, which goes on where it was.
  @Test func tokensAreRenewed() async throws {
    let folder = try ScratchFolder()
    let file = cutting(1)
    let route = ServerRoute(nil, "/file") { request, connection in
      let isResumed = request.fields.first("Range") != nil
      guard request.fields.first("Authorization") == (isResumed ? "Bearer new" : "Bearer old") else {
        return try connection.respond(401, fields: ["WWW-Authenticate": "Bearer"], text: "no")
      }
      try file.handler(request, connection)
    }
    try await withRetries([route]) { manager, server, _ in
      manager.retryPolicy = nil
      let origin = try #require(manager.baseURL)
      manager.interceptors = [
        try TokenInterceptor(token: "old", origins: [origin]) { _ in "new" }
      ]
      let error = await #expect(throws: SessionError.self) {
        try await manager.download("file", to: folder.file("file"))
      }
      let data = try #require(error?.resumeData)
      let end = try await manager.download(resumeFrom: data, to: folder.file("file"))
      #expect(try Data(contentsOf: end.file) == Data(PatternBody.bytes(Self.count)))
      #expect(server.requestCount == 3)
    }
  }

  /// Cancelled between two attempts, it says what it can be resumed from.
  @Test func cancelledBetweenTwoAttempts() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(9)]) { manager, server, _ in
      let isWaiting = Locked(false)
      manager.core.settings.change {
        $0.retrying.sleep = { _ in
          isWaiting.withLock { $0 = true }
          try await Task.sleep(for: .seconds(120))
        }
      }
      let call = Task { try await manager.download("file", to: folder.file("file")) }
      #expect(await eventually { isWaiting.withLock { $0 } })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled && error?.resumeData?.receivedBytes == 100_000)
    }
  }

  /// What an interceptor throws instead of another attempt has the resume data too, if it can; whoever was cancelled there was cancelled.
  @Test func whatInterceptorsThrowKeepsTheBeginning() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(9)]) { manager, _, _ in
      let refusal = SerializationError(.cannotParseResponse, message: "no token")
      for thrown in [CancellationError(), refusal] as [any Error] {
        manager.interceptors = [
          ClosureInterceptor(adapt: { request, attempt in
            if attempt > 1 { throw thrown }
            return request
          })
        ]
        let error = await #expect(throws: (any Error).self) {
          try await manager.download("file", to: folder.file("file"))
        }
        let data = (error as? SessionError)?.resumeData ?? (error as? SerializationError)?.resumeData
        #expect(data?.receivedBytes == 100_000)
        #expect((error as? SessionError)?.code == (thrown is CancellationError ? .cancelled : nil))
      }
    }
  }

  /// Before the first attempt the data that was given is what there is to go on from, and still is.
  @Test func whatWasGivenIsKeptBeforeTheFirstAttempt() async throws {
    let folder = try ScratchFolder()
    try await withRetries([cutting(1)]) { manager, server, _ in
      manager.retryPolicy = nil
      let lost = await #expect(throws: SessionError.self) {
        try await manager.download("file", to: folder.file("file"))
      }
      let given = try #require(lost?.resumeData)
      let refusal = SessionError(.timedOut, phase: .firstByte, message: "no token")
      for thrown in [CancellationError(), refusal] as [any Error] {
        manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw thrown })]
        let error = await #expect(throws: SessionError.self) {
          try await manager.download(resumeFrom: given, to: folder.file("file"))
        }
        #expect(error?.resumeData == given && error?.requestBytesSent == false)
        #expect(error?.code == (thrown is CancellationError ? .cancelled : .timedOut))
      }
      // An error that can have none leaves it alone.
      let other = SerializationError(.cannotParseResponse, message: "no token")
      manager.interceptors = [ClosureInterceptor(adapt: { _, _ in throw other })]
      await #expect(throws: SerializationError.self) {
        try await manager.download(resumeFrom: given, to: folder.file("file"))
      }
      manager.interceptors = []
      let end = try await manager.download(resumeFrom: given, to: folder.file("file"))
      #expect(try Data(contentsOf: end.file) == Data(PatternBody.bytes(Self.count)))
      #expect(server.recordedRequests.map { $0.fields.first("Range") ?? "" } == ["", "bytes=100000-"])
    }
  }

  /// The status that is the last word does not make what had come before forgotten.
  @Test func theLastStatusHasResumeData() async throws {
    let folder = try ScratchFolder()
    let file = cutting(1)
    let route = ServerRoute(nil, "/file") { request, connection in
      if request.fields.first("Range") == nil { return try file.handler(request, connection) }
      try connection.respond(503, fields: ["Retry-After": "999"], text: "later")
    }
    try await withRetries([route]) { manager, server, _ in
      let error = await #expect(throws: SerializationError.self) {
        try await manager.download("file", to: folder.file("file"))
      }
      #expect(error?.response?.statusCode == 503 && error?.resumeData?.receivedBytes == 100_000)
      #expect(server.requestCount == 2)
    }
  }

  /// Interceptors that sign a URL make another one for each attempt, which begins anew.
  @Test func anotherURLBeginsAnew() async throws {
    let folder = try ScratchFolder()
    let temporary = try ScratchFolder()
    try await withManager([cutting(1)], configure: { $0.temporaryDirectory = temporary.url.path }) { manager, server in
      manager.retryPolicy = RetryPolicy()
      manager.core.settings.change { $0.retrying.sleep = { _ in } }
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, attempt in
          var request = request
          try request.appendQuery([("signature", "\(attempt)")])
          return request
        })
      ]
      let (file, response) = try await manager.download("file", to: folder.file("file"))
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(Self.count)) && response.statusCode == 200)
      #expect(server.recordedRequests.map(\.target) == ["/file?signature=1", "/file?signature=2"])
      #expect(partialFiles(temporary) == [])
    }
  }

  /// What fails behind the head is told with the response, and interceptors of a call of the main actor are asked elsewhere.
  @MainActor @Test func theResponseIsTold() async throws {
    let folder = try ScratchFolder()
    try Data("old".utf8).write(to: folder.file("file"))
    try await withRetries([cutting(0)]) { manager, _, _ in
      let statuses = Recorder<Int?>()
      let threads = Recorder<Bool>()
      manager.callDidComplete = { _, response, _ in statuses.add(response?.statusCode) }
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          threads.add(isOnMainQueue)
          return request
        })
      ]
      await #expect(throws: SessionError.self) { try await manager.download("file", to: folder.file("file")) }
      #expect(await eventually { statuses.values == [200] })
      #expect(threads.values == [false])
    }
  }

  /// Ended by an error that can have no resume data, it leaves nothing of what had come.
  @Test func anInterceptorsErrorLeavesNothing() async throws {
    struct Enough: Error {}
    let folder = try ScratchFolder()
    let temporary = try ScratchFolder()
    try await withManager([cutting(9)], configure: { $0.temporaryDirectory = temporary.url.path }) { manager, server in
      manager.interceptors = [ClosureInterceptor(decide: { _ in .fail(Enough()) })]
      await #expect(throws: Enough.self) { try await manager.download("file", to: folder.file("file")) }
      #expect(partialFiles(temporary) == [] && folder.names == [])
      manager.interceptors = []
      await #expect(throws: SessionError.self) { try await manager.download("file", to: folder.file("file")) }
      #expect(partialFiles(temporary).count == 1)
    }
  }

  /// Those with something in them.
  private func partialFiles(_ folder: ScratchFolder) -> [URL] {
    let all =
      FileManager.default.enumerator(at: folder.url, includingPropertiesForKeys: [.fileSizeKey])?.allObjects ?? []
    return all.compactMap { $0 as? URL }.filter {
      let values = try? $0.resourceValues(forKeys: [.fileSizeKey, .isRegularFileKey])
      return values?.isRegularFile == true && (values?.fileSize ?? 0) >= 100_000
    }
  }
}
