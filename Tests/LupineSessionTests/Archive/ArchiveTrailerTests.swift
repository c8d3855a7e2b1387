import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// What followed the body of a request, told to an archive.
@Suite(.timeLimit(.minutes(5))) struct ArchiveTrailerTests {
  private static let sum = HTTPField.Name("X-Sum") ?? .eTag
  private static let given = [(name: "X-Sum", value: "s3cret")]
  private static let kept = [HTTPArchive.Field("X-Sum", "s3cret")]

  private static func redirect(_ status: Int, _ location: String) -> ScriptBytes {
    ScriptBytes("HTTP/1.1 \(status) There\r\nLocation: \(location)\r\nContent-Length: 0\r\n\r\n")
  }

  private static func request(_ url: String, _ body: [UInt8], _ value: String = "s3cret") throws -> Request {
    var request = try Request(url, method: .post, body: .bytes(body).withTrailers { [Self.sum: value] })
    request.trailerNames = [Self.sum]
    return request
  }

  /// They are with the last exchange that had a body, an empty one too.
  @Test(arguments: [[], [1, 2]] as [[UInt8]]) func belongToTheLastBody(_ body: [UInt8]) async throws {
    try await withScript([
      [
        .readHead, .readBody, .send(Self.redirect(307, "/again")), .readHead, .readBody,
        .send(Self.redirect(303, "/end")), .readHead, .send(reply("end")), .waitForClose,
      ]
    ]) { session, server in
      let request = try Self.request(server.url(), body)
      let (_, response) = try await session.data(for: request)
      var archive = HTTPArchive()
      archive.append(request, response: response)
      archive.append(request, response: response, requestTrailers: Self.given)
      let trailers = archive.entries.map(\.request.trailers)
      #expect(trailers == [[], [], [], [], Self.kept, []])
      let read = try HTTPArchive(json: archive.json())
      #expect(read.entries.map(\.request.trailers) == trailers)
      // What the session marks is a secret here too.
      var configuration = SessionConfiguration()
      configuration.sensitiveFields = [Self.sum]
      var marked = HTTPArchive()
      marked.append(request, response: response, requestTrailers: Self.given, configuration: configuration)
      #expect(marked.entries.count == 3 && marked.entries[1].request.trailers.first?.isSensitive == true)
      #expect(!String(decoding: marked.json(), as: UTF8.self).contains("s3cret"))
    }
  }

  @Test func failures() async throws {
    try await withScript([[.readHead, .readBody, .close], [.readHead, .waitForClose]]) { session, server in
      let sent = try Self.request(server.url(), [1])
      let lost = try await failure { try await session.data(for: sent) }
      var archive = HTTPArchive()
      archive.append(sent, error: lost, requestTrailers: Self.given)
      // What is refused when it is given was not sent.
      let cut = try Self.request(server.url(), [1], String(repeating: "x", count: 16 << 10))
      let refusal = try await failure { try await session.data(for: cut) }
      #expect(refusal.code == .badTrailers)
      archive.append(cut, error: refusal, requestTrailers: Self.given)
      #expect(archive.entries.map(\.request.trailers) == [Self.kept, []])
      #expect(await server.hasPlayed(2))
    }
  }

  /// What was refused behind a redirect is not what went out before it.
  @Test func refusedBehindARedirect() async throws {
    try await withScript([
      [.readHead, .readBody, .send(Self.redirect(307, "/again")), .readHead, .waitForClose]
    ]) { session, server in
      let given = Counter()
      var request = try Request(
        server.url(), method: .post,
        body: .bytes([1]).withTrailers {
          [Self.sum: given.next() == 0 ? "s3cret" : String(repeating: "x", count: 16 << 10)]
        })
      request.trailerNames = [Self.sum]
      let refusal = try await failure { [request] in try await session.data(for: request) }
      #expect(refusal.code == .badTrailers)
      var archive = HTTPArchive()
      archive.append(request, error: refusal, requestTrailers: Self.given)
      #expect(archive.entries.map(\.request.trailers) == [[], []])
    }
  }

  /// A request that had no body has none, whatever is said.
  @Test func withoutABody() async throws {
    try await withScript([[.readHead, .send(reply("a")), .waitForClose]]) { session, server in
      let request = try Request(server.url())
      let (_, response) = try await session.data(for: request)
      var archive = HTTPArchive()
      archive.append(request, response: response, requestTrailers: Self.given)
      #expect(archive.entries.map(\.request.trailers) == [[]])
    }
  }
}
