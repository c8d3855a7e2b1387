import Foundation
import Lupine
import LupineTestSupport
import LupineTesting
import Testing

/// The facts of AFNetworking's `AFURLSessionManagerTests`, against a server of our own.
@Suite struct SessionManagerTests {
  // MARK: Progress

  /// The progress of a data task reaches 1, by its handler and on the object that the manager has for the task.
  @Test func dataTaskDownloadProgress() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "bytes?n=300000")
      let fractions = Recorder<Double>()
      let live = Recorder<Progress>()
      let end = await ended { handler in
        let task = manager.dataTask(
          with: request, responseSerializer: HTTPResponseSerializer(),
          downloadProgress: { fractions.add($0.fractionCompleted) }, completion: handler)
        if let progress = manager.downloadProgress(for: task) { live.add(progress) }
        return task
      }
      #expect(end.error == nil && fractions.values.last == 1)
      #expect(live.values.map(\.fractionCompleted) == [1] && live.values.map(\.totalUnitCount) == [300_000])
    }
  }

  /// The progress of a download reaches 1.
  @Test func downloadTaskProgress() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let request = try manager.request(.get, "bytes?n=300000")
      let fractions = Recorder<Double>()
      let end = await downloaded { handler in
        manager.downloadTask(
          with: request, progress: { fractions.add($0.fractionCompleted) },
          destination: { _, _ in folder.file("file") }, completion: handler)
      }
      #expect(end.error == nil && fractions.values.last == 1)
    }
  }

  /// The progress of an upload reaches 1, by its handler and on the object that the manager has for the task.
  @Test func uploadTaskProgress() async throws {
    try await withManager { manager, server in
      let request = try Request(server.url("/upload"), method: .post)
      let fractions = Recorder<Double>()
      let live = Recorder<Progress>()
      let end = await ended { handler in
        let task = manager.uploadTask(
          with: request, from: Data(PatternBody.bytes(300_000)), progress: { fractions.add($0.fractionCompleted) },
          completion: handler)
        if let progress = manager.uploadProgress(for: task) { live.add(progress) }
        return task
      }
      #expect((end.value as? JSONValue)?["bytes"] == .integer(300_000))
      #expect(fractions.values.last == 1 && live.values.map(\.fractionCompleted) == [1])
    }
  }

  /// Of a data task that had begun before anybody asked, the end is told.
  @Test func uploadProgressOfABegunTask() async throws {
    let latch = try Latch()
    let route = ServerRoute(nil, "/late") { request, connection in
      _ = try connection.readBody()
      _ = latch.wait(seconds: 60)
      try connection.respond(fields: ["Content-Type": "application/json"], body: Array("{}".utf8))
    }
    try await withManager([route]) { manager, _ in
      let live = Recorder<Progress>()
      let end = await ended { success, failure in
        let task = manager.post("late", parameters: ["a": "b"], success: success, failure: failure)
        if let task, let progress = manager.uploadProgress(for: task) { live.add(progress) }
        latch.release()
        return task
      }
      #expect(end.error == nil && end.task?.countOfBytesSent == 3)
      #expect(live.values.map(\.completedUnitCount) == [3] && live.values.map(\.totalUnitCount) == [3])
    }
  }

  /// The progress of a verb's task, which nobody can ask for before it begins, moves while the task runs: the server has all of a large body, and answers
  /// only when that was seen.
  @Test(arguments: [HTTPRequest.Method.post, .put, .patch])
  func uploadProgressOfVerbs(_ method: HTTPRequest.Method) async throws {
    let latch = try Latch()
    defer { latch.release() }
    let route = ServerRoute(nil, "/late") { request, connection in
      _ = try connection.readBody()
      _ = latch.wait(seconds: 60)
      try connection.respond(fields: ["Content-Type": "application/json"], body: Array("{}".utf8))
    }
    try await withManager([route]) { manager, _ in
      let parameters = ["a": String(repeating: "b", count: 300_000)]
      let ends = Recorder<CallEnd>()
      let success: SuccessHandler = { ends.add(CallEnd(task: $0, value: $1)) }
      let failure: FailureHandler = { ends.add(CallEnd(task: $0, error: $1)) }
      let made =
        switch method {
        case .post: manager.post("late", parameters: parameters, success: success, failure: failure)
        case .put: manager.put("late", parameters: parameters, success: success, failure: failure)
        default: manager.patch("late", parameters: parameters, success: success, failure: failure)
        }
      let task = try #require(made)
      let progress = try #require(manager.uploadProgress(for: task))
      // Read where it is moved.
      let hasMoved = await eventually {
        await withCheckedContinuation { continuation in
          manager.delegateQueue.async {
            continuation.resume(
              returning: progress.completedUnitCount == 300_002 && progress.totalUnitCount == 300_002)
          }
        }
      }
      #expect(hasMoved && ends.values.isEmpty)
      latch.release()
      #expect(await eventually { !ends.values.isEmpty })
      #expect(ends.values.first?.isSuccess == true && progress.fractionCompleted == 1)
    }
  }

  /// A progress is gone with its task, and there is none for others' tasks.
  @Test func progressIsGoneWithItsTask() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "json")
      let foreign = manager.session.dataTask(with: request) { _ in }
      #expect(manager.downloadProgress(for: foreign) == nil && manager.uploadProgress(for: foreign) == nil)
      let tasks = Recorder<DataTask>()
      _ = await ended { handler in
        let task = manager.dataTask(with: request, completion: handler)
        tasks.add(task)
        return task
      }
      let task = try #require(tasks.values.first)
      #expect(manager.downloadProgress(for: task) == nil)
    }
  }

  /// Cancelling, pausing and resuming a progress are commands to its task.
  @Test func progressCommandsTheTask() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "slow")
      let ends = Recorder<SessionError.Code?>()
      let task = manager.dataTask(with: request) { _, _, error in ends.add((error as? SessionError)?.code) }
      task.resume()
      let progress = try #require(manager.downloadProgress(for: task))
      progress.pause()
      #expect(await eventually { task.state == .suspended })
      progress.resume()
      #expect(await eventually { task.state == .running })
      progress.cancel()
      #expect(await eventually { ends.values == [.cancelled] })
    }
  }

  // MARK: Uploads

  /// Files and streams arrive whole.
  @Test func uploadsOfFilesAndStreams() async throws {
    let folder = try ScratchFolder()
    let bytes = PatternBody.bytes(100_000)
    try Data(bytes).write(to: folder.file("body"))
    try await withManager { manager, server in
      var request = try Request(server.url("/upload"), method: .put)
      let file = await ended {
        manager.uploadTask(with: request, fromFile: folder.file("body"), completion: $0)
      }
      request.body = .stream(length: nil, isReplayable: true) { BodyStream([bytes, bytes]) }
      let stream = await ended { manager.uploadTask(withStreamedRequest: request, completion: $0) }
      request.body = .none
      manager.taskNeedNewBodyStream = { _, _ in BodyStream([bytes]) }
      let asked = await ended { manager.uploadTask(withStreamedRequest: request, completion: $0) }
      let sizes = [file, stream, asked].map { ($0.value as? JSONValue)?["bytes"] }
      #expect(sizes == [.integer(100_000), .integer(200_000), .integer(100_000)])
    }
  }

  // MARK: Notifications

  /// The notification of the end has metrics, value, body and serializer; the hook for metrics is called.
  @Test func completionNotification() async throws {
    try await withManager { manager, server in
      let metrics = Recorder<Int>()
      manager.taskDidFinishCollectingMetrics = { _, _, collected in metrics.add(collected.transactions.count) }
      let told = try await completion(of: "json", manager)
      #expect(told["metrics"] == "1" && metrics.values == [1])
      #expect(told["value"] == "13" && told["data"] == "39" && told["error"] == "")
      #expect(told["serializer"] == "JSONResponseSerializer" && told["isMain"] == "true")
    }
  }

  /// That of a failure has error and body, and no value where there is none.
  @Test func completionNotificationOfAFailure() async throws {
    try await withManager { manager, server in
      let told = try await completion(of: "hello", manager)
      #expect(told["data"] == "13" && told["value"] == "" && told["error"] == "unacceptableContentType")
    }
  }

  /// What the notification of a task's end said, once it was posted.
  private func completion(of path: String, _ manager: HTTPSessionManager) async throws -> [String: String] {
    let request = try manager.request(.get, path)
    let recorders = Recorder<NotificationRecorder>()
    _ = await ended { handler in
      let task = manager.dataTask(with: request, completion: handler)
      recorders.add(NotificationRecorder(.taskDidComplete, object: task, describe))
      return task
    }
    let recorder = try #require(recorders.values.first)
    #expect(await eventually { recorder.count == 1 })
    return try #require(recorder.values.first)
  }

  private func describe(_ notification: Notification) -> [String: String] {
    let information = notification.userInfo ?? [:]
    let metrics = information[TaskNotificationKey.metrics] as? TaskMetrics
    let value = information[TaskNotificationKey.serializedResponse] as? JSONValue
    let data = information[TaskNotificationKey.responseData] as? Data
    let error = information[TaskNotificationKey.error] as? SerializationError
    let serializer = information[TaskNotificationKey.responseSerializer].map { "\(type(of: $0))" }
    var count = ""
    if case .integer(let number)? = value?["count"] { count = "\(number)" }
    return [
      "metrics": metrics.map { "\($0.transactions.count)" } ?? "", "value": count,
      "data": data.map { "\($0.count)" } ?? "", "error": error.map { "\($0.code)" } ?? "",
      "serializer": serializer ?? "", "isMain": "\(isOnMainQueue)",
    ]
  }

  enum Kind: String, CaseIterable {
    case data
    case upload
    case download
  }

  /// resume, suspend, resume: two notifications of the one and one of the other, for each kind of task; a resumption of a running task, and a
  /// suspension of one that never ran, are none.
  @Test(arguments: Kind.allCases)
  func resumeAndSuspendNotifications(_ kind: Kind) async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "slow")
      let end = Recorder<Bool>()
      let task: SessionTask =
        switch kind {
        case .data: manager.dataTask(with: request) { _, _, _ in end.add(true) }
        case .upload: manager.uploadTask(with: request, from: Data([1])) { _, _, _ in end.add(true) }
        case .download:
          manager.downloadTask(with: request, destination: nil) { _, _, _ in end.add(true) }
        }
      let resumed = NotificationRecorder(.taskDidResume, object: task)
      let suspended = NotificationRecorder(.taskDidSuspend, object: task)
      task.suspend()
      task.resume()
      task.resume()
      task.suspend()
      task.suspend()
      task.resume()
      #expect(await eventually { resumed.count == 2 && suspended.count == 1 })
      task.cancel()
      #expect(await eventually { end.values.count == 1 })
      task.resume()
      task.suspend()
      // Behind whatever those two would have had posted.
      await withCheckedContinuation { continuation in DispatchQueue.main.async { continuation.resume() } }
      #expect(resumed.count == 2 && suspended.count == 1)
    }
  }

  /// A file that has its place is notified, and so is one that cannot be moved.
  @Test func moveNotifications() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let request = try manager.request(.get, "bytes?n=10")
      for (place, name) in [
        (folder.file("file"), Notification.Name.downloadTaskDidMoveFile),
        (URL(fileURLWithPath: "/proc/a/b"), .downloadTaskDidFailToMoveFile),
      ] {
        let recorders = Recorder<NotificationRecorder>()
        let end = await downloaded { handler in
          let task = manager.downloadTask(with: request, destination: { _, _ in place }, completion: handler)
          recorders.add(
            NotificationRecorder(name, object: task) { notification in
              ["error": (notification.userInfo?[TaskNotificationKey.error] as? SessionError)?.code.rawValue ?? ""]
            })
          return task
        }
        let told = recorders.values.first?.values
        #expect(told == [["error": name == .downloadTaskDidMoveFile ? "" : "fileFailed"]])
        #expect((end.error == nil) == (name == .downloadTaskDidMoveFile))
      }
    }
  }

  // MARK: Invalidation

  /// Without a reset the session stays, and makes no more requests.
  @Test func invalidationWithoutReset() async throws {
    try await withManager { manager, server in
      let session = manager.session
      let told = NotificationRecorder(.sessionDidInvalidate, object: session)
      let hook = Recorder<Bool>()
      manager.sessionDidBecomeInvalid = { invalid, error in hook.add(invalid === session && error == nil) }
      try manager.invalidateSession(cancellingTasks: true)
      #expect(manager.session === session)
      #expect(await eventually { told.count == 1 })
      #expect(hook.values == [true])
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((end.error as? SessionError)?.code == .sessionInvalidated)
    }
  }

  /// With a reset there is another session; tasks of the old one finish unless they are cancelled.
  @Test(arguments: [true, false])
  func invalidationWithReset(_ cancelling: Bool) async throws {
    let latch = try Latch()
    try await withManager(ServerRoute.standard(latch: latch)) { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let session = manager.session
      let end = Recorder<CallEnd>()
      manager.get("slow", success: { end.add(CallEnd(task: $0, value: $1)) }) { end.add(CallEnd(task: $0, error: $1)) }
      #expect(await eventually { server.requestCount == 1 })
      try manager.invalidateSession(cancellingTasks: cancelling, resettingSession: true)
      #expect(manager.session !== session)
      #expect(await ended { manager.get("hello", success: $0, failure: $1) }.isSuccess)
      latch.release()
      #expect(await eventually { end.values.count == 1 })
      let code = (end.values.first?.error as? SessionError)?.code
      #expect(code == (cancelling ? .cancelled : nil) && end.values.first?.isSuccess == !cancelling)
    }
  }

  // MARK: Lists, queues and hooks

  /// The lists of tasks can be had on the delegate queue itself.
  @Test func listsOfTasks() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "slow")
      let ends = Recorder<Bool>()
      let tasks: [SessionTask] = [
        manager.dataTask(with: request) { _, _, _ in ends.add(true) },
        manager.uploadTask(with: request, from: Data([1])) { _, _, _ in ends.add(true) },
        manager.downloadTask(with: request, destination: nil) { _, _, _ in ends.add(true) },
      ]
      #expect(manager.tasks == tasks)
      for task in tasks { task.resume() }
      let seen = await withCheckedContinuation { continuation in
        manager.delegateQueue.async { [manager] in
          continuation.resume(returning: [
            manager.tasks, manager.dataTasks, manager.uploadTasks, manager.downloadTasks,
          ])
        }
      }
      #expect(seen == [tasks, [tasks[0]], [tasks[1]], [tasks[2]]])
      for task in tasks { task.cancel() }
      #expect(await eventually { ends.values.count == 3 && manager.tasks.isEmpty })
    }
  }

  /// Handlers run on the main queue unless another one is named, in the group that is named.
  @Test func completionQueueAndGroup() async throws {
    try await withManager { manager, server in
      let request = try manager.request(.get, "json")
      let isMain = await withCheckedContinuation { continuation in
        manager.dataTask(with: request) { _, _, _ in continuation.resume(returning: isOnMainQueue) }.resume()
      }
      #expect(isMain)
      let key = DispatchSpecificKey<Bool>()
      let queue = DispatchQueue(label: "test")
      queue.setSpecific(key: key, value: true)
      let group = DispatchGroup()
      manager.completionQueue = queue
      manager.completionGroup = group
      queue.suspend()
      let ran = Recorder<Bool>()
      let task = manager.dataTask(with: request) { _, _, _ in
        ran.add(DispatchQueue.getSpecific(key: key) ?? false)
      }
      task.resume()
      #expect(await eventually { group.wait(timeout: .now()) == .timedOut })
      queue.resume()
      #expect(await eventually { group.wait(timeout: .now()) == .success })
      #expect(ran.values == [true])
    }
  }

  /// The hooks of a data task, in their order; the raw error comes last.
  @Test func hooksOfDataTasks() async throws {
    try await withManager { manager, server in
      let told = Recorder<String>()
      manager.taskWasCreated = { _, _ in told.add("created") }
      manager.dataTaskDidReceiveResponse = { _, _, response in
        told.add("response \(response.statusCode)")
        return .allow
      }
      manager.dataTaskDidReceiveData = { _, _, data in told.add("data \(data.count)") }
      manager.taskDidComplete = { _, _, error in told.add("complete \(error == nil)") }
      let end = await ended { manager.get("json", success: $0, failure: $1) }
      #expect(end.isSuccess)
      #expect(await eventually { told.values.count == 4 })
      #expect(told.values == ["created", "response 200", "data 39", "complete true"])
      manager.dataTaskDidReceiveResponse = { _, _, _ in .cancel }
      let cancelled = await ended { manager.get("json", success: $0, failure: $1) }
      #expect((cancelled.error as? SessionError)?.code == .cancelled)
    }
  }

  /// A data task may become a download; its file goes where the manager's hook says, and the handler gets the place.
  @Test func dataTaskBecomesADownload() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let became = Recorder<Bool>()
      manager.dataTaskDidReceiveResponse = { _, _, _ in .becomeDownload }
      manager.dataTaskDidBecomeDownloadTask = { _, data, download in
        became.add(data.taskIdentifier == download.taskIdentifier)
      }
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("file") }
      manager.responseSerializer = HTTPResponseSerializer()
      let end = await ended { manager.get("bytes?n=5000", success: $0, failure: $1) }
      #expect(end.value as? URL == folder.file("file") && became.values == [true])
      let data = try Data(contentsOf: folder.file("file"))
      #expect(data.count == 5000)
    }
  }

  /// What was sent is told, and a response is stored as the hook says.
  @Test func hooksOfSendingAndStoring() async throws {
    final class Store: ResponseStore {
      let kept = Recorder<String>()
      func store(_ response: CachedResponse, for request: Request) {
        kept.add(String(decoding: response.data, as: UTF8.self))
      }
    }
    let store = Store()
    try await withManager(configure: { $0.responseStore = store }) { manager, server in
      let sent = Recorder<[Int64?]>()
      manager.taskDidSendBodyData = { _, _, _, total, expected in sent.add([total, expected]) }
      let request = try Request(server.url("/upload"), method: .post)
      let end = await ended { manager.uploadTask(with: request, from: Data(count: 5000), completion: $0) }
      #expect(end.error == nil && sent.values.last == [5000, 5000])
      manager.responseSerializer = HTTPResponseSerializer()
      manager.dataTaskWillCacheResponse = { _, _, proposed in
        var changed = proposed
        changed.data = Data("changed".utf8)
        return changed
      }
      #expect(await ended { manager.get("hello", success: $0, failure: $1) }.isSuccess)
      manager.dataTaskWillCacheResponse = { _, _, _ in nil }
      #expect(await ended { manager.get("hello", success: $0, failure: $1) }.isSuccess)
      #expect(store.kept.values == ["changed"])
    }
  }

  /// Hooks that AFNetworking has no block for: informational responses, and the beginning of a delayed task.
  @Test func hooksThatAFNetworkingLacks() async throws {
    try await withManager { manager, server in
      manager.responseSerializer = HTTPResponseSerializer()
      let told = Recorder<Int>()
      manager.taskDidReceiveInformationalResponse = { _, _, response in told.add(response.statusCode) }
      #expect(await ended { manager.get("early-hints", success: $0, failure: $1) }.isSuccess)
      #expect(told.values == [103])
      let (instead, request) = (try manager.request(.get, "hello"), try manager.request(.get, "json"))
      manager.taskWillBeginDelayedRequest = { _, _, _ in .useNewRequest(instead) }
      var end = TaskEnd()
      // On a busy machine the first date may have come before the task begins: then nothing is delayed.
      for seconds in [1.0, 30] where end.value as? Data != Data("Hello, world!".utf8) {
        end = await ended { handler in
          let task = manager.dataTask(with: request, completion: handler)
          task.earliestBeginDate = Date(timeIntervalSinceNow: seconds)
          return task
        }
      }
      #expect(end.value as? Data == Data("Hello, world!".utf8))
    }
  }

  // MARK: Downloads that go on

  /// The error of a download that broke has what the next one goes on from.
  @Test func downloadsGoOn() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      let broken = try manager.request(.get, "bytes?n=200000&cut=150000&etag=x")
      let first = await downloaded {
        manager.downloadTask(with: broken, destination: { _, _ in folder.file("file") }, completion: $0)
      }
      let data = try #require((first.error as? SessionError)?.resumeData)
      #expect(data.receivedBytes == 150_000)
      let offsets = Recorder<Int64>()
      manager.downloadTaskDidResume = { _, _, offset, expected in offsets.add(offset) }
      let second = await downloaded { handler in
        manager.downloadTask(withResumeData: data, destination: { _, _ in folder.file("file") }, completion: handler)
      }
      #expect(offsets.values == [150_000])
      #expect(second.error == nil && second.response?.statusCode == 206)
      #expect(PatternBody.matches(try Data(contentsOf: folder.file("file")), from: 0))
    }
  }
}
