import FoundationEssentials
import LupineRules
import LupineSession
import Testing

/// Cookies as an archive lists them.
@Suite struct ArchiveCookieTests {
  private func written(
    cookie: String? = nil, setCookie: String? = nil, redactingSecrets: Bool = false
  ) throws -> (request: [String], response: [String]) {
    var request = HTTPArchive.Request(method: "GET", url: "http://a.example/")
    if let cookie { request.fields = [.init("Cookie", cookie)] }
    var response = HTTPArchive.Response(status: 200)
    if let setCookie { response.fields = [.init("Set-Cookie", setCookie)] }
    var archive = HTTPArchive()
    archive.entries = [
      .init(startedAt: Date(timeIntervalSince1970: 1_700_000_000.123), request: request, response: response)
    ]
    let bytes = archive.json(redactingSecrets: redactingSecrets)
    let entry = try #require(try JSONReader.read(bytes)["log"]?["entries"]?.array?.first)
    return (try lines(entry["request"]), try lines(entry["response"]))
  }

  /// The members of each cookie, in order.
  private func lines(_ message: JSONValue?) throws -> [String] {
    try #require(message?["cookies"]?.array).map { cookie in
      guard case .object(let members) = cookie else { return "no object" }
      return members.map { "\($0.name)=\($0.value.string ?? "\($0.value.boolean == true)")" }.joined(separator: " ")
    }
  }

  /// As the jar reads them; the exchange was at 2023-11-14T22:13:20Z.
  @Test(arguments: [
    ("a=1", "name=a value=1"),
    ("a = 1 ; HttpOnly", "name=a value=1 httpOnly=true"),
    ("a=1; Path=/p; Domain=.A.example; Secure", "name=a value=1 path=/p domain=a.example secure=true"),
    ("a=1; Expires=Wed, 09 Jun 2100 10:18:14 GMT", "name=a value=1 expires=2100-06-09T10:18:14.000Z"),
    ("a=1; Expires=Wed, 09-Jun-21 10:18:14 GMT", "name=a value=1 expires=2021-06-09T10:18:14.000Z"),
    ("a=1; Max-Age=60", "name=a value=1 expires=2023-11-14T22:14:20.000Z"),
    (
      "a=1; Max-Age=60; Expires=Wed, 09 Jun 2100 10:18:14 GMT", "name=a value=1 expires=2023-11-14T22:14:20.000Z"
    ),
    ("a=1; Max-Age=0", "name=a value=1 expires=1970-01-01T00:00:00.000Z"),
    ("a=1; Expires=soon; Max-Age=a", "name=a value=1"),
    ("a=1; Max-Age=99999999999999999999", "name=a value=1 expires=9999-12-31T23:59:59.999Z"),
    ("value", "name= value=value"), ("value; Path=/", "name= value=value path=/"), ("=value", "name= value=value"),
    ("a=b=c", "name=a value=b=c"), ("", "name= value="),
    // The jar refuses it.
    ("a=\u{1}; Path=/", "name=a value=\u{1}"),
  ]) func whatAServerSets(_ field: String, _ expected: String) throws {
    #expect(try written(setCookie: field).response == [expected])
  }

  @Test func whatAClientSends() throws {
    #expect(
      try written(cookie: "a=1; b ; =c").request == ["name=a value=1", "name= value=b", "name= value=c"])
    let redacted = try written(cookie: "a=1; b", setCookie: "b; Max-Age=60", redactingSecrets: true)
    #expect(redacted.request == ["name=a value=[redacted]", "name= value=[redacted]"])
    #expect(redacted.response == ["name= value=[redacted] expires=2023-11-14T22:14:20.000Z"])
  }
}
