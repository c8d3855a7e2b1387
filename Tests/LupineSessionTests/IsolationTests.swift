import FoundationEssentials
import Glibc
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// What one response, field or value must not do to another.
@Suite struct IsolationTests {
  @Test func trailersOfARedirectAreNotThoseOfItsTarget() async throws {
    try await withScript([
      [
        .readHead,
        .send("HTTP/1.1 302 F\r\nLocation: /to\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Trailer: first\r\n\r\n"),
        .readHead, .send(reply("there")), .waitForClose,
      ]
    ]) { session, server in
      let (_, response) = try await session.data(from: server.url())
      #expect(response.redirects.count == 1)
      #expect(response.trailers.isEmpty)
    }
  }

  @Test func secretsOfTheSessionStayWithTheirOrigin() async throws {
    let other = try LoopbackServer(routes: ServerRoute.standard())
    defer { other.shutdown() }
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    let name = try #require(HTTPField.Name("X-Own-Key"))
    configuration.additionalFields[name] = "secret"
    configuration.sensitiveFields = [name]
    let session = try Session(configuration)
    _ = try await session.data(from: server.url("/redirect?to=\(other.url("/hello"))"))
    #expect(server.recordedRequests.first?.fields.first("X-Own-Key") == "secret")
    #expect(other.recordedRequests.count == 1)
    #expect(other.recordedRequests.first?.fields.first("X-Own-Key") == nil)
  }

  @Test func aPipeIsNoFileAndNobodyWaitsForItsWriter() async throws {
    let directory = try ScratchDirectory()
    let path = directory.path + "/pipe"
    let code = unsafe mkfifo(path, 0o600)
    #expect(code == 0)
    let session = try Session()
    let request = try Request("http://127.0.0.1:1/", method: .put, body: .file(path: path))
    let error = await #expect(throws: SessionError.self) { try await session.data(for: request) }
    #expect(error?.code == .fileFailed)
  }

  @Test func extremeValuesOfTheCallerAreErrorsNotTraps() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let session = try Session()
    var request = try Request(server.url("/hello"))
    request.maximumBufferedBodySize = -1
    let tooLarge = await #expect(throws: SessionError.self) { try await session.data(for: request) }
    #expect(tooLarge?.code == .bodyTooLarge)
    var upload = try Request(server.url("/upload"), method: .put)
    upload.body = .file(path: "/proc/self/exe", offset: .min)
    let file = await #expect(throws: SessionError.self) { try await session.data(for: upload) }
    #expect(file?.code == .fileFailed)
    var slow = try Request(server.url("/redirect?to=/hello"))
    slow.totalTimeout = .seconds(Int64.min)
    let late = await #expect(throws: SessionError.self) { try await session.data(for: slow) }
    #expect(late?.code == .timedOut)
  }
}
