import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Forms on their way: lengths, redirects, challenges, files that change.
@Suite(.timeLimit(.minutes(5))) struct MultipartUploadTests {
  /// A form with a part of every kind.
  private static func form(
    _ folder: MultipartFolder, streamLength: Int64? = 8, isReplayable: Bool = true
  ) throws -> MultipartFormData {
    var form = MultipartFormData()
    form.append(Data("value".utf8), name: "key")
    try form.append(fileURL: folder.write(Data(PatternBody.bytes(300_000)), to: "file.bin"), name: "file")
    form.append(
      stream: { BodyStream([Array("stre".utf8), Array("amed".utf8)]) }, length: streamLength,
      isReplayable: isReplayable,
      name: "s", fileName: "s.txt", mimeType: "text/plain")
    return form
  }

  private static func request(_ url: String, _ form: MultipartFormData) throws -> Request {
    var request = try Request(url, method: .post)
    form.apply(to: &request)
    return request
  }

  /// The length is announced whenever it is known; complaint 9 of AFNetworking's users.
  @Test(arguments: [false, true], [8, nil] as [Int64?]) func arrives(_ isSecure: Bool, _ length: Int64?) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder, streamLength: length)
    let bytes = try await form.body.collect(upTo: 1 << 20)
    try await withFormServer(isSecure: isSecure) { session, server in
      let (answer, response) = try await session.data(for: Self.request(server.url("/echo"), form))
      #expect(Array(answer) == bytes)
      #expect(response.metrics.transactions.last?.requestBodyBytes == Int64(bytes.count))
      let fields = try #require(server.recordedRequests.first).fields
      #expect(fields.first("Content-Length") == length.map { _ in "\(bytes.count)" })
      #expect(fields.first("Transfer-Encoding") == (length == nil ? "chunked" : nil))
      #expect(fields.values("Content-Type") == [form.contentType])
      #expect(fields.first("Expect") == nil)
    }
  }

  @Test func throttledFormArrives() async throws {
    let folder = try MultipartFolder()
    var form = try Self.form(folder)
    let bytes = try await form.body.collect(upTo: 1 << 20)
    form.throttleBandwidth(packetSize: MultipartFormData.suggestedPacketSize, delay: .milliseconds(5))
    try await withFormServer { session, server in
      let start = ContinuousClock.now
      let (answer, _) = try await session.data(for: Self.request(server.url("/echo"), form))
      #expect(Array(answer) == bytes)
      #expect(ContinuousClock.now - start >= .milliseconds(5 * (bytes.count / MultipartFormData.suggestedPacketSize)))
      #expect(server.recordedRequests.map { $0.fields.first("Content-Length") } == ["\(bytes.count)"])
    }
  }

  @Test(arguments: [307, 308], [8, nil] as [Int64?]) func isSentAgainAfterARedirect(
    _ status: Int, _ length: Int64?
  ) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder, streamLength: length)
    let bytes = try await form.body.collect(upTo: 1 << 20)
    try await withFormServer(Self.redirecting(status) + ServerRoute.standard()) { session, server in
      let (answer, response) = try await session.data(for: Self.request(server.url("/from"), form))
      #expect(Array(answer) == bytes)
      #expect(response.redirects.count == 1)
      #expect(server.recordedRequests.map(\.bodyLength) == [bytes.count, bytes.count])
    }
  }

  /// A stream that can be made only once: the redirect is the answer, and nobody gets half a form.
  @Test func isNotSentAgainWithoutItsStream() async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder, isReplayable: false)
    try await withFormServer(Self.redirecting(307) + ServerRoute.standard()) { session, server in
      let (_, response) = try await session.data(for: Self.request(server.url("/from"), form))
      #expect(response.statusCode == 307)
      #expect(server.requestCount == 1)
    }
  }

  private static func redirecting(_ status: Int) -> [ServerRoute] {
    [
      ServerRoute("POST", "/from") { _, connection in
        _ = try connection.readBody()
        try connection.respond(status, fields: ["Location": "/echo"])
      }
    ]
  }

  private static func guarded(_ challenge: String) -> [ServerRoute] {
    [
      ServerRoute("POST", "/guarded") { request, connection in
        let body = try connection.readBody()
        guard request.fields.first("Authorization") != nil else {
          return try connection.respond(401, fields: ["WWW-Authenticate": challenge])
        }
        try connection.respond(200, body: body)
      }
    ]
  }

  @Test(arguments: [
    "Basic realm=\"r\"", "Digest realm=\"r\", nonce=\"n\", qop=\"auth\", algorithm=SHA-256",
  ]) func isSentAgainAfterAChallenge(_ challenge: String) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder)
    let bytes = try await form.body.collect(upTo: 1 << 20)
    try await withFormServer(Self.guarded(challenge)) { session, server in
      var request = try Self.request(server.url("/guarded"), form)
      request.credential = .password(user: "u", password: "p", persistence: .none)
      let (answer, response) = try await session.data(for: request)
      #expect(response.statusCode == 200)
      #expect(Array(answer) == bytes)
      #expect(server.recordedRequests.map(\.bodyLength) == [bytes.count, bytes.count])
    }
  }

  /// Digest with integrity hashes the form, its files included, before it is sent again; a stream cannot be hashed.
  @Test(arguments: [false, true]) func digestWithIntegrity(_ hasStream: Bool) async throws {
    let folder = try MultipartFolder()
    var form = MultipartFormData()
    form.append(Data("value".utf8), name: "key")
    try form.append(fileURL: folder.write(Data(PatternBody.bytes(300_000)), to: "file.bin"), name: "file")
    if hasStream {
      form.append(stream: { BodyStream([[1]]) }, length: 1, isReplayable: true, name: "", fileName: "", mimeType: "")
    }
    let challenge = "Digest realm=\"r\", nonce=\"n\", qop=\"auth-int\", algorithm=SHA-256"
    try await withFormServer(Self.guarded(challenge)) { session, server in
      var request = try Self.request(server.url("/guarded"), form)
      request.credential = .password(user: "u", password: "p", persistence: .none)
      guard !hasStream else {
        let error = try await formFailure { try await session.data(for: request) }
        #expect(error.code == .cannotAuthenticate)
        return
      }
      #expect(try await session.data(for: request).1.statusCode == 200)
      let authorization = try #require(server.recordedRequests.last?.fields.first("Authorization"))
      #expect(authorization.contains("qop=auth-int"))
    }
  }

  /// A file that is not any more what it was when it was added: the request fails before a byte has left, and no server gets a wrong form.
  @Test(arguments: [0, 299_999, 300_001], [8, nil] as [Int64?]) func fileThatChangedBefore(
    _ size: Int, _ length: Int64?
  ) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder, streamLength: length)
    try folder.write(Data(count: size), to: "file.bin")
    try await withFormServer { session, server in
      let error = try await formFailure { try await session.data(for: Self.request(server.url("/echo"), form)) }
      #expect(error.code == .fileChanged)
      #expect(!error.requestBytesSent)
      #expect(server.requestCount == 0)
    }
  }

  @Test(arguments: [8, nil] as [Int64?]) func fileThatIsGone(_ length: Int64?) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder, streamLength: length)
    try FileManager.default.removeItem(atPath: folder.path("file.bin"))
    try await withFormServer { session, server in
      let error = try await formFailure { try await session.data(for: Self.request(server.url("/echo"), form)) }
      #expect(error.code == .fileFailed)
      #expect(server.requestCount == 0)
    }
  }

  /// The file changes while the form waits for its turn behind the first attempt: the second one is refused.
  @Test(arguments: [-1, 1]) func fileThatChangesBeforeTheReplay(_ change: Int) async throws {
    let folder = try MultipartFolder()
    let form = try Self.form(folder)
    let change: @Sendable () -> Void = { _ = try? folder.write(Data(count: 300_000 + change), to: "file.bin") }
    try await withFormServer(
      [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          change()
          try connection.respond(307, fields: ["Location": "/echo"])
        }
      ] + ServerRoute.standard()
    ) { session, server in
      let error = try await formFailure { try await session.data(for: Self.request(server.url("/from"), form)) }
      #expect(error.code == .fileChanged)
      #expect(server.requestCount == 1)
    }
  }

  @Test(arguments: [false, true], [-1, 1]) func fileThatChangesOnTheWay(_ isSecure: Bool, _ change: Int) async throws {
    let folder = try MultipartFolder()
    let size = 64 << 20
    let path = folder.path("file.bin")
    try folder.write(Data(), to: "file.bin")
    let file = try FileHandle(forWritingTo: URL(filePath: path))
    try file.truncate(atOffset: UInt64(size))
    var form = MultipartFormData()
    try form.append(fileURL: URL(filePath: path), name: "file")
    let changes = Recorder<Bool>()
    let changeFile: @Sendable () -> Void = {
      changes.add((try? file.truncate(atOffset: UInt64(size + change))) != nil)
    }
    let server = try ScriptedServer(
      [[.readHead, .perform(changeFile), .readBody, .waitForClose]],
      tls: isSecure ? ServerTLS.minted(by: MultipartIdentity.authority.get(), .loopback) : nil)
    defer { server.shutdown() }
    try await withFormSession { session in
      let error = try await formFailure { try await session.data(for: Self.request(server.url(), form)) }
      #expect(error.code == .fileChanged && error.requestBytesSent)
      #expect(await until { changes.values == [true] })
      #expect(server.recordedRequests.map(\.bodyIsComplete) == [false])
    }
  }
}
