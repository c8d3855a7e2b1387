import Foundation
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// Downloads that are awaited: what the tasks do, without the manager's queue.
@Suite(.timeLimit(.minutes(5))) struct AsyncDownloadTests {
  @Test func fileIsWhereItWasWanted() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, server in
      // Nobody serves this queue: who awaits needs it not.
      let queue = DispatchQueue(label: "held")
      queue.suspend()
      defer { queue.resume() }
      manager.completionQueue = queue
      let fractions = Recorder<Double>()
      let (file, response) = try await manager.download(
        "bytes", to: folder.file("new/file"), parameters: ["n": 100_000], headers: ["X-Ask": "1"],
        options: .createIntermediateDirectories, progress: { fractions.add($0.fractionCompleted) })
      #expect(file == folder.file("new/file"))
      #expect(response.statusCode == 200)
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(100_000)))
      #expect(server.recordedRequests.first?.target == "/bytes?n=100000")
      #expect(server.recordedRequests.first?.fields.first("X-Ask") == "1")
      #expect(fractions.values.last == 1)
    }
  }

  /// The notification of the end says where the file is.
  @Test func notificationSaysWhere() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      manager.responseSerializer = HTTPResponseSerializer()
      let request = try manager.request(.get, "bytes?n=10")
      let recorders = Recorder<NotificationRecorder>()
      _ = await downloaded { handler in
        let task = manager.downloadTask(
          with: request, destination: { _, _ in folder.file("file") }, completion: handler)
        recorders.add(
          NotificationRecorder(.taskDidComplete, object: task) { notification in
            ["path": (notification.userInfo?[TaskNotificationKey.assetPath] as? URL)?.path ?? ""]
          })
        return task
      }
      let recorder = try #require(recorders.values.first)
      #expect(await eventually { recorder.count == 1 })
      #expect(recorder.values == [["path": folder.file("file").path]])
    }
  }

  @Test func hookSaysWhereInstead() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("hook") }
      let end = try await manager.download("bytes?n=10", to: folder.file("call"))
      #expect(end.file == folder.file("hook"))
      #expect(!FileManager.default.fileExists(atPath: folder.file("call").path))
    }
  }

  @Test func refusedResponseLeavesNoFile() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      let error = await #expect(throws: SerializationError.self) {
        try await manager.download("status?code=404", to: folder.file("file"))
      }
      #expect(error?.response?.statusCode == 404)
      #expect(!FileManager.default.fileExists(atPath: folder.file("file").path))
    }
  }

  @Test func fileInTheWayIsKept() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      let file = folder.file("file")
      try Data("old".utf8).write(to: file)
      let error = await #expect(throws: SessionError.self) { try await manager.download("bytes?n=10", to: file) }
      #expect(error?.code == .fileFailed)
      #expect(try Data(contentsOf: file) == Data("old".utf8))
      _ = try await manager.download("bytes?n=10", to: file, options: .overwriteExisting)
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(10)))
    }
  }

  @Test func cancelledDownloadGoesOn() async throws {
    let folder = try ScratchFolder()
    try await withManager { manager, _ in
      let request = try manager.request(.get, "bytes?n=200000&cut=150000&etag=x")
      let error = await #expect(throws: SessionError.self) {
        try await manager.download(for: request, to: folder.file("file"))
      }
      let data = try #require(error?.resumeData)
      let end = try await manager.download(resumeFrom: data, to: folder.file("file"))
      #expect(end.response.statusCode == 206)
      #expect(PatternBody.matches(try Data(contentsOf: end.file), from: 0))
    }
  }

  @Test func cancellationOfTheSwiftTaskIsTheDownloads() async throws {
    let folder = try ScratchFolder()
    let go = try Latch()
    defer { go.release() }
    let routes = [
      ServerRoute(nil, "/held") { _, connection in
        try connection.begin(200, fields: ["ETag": "\"x\""], framing: .length(1000))
        try connection.write(Array("0123456789".utf8))
        _ = try connection.stall(until: go)
      }
    ]
    try await withManager(routes) { manager, _ in
      let wrote = Recorder<Int64>()
      manager.downloadTaskDidWriteData = { _, _, _, total, _ in wrote.add(total) }
      let call = Task { try await manager.download("held", to: folder.file("file")) }
      #expect(await eventually { wrote.values == [10] })
      call.cancel()
      let error = await #expect(throws: SessionError.self) { try await call.value }
      #expect(error?.code == .cancelled)
      #expect(error?.resumeData?.receivedBytes == 10)
      let before = Task {
        unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
        return try await manager.download("held", to: folder.file("file"))
      }
      let early = await #expect(throws: SessionError.self) { try await before.value }
      #expect(early?.code == .cancelled)
    }
  }
}
