import LupineRules
import LupineWire
import Testing

/// What people read of errors on the way through a proxy.
@Suite struct ProxyErrorTextTests {
  @Test(
    arguments: [
      .nameLength(0), .userLength(300), .passwordLength(256), .wrongVersion(72),
      .noAcceptableMethod(offeredPassword: false), .noAcceptableMethod(offeredPassword: true), .methodNotOffered(1),
      .credentialsRefused(1), .refused(.generalFailure), .refused(.notAllowed), .refused(.networkUnreachable),
      .refused(.hostUnreachable), .refused(.connectionRefused), .refused(.timeToLiveExpired),
      .refused(.commandNotSupported), .refused(.addressTypeNotSupported), .refused(.other(99)), .unknownAddressType(9),
    ] as [SOCKS5Error]) func sentences(_ error: SOCKS5Error)
  {
    let text = "\(error)"
    #expect(text.contains(" ") && !text.contains("("), "\(text)")
  }

  @Test func tunnels() {
    #expect("\(TunnelError.closed)" == "the proxy hung up before it answered CONNECT")
    #expect("\(TunnelError.wire(WireError(.invalidStatusLine, at: 0)))".hasSuffix("at byte 0"))
    #expect("\(ContentCodingRefusal.tooMany(limit: 5))" == "more than 5 content codings")
  }
}
