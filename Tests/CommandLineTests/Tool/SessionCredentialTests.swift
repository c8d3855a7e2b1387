import Foundation
import LupineRules
import LupineTesting
import Testing

@testable import lupine

/// What `--session` keeps of `--auth` between runs.
@Suite(.timeLimit(.minutes(5))) struct SessionCredentialTests {
  private static let credentials = "Mufasa:Circle of Life"

  private func basicPath(_ user: String = "Mufasa", _ password: String = "Circle%20of%20Life") -> String {
    "/basic-auth?user=\(user)&password=\(password)"
  }

  /// Basic at the standard route, Digest everywhere else.
  private func withServer(_ body: (LoopbackServer, Folder) async throws -> Void) async throws {
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life")
    let digest = ServerRoute(nil, "/digest") { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    let bearer = ServerRoute(nil, "/bearer") { request, connection in
      if request.fields.first("Authorization") == "Bearer t0ken" { return try connection.respond(text: "Welcome.") }
      try connection.respond(401, fields: ["WWW-Authenticate": "Bearer realm=\"lupine\""], text: "")
    }
    let server = try LoopbackServer(routes: [digest, bearer] + ServerRoute.standard())
    defer { server.shutdown() }
    try await body(server, Folder())
  }

  /// Exit status and requests of a run with the session `s`.
  private func run(
    _ server: LoopbackServer, _ path: String, _ arguments: [String] = [], in folder: Folder
  ) async throws -> [Int] {
    let before = server.requestCount
    let outcome = try await Tool.run([server.url(path), "--fail", "--session", "s"] + arguments, in: folder)
    return [Int(outcome.status), server.requestCount - before]
  }

  /// The members of the credentials in the file.
  private func kept(_ folder: Folder) throws -> [JSONValue] {
    try JSONReader.read(try folder.bytes("s"))["credentials"]?.array ?? []
  }

  @Test(arguments: [
    ("/basic-auth?user=Mufasa&password=Circle%20of%20Life", "any", "basic", 2),
    ("/basic-auth?user=Mufasa&password=Circle%20of%20Life", "basic", "basic", 1), ("/digest", "any", "digest", 2),
    ("/digest", "digest", "digest", 2), ("/bearer", "bearer", "bearer", 1),
  ]) func whatTheServerAcceptsIsKept(_ path: String, _ type: String, _ method: String, _ requests: Int) async throws {
    try await withServer { server, folder in
      // Of a version of the program that kept cookies alone, for all to read.
      try folder.write(#"{"version": 1, "cookies": [], "later": 7}"#, to: "s")
      let credentials = type == "bearer" ? "t0ken" : Self.credentials
      let given = try await run(server, path, ["-a", credentials, "-A", type], in: folder)
      #expect(given == [0, requests])
      let mode = try FileManager.default.attributesOfItem(atPath: folder.path("s"))[.posixPermissions] as? Int
      #expect(mode == 0o600)
      let realm = requests == 1 ? nil : "lupine"
      let entry = try #require(try kept(folder).first)
      #expect(entry["origin"] == .string("http://127.0.0.1:\(server.port)") && entry["method"] == .string(method))
      // What was sent unasked is of no realm.
      #expect(entry["realm"]?.string == realm)
      let later = try await run(server, path, in: folder)
      #expect(later == [0, 2])
      let other = try await Tool.run([server.url(path), "--fail", "--session", "t"], in: folder)
      #expect(other.status == 22)
      let value = try JSONReader.read(try folder.bytes("s"))
      #expect(value["later"] == .number("7") && value["credentials"] == .array([entry]))
    }
  }

  @Test func itGoesToNoOtherServer() async throws {
    try await withServer { server, folder in
      let other = try LoopbackServer(routes: ServerRoute.standard())
      defer { other.shutdown() }
      #expect(try await run(server, basicPath(), ["-a", Self.credentials], in: folder) == [0, 2])
      #expect(try await run(other, basicPath(), in: folder) == [22, 1])
      let target = "\(other.url("/basic-auth"))%3Fuser=Mufasa"
      #expect(try await run(server, "/redirect?to=\(target)", ["-F"], in: folder) == [22, 1])
      #expect(other.requestCount == 2)
      #expect(other.recordedRequests.allSatisfy { $0.fields.first("Authorization") == nil })
      // Neither is what another server was given.
      #expect(try await run(server, basicPath(), in: folder) == [0, 2])
    }
  }

  @Test func whatIsGivenGoesFirstAndTakesItsPlace() async throws {
    try await withServer { (server, folder) async throws in
      #expect(try await run(server, basicPath("a", "1"), ["-a", "a:1"], in: folder) == [0, 2])
      // A refused one changes nothing, and what is kept is not tried in its place.
      #expect(try await run(server, basicPath("a", "1"), ["-a", "a:wrong"], in: folder) == [22, 2])
      #expect(try await run(server, basicPath("a", "1"), in: folder) == [0, 2])
      #expect(try await run(server, basicPath("b", "2"), ["-a", "b:2"], in: folder) == [0, 2])
      #expect(try kept(folder).map { $0["user"]?.string } == ["b"])
      #expect(try await run(server, basicPath("b", "2"), in: folder) == [0, 2])
      // Unasked it stands for all realms, behind what is for one, which goes when it is refused.
      #expect(try await run(server, basicPath("c", "3"), ["-a", "c:3", "-A", "basic"], in: folder) == [0, 1])
      #expect(try Set(kept(folder).map { $0["user"]?.string }) == ["b", "c"])
      #expect(try await run(server, basicPath("c", "3"), in: folder) == [0, 3])
      #expect(try kept(folder).map { $0["user"]?.string } == ["c"])
      #expect(try await run(server, basicPath("c", "3"), in: folder) == [0, 2])
    }
  }

  @Test(arguments: [false, true]) func whatTheServerRefusesIsDropped(_ isOfEveryRealm: Bool) async throws {
    try await withServer { (server, folder) async throws in
      let arguments = ["-a", "a:1"] + (isOfEveryRealm ? ["-A", "basic"] : [])
      #expect(try await run(server, basicPath("a", "1"), arguments, in: folder)[0] == 0)
      #expect(try kept(folder).count == 1)
      #expect(try await run(server, basicPath("a", "2"), in: folder) == [22, 2])
      #expect(try kept(folder).isEmpty)
      #expect(try await run(server, basicPath("a", "1"), in: folder) == [22, 1])
    }
  }

  /// What a cache answers, and a server that is too busy to look, says nothing of who asks.
  @Test func onlyTheServersWordCounts() async throws {
    let cached = ServerRoute(nil, "/cached") { _, connection in
      try connection.respond(fields: ["Cache-Control": "public, max-age=1000"], text: "Welcome.")
    }
    let busy = ServerRoute(nil, "/busy") { request, connection in
      guard request.fields.first("Authorization") == nil else { return try connection.respond(503, text: "later") }
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"busy\""], text: "")
    }
    let server = try LoopbackServer(routes: [cached, busy])
    defer { server.shutdown() }
    let folder = try Folder()
    let options = ["-A", "basic", "--cache", "c", "-a"]
    let first = try await run(server, "/cached", options + ["c:3"], in: folder)
    let second = try await run(server, "/cached", options + ["c:wrong"], in: folder)
    #expect(first == [0, 1] && second == [0, 0])
    #expect(try kept(folder).map { $0["password"]?.string } == ["3"])
    let third = try await run(server, "/busy", ["-a", "c:wrong"], in: folder)
    #expect(third == [22, 2])
    #expect(try kept(folder).map { $0["password"]?.string } == ["3"])
  }

  /// A file that cannot be looked at is not taken for a missing one, whose place would be written to, and one that no run has written is refused.
  @Test func whatIsNoSessionFileStays() async throws {
    try await withServer { server, folder in
      try FileManager.default.createSymbolicLink(atPath: folder.path("s"), withDestinationPath: "s")
      for option in ["--session", "--har"] {
        let outcome = try await Tool.run([server.url("/hello"), option, "s"], in: folder)
        #expect(outcome.status == 1 && outcome.error.contains("cannot find s"), "\(outcome.error)")
      }
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("s")) == "s")
      let entry = #"{"origin": "http://a.example", "user": "u", "password": "p"}"#
      let entries = Array(repeating: entry, count: 1025).joined(separator: ",")
      try folder.write(#"{"version": 1, "cookies": [], "credentials": [\#(entries)]}"#, to: "t")
      let outcome = try await Tool.run([server.url("/hello"), "--session", "t"], in: folder)
      #expect(outcome.status == 2 && outcome.error.contains("more than 1024 credentials"), "\(outcome.error)")
      #expect(server.requestCount == 0)
    }
  }

  @Test func whatIsNotGivenByTheOptionIsNotKept() async throws {
    try await withServer { server, folder in
      let url = "http://Mufasa:Circle%20of%20Life@127.0.0.1:\(server.port)\(basicPath())"
      for arguments in [[], ["-A", "basic"]] {
        let outcome = try await Tool.run([url, "--fail", "--session", "s"] + arguments, in: folder)
        #expect(outcome.status == 0, "\(outcome.error)")
      }
      #expect(try kept(folder).isEmpty)
      // Nobody had asked, and nobody liked it.
      #expect(try await run(server, "/status?code=403", ["-a", "a:1", "-A", "basic"], in: folder) == [22, 1])
      #expect(try kept(folder).isEmpty)
    }
  }

  @Test func secretsAreHidden() async throws {
    try await withServer { server, folder in
      let encoded = Data(Self.credentials.utf8).base64EncodedString()
      for path in [basicPath(), "/digest"] {
        for arguments in [["-a", Self.credentials], []] {
          let outcome = try await Tool.run([server.url(path), "-v", "--session", "s"] + arguments, in: folder)
          #expect(outcome.status == 0 && outcome.error.contains("> Authorization: "), "\(outcome.error)")
          #expect(!outcome.error.contains(encoded) && !outcome.error.contains("Circle"), "\(outcome.error)")
          #expect(!outcome.error.contains("response="))
        }
      }
      let curl = try await Tool.run([server.url("/digest"), "--print-curl", "--session", "s"], in: folder)
      #expect(curl.status == 0 && !curl.text.contains("Circle"))
      #expect(try kept(folder).count == 2)
    }
  }
}
