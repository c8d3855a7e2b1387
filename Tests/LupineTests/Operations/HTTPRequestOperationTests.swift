import Foundation
import Lupine
import LupineTesting
import Testing

/// The facts of `AFHTTPRequestOperationTests` of AFNetworking 2.5.4.
@Suite struct HTTPRequestOperationTests {
  @Test func operationReturnsItsObject() async throws {
    try await withOperations { service in
      let operation = try service.operation("/hello")
      let outcomes = operation.outcomes()
      #expect(operation.isReady && !operation.isExecuting && operation.responseObject == nil)
      operation.start()
      #expect(try await outcomes.first(1)[0].data == Data("Hello, world!".utf8))
      #expect(operation.isFinished && !operation.isExecuting && operation.error == nil)
      #expect(operation.responseString == "Hello, world!" && operation.response?.statusCode == 200)
      #expect(operation.responseObject as? Data == operation.responseData)
    }
  }

  /// 204: a success with empty data.
  @Test func noContent() async throws {
    try await withOperations { service in
      let operation = try service.operation("/status?code=204")
      let outcomes = operation.outcomes()
      operation.start()
      #expect(try await outcomes.first(1)[0].data == Data())
    }
  }

  /// 404 and 500: failures, with the body and what was made of it at hand.
  @Test(arguments: [404, 500]) func badStatus(_ code: Int) async throws {
    try await withOperations { service in
      let operation = try service.operation("/status?code=\(code)&body=why")
      let outcomes = operation.outcomes()
      operation.start()
      let error = try await outcomes.first(1)[0].error as? SerializationError
      #expect(error?.code == .unacceptableStatusCode && operation.responseString == "why")
      #expect(operation.response?.statusCode == code)
      #expect((operation.error as? SerializationError)?.code == .unacceptableStatusCode)
    }
  }

  @Test func jsonSerializer() async throws {
    try await withOperations { service in
      let operation = try service.operation("/json")
      operation.responseSerializer = JSONResponseSerializer()
      let calls = Calls<JSONValue?>()
      operation.setCompletion(success: { _, value in calls.note(value as? JSONValue) }, failure: nil)
      operation.start()
      #expect(try await calls.first(1)[0]?["count"]?.intValue == 13)
      operation.responseSerializer = HTTPResponseSerializer()
      #expect(operation.responseObject is Data, "another serializer makes its own value")
    }
  }

  /// The text of a body is read in the encoding of its byte order mark, else in that of the response; what is no text in it, and what names none, as
  /// UTF-8.
  @Test(
    arguments: [
      ("text/plain; charset=windows-1251", [0xCF, 0xF0], "Пр", .windowsCP1251),
      ("text/plain; charset=ISO-8859-1", [0x61, 0xE9], "aé", .isoLatin1),
      ("text/plain; charset=us-ascii", [0xC3, 0xA9], "é", .ascii),
      ("text/plain", [0xC3, 0xA9, 0xFF], "é\u{FFFD}", .utf8),
      ("text/plain", [0xFF, 0xFE, 0xE9, 0], "é", .utf8),
      ("text/plain; charset=ISO-8859-1", [0xEF, 0xBB, 0xBF, 0xC3, 0xA9], "é", .isoLatin1),
    ] as [(String, [UInt8], String, String.Encoding)])
  func responseStrings(_ type: String, _ body: [UInt8], _ text: String, _ encoding: String.Encoding) async throws {
    var configuration = SessionConfiguration()
    configuration.transport = CannedTransport([
      .init(nil, "/text", CannedReply(fields: ["Content-Type": type], body: body))
    ])
    let operation = HTTPRequestOperation(
      request: try Request("http://test/text"), session: try Session(configuration))
    operation.start()
    #expect(await until { operation.isFinished })
    #expect(operation.responseString == text && operation.responseStringEncoding == encoding)
  }

  /// What the session's cache keeps is as the operation says.
  @Test func cacheResponses() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/fresh") { _, connection in
        try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
      }
    ])
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    configuration.responseCache = cache
    let session = try Session(configuration)
    defer { session.invalidateAndCancel() }
    for text in ["fresh", "kept"] {
      let operation = HTTPRequestOperation(request: try Request(server.url("/fresh")), session: session)
      operation.setCacheResponse { proposed in
        var kept = proposed
        kept.data = Data("kept".utf8)
        return kept
      }
      operation.start()
      #expect(await until { operation.isFinished })
      #expect(operation.responseString == text)
      // What is kept is kept behind the end.
      #expect(await until { cache.currentMemoryUsage > 0 })
    }
    #expect(server.requestCount == 1)
  }

  // MARK: Cancelling

  @Test func cancelRunning() async throws {
    try await withOperations { service in
      let operation = try service.operation("/slow")
      let outcomes = operation.outcomes()
      operation.start()
      _ = try service.server.waitForRequests(1)
      #expect(operation.isExecuting)
      operation.cancel()
      #expect(try await outcomes.first(1)[0].isCancelled)
      #expect(operation.isCancelled && operation.isFinished && !operation.isExecuting)
      #expect((operation.error as? SessionError)?.code == .cancelled)
      operation.start()
      operation.cancel()
      operation.pause()
      #expect(operation.isFinished && outcomes.all.count == 1)
    }
  }

  @Test func cancelBeforeStart() async throws {
    try await withOperations { service in
      let operation = try service.operation("/hello")
      let outcomes = operation.outcomes()
      operation.cancel()
      #expect(operation.isCancelled && !operation.isFinished && operation.error == nil)
      operation.start()
      #expect(try await outcomes.first(1)[0].isCancelled)
      #expect(operation.isFinished && !operation.isExecuting && service.server.requestCount == 0)
    }
  }

  // MARK: Redirects

  /// The handler is asked once for each redirect.
  @Test(arguments: [1, 5]) func redirects(_ count: Int) async throws {
    try await withOperations { service in
      let operation = try service.operation("/redirect?n=\(count)")
      let asked = Calls<Int>()
      operation.setRedirection { response, request in
        asked.note(response.statusCode)
        return request
      }
      let outcomes = operation.outcomes()
      operation.start()
      #expect(try await outcomes.first(1)[0].data == Data("Hello, world!".utf8))
      #expect(asked.all == Array(repeating: 302, count: count))
    }
  }

  @Test func refusedRedirectIsTheResponse() async throws {
    try await withOperations { service in
      let operation = try service.operation("/redirect")
      operation.setRedirection { _, _ in nil }
      let outcomes = operation.outcomes()
      operation.start()
      #expect((try await outcomes.first(1)[0].error as? SerializationError)?.code == .unacceptableStatusCode)
      #expect(operation.response?.statusCode == 302)
    }
  }

  /// A copy that a handler makes asks what the operation asked.
  @Test func copiesMadeByHandlersAskTheSame() async throws {
    try await withOperations { service in
      let (asked, ends) = (Calls<Int>(), Calls<Int?>())
      let operation = try service.operation("/redirect")
      operation.setRedirection { response, _ in
        asked.note(response.statusCode)
        return nil
      }
      operation.setCompletion(
        success: nil,
        failure: { operation, _ in
          let copy = HTTPRequestOperation(copying: operation)
          copy.setCompletion(
            success: { copy, _ in ends.note(copy.response?.statusCode) },
            failure: { copy, _ in ends.note(copy.response?.statusCode) })
          copy.start()
        })
      operation.start()
      #expect(try await ends.first(1) == [302])
      #expect(asked.all == [302, 302])
    }
  }

  // MARK: Pausing

  /// Paused with half the body, and resumed: the rest is asked for, and the body is the whole.
  @Test func pausedOperationGoesOn() async throws {
    try await withOperations { service in
      let operation = try service.operation("/parts?n=100000&version=a")
      let outcomes = operation.outcomes()
      operation.start()
      #expect(await until { operation.responseData?.count == 50_000 })
      operation.pause()
      #expect(operation.isPaused && !operation.isExecuting && !operation.isFinished && !operation.isCancelled)
      operation.resume()
      #expect(!operation.isPaused)
      let data = try #require(try await outcomes.first(1)[0].data)
      #expect(data.count == 100_000 && PatternBody.matches(data, from: 0))
      #expect(operation.isFinished && operation.response?.statusCode == 206)
      let requests = service.server.recordedRequests
      #expect(requests.count == 2 && requests[0].fields.first("Range") == nil)
      #expect(requests[1].fields.first("Range") == "bytes=50000-" && requests[1].fields.first("If-Range") == "\"a\"")
      #expect(requests[1].fields.first("Accept-Encoding").map { $0 == "identity" } ?? true)
    }
  }

  /// Without a version that names every byte, or with another version, the body is fetched as a whole: nothing is put together.
  @Test(arguments: ["", "&version=a&changes=1"]) func anotherVersionIsFetchedAsAWhole(_ query: String) async throws {
    try await withOperations { service in
      let operation = try service.operation("/parts?n=100000\(query)")
      let outcomes = operation.outcomes()
      operation.start()
      #expect(await until { operation.responseData?.count == 50_000 })
      operation.pause()
      operation.resume()
      service.latch.release()
      let data = try #require(try await outcomes.first(1)[0].data)
      #expect(data.count == 100_000 && PatternBody.matches(data, from: 0) && operation.response?.statusCode == 200)
      #expect(service.server.recordedRequests.count == 2)
    }
  }

  /// Paused at once, before anything has come; then it completes.
  @Test func startThenPause() async throws {
    try await withOperations { service in
      for _ in 1...20 {
        let operation = try service.operation("/hello")
        let outcomes = operation.outcomes()
        operation.start()
        operation.pause()
        #expect(operation.isPaused || operation.isFinished)
        operation.resume()
        #expect(try await outcomes.first(1)[0].data?.count == 13)
      }
    }
  }

  @Test func cancelPaused() async throws {
    try await withOperations { service in
      let operation = try service.operation("/slow")
      let outcomes = operation.outcomes()
      operation.start()
      operation.pause()
      operation.cancel()
      #expect(try await outcomes.first(1)[0].isCancelled && operation.isFinished && !operation.isPaused)
    }
  }

  // MARK: Queues

  /// A queue runs them, waits for dependencies, and finishes those that were cancelled before.
  @Test func queueWithDependencies() async throws {
    try await withOperations { service in
      let order = Calls<String>()
      let operations = try ["a", "b", "c"].map { name in
        let operation = try service.operation("/bytes?n=10&etag=\(name)")
        operation.completionBlock = { order.note(name) }
        return operation
      }
      operations[0].addDependency(operations[1])
      operations[1].addDependency(operations[2])
      #expect(!operations[0].isReady && operations[2].isReady)
      let queue = OperationQueue()
      for operation in operations { queue.addOperation(operation) }
      // In any order: the values of several are made at a time. The one in which they ran is the server's.
      let told = try await order.first(3)
      #expect(told.sorted() == ["a", "b", "c"])
      let tags = service.server.recordedRequests.compactMap { $0.query("etag") }
      #expect(tags == ["c", "b", "a"])
      let cancelled = try service.operation("/hello")
      let outcomes = cancelled.outcomes()
      cancelled.cancel()
      queue.addOperation(cancelled)
      #expect(try await outcomes.first(1)[0].isCancelled)
    }
  }

  // MARK: Completion

  /// On the queue, in the group: who waits for the group behind the operation's end waits for the handlers.
  @Test func completionQueueAndGroup() async throws {
    try await withOperations { service in
      let group = DispatchGroup()
      let key = DispatchSpecificKey<Bool>()
      service.queue.setSpecific(key: key, value: true)
      let calls = Calls<String>()
      let operation = try service.operation("/hello")
      operation.completionGroup = group
      operation.setCompletion(
        success: { _, _ in calls.note("success \(DispatchQueue.getSpecific(key: key) == true)") },
        failure: { _, _ in calls.note("failure") })
      operation.completionBlock = { calls.note("block \(DispatchQueue.getSpecific(key: key) == true)") }
      operation.start()
      #expect(await until { operation.isFinished })
      await withCheckedContinuation { continuation in group.notify(queue: .global()) { continuation.resume() } }
      #expect(calls.all == ["success true", "block true"] && operation.completionBlock == nil)
    }
  }

  /// Who sees that an operation is over and waits for its group waits for its handlers, however soon.
  @Test func theGroupIsEnteredWithTheEnd() throws {
    let request = try Request("http://127.0.0.1/")
    let session = try Session(.ephemeral)
    let queue = DispatchQueue(label: "handlers")
    var missed = 0
    for _ in 0..<300 {
      let group = DispatchGroup()
      let operation = HTTPRequestOperation(request: request, session: session)
      operation.completionGroup = group
      operation.completionQueue = queue
      operation.cancel()
      queue.suspend()
      DispatchQueue.global().async { operation.start() }
      while !operation.isFinished { sched_yield() }
      if group.wait(timeout: .now()) == .success { missed += 1 }
      queue.resume()
      operation.waitUntilFinished()
      group.wait()
    }
    #expect(missed == 0)
  }

  @Test func progress() async throws {
    try await withOperations { service in
      let operation = try service.operation("/bytes?n=200000")
      let steps = Calls<[Int64?]>()
      operation.setDownloadProgress { steps.note([$0, $1, $2]) }
      let outcomes = operation.outcomes()
      operation.start()
      _ = try await outcomes.first(1)
      let all = service.queue.sync { steps.all }
      #expect(all.last?[1] == 200_000 && all.allSatisfy { $0[2] == 200_000 })
      #expect(all.compactMap { $0[0] }.reduce(0, +) == 200_000)
    }
  }

  @Test func uploadProgress() async throws {
    try await withOperations { service in
      var request = try Request(service.server.url("/upload"))
      request.method = .post
      request.body = .bytes(PatternBody.bytes(100_000))
      let operation = HTTPRequestOperation(request: request, session: service.session)
      operation.completionQueue = service.queue
      let steps = Calls<[Int64?]>()
      operation.setUploadProgress { steps.note([$0, $1, $2]) }
      let outcomes = operation.outcomes()
      operation.start()
      #expect(try await outcomes.first(1)[0].data != nil)
      let all = service.queue.sync { steps.all }
      #expect(all.last?[1] == 100_000 && all.allSatisfy { $0[2] == 100_000 })
      #expect(all.compactMap { $0[0] }.reduce(0, +) == 100_000)
    }
  }

  @Test func credential() async throws {
    try await withOperations { service in
      let operation = try service.operation("/basic-auth?user=u&password=p")
      operation.credential = .password(user: "u", password: "p", persistence: .none)
      let outcomes = operation.outcomes()
      operation.start()
      #expect(try await outcomes.first(1)[0].data != nil && operation.response?.statusCode == 200)
    }
  }

  // MARK: Files

  @Test func bodyToAFile() async throws {
    let folder = try ScratchFolder()
    try await withOperations { service in
      let path = folder.file("body").path
      for isResumed in [false, true] {
        let operation = try service.operation("/parts?n=60000&version=a")
        operation.output = .file(path: path, replacing: isResumed)
        let outcomes = operation.outcomes()
        let steps = Calls<Int64>()
        operation.setDownloadProgress { _, total, _ in steps.note(total) }
        operation.start()
        #expect(await until { steps.all.last == 30_000 })
        operation.pause()
        operation.resume()
        #expect(try await outcomes.first(1)[0].data == Data() && operation.responseData == nil)
        let written = try Data(contentsOf: URL(filePath: path))
        #expect(written.count == 60_000 && PatternBody.matches(written, from: 0))
      }
    }
  }

  /// A file in the way, and a folder that is not there: the error of the output is that of the operation.
  @Test func outputErrorIsTheError() async throws {
    try await withOperations { service in
      for path in ["/dev/null", "/nowhere/at/all"] {
        let operation = try service.operation("/hello")
        operation.output = .file(path: path)
        let outcomes = operation.outcomes()
        operation.start()
        #expect((try await outcomes.first(1)[0].error as? SessionError)?.code == .fileFailed)
      }
    }
  }

  /// As soon as it is announced: then it is not received up to the limit.
  @Test(arguments: [(1000, 999), (20_000_000, 10_000_000)]) func bodyTooLarge(_ count: Int, _ limit: Int) async throws {
    try await withOperations { service in
      var request = try Request(service.server.url("/bytes?n=\(count)"))
      request.maximumBufferedBodySize = limit
      let operation = HTTPRequestOperation(request: request, session: service.session)
      operation.completionQueue = service.queue
      let outcomes = operation.outcomes()
      operation.start()
      #expect((try await outcomes.first(1)[0].error as? SessionError)?.code == .bodyTooLarge)
      let data = try #require(operation.responseData)
      #expect(data.count <= min(limit, 64 << 10))
    }
  }

  /// HEAD has no value, whatever the serializer would make of a body; what is wrong with the response is said.
  @Test func headNeedsNoBody() async throws {
    try await withOperations { service in
      for (path, isGood) in [("/json", true), ("/status?code=404", false)] {
        let operation = HTTPRequestOperation(
          request: try Request(service.server.url(path), method: .head), session: service.session)
        operation.responseSerializer = DecodableResponseSerializer<[String: Int]>()
        let outcomes = operation.outcomes()
        operation.start()
        let outcome = try await outcomes.first(1)[0]
        #expect((outcome.error == nil) == isGood, "\(outcome)")
      }
    }
  }

  // MARK: Notifications

  /// Start and finish are posted, with the operation as object; a pause posts a finish, and a resumption a start.
  @Test func notifications() async throws {
    try await withOperations { service in
      let operation = try service.operation("/parts?n=1000&version=a")
      let posted = Calls<String>()
      let watched = ObjectIdentifier(operation)
      let observers = [(Notification.Name.operationDidStart, "start"), (.operationDidFinish, "finish")].map {
        name, text in
        NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { notification in
          guard (notification.object as? HTTPRequestOperation).map(ObjectIdentifier.init) == watched else { return }
          posted.note(text)
        }
      }
      defer { for observer in observers { NotificationCenter.default.removeObserver(observer) } }
      operation.start()
      #expect(await until { operation.responseData?.count == 500 })
      operation.pause()
      operation.resume()
      #expect(try await posted.first(4) == ["start", "finish", "start", "finish"])
    }
  }
}

extension HTTPRequestOperationTests {
  /// An operation that nobody holds goes on, and goes when it is over.
  @Test func operationHoldsItselfWhileItRuns() async throws {
    try await withOperations { service in
      var operation: HTTPRequestOperation? = try service.operation("/slow")
      weak let observed = operation
      let outcomes = try #require(operation).outcomes()
      operation?.start()
      operation = nil
      _ = try service.server.waitForRequests(1)
      service.latch.release()
      #expect(try await outcomes.first(1)[0].data != nil)
      #expect(await until { observed == nil })
    }
  }
}
