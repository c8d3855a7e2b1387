import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Downloads of a manager that went on, and how they end.
@Suite(.timeLimit(.minutes(5))) struct ResumedDownloadTests {
  /// Gives everything but the end of the body; to who wants the rest, `answer`.
  private func file(_ answer: @escaping @Sendable (ServerConnection) throws -> Void) -> ServerRoute {
    ServerRoute("GET", "/file") { request, connection in
      guard request.fields.first("Range") == nil else { return try answer(connection) }
      try connection.begin(fields: ["ETag": "\"v1\""], framing: .chunked)
      try connection.write(PatternBody.bytes(1000))
      try connection.flush()
      connection.abort()
    }
  }

  private func leftover(_ manager: HTTPSessionManager, _ folder: ScratchFolder) async throws -> ResumeData {
    let error = await #expect(throws: SessionError.self) {
      try await manager.download("file", to: folder.file("first"))
    }
    let data = try #require(error?.resumeData)
    #expect(data.receivedBytes == 1000)
    return data
  }

  /// 416 with the length of what is there: the download is complete, whatever statuses a serializer accepts.
  @Test(arguments: [false, true]) func aCompleteDownloadIsNotRefused(_ isCut: Bool) async throws {
    let folder = try ScratchFolder()
    let route = file { connection in
      let fields: ServerFields = ["Content-Range": "bytes */1000"]
      guard isCut else { return try connection.respond(416, fields: fields, text: "no") }
      // Its own body is of no interest, whole or not.
      try connection.begin(416, fields: fields, framing: .length(50))
      try connection.write(Array("no".utf8))
      try connection.flush()
      connection.abort()
    }
    try await withManager([route]) { manager, server in
      let data = try await leftover(manager, folder)
      let (file, response) = try await manager.download(resumeFrom: data, to: folder.file("file"))
      #expect(response.statusCode == 416)
      #expect(try Data(contentsOf: file) == Data(PatternBody.bytes(1000)))
      let again = try await leftover(manager, folder)
      let fractions = Recorder<Double>()
      let live = Recorder<Progress>()
      let end = await downloaded { handler in
        let task = manager.downloadTask(
          withResumeData: again, progress: { fractions.add($0.fractionCompleted) },
          destination: { _, _ in folder.file("other") }, completion: handler)
        if let progress = manager.downloadProgress(for: task) { live.add(progress) }
        return task
      }
      #expect(end.error == nil && end.value as? URL == folder.file("other"))
      #expect(fractions.values == [1] && live.values.map(\.totalUnitCount) == [1000])
      #expect(live.values.map(\.completedUnitCount) == [1000])
      #expect(folder.names == ["file", "other"])
    }
  }

  /// Any other 416 makes no file.
  @Test func a416ThatWasNotAskedForIsRefused() async throws {
    let folder = try ScratchFolder()
    let route = ServerRoute(nil, "/file") { _, connection in
      try connection.respond(416, fields: ["Content-Range": "bytes */1000"], text: "no")
    }
    try await withManager([route]) { manager, server in
      let error = await #expect(throws: SerializationError.self) {
        try await manager.download("file", to: folder.file("file"))
      }
      #expect(error?.response?.statusCode == 416 && folder.names == [])
      manager.dataTaskDidReceiveResponse = { _, _, _ in .becomeDownload }
      manager.downloadTaskDidFinishDownloading = { _, _, _ in folder.file("file") }
      let request = try manager.request(.get, "file")
      let end = await ended { manager.dataTask(with: request, completion: $0) }
      #expect((end.error as? SerializationError)?.response?.statusCode == 416 && folder.names == [])
    }
  }

  /// What a download can go on from is behind every error of its response, also where the page of the error has another media type.
  @Test func aRefusedDownloadCanGoOn() async throws {
    let folder = try ScratchFolder()
    let route = file { try $0.respond(503, fields: ["Content-Type": "text/html"], text: "<p>busy</p>") }
    try await withManager([route]) { manager, server in
      let data = try await leftover(manager, folder)
      let error = await #expect(throws: SerializationError.self) {
        try await manager.download(resumeFrom: data, to: folder.file("file"))
      }
      #expect(error?.code == .unacceptableStatusCode && error?.contains(.unacceptableContentType) == true)
      let typeError = error?.underlying as? SerializationError
      let last = try #require(typeError?.underlying as? SessionError)
      #expect(last.code == .badResponse && last.resumeData == data && !last.requestHead.isEmpty)
      last.resumeData?.discard()
    }
  }

  /// An interceptor that signs URLs makes another one of the data's: the download begins anew, and the data stays its owner's.
  @Test(arguments: [false, true]) func anInterceptorsURLBeginsAnew(_ hasHandler: Bool) async throws {
    let folder = try ScratchFolder()
    let temporary = try ScratchFolder()
    let route = ServerRoute("GET", "/file") { request, connection in
      guard request.target != "/file" else { return try connection.respond(403, text: "unsigned") }
      guard request.target == "/file?signature=1" else { return try connection.respond(text: "whole") }
      guard request.fields.first("Range") == nil else {
        let fields: ServerFields = ["ETag": "\"v1\"", "Content-Range": "bytes 1000-1003/1004"]
        return try connection.respond(206, fields: fields, text: "rest")
      }
      try connection.begin(fields: ["ETag": "\"v1\""], framing: .chunked)
      try connection.write(PatternBody.bytes(1000))
      try connection.flush()
      connection.abort()
    }
    try await withManager([route], configure: { $0.temporaryDirectory = temporary.url.path }) { manager, server in
      let signatures = Locked(0)
      manager.interceptors = [
        ClosureInterceptor(adapt: { request, _ in
          let number = signatures.withLock { number -> Int in
            number += 1
            return number
          }
          var request = request
          try request.appendQuery([("signature", "\(number)")])
          return request
        })
      ]
      let data = try await leftover(manager, folder)
      let request = try Request(server.url("/file"))
      if hasHandler {
        let end = await downloaded { handler in
          manager.downloadTask(
            withResumeData: data, request: request, destination: { _, _ in folder.file("file") }, completion: handler)
        }
        #expect(end.error == nil)
      } else {
        _ = try await manager.download(resumeFrom: data, request: request, to: folder.file("file"))
      }
      #expect(try Data(contentsOf: folder.file("file")) == Data("whole".utf8))
      #expect(server.recordedRequests.map(\.target) == ["/file?signature=1", "/file?signature=2"])
      // Nobody has touched what the data names; nor is it taken for a request that was made for something else.
      manager.interceptors = []
      let other = try Request(server.url("/other"))
      let error = await #expect(throws: SessionError.self) {
        try await manager.download(resumeFrom: data, request: other, to: folder.file("other"))
      }
      #expect(error?.code == .badResumeData)
      let again = try await manager.download(resumeFrom: data, to: folder.file("again"))
      #expect(again.response.statusCode == 206)
    }
  }
}
