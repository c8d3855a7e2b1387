import LupineTLS
import Testing

/// What people read of a failed handshake.
@Suite struct ErrorTextTests {
  @Test(
    arguments: [
      .noCommonVersion, .notTLS(firstByte: 72), .alert(TLSAlert(rawValue: 40)), .alert(TLSAlert(rawValue: 99)),
      .badRecord,
      .handshakeMessageTooLarge, .postHandshakeFlood(limit: 3), .protocolViolation(reason: "bad extension"), .truncated,
      .tooMuchWhilePending(limit: 3), .rootsUnreadable(path: "/x", reason: "no PEM"), .noSystemRoots,
      .revocationListUnreadable(path: "/x", reason: "no PEM"), .identityUnreadable(reason: "no PEM"),
      .identityRefused("no card in the reader"), .keyLogUnwritable(path: "/x", code: 13), .invalidServerName("a b"),
      .invalidPolicy(setting: "ciphers"), .notNow,
      .closed, .internalFailure("no memory"), .untrusted(.selfSigned),
    ] as [TLSError]) func handshakes(_ error: TLSError)
  { expectSentence("\(error)") }

  @Test(
    arguments: [
      .expired, .notYetValid, .selfSigned, .unknownIssuer, .badSignature, .invalidAuthority, .wrongPurpose, .weak,
      .nameConstraintViolated, .revoked, .revocationUnknown, .chainTooLong(limit: 10),
      .hostMismatch(host: "a.example", names: []), .hostMismatch(host: "a.example", names: ["b.example", "c.example"]),
      .pinMismatch(found: [[1, 2]]), .missing, .rejected("no reason given"), .malformed, .other(code: 77),
    ] as [TrustProblem]) func trust(_ problem: TrustProblem)
  { expectSentence("\(problem)") }

  private func expectSentence(_ text: String) {
    #expect(text.contains(" ") && !text.contains("(") && !text.contains("["), "\(text)")
  }

  @Test func namesAreTold() {
    let text = "\(TrustProblem.hostMismatch(host: "a.example", names: ["b.example", "c.example"]))"
    #expect(text == "it is for b.example and c.example, not for a.example")
    #expect("\(TLSError.alert(.handshakeFailure))" == "the server refused with alert 40, handshake failure")
  }

  /// An address that a certificate has among its DNS names looks the same in print, and does not count (RFC 9110 section 4.3.5).
  @Test(arguments: ["127.0.0.1", "::1"]) func addressesAmongNamesAreTold(host: String) {
    let text = "\(TrustProblem.hostMismatch(host: host, names: ["b.example", host]))"
    #expect(text == "it has \(host) as a DNS name, not as an address")
  }
}
