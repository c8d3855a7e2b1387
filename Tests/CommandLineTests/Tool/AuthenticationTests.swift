import Foundation
import LupineRules
import LupineTesting
import Testing

@testable import lupine

/// `--auth`, `--auth-type` and `auth` of a batch, and that no secret comes out again.
@Suite(.timeLimit(.minutes(3))) struct AuthenticationTests {
  private static let credentials = "Mufasa:Circle of Life"

  private func withServers(_ body: (_ basic: LoopbackServer, _ digest: LoopbackServer) async throws -> Void)
    async throws
  {
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life")
    let digest = try LoopbackServer { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    let basic = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      digest.shutdown()
      basic.shutdown()
    }
    try await body(basic, digest)
  }

  private static let basicPath = "/basic-auth?user=Mufasa&password=Circle%20of%20Life"

  @Test func ofTheCommandLine() async throws {
    try await withServers { basic, digest in
      let rows: [(LoopbackServer, [String], Int, requests: Int)] = [
        (basic, [], 22, 1), (basic, ["--auth", Self.credentials], 0, 2), (digest, ["-a", Self.credentials], 0, 2),
        (basic, ["-a", Self.credentials, "-A", "basic"], 0, 1),
        (basic, ["-a", Self.credentials, "-A", "digest"], 22, 1),
        (digest, ["-a", Self.credentials, "--auth-type", "digest"], 0, 2),
        (digest, ["-a", Self.credentials, "--auth-type", "basic"], 22, 1), (digest, ["-a", "Mufasa:wrong"], 22, 2),
        (basic, ["-a", "t0ken", "-A", "bearer"], 22, 1),
      ]
      for (server, arguments, status, requests) in rows {
        let before = server.requestCount
        let outcome = try await Tool.run([server.url(Self.basicPath), "--fail"] + arguments)
        #expect(Int(outcome.status) == status, "\(arguments)")
        #expect(server.requestCount - before == requests, "\(arguments)")
      }
      #expect(basic.recordedRequests.last?.fields.first("Authorization") == "Bearer t0ken")
    }
  }

  @Test func ofAFileAndOfTheURL() async throws {
    try await withServers { basic, digest in
      let folder = try Folder()
      try folder.write(Self.credentials + "\nanother line\n", to: "secret")
      let file = try await Tool.run([basic.url(Self.basicPath), "--auth", "@secret"], in: folder)
      #expect(file.text == "Welcome, Mufasa.")
      let input = try await Tool.run([digest.url("/"), "--auth", "@-"], input: Self.credentials)
      #expect(input.text == "Welcome.")
      let url = "http://Mufasa:Circle%20of%20Life@127.0.0.1:\(digest.port)/"
      #expect(try await Tool.run([url]).text == "Welcome.")
      #expect(try await Tool.run([url, "-A", "digest"]).text == "Welcome.")
      let count = basic.requestCount
      let home = "http://Mufasa:Circle%20of%20Life@127.0.0.1:\(basic.port)"
      #expect(try await Tool.run([home + Self.basicPath, "-A", "basic"]).text == "Welcome, Mufasa.")
      #expect(basic.requestCount == count + 1)
      #expect(try await Tool.run([home + Self.basicPath, "-A", "digest", "--fail"]).status == 22)
      #expect(try await Tool.run([home, "-A", "bearer"]).status == 2)
    }
  }

  @Test func misuse() async throws {
    try await withServers { basic, digest in
      for arguments in [
        ["--auth", "hunter2"], ["--auth", "@missing"], ["--auth-type", "basic"], ["-a", "hunter2:x", "-A", "ntlm"],
      ] {
        let outcome = try await Tool.run([basic.url("/hello")] + arguments)
        #expect(outcome.status == 2, "\(arguments)")
      }
      let control = try await Tool.run([basic.url(Self.basicPath), "-a", "hunter2:\u{1}", "-A", "basic"])
      #expect(control.status != 0 && !control.error.contains("hunter2") && control.error.contains("control character"))
      #expect(basic.requestCount == 0)
    }
  }

  @Test func secretsAreHidden() async throws {
    try await withServers { basic, digest in
      for server in [basic, digest] {
        let outcome = try await Tool.run([
          server.url("/hello"), "-v", "--timing", "-a", Self.credentials, "-A", "basic",
        ])
        let encoded = Data(Self.credentials.utf8).base64EncodedString()
        #expect(outcome.error.contains("> Authorization: Basic [hidden"))
        #expect(!outcome.error.contains(encoded) && !outcome.error.contains("Circle"))
      }
      let shown = try await Tool.run([digest.url("/"), "-v", "-a", Self.credentials])
      #expect(shown.error.contains("> Authorization: Digest [hidden"))
      #expect(!shown.error.contains("response=") && !shown.error.contains("Mufasa"))
    }
  }

  @Test func batch() async throws {
    try await withServers { basic, digest in
      let url = basic.url(Self.basicPath)
      let lines = [
        #"{"id":1,"url":"\#(url)","auth":{"user":"Mufasa","password":"Circle of Life"}}"#,
        #"{"id":2,"url":"\#(digest.url("/"))","auth":{"type":"digest","user":"Mufasa","password":"Circle of Life"}}"#,
        #"{"id":3,"url":"\#(url)","auth":{"type":"basic","user":"Mufasa","password":"wrong"}}"#,
        #"{"id":4,"url":"\#(url)","auth":{"type":"bearer","token":"t0ken"}}"#, #"{"id":5,"url":"\#(url)"}"#,
        #"{"id":6,"url":"\#(url)","auth":{"type":"ntlm","user":"secret"}}"#,
        #"{"id":7,"url":"\#(url)","auth":{"password":"secret"}}"#,
        #"{"id":8,"url":"\#(url)","auth":{"type":"bearer","user":"secret"}}"#,
        #"{"id":9,"url":"\#(url)","auth":{"user":"a","secret":"secret"}}"#,
        #"{"id":10,"url":"\#(url)","auth":{"user":"secret:x"}}"#, #"{"id":11,"url":"\#(url)","auth":"secret"}"#,
      ]
      let outcome = try await Tool.run(["batch"], input: lines.map { $0 + "\n" }.joined())
      #expect(outcome.status == 0)
      #expect(!outcome.text.contains("secret"))
      var statuses: [Int: Int] = [:]
      var errors: [Int: String] = [:]
      for line in outcome.lines {
        let result = try JSONReader.read(line)
        let id = Int(try #require(result["id"]?.number))
        statuses[id] = result["status"]?.number.map { Int($0) }
        errors[id] = result["error"]?["code"]?.string
      }
      #expect(statuses == [1: 200, 2: 200, 3: 401, 4: 401, 5: 401])
      #expect(
        errors == [
          6: "badRequest", 7: "badRequest", 8: "badRequest", 9: "badRequest", 10: "cannotAuthenticate",
          11: "badRequest",
        ])
    }
  }
}
