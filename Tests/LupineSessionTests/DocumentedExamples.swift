import FoundationEssentials
import HTTPTypes
import Logging
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// The examples of Docs/Tasks.md, Docs/Streaming.md, Docs/ResumeData.md and the logger of Docs/Recipes.md, word for word: `.ci/check-examples` looks for them here.
private struct NoEvents: Error {}

private final class Checksum: Sendable {
  private let sum = Locked(0)

  func add(_ bytes: [UInt8]) {
    sum.withLock { sum in for byte in bytes { sum += Int(byte) } }
  }

  var text: String { String(sum.withLock { $0 }) }
}

@Suite(.timeLimit(.minutes(5))) struct DocumentedExamples {
  @Test func tasks() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let delegate = RecordingDelegate()
    let url = server.url("/hello")
    let session = try Session(SessionConfiguration(), delegate: delegate)
    let task = session.dataTask(with: try Request(url))
    task.resume()
    #expect(await delegate.hasEnded())
    #expect(delegate.data == Array("Hello, world!".utf8))
    session.invalidateAndCancel()
  }

  @Test func logger() throws {
    var configuration = SessionConfiguration()
    configuration.logger = Logger(label: "http")
    configuration.logger?.logLevel = .debug
    let session = try Session(configuration)
    #expect(session.configuration.logger?.logLevel == .debug)
  }

  @Test func events() async throws {
    let route = ServerRoute("GET", "/events") { request, connection in
      let type = request.fields.first("Accept") ?? ""
      try connection.respond(fields: ["Content-Type": type], body: Array("event: add\ndata: 7\n\n".utf8))
    }
    try await withServer([route]) { session, server in
      let site = String(server.url().dropLast())
      var request = try Request(site + "/events")
      request.fields[.accept] = "text/event-stream"
      request.timeoutInterval = .seconds(86_400)
      let (bytes, response) = try await session.bytes(for: request)
      guard response.statusCode == 200, response.mimeType == "text/event-stream" else { throw NoEvents() }
      for try await event in bytes.events { print(event.type, event.data) }
      #expect(bytes.finalResponse != nil)
    }
  }

  @Test func fieldsBehindABody() async throws {
    try await withServer { session, server in
      let site = String(server.url().dropLast())
      let name = try #require(HTTPField.Name("X-Checksum"))
      let chunks: [[UInt8]] = [[1, 2], [3]]
      var request = try Request(site + "/upload", method: .put)
      request.trailerNames = [name]
      request.body = .stream(length: nil, isReplayable: true) {
        let checksum = Checksum()
        return BodyStream(chunks).observed { checksum.add($0) }.withTrailers { [name: checksum.text] }
      }
      _ = try await session.data(for: request)
      #expect(server.recordedRequests.first?.trailers.first("X-Checksum") == "6")
    }
  }

  @Test func resumedDownload() async throws {
    let size = 300_000
    let file = FileServer(.init(size: size))
    try await withFileServer(file) { session, server, folder in
      file.next(.init(cut: size / 2, resets: true))
      let request = try Request(server.url("/file"))
      let destination = DownloadDestination(path: folder.target)
      do {
        _ = try await session.download(for: request, to: destination)
      } catch let error as SessionError {
        guard let data = error.resumeData else { throw error }
        // data.bytes can be kept anywhere. Later:
        _ = try await session.download(resumeFrom: data, to: destination)
      }
      #expect(Pattern.matches(folder.target, size))
      #expect(server.requestCount == 2)
    }
  }
}
