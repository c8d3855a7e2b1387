import HTTPTypes
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// How a canned reply is framed, which what stands above it goes by.
@Suite(.timeLimit(.minutes(1))) struct CannedFramingTests {
  static let replies: [CannedReply] = {
    let fresh: ServerFields = ["Cache-Control": "max-age=60"]
    var trailers = CannedReply(fields: fresh, body: [1, 2])
    trailers.trailers = ["X-Sum": "3"]
    var chunked = CannedReply(fields: fresh, body: [1, 2])
    chunked.fields.append("Transfer-Encoding", "chunked")
    return [CannedReply(fields: fresh, body: [1, 2]), trailers, chunked, CannedReply(status: 204, fields: fresh)]
  }()

  /// What the network would store is stored.
  @Test(arguments: replies.indices) func wholeResponsesAreStored(_ index: Int) async throws {
    let transport = CannedTransport([.init(nil, "*", Self.replies[index])])
    var configuration = SessionConfiguration.ephemeral
    configuration.transport = transport
    configuration.responseCache = ResponseCache()
    let session = try Session(configuration)
    let first = try await session.data(from: "http://a.example/")
    let second = try await session.data(from: "http://a.example/")
    #expect(first.0 == second.0 && transport.requests.count == 1)
  }

  /// What has no body has nothing behind it.
  @Test func noTrailersWithoutABody() async throws {
    let transport = CannedTransport([.init(nil, "*", Self.replies[1])])
    let session = try Session(over: transport)
    for (method, count) in [(HTTPRequest.Method.head, 0), (.get, 1)] {
      let (_, response) = try await session.data(for: Request("http://a.example/", method: method))
      #expect(response.trailers.count == count)
    }
  }
}
