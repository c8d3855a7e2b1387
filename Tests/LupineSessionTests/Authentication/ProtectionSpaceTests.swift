import LupineSession
import Testing

@Suite struct ProtectionSpaceTests {
  /// Over TLS anything may be sent; in the clear what is no password or token itself.
  @Test(arguments: [false, true]) func whatReceivesCredentialsSecurely(_ isProxy: Bool) throws {
    let rows: [(url: String, method: AuthenticationMethod?, isSecure: Bool)] = [
      ("https://a.example/", .basic, true), ("https://a.example/", .bearer, true),
      ("https://a.example/", .digest, true), ("https://a.example/", nil, true),
      ("http://a.example/", .basic, false), ("http://a.example/", .bearer, false),
      ("http://a.example/", .digest, true), ("http://a.example/", nil, false),
      // The scheme counts, and not the port.
      ("http://a.example:443/", .basic, false), ("https://a.example:80/", .basic, true),
    ]
    for row in rows {
      let space = try ProtectionSpace(row.url, realm: "r", method: row.method, isProxy: isProxy)
      #expect(space.receivesCredentialSecurely == row.isSecure, "\(row)")
    }
  }
}
