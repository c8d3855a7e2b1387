import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// A data task that becomes a download: from then on delegates hear of the download.
@Suite(.timeLimit(.minutes(5))) struct BecomingDownloadTests {
  private final class Listener: SessionDataDelegate, SessionDownloadDelegate {
    /// The handles that the callbacks came with.
    struct Told: Sendable {
      var download: DownloadTask?
      var sending: SessionTask?
      var measured: SessionTask?
      var completed: SessionTask?
      var error: SessionError?
      /// What the download said when it began to be one.
      var description: String?
      var date: Date?
      var isOwn = false
    }

    let handledCallbacks: CallbackSet = [.response, .becameDownload, .sentBodyData, .metrics, .completed]
    let told = Locked(Told())

    func session(
      _ session: Session, dataTask: DataTask, didReceive response: Response,
      completionHandler: @escaping @Sendable (ResponseDisposition) -> Void
    ) {
      completionHandler(.becomeDownload)
    }

    func session(_ session: Session, dataTask: DataTask, didBecome downloadTask: DownloadTask) {
      let (description, date) = (downloadTask.taskDescription, downloadTask.earliestBeginDate)
      let isOwn = downloadTask.delegate === self
      told.withLock { told in
        told.download = downloadTask
        told.description = description
        told.date = date
        told.isOwn = isOwn
      }
    }

    func session(
      _ session: Session, task: SessionTask, didSendBodyData bytesSent: Int64, totalBytesSent: Int64,
      totalBytesExpectedToSend: Int64?
    ) {
      told.withLock { $0.sending = task }
    }

    func session(_ session: Session, task: SessionTask, didFinishCollecting metrics: TaskMetrics) {
      told.withLock { $0.measured = task }
    }

    func session(_ session: Session, task: SessionTask, didCompleteWithError error: SessionError?) {
      told.withLock { told in
        told.completed = task
        told.error = error
      }
    }
  }

  /// Nothing more is said of the data task: the metrics, too, are the download's.
  @Test func metricsAreToldOfTheDownload() async throws {
    try await withServer { session, server in
      let listener = Listener()
      let data = session.dataTask(with: try Request(server.url("/bytes?n=1000")))
      data.delegate = listener
      data.resume()
      #expect(await eventually { listener.told.withLock { $0.completed != nil } })
      let told = listener.told.withLock { $0 }
      let download = try #require(told.download)
      #expect(told.measured === download && told.completed === download)
    }
  }

  /// So is what is sent behind the head of the answer: the upload goes on.
  @Test func theRestOfAnUploadIsToldOfTheDownload() async throws {
    let duplex = ServerRoute("POST", "/duplex") { _, connection in
      try connection.begin(framing: .chunked)
      try connection.flush()
      while let part = try connection.readBodyPart() { try connection.write(part) }
      try connection.finish()
    }
    try await withServer([duplex]) { session, server in
      let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
      let listener = Listener()
      let request = try Request(server.url("/duplex"), method: .post, body: .sequence(chunks))
      let upload = session.uploadTask(withStreamedRequest: request)
      upload.delegate = listener
      upload.resume()
      #expect(await eventually { listener.told.withLock { $0.download != nil } })
      producer.yield([1, 2, 3])
      producer.finish()
      #expect(await eventually { listener.told.withLock { $0.completed != nil } })
      let told = listener.told.withLock { $0 }
      let download = try #require(told.download)
      #expect(told.error == nil && upload.countOfBytesSent == 3)
      #expect(told.sending === download && told.completed === download)
    }
  }

  /// It is as urgent as the data task was.
  @Test func thePriorityIsThatOfTheTask() async throws {
    try await withServer { session, server in
      let listener = Listener()
      let data = session.dataTask(with: try Request(server.url("/hello")))
      data.delegate = listener
      data.priority = SessionTask.highPriority
      data.resume()
      #expect(await eventually { listener.told.withLock { $0.completed != nil } })
      let download = try #require(listener.told.withLock { $0.download })
      #expect(download.priority == SessionTask.highPriority)
      download.priority = SessionTask.lowPriority
      #expect(data.priority == SessionTask.lowPriority)
    }
  }

  /// What was set on the data task is there, and what it is called is one name.
  @Test func theHandleSaysWhatTheFormerOneSaid() async throws {
    try await withServer { session, server in
      let listener = Listener()
      let data = session.dataTask(with: try Request(server.url("/hello")))
      data.delegate = listener
      data.taskDescription = "report"
      let date = Date(timeIntervalSince1970: 1)
      data.earliestBeginDate = date
      data.resume()
      #expect(await eventually { listener.told.withLock { $0.completed != nil } })
      let told = listener.told.withLock { $0 }
      #expect(told.description == "report" && told.date == date && told.isOwn)
      told.download?.taskDescription = "renamed"
      #expect(data.taskDescription == "renamed")
    }
  }

  /// It is gone on with from where the task began, as that of any download is: what lies behind a redirect may be elsewhere by then.
  @Test func resumeDataNamesWhatWasAskedFor() async throws {
    let file = FileServer(.init(size: 1000), [.cut(400)])
    try await withFileServer(file) { session, server, folder in
      let first = server.url("/redirect?to=/file")
      let data = try await leftover(session, try Request(first))
      #expect(data.urlString == first && data.receivedBytes == 400)
      _ = try await session.download(resumeFrom: data, to: DownloadDestination(path: folder.target))
      #expect(Pattern.matches(folder.target, 1000))
      #expect(server.recordedRequests.map(\.path) == ["/redirect", "/file", "/redirect", "/file"])
    }
  }

  /// The first URL has no use for a GET: the last one was asked for by one.
  @Test func resumeDataNamesWhatAGetAskedFor() async throws {
    let file = FileServer(.init(size: 1000), [.cut(400)])
    try await withFileServer(file) { session, server, folder in
      let request = try Request(
        server.url("/redirect?to=/file&status=303"), method: .post, body: .bytes([1]))
      let data = try await leftover(session, request)
      #expect(data.urlString == server.url("/file"))
      _ = try await session.download(resumeFrom: data, to: DownloadDestination(path: folder.target))
      #expect(Pattern.matches(folder.target, 1000))
    }
  }

  /// What a task that becomes a download leaves when it breaks off.
  private func leftover(_ session: Session, _ request: Request) async throws -> ResumeData {
    let listener = Listener()
    let task = session.dataTask(with: request)
    task.delegate = listener
    task.resume()
    #expect(await eventually { listener.told.withLock { $0.completed != nil } })
    return try #require(listener.told.withLock { $0.error?.resumeData })
  }
}
