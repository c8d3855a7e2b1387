import LupineEngine
import LupineIO
import Testing

@testable import LupineSession

/// What a proxy's failures are called.
@Suite struct ProxyErrorTests {
  /// Where no name server answers, nothing is wrong with the host: who waits for connectivity waits for that as well, whoever looks the name up.
  @Test(arguments: [(ResolveError.temporary, SessionError.Code.notConnected), (.notFound, .cannotFindHost)])
  func lookups(_ error: ResolveError, _ code: SessionError.Code) throws {
    let url = try Request("http://a.example/").parsedURL
    for failure in [EngineError.resolve(error), .proxy(.target(error))] {
      let told = SessionError(TransferFailure(error: failure, phase: .proxy, requestBytesSent: false), url: url)
      #expect(told.code == code)
    }
  }
}
