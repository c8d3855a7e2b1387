import Foundation
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// What users of AFNetworking complained about most, by its number in the list.
@Suite struct ComplaintTests {
  // MARK: 1: managers and sessions that never go

  /// What is left of managers when nobody refers to them.
  private struct Remains {
    weak var manager: HTTPSessionManager?
    weak var session: Session?
  }

  private static func configuration() -> SessionConfiguration {
    var configuration = SessionConfiguration.ephemeral
    configuration.engine = .own
    return configuration
  }

  private struct Leak: Error {
    var left: [String]
  }

  /// Apart, so that the manager is gone when this returns.
  private static func useAndLeave(_ server: LoopbackServer, _ remains: Locked<Remains>) async throws {
    let manager = try HTTPSessionManager(baseURL: server.url("/"), configuration: configuration())
    manager.taskDidComplete = { _, _, _ in }
    _ = try await manager.get("json", as: JSONValue.self)
    let end = await ended { manager.get("json", success: $0, failure: $1) }
    guard end.isSuccess, server.openConnectionCount > 0 else { throw Leak(left: ["no connection was made"]) }
    remains.withLock { $0 = Remains(manager: manager, session: manager.session) }
  }

  private static func managersComeAndGo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    for _ in 1...5 {
      let remains = Locked(Remains())
      try await useAndLeave(server, remains)
      let isGone = await eventually { remains.withLock { $0.manager == nil && $0.session == nil } }
      guard isGone else { throw Leak(left: ["a manager or a session"]) }
    }
    guard await eventually({ server.openConnectionCount == 0 }) else { throw Leak(left: ["a connection"]) }
  }

  /// A manager goes with its last reference, its session, its connections, its descriptors and threads with it. In a process of its own, to count those.
  @Test func complaint1ManagersGo() async {
    await #expect(processExitsWith: .success) {
      try await Self.managersComeAndGo()  // starts what the process keeps
      let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
      try await Self.managersComeAndGo()
      guard before.isRestored(withinSeconds: 60) else { throw Leak(left: before.newcomers()) }
    }
  }

  /// Tasks under way finish when the manager is gone, and then the session goes; the handler refers to nothing.
  @Test func complaint1TasksOutliveTheirManager() async throws {
    let latch = try Latch()
    let server = try LoopbackServer(routes: ServerRoute.standard(latch: latch))
    defer { server.shutdown() }
    let ends = Recorder<Bool>()
    let remains = Locked(Remains())
    func begin() throws {
      let manager = try HTTPSessionManager(baseURL: server.url("/"), configuration: Self.configuration())
      manager.responseSerializer = HTTPResponseSerializer()
      manager.get("slow", success: { _, _ in ends.add(true) }) { _, _ in ends.add(false) }
      remains.withLock { $0 = Remains(manager: manager, session: manager.session) }
    }
    try begin()
    #expect(await eventually { server.requestCount == 1 })
    // Whoever sent the request may hold the manager for a moment longer.
    #expect(await eventually { remains.withLock { $0.manager == nil } })
    #expect(remains.withLock { $0.session != nil })
    latch.release()
    #expect(await eventually { ends.values == [true] })
    #expect(await eventually { remains.withLock { $0.session == nil } && server.openConnectionCount == 0 })
  }

  /// A task that never began holds nothing when it goes, and works as long as it is held.
  @Test func complaint1TasksThatNeverBegan() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let remains = Locked(Remains())
    let ends = Recorder<Bool>()
    func make() throws -> DataTask? {
      let manager = try HTTPSessionManager(baseURL: server.url("/"), configuration: Self.configuration())
      remains.withLock { $0 = Remains(manager: manager, session: manager.session) }
      return manager.dataTask(method: .get, "json") { _, _ in ends.add(true) }
    }
    var task = try make()
    #expect(remains.withLock { $0.manager == nil && $0.session != nil })
    task?.resume()
    #expect(await eventually { ends.values == [true] })
    task = try make()
    task = nil
    #expect(await eventually { remains.withLock { $0.session == nil } })
  }

  // MARK: 2: where progress is told

  /// On the delegate queue, or where the manager says.
  @Test func complaint2ProgressQueue() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let key = DispatchSpecificKey<String>()
      manager.delegateQueue.setSpecific(key: key, value: "delegate")
      let queue = DispatchQueue(label: "progress")
      queue.setSpecific(key: key, value: "named")
      let told = Recorder<String>()
      for name in [nil, queue] {
        manager.progressQueue = name
        let end = await ended { success, failure in
          manager.get(
            "bytes?n=10000", progress: { _ in told.add(DispatchQueue.getSpecific(key: key) ?? "none") },
            success: success, failure: failure)
        }
        #expect(end.isSuccess)
        queue.sync {}
        #expect(Set(told.values) == (name == nil ? ["delegate"] : ["delegate", "named"]))
      }
    }
  }

  // MARK: 3: progress without a length

  /// Without a length, or with one that a content coding makes meaningless: counts that grow, no fraction, and a total at the end.
  @Test(arguments: ["chunked?n=300000&size=1000", "gzip?n=300000", "bytes?n=300000&close=1"])
  func complaint3ProgressWithoutLength(_ path: String) async throws {
    struct Seen: Sendable {
      var completed: Int64
      var total: Int64
      var isIndeterminate: Bool
    }
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let seen = Recorder<Seen>()
      let end = await ended { success, failure in
        manager.get(
          path,
          progress: {
            seen.add(
              Seen(
                completed: $0.completedUnitCount, total: $0.totalUnitCount, isIndeterminate: $0.isIndeterminate))
          }, success: success, failure: failure)
      }
      #expect((end.value as? Data)?.count == 300_000)
      let during = seen.values.dropLast()
      #expect(!during.isEmpty && during.allSatisfy { $0.isIndeterminate && $0.total == -1 && $0.completed > 0 })
      #expect(seen.values.last?.completed == 300_000 && seen.values.last?.total == 300_000)
    }
  }

  // MARK: 4: the body of an error

  /// Status, body and value of an error page are in the error; a handler of a task gets the value too.
  @Test func complaint4ErrorsHaveTheBody() async throws {
    let page = ServerRoute(nil, "/page") { _, connection in
      try connection.respond(422, fields: ["Content-Type": "application/json"], body: Array(#"{"code":7}"#.utf8))
    }
    try await withManager([page]) { manager, server in
      let request = try manager.request(.get, "page")
      let task = await ended { manager.dataTask(with: request, completion: $0) }
      let thrown = await #expect(throws: SerializationError.self) { try await manager.get("page", as: JSONValue.self) }
      for error in [task.error as? SerializationError, thrown] {
        #expect(error?.response?.statusCode == 422 && error?.data == Data(#"{"code":7}"#.utf8))
        #expect((error?.value as? JSONValue)?["code"] == .integer(7))
      }
      #expect((task.value as? JSONValue)?["code"] == .integer(7))
    }
  }

  /// A body that broke off is in the error as far as it came.
  @Test func complaint4BrokenBodies() async throws {
    try await withManager { manager, server in
      let end = await ended { manager.get("bytes?n=100000&cut=60000", success: $0, failure: $1) }
      let error = try #require(end.error as? SessionError)
      #expect(error.code == .truncatedResponse && error.partialBody == PatternBody.bytes(60_000))
      #expect(error.response?.statusCode == 200)
    }
  }

  /// The limit on what is kept in memory holds for tasks too, and names its setting.
  @Test(arguments: [1001, 5_000_000])
  func bodiesAreLimited(_ count: Int) async throws {
    try await withManager(configure: { $0.maximumBufferedBodySize = 1000 }) { manager, server in
      let end = await ended { manager.get("bytes?n=\(count)", success: $0, failure: $1) }
      let error = try #require(end.error as? SessionError)
      #expect(error.code == .bodyTooLarge && error.partialBody?.count == 1000)
      #expect(error.message.contains("maximumBufferedBodySize"))
    }
  }

  /// Of a body whose length is beyond the limit beforehand no more is received than may explain it.
  @Test func announcedExcessIsNotReceived() async throws {
    try await withManager(configure: { $0.maximumBufferedBodySize = 10_000_000 }) { manager, server in
      let end = await ended { manager.get("bytes?n=20000000", success: $0, failure: $1) }
      let error = try #require(end.error as? SessionError)
      #expect(error.code == .bodyTooLarge && error.partialBody?.count == 64 << 10)
      #expect(error.message.contains("maximumBufferedBodySize"))
      let received = try #require(error.metrics).transactions.map(\.responseBodyBytes).reduce(0, +)
      #expect(received < 4 << 20)
    }
  }

  // MARK: 7: trust

  /// A server that a handler refuses is refused with the handler's error, in a task and in a call: nothing was cancelled.
  @Test func complaint7RefusedServersAreNotCancelled() async throws {
    struct NotOurs: Error {}
    let authority = try CertificateAuthority()
    try await withManager(tls: ServerTLS.minted(by: authority, .loopback)) { manager, server in
      let untrusted = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((untrusted.error as? SessionError)?.code == .serverCertificateUntrusted)
      manager.connectionChallengeHandler = { _, _, _ in .error(NotOurs()) }
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.error is NotOurs)
      await #expect(throws: NotOurs.self) { try await manager.get("json", as: JSONValue.self) }
      manager.connectionChallengeHandler = { _, _, complete in
        DispatchQueue.global().async { complete(.trustServer) }
        return .handledLater
      }
      #expect(await ended { manager.get("json", success: $0, failure: $1) }.isSuccess)
      manager.connectionChallengeHandler = nil
      let again = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((again.error as? SessionError)?.code == .serverCertificateUntrusted)
    }
  }

  // MARK: 10: downloads

  /// An error page is not saved: the handler gets the status, with the response and its body, and no file.
  @Test func complaint10ErrorPagesAreNotSaved() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let request = try manager.request(.get, "status?code=404&body=gone")
      let end = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in folder.file("file") }, completion: $0)
      }
      let error = try #require(end.error as? SerializationError)
      #expect(error.contains(.unacceptableStatusCode) && error.data == Data("gone".utf8))
      #expect(end.value == nil && end.response?.statusCode == 404 && folder.names.isEmpty)
    }
  }

  /// What the serializer does not accept, though it is a 2xx, is not saved either.
  @Test func complaint10TheSerializerValidates() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      var serializer = HTTPResponseSerializer()
      serializer.acceptableStatusCodes = [206]
      let request = try manager.request(.get, "bytes?n=100")
      let end = await downloaded {
        manager.downloadTask(
          with: request, responseSerializer: serializer, destination: { _, _ in folder.file("file") }, completion: $0)
      }
      #expect((end.error as? SerializationError)?.code == .unacceptableStatusCode && folder.names.isEmpty)
    }
  }

  /// A file in the way is an error that the handler gets, and stays; with the option it is replaced.
  @Test func complaint10Overwriting() async throws {
    let folder = try ScratchFolder()
    let file = folder.file("file")
    try Data("old".utf8).write(to: file)
    try await withManager { manager, server in
      let request = try manager.request(.get, "hello")
      let refused = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in file }, completion: $0)
      }
      let error = try #require(refused.error as? SessionError)
      #expect(error.code == .fileFailed && (error.underlying as? FileFailure)?.reason == .alreadyExists)
      let kept = try Data(contentsOf: file)
      #expect(refused.value == nil && kept == Data("old".utf8))
      let replaced = await downloaded {
        manager.downloadTask(
          with: request, options: .overwriteExisting, destination: { _, _ in file }, completion: $0)
      }
      #expect(replaced.error == nil && replaced.value as? URL == file)
      #expect(try Data(contentsOf: file) == Data("Hello, world!".utf8) && folder.names == ["file"])
    }
  }

  /// Missing directories are an error, or made.
  @Test func complaint10Directories() async throws {
    let folder = try ScratchFolder()
    let file = folder.file("a/b/file")
    try await withManager { manager, server in
      let request = try manager.request(.get, "hello")
      let refused = await downloaded {
        manager.downloadTask(with: request, destination: { _, _ in file }, completion: $0)
      }
      #expect(((refused.error as? SessionError)?.underlying as? FileFailure)?.reason == .notFound)
      let made = await downloaded {
        manager.downloadTask(
          with: request, options: .createIntermediateDirectories, destination: { _, _ in file }, completion: $0)
      }
      #expect(made.error == nil && FileManager.default.fileExists(atPath: file.path))
      // Below a file there is no directory.
      let below = file.appending(path: "b/c")
      let impossible = await downloaded {
        manager.downloadTask(
          with: request, options: .createIntermediateDirectories, destination: { _, _ in below }, completion: $0)
      }
      #expect((impossible.error as? SessionError)?.code == .fileFailed, "\(String(describing: impossible.error))")
    }
  }

  /// Nowhere to go: no file, and no error.
  @Test func complaint10WithoutDestination() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "hello")
      let end = await downloaded { manager.downloadTask(with: request, destination: nil, completion: $0) }
      #expect(end.error == nil && end.value == nil && end.response?.statusCode == 200)
    }
  }

  // MARK: 11: observing and swizzling

  /// Tasks that are resumed, suspended and cancelled from everywhere end once each, and crash nobody.
  @Test func complaint11TasksUnderFire() async throws {
    try await withManager(configure: { $0.maximumConnectionsPerHost = 4 }) { manager, server in
      let ends = Recorder<UInt64>()
      let request = try manager.request(.get, "json")
      let tasks = (0..<60).map { number in
        manager.dataTask(with: request) { _, _, _ in ends.add(UInt64(number)) }
      }
      await withTaskGroup(of: Void.self) { group in
        for (number, task) in tasks.enumerated() {
          for command in 0..<6 {
            group.addTask {
              switch (number + command) % 6 {
              case 0, 3: task.resume()
              case 1: task.suspend()
              case 2 where number % 2 == 0: task.cancel()
              case 4: _ = manager.downloadProgress(for: task)?.isPaused
              default: task.suspend()
              }
            }
          }
        }
      }
      for task in tasks { task.resume() }
      #expect(await eventually { ends.values.count == tasks.count })
      #expect(Set(ends.values).count == tasks.count)
    }
  }

  // MARK: 14: settings of one task

  /// A task keeps the serializer that it was made with, whatever the manager's becomes.
  @Test func complaint14SerializersAreCaptured() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "hello")
      manager.responseSerializer = HTTPResponseSerializer()
      let end = await ended { handler in
        let task = manager.dataTask(with: request, completion: handler)
        manager.responseSerializer = JSONResponseSerializer()
        return task
      }
      #expect(end.value as? Data == Data("Hello, world!".utf8))
    }
  }
}
