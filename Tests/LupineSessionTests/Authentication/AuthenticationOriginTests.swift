import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import Testing

/// No credential crosses an origin: scheme, host and port, there and back.
@Suite(.timeLimit(.minutes(5))) struct AuthenticationOriginTests {
  private static let basic = AuthenticationTests.basic

  /// Two servers that both demand the same.
  private func withTwo(
    _ body: (Session, _ home: LoopbackServer, _ away: LoopbackServer) async throws -> Void
  ) async throws {
    let home = try LoopbackServer(handler: AuthenticationTests.demanding(Self.basic))
    let away = try LoopbackServer(handler: AuthenticationTests.demanding(Self.basic))
    defer {
      home.shutdown()
      away.shutdown()
    }
    try await withSession(ports: [home.port, away.port]) { try await body($0, home, away) }
  }

  /// curl CVE-2022-27774, CVE-2022-27776, CVE-2025-14524, CVE-2026-3783: however the credential is given. Also where curl took it from a netrc
  /// file: CVE-2024-11053, CVE-2025-0167, CVE-2026-6429, CVE-2026-8926.
  @Test(arguments: [301, 302, 303, 307, 308], ["request", "preemptive", "bearer", "URL"])
  func aRedirectToAnotherPort(_ status: Int, _ kind: String) async throws {
    try await withTwo { session, home, away in
      let path = "/away?status=\(status)&to=\(away.url("/"))"
      var request = try Request(home.url(path))
      switch kind {
      case "request": request.credential = AuthenticationTests.aladdin
      case "preemptive":
        request.credential = AuthenticationTests.aladdin
        request.credential?.isPreemptive = true
      case "bearer": request.credential = .bearer("abc")
      default: request = try Request("http://Aladdin:open%20sesame@127.0.0.1:\(home.port)\(path)")
      }
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(away.authorizations == [nil])
      #expect(home.authorizations == [["preemptive": Self.basic, "bearer": "Bearer abc"][kind]])
    }
  }

  /// Go CVE-2024-45336: what was left behind does not come back with the chain; what is stored for the origin does.
  @Test func thereAndBack() async throws {
    try await withTwo { session, home, away in
      let back = "\(away.url("/away"))%3Fto=\(home.url("/"))"
      var request = try Request(home.url("/away?to=\(back)"))
      request.credential = AuthenticationTests.aladdin
      request.credential?.isPreemptive = true
      #expect(try await session.data(for: request).1.statusCode == 401)
      #expect(home.authorizations == [Self.basic, nil])
      #expect(away.authorizations == [nil])
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(AuthenticationTests.aladdin, for: try ProtectionSpace(home.url("/")))
      request.credential = nil
      try await session.expect("welcome 0", from: request)
      #expect(away.authorizations.allSatisfy { $0 == nil })
    }
  }

  /// Each origin gets what is stored for it.
  @Test func storedForBoth() async throws {
    try await withTwo { session, home, away in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(AuthenticationTests.aladdin, for: try ProtectionSpace(away.url("/")))
      storage.set(.password(user: "home", password: "x"), for: try ProtectionSpace(home.url("/")))
      try await session.expect("welcome 0", from: home.url("/away?to=\(away.url("/"))"))
      #expect(home.authorizations == [nil])
      #expect(away.authorizations == [nil, Self.basic])
    }
  }

  /// A user in `Location` is the redirecting server's idea: it is not sent to anybody.
  @Test func userinfoOfALocation() async throws {
    try await withTwo { session, home, away in
      let url = "http://Aladdin:open%2520sesame@127.0.0.1:\(away.port)/"
      let response = try await session.data(from: home.url("/away?to=\(url)")).1
      #expect(response.statusCode == 401)
      #expect(away.authorizations == [nil])
    }
  }

  /// Nor within the origin, where a delegate passes the redirect on as it is: who is asking there, the storage says.
  @Test func userinfoOfALocationThatADelegatePassesOn() async throws {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(Self.basic))
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(AuthenticationTests.aladdin, for: try ProtectionSpace(server.url("/")))
      let location = "http://evil:pw@127.0.0.1:\(server.port)/y"
      let delegate = RecordingDelegate([.redirection])
      let (data, _) = try await session.data(for: Request(server.url("/away?to=\(location)")), delegate: delegate)
      #expect(String(decoding: data, as: UTF8.self) == "welcome 0")
      #expect(delegate.entries == ["redirect 302"])
      #expect(server.authorizations == [nil, nil, Self.basic])
    }
  }

  /// A user in the URL of the request stays within its origin, however `Location` is written, and whoever has seen the redirect.
  @Test(arguments: [false, true], [false, true])
  func theUserOfTheURLStaysAtItsOrigin(_ isWrittenOut: Bool, _ isSeen: Bool) async throws {
    try await withTwo { session, home, away in
      let user = "http://Aladdin:open%20sesame@127.0.0.1:\(home.port)"
      let delegate = RecordingDelegate(isSeen ? [.redirection] : [])
      func text(_ path: String) async throws -> String {
        String(decoding: try await session.data(for: Request(user + path), delegate: delegate).0, as: UTF8.self)
      }
      let within = try await text("/away?to=\(isWrittenOut ? home.url("/y") : "/y")")
      #expect(within == "welcome 0")
      // There and back it is not brought along.
      let back = try await text("/away?to=\(away.url("/away"))%3Fto=\(home.url("/z"))")
      #expect(back == "who?")
      #expect(away.authorizations == [nil])
    }
  }

  /// Spelling does not make another host, and another host is not made one by spelling.
  @Test func hosts() async throws {
    let server = try LoopbackServer(handler: AuthenticationTests.demanding(Self.basic))
    defer { server.shutdown() }
    let port = server.port
    let names = ["a.example", "b.a.example", "a.example.", "nota.example"]
    try await withSession(ports: [port]) {
      $0.nameOverrides = Dictionary(uniqueKeysWithValues: names.map { ("\($0):\(port)", "127.0.0.1:\(port)") })
    } _: { session in
      let storage = try #require(session.configuration.credentialStorage)
      storage.set(AuthenticationTests.aladdin, for: try ProtectionSpace("http://a.example:\(port)/"))
      try await session.expect("welcome 0", from: "http://A.EXAMPLE:\(port)/x")
      for name in names.dropFirst() {
        #expect(try await session.data(from: "http://\(name):\(port)/x").1.statusCode == 401)
      }
      #expect(server.authorizations == [nil, Self.basic, nil, nil, nil])
    }
  }

  /// The same host and port, once in plaintext: not the same origin.
  @Test func schemes() async throws {
    let space = try ProtectionSpace("https://a.example:8443/")
    let storage = CredentialStorage()
    storage.set(AuthenticationTests.aladdin, for: space)
    #expect(storage.defaultCredential(for: try ProtectionSpace("https://a.example:8443/x", realm: "r")) != nil)
    #expect(storage.defaultCredential(for: try ProtectionSpace("http://a.example:8443/", realm: "r")) == nil)
    #expect(storage.defaultCredential(for: try ProtectionSpace("https://a.example/", realm: "r")) == nil)
    #expect(storage.defaultCredential(for: try ProtectionSpace("https://a.example:8443/", isProxy: true)) == nil)
  }
}
