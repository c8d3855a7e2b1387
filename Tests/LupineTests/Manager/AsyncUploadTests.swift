import Foundation
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// Uploads that are awaited: what the tasks do, without the manager's queue.
@Suite(.timeLimit(.minutes(5))) struct AsyncUploadTests {
  private let serializer = DecodableResponseSerializer<Anything>()

  @Test func bytesAndFilesArrive() async throws {
    let folder = try ScratchFolder()
    let body = Data(repeating: 0x61, count: 300_000)
    try body.write(to: folder.file("body"))
    try await withManager(ServerRoute.api()) { manager, _ in
      // Nobody serves this queue: who awaits needs it not.
      let queue = DispatchQueue(label: "held")
      queue.suspend()
      defer { queue.resume() }
      manager.completionQueue = queue
      var request = try manager.request(.put, "anything")
      request.fields[.contentType] = "text/plain"
      let fractions = Recorder<Double>()
      let progress: TaskProgressHandler = { fractions.add($0.fractionCompleted) }
      let bytes = try await manager.upload(for: request, from: body, serializer: serializer, progress: progress)
      #expect(bytes.0.method == "PUT" && bytes.0.body.utf8.count == 300_000 && bytes.1.statusCode == 200)
      #expect(fractions.values.last == 1 && fractions.values == fractions.values.sorted())
      let file = try await manager.upload(for: request, fromFile: folder.file("body"), serializer: serializer)
      #expect(file.0.body == bytes.0.body && !file.0.isChunked)
      request.body = .data(body.prefix(10))
      let streamed = try await manager.upload(streamed: request, serializer: serializer)
      #expect(streamed.0.body.utf8.count == 10)
    }
  }

  /// The path of a URL that is no file's may name a file here: nobody has meant that one.
  @Test func onlyFilesAreSent() async throws {
    let folder = try ScratchFolder()
    let file = folder.file("secret")
    try Data("secret".utf8).write(to: file)
    try await withManager(ServerRoute.api()) { manager, server in
      let request = try manager.request(.put, "anything")
      let other = try #require(URL(string: "https://host\(file.path)"))
      let error = await #expect(throws: SessionError.self) {
        try await manager.upload(for: request, fromFile: other, serializer: serializer)
      }
      #expect(error?.code == .fileFailed)
      let end = await ended { manager.uploadTask(with: request, fromFile: other, completion: $0) }
      #expect((end.error as? SessionError)?.code == .fileFailed && server.requestCount == 0)
      // A name that was escaped as one component stays one.
      let name = try #require(URL(string: "\(folder.file("up").absoluteString)/..%2Fsecret"))
      try FileManager.default.createDirectory(at: folder.file("up"), withIntermediateDirectories: false)
      let escape = await #expect(throws: SessionError.self) {
        try await manager.upload(for: request, fromFile: name, serializer: serializer)
      }
      #expect(escape?.code == .fileFailed && server.requestCount == 0)
      var form = MultipartFormData()
      #expect(throws: SerializationError.self) { try form.append(fileURL: name, name: "file") }
    }
  }

  /// With progress or without, a form is the same to the server and to who reads the value.
  @Test func formsHaveProgress() async throws {
    try await withManager(ServerRoute.api()) { manager, _ in
      let fractions = Recorder<Double>()
      let told = try await manager.post(
        "anything", as: Anything.self, progress: { fractions.add($0.fractionCompleted) },
        constructingBody: { $0.append(Data(repeating: 0x61, count: 50_000), name: "field") })
      #expect(told.body.contains("name=\"field\"") && told.body.utf8.count > 50_000)
      #expect(fractions.values.last == 1)
    }
  }

  /// An optional value that is none is one to who awaits it, and to who hears of the task there is none.
  @Test func nothingIsAValue() async throws {
    try await withManager { manager, server in
      let told = NotificationRecorder(.taskDidComplete, object: nil) { notification in
        let task = notification.object as? SessionTask
        let value = notification.userInfo?[TaskNotificationKey.serializedResponse]
        return ["url": task?.originalRequest.urlString ?? "", "value": value == nil ? "none" : "some"]
      }
      let request = try manager.request(.post, "status?code=204")
      let (value, response) = try await manager.upload(
        for: request, from: Data("x".utf8), serializer: JSONResponseSerializer())
      #expect(value == nil && response.statusCode == 204)
      let site = server.url("/")
      let own: @Sendable () -> [String?] = {
        told.values.filter { $0["url"]?.hasPrefix(site) ?? false }.map { $0["value"] }
      }
      #expect(await eventually { !own().isEmpty })
      #expect(own() == ["none"])
    }
  }

  @Test func refusalsAndFailuresAreThrown() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      let refused = await #expect(throws: SerializationError.self) {
        try await manager.upload(
          for: try manager.request(.post, "status?code=404"), from: Data("x".utf8), serializer: serializer)
      }
      #expect(refused?.response?.statusCode == 404)
      let failed = await #expect(throws: SessionError.self) {
        try await manager.upload(
          for: try manager.request(.post, "anything"), fromFile: folder.file("none"), serializer: serializer)
      }
      #expect(failed?.code == .fileFailed)
    }
  }

  @Test func cancellationOfTheSwiftTaskIsTheUploads() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      var request = try manager.request(.post, "anything")
      // A body that never ends.
      request.body = .sequence(AsyncStream<[UInt8]> { _ in })
      let call = Task { [request] in try await manager.upload(streamed: request, serializer: serializer) }
      #expect(await eventually { server.openConnectionCount > 0 })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
    }
  }

  /// The answer to a HEAD has no value: whoever awaits one gets the serializer's reason.
  @Test func aHeadHasNoValue() async throws {
    try await withManager(ServerRoute.api()) { manager, _ in
      let request = try manager.request(.head, "anything")
      let error = await #expect(throws: SerializationError.self) {
        try await manager.upload(streamed: request, serializer: serializer)
      }
      #expect(error?.response?.statusCode == 200)
    }
  }

  /// A response that a hook sends to a file is no value.
  @Test func aResponseThatGoesToAFileIsAFailure() async throws {
    let folder = try ScratchFolder()
    try await withManager(ServerRoute.api()) { manager, _ in
      manager.dataTaskDidReceiveResponse = { _, _, _ in .becomeDownload }
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("hook") }
      let error = await #expect(throws: SessionError.self) {
        try await manager.upload(
          for: try manager.request(.post, "anything"), from: Data("x".utf8), serializer: serializer)
      }
      #expect(error?.code == .unknown)
    }
  }
}
