import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// Which cookies arrive, over real connections: RFC 6265bis, and the advisories of clients that sent them elsewhere.
@Suite(.timeLimit(.minutes(5))) struct CookieJourneyTests {
  private typealias Stage = CookieStage

  @Test func theyComeBack() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("sid=1", "theme=dark; Path=/")))
      try await stage.expect("sid=1; theme=dark", at: stage.url("/cookies"))
      #expect(try stage.jar.count == 2)
    }
  }

  /// What URLSession on Linux does wrong: a cookie of `/only` at another path, and a `Secure` one over http.
  @Test func pathAndSecureAreHonoured() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(
        from: stage.secureURL(Stage.set("only=1; Path=/only", "secure=1; Path=/; Secure", "both=1; Path=/")))
      try await stage.expect("both=1", at: stage.url("/cookies"))
      try await stage.expect("only=1; both=1", at: stage.url("/only"))
      try await stage.expect("only=1; secure=1; both=1", at: stage.secureURL("/only/x"))
    }
  }

  /// RFC 6265bis section 5.7: set by the redirect itself, and sent to its target at once.
  @Test(arguments: [301, 302, 303, 307, 308]) func aRedirectSetsAndItsTargetGets(_ status: Int) async throws {
    try await withCookieStage { stage in
      let path = Stage.set("hop=1; Path=/", to: "/cookies", status: status)
      try await stage.expect("hop=1", at: stage.url(path))
    }
  }

  @Test(arguments: [200, 204, 304, 400, 401, 403, 404, 500]) func everyFinalStatusSets(_ status: Int) async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("s=\(status); Path=/", status: status)))
      try await stage.expect("s=\(status)", at: stage.url("/cookies"))
    }
  }

  /// There and back: each host gets its own, whatever the chain has seen.
  @Test func aChainThereAndBack() async throws {
    try await withCookieStage { stage in
      let home = stage.url("/cookies")
      let away = stage.url(Stage.set("away=1; Path=/", to: home), "b.example")
      try await stage.expect("home=1", at: stage.url(Stage.set("home=1; Path=/", to: away)))
      #expect(stage.received == [nil, nil, "home=1"])
      try await stage.expect("away=1", at: stage.url("/cookies", "b.example"))
    }
  }

  /// A `Cookie` of the caller's is for the first origin only, and stays away when the chain returns; the jar's take its place.
  @Test func aCookieOfTheCallersStaysOnItsOrigin() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("jar=a; Path=/")))
      _ = try await stage.session.data(from: stage.url(Stage.set("jar=b; Path=/"), "b.example"))
      let home = stage.url("/cookies")
      let away = stage.url(Stage.set(to: home), "b.example")
      var request = try Request(stage.url(Stage.set(to: stage.url(Stage.set(to: away)))))
      request.fields[.cookie] = "mine=1"
      #expect(try await stage.session.text(request).0 == "jar=a")
      #expect(Array(stage.received.dropFirst(2)) == ["mine=1", "mine=1", "jar=b", "jar=a"])
    }
  }

  /// RFC 6265bis section 5.8.1: there is one field, though `HTTPFields` takes apart what is set, as HTTP/2 may have it.
  @Test(arguments: [true, false], [["a=1; b=2"], ["a=1", "b=2"], ["", "a=1; ", "b=2; "]])
  func cookiesOfTheCallersGoOutInOneField(_ isOwn: Bool, _ values: [String]) async throws {
    var fields = HTTPFields()
    fields[.cookie] = values[0]
    for value in values.dropFirst() {
      var more = HTTPFields()
      more[.cookie] = value
      for field in more { fields.append(field) }
    }
    #expect(fields.count > 1)
    let given = fields
    try await withCookieStage(configure: { if !isOwn { $0.additionalFields = given } }) { stage in
      var request = try Request(stage.url("/cookies"))
      if isOwn { request.fields = given }
      for _ in 0..<2 { _ = try await stage.session.data(for: request) }
      #expect(stage.allReceived == [["a=1; b=2"], ["a=1; b=2"]])
      var configuration = SessionConfiguration.ephemeral
      if !isOwn { configuration.additionalFields = given }
      let command = request.curlCommand(redactingSecrets: false, configuration: configuration)
      #expect(command.contains("'Cookie: a=1; b=2'"), "\(command)")
    }
  }

  @Test func aCookieOfTheConfigurationsStaysOnItsOriginToo() async throws {
    try await withCookieStage(configure: { $0.additionalFields[.cookie] = "all=1" }) { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("jar=b; Path=/"), "b.example"))
      let away = stage.url("/cookies", "b.example")
      try await stage.expect("jar=b", at: stage.url(Stage.set(to: away)))
    }
  }

  /// From https to http, allowed by the caller: `Secure` cookies stay behind.
  @Test func aDowngradeLeavesSecureCookiesBehind() async throws {
    try await withCookieStage { stage in
      let path = Stage.set("safe=1; Secure; Path=/", "plain=1; Path=/", to: stage.url("/cookies"))
      try await stage.expect("plain=1", at: stage.secureURL(path))
      try await stage.expect("safe=1; plain=1", at: stage.secureURL("/cookies"))
    }
  }

  /// "Leave Secure cookies alone": whoever is on the path of http can neither set nor replace nor delete one; nor does comparing their paths with a mere
  /// `/` read too far (curl CVE-2025-9086).
  @Test func httpTouchesNoSecureCookie() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.secureURL(Stage.set("sid=safe; Secure; Path=/")))
      for attack in [
        "sid=evil; Path=/", "sid=evil; Path=/a", "sid=evil; Domain=a.example; Path=/", "sid=; Max-Age=0; Path=/",
        "sid=evil; Secure; Path=/",
      ] {
        _ = try await stage.session.data(from: stage.url(Stage.set(attack)))
        _ = try await stage.session.data(from: stage.url(Stage.set(attack), "www.a.example"))
      }
      try await stage.expect("sid=safe", at: stage.secureURL("/a"))
    }
  }

  @Test func subdomainsGetDomainCookiesOnly() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(
        from: stage.url(Stage.set("host=1; Path=/", "domain=1; Domain=.A.Example; Path=/")))
      try await stage.expect("domain=1", at: stage.url("/cookies", "deep.www.a.example"))
      try await stage.expect("host=1; domain=1", at: stage.url("/cookies"))
      // `nota.example` ends with the same letters, `b.example` with the same label.
      try await stage.expect("", at: stage.url("/cookies", "nota.example"))
      try await stage.expect("", at: stage.url("/cookies", "b.example"))
    }
  }

  @Test func upwardsOnlyToTheRegistrableDomain() async throws {
    try await withCookieStage { stage in
      let attempts = [
        "up=1; Domain=a.example", "top=1; Domain=example", "other=1; Domain=b.example",
        "down=1; Domain=deep.www.a.example",
      ]
      for attempt in attempts {
        _ = try await stage.session.data(from: stage.url(Stage.set(attempt + "; Path=/"), "www.a.example"))
      }
      #expect(try stage.jar.cookies.map(\.name) == ["up"])
      try await stage.expect("up=1", at: stage.url("/cookies"))
    }
  }

  /// A super cookie, in each spelling that got past a client (curl CVE-2022-27779, CVE-2023-46218, CVE-2026-8924).
  @Test(arguments: ["co.test", ".co.test", "CO.Test", "co.test.", ".co.test.", "test", "test.", ""])
  func noCookieForASuffix(_ domain: String) async throws {
    let suffixes = try TestSuffixes.storage()
    try await withCookieStage(configure: { $0.cookieStorage = suffixes }) { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("super=1; Domain=\(domain); Path=/"), "shop.co.test"))
      #expect(try stage.jar.cookies.allSatisfy { $0.domain == "shop.co.test" && !$0.includesSubdomains })
      #expect(try stage.jar.count == (domain.isEmpty ? 1 : 0))
    }
  }

  /// RFC 6265 section 8.5: cookies do not isolate by port. That is how every client does it, and servers rely on it.
  @Test func portsDoNotMatter() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.secureURL(Stage.set("p=1; Path=/")))
      #expect(stage.plain.port != stage.secure.port)
      try await stage.expect("p=1", at: stage.url("/cookies"))
    }
  }

  @Test func addressesGetTheirOwnOnly() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(
        from: stage.plain.url(
          Stage.set("ip=1; Path=/", "self=1; Domain=127.0.0.1; Path=/", "part=1; Domain=0.0.1; Path=/")))
      try await stage.expect("ip=1; self=1", at: stage.plain.url("/cookies"))
      #expect(try stage.jar.cookies.allSatisfy { !$0.includesSubdomains })
      try await stage.expect("", at: stage.url("/cookies"))
    }
  }

  @Test func aFinalDotIsAnotherHost() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("d=1; Domain=a.example; Path=/", "h=1; Path=/")))
      try await stage.expect("", at: stage.url("/cookies", "a.example."))
      _ = try await stage.session.data(
        from: stage.url(Stage.set("dotted=1; Path=/", "out=1; Domain=a.example; Path=/"), "a.example."))
      try await stage.expect("dotted=1", at: stage.url("/cookies", "a.example."))
      try await stage.expect("d=1; h=1", at: stage.url("/cookies"))
    }
  }

  @Test func letterCaseOfTheHostDoesNotMatter() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("c=1; Path=/"), "A.eXample"))
      try await stage.expect("c=1", at: stage.url("/cookies"))
      try await stage.expect("c=1", at: stage.url("/cookies", "a.EXAMPLE"))
    }
  }

  /// curl CVE-2026-6276: a `Host` of the caller's decides neither what is sent nor what is kept.
  @Test func aHostOfTheCallersDecidesNothing() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("b=1; Path=/"), "b.example"))
      var request = try Request(stage.url(Stage.set("x=1; Domain=b.example; Path=/", "a=1; Path=/")))
      request.fields[try #require(.init("Host"))] = "b.example"
      _ = try await stage.session.data(for: request)
      #expect(stage.received == [nil, nil])
      try await stage.expect("b=1", at: stage.url("/cookies", "b.example"))
      try await stage.expect("a=1", at: stage.url("/cookies"))
    }
  }

  @Test func interimResponsesSetNothing() async throws {
    try await withScript([
      [
        .readHead, .send("HTTP/1.1 103 Early Hints\r\nSet-Cookie: early=1\r\n\r\n"),
        .send(reply("ok", "Set-Cookie: late=1\r\n")),
        .readHead, .send(reply("ok")), .waitForClose,
      ]
    ]) { session, server in
      try await session.expect("ok", from: server.url())
      try await session.expect("ok", from: server.url())
      #expect(server.recordedRequests.map { $0.fields.first("Cookie") } == [nil, "late=1"])
    }
  }

  /// curl CVE-2022-32205, Go CVE-2025-58186.
  @Test(arguments: [nil, 2, 60, 70, -1] as [Int?]) func oneResponseSetsFiftyUnlessTheJarTakesMore(
    _ limit: Int?
  ) async throws {
    let fields = (0..<60).map { "Set-Cookie: c\($0)=\($0)\r\n" }.joined()
    try await withScript([[.readHead, .send(reply("ok", fields)), .waitForClose]]) { session, server in
      let jar = try #require(session.configuration.cookieStorage)
      #expect(jar.maximumCookiesPerResponse == 50)
      if let limit { jar.maximumCookiesPerResponse = limit }
      try await session.expect("ok", from: server.url())
      let count = min(60, max(0, limit ?? 50))
      #expect(jar.cookies.map(\.name) == (0..<count).map { "c\($0)" })
    }
  }
}

/// What configurations and requests say about cookies.
@Suite(.timeLimit(.minutes(5))) struct CookieSettingsTests {
  private typealias Stage = CookieStage

  @Test func withoutAStorageNothingIsKept() async throws {
    try await withCookieStage(configure: { $0.cookieStorage = nil }) { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("a=1; Path=/", to: "/cookies")))
      #expect(stage.received == [nil, nil])
    }
  }

  @Test func aRequestMayHandleNone() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("a=1; Path=/")))
      var request = try Request(stage.url(Stage.set("b=1; Path=/", to: "/cookies")))
      request.handlesCookies = false
      #expect(try await stage.session.text(request).0 == "")
      try await stage.expect("a=1", at: stage.url("/cookies"))
    }
  }

  @Test func aConfigurationMaySendNone() async throws {
    try await withCookieStage(configure: { $0.setsCookies = false }) { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("a=1; Path=/", to: "/cookies")))
      #expect(stage.received == [nil, nil])
      #expect(try stage.jar.count == 1)
    }
  }

  /// The configuration's policy counts before the storage's.
  @Test func acceptPolicies() async throws {
    for (own, jar, expected) in [
      (CookieAcceptPolicy?.none, CookieAcceptPolicy.always, 1), (nil, .never, 0), (.never, .always, 0),
      (.always, .never, 1),
    ] {
      try await withCookieStage(configure: {
        $0.cookieStorage = CookieStorage(acceptPolicy: jar)
        $0.cookieAcceptPolicy = own
      }) { stage in
        _ = try await stage.session.data(from: stage.url(Stage.set("a=1; Path=/")))
        #expect(try stage.jar.count == expected, "\(String(describing: own)) \(jar)")
      }
    }
  }

  /// `mainDocumentURL` of URLSession: another site's cookies are not accepted, and only `SameSite=None` goes there.
  @Test func mainDocuments() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(
        from: stage.secureURL(
          Stage.set("strict=1; SameSite=Strict; Path=/", "silent=1; Path=/", "none=1; SameSite=None; Secure; Path=/")))
      var request = try Request(stage.secureURL(Stage.set("third=1; SameSite=None; Secure; Path=/", to: "/cookies")))
      try request.setMainDocument("https://b.example/page")
      #expect(request.mainDocumentURLString == "https://b.example/page")
      #expect(try await stage.session.text(request).0 == "none=1")
      #expect(try !stage.jar.cookies.contains { $0.name == "third" })
      try request.setMainDocument("https://www.a.example/page")
      #expect(try await stage.session.text(request).0 == "strict=1; silent=1; none=1; third=1")
      try request.setMainDocument(nil)
      #expect(throws: SessionError.self) { try request.setMainDocument("no URL") }
    }
  }

  /// The head is built twice for a request that expects 100 (Continue), and once more when it is retried: the cookies are the same.
  @Test func uploadsGetThemToo() async throws {
    try await withCookieStage { stage in
      _ = try await stage.session.data(from: stage.url(Stage.set("a=1; Path=/")))
      var request = try Request(stage.url(Stage.set()), method: .post, body: .bytes([1, 2, 3]))
      request.expectsContinue = true
      request.fields[.contentType] = "text/plain"
      _ = try await stage.session.data(for: request)
      #expect(stage.received == [nil, "a=1"])
      #expect(stage.plain.recordedRequests.last?.fields.values("Cookie").count == 1)
    }
  }

  @Test func logsHaveNone() async throws {
    let log = LogKeeper()
    try await withCookieStage(configure: { $0.logger = log.logger }) { stage in
      _ = try await stage.session.data(
        from: stage.url(
          Stage.set("a=s3cr3t; Path=/", "b=s3cr3t; Domain=example", to: "/cookies").replacing(
            "s3cr3t", with: "%733cr3t")))
      try await stage.expect("a=s3cr3t", at: stage.url("/cookies"))
    }
    #expect(!log.text.isEmpty)
    #expect(!log.text.contains("s3cr3t"))
  }
}
