import FoundationEssentials
import LupineSession
import LupineTesting
import Testing

@Suite(.timeLimit(.minutes(5))) struct TransportPrivacyTests {
  /// Tokens of a query are no part of an error's message, whoever asked or was recorded; who compares has them in `NoAnswer`.
  @Test func tokensOfQueriesAreNotShown() async throws {
    var archive = HTTPArchive()
    archive.entries = [
      .init(
        startedAt: Date(), request: .init(method: "GET", url: "http://user:S3CRET@b.example/?sig=S3CRET"),
        response: HTTPArchive.Response(status: 200))
    ]
    let transports: [any Transport] = [
      CannedTransport([.init("GET", "/other?sig=S3CRET", .text("x"))]), ReplayTransport(archive),
      ReplayTransport(archive, order: .recorded),
    ]
    for transport in transports {
      let session = try Session(over: transport)
      let url = "http://a.example/x?access_token=S3CRET&page=2"
      let error = try await failure { try await session.data(from: url) }
      #expect(error.code == .noAnswer)
      #expect(error.message.contains("GET http://a.example/x?access_token=REDACTED&page=2"))
      #expect(!error.message.contains("S3CRET") && !"\(error)".contains("S3CRET"))
      let reason = try #require(error.underlying as? NoAnswer)
      #expect("\(reason)".contains(url))
    }
  }
}
