import LupineEngine
import LupineTLS
import Testing

@testable import LupineSession

/// What the engine's failures are called.
@Suite struct SessionErrorTests {
  /// A record that was changed on its way comes long after the handshake, in which nobody is to look for what is wrong.
  @Test(arguments: [TLSError.badRecord, .protocolViolation(reason: "unexpected record")])
  func laterFailuresOfTLSAreNotOfItsHandshake(_ error: TLSError) throws {
    let url = try Request("https://a.example/").parsedURL
    let told = SessionError(TransferFailure(error: .tls(error), phase: .receive, requestBytesSent: true), url: url)
    #expect(told.code == .secureConnectionFailed && told.phase == .receive)
    #expect(told.message.hasPrefix("TLS failed: ") && !told.message.contains("handshake"), "\(told)")
  }
}
