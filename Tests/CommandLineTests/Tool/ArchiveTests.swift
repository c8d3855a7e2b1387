import Foundation
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

@testable import lupine

/// `--har` and `--print-curl`.
@Suite(.timeLimit(.minutes(5))) struct ArchiveTests {
  @Test func everyExchangeIsInTheArchive() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run(
      ["--har", "out.har", "--follow", server.url("/redirect?to=/hello"), "Authorization:Basic eDp5"], in: folder)
    #expect(outcome.status == 0)
    #expect(outcome.text == "Hello, world!")
    let archive = try HTTPArchive(json: folder.bytes("out.har"))
    #expect(archive.creator.name == "lupine")
    #expect(archive.entries.map { $0.response?.status } == [302, 200])
    #expect(archive.entries.last?.response?.body == Array("Hello, world!".utf8))
    #expect(archive.entries.first?.request.first(named: "authorization") == "Basic [redacted]")
    #expect(archive.entries.last?.timings.wait != nil)
  }

  /// A key goes no further than the server that it is for; `--secret` says the same of other fields.
  @Test func keysStayAtTheirServerAndAreHidden() async throws {
    let home = try LoopbackServer(routes: ServerRoute.standard())
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      home.shutdown()
      away.shutdown()
    }
    let folder = try Folder()
    let secrets = ["--secret", "x-own", "X-Api-Key:k3yk3y", "X-Own:s3cret", "X-Plain:open"]
    let outcome = try await Tool.run(
      [home.url("/redirect?to=\(away.url("/hello"))"), "-vF", "--har", "h"] + secrets, in: folder)
    #expect(outcome.status == 0, "\(outcome.error)")
    let first = try #require(home.recordedRequests.first)
    let second = try #require(away.recordedRequests.first)
    for (name, value) in [("X-Api-Key", "k3yk3y"), ("X-Own", "s3cret"), ("X-Plain", "open")] {
      #expect(first.fields.first(name) == value, "\(name)")
      #expect(second.fields.first(name) == (name == "X-Plain" ? value : nil), "\(name)")
    }
    #expect(outcome.error.contains("> X-Api-Key: [hidden") && outcome.error.contains("> X-Own: [hidden"))
    let archive = String(decoding: try folder.bytes("h"), as: UTF8.self)
    let curl = try await Tool.run([home.url("/"), "--print-curl"] + secrets).text
    for text in [outcome.error, archive, curl] {
      #expect(!text.contains("k3yk3y") && !text.contains("s3cret") && text.contains("open"), "\(text)")
    }
    // At the server that they are for they go wherever it leads.
    #expect(try await Tool.run([home.url("/redirect?to=/hello"), "-F"] + secrets).status == 0)
    for request in home.recordedRequests.suffix(2) {
      #expect(request.fields.first("X-Api-Key") == "k3yk3y" && request.fields.first("X-Own") == "s3cret")
    }
    #expect(try await Tool.run([home.url("/hello"), "--secret", "no name"]).status == 2)
    #expect(home.requestCount == 3)
  }

  /// Bodies are in it, and secrets if wanted: nobody but its owner may read it.
  @Test func theArchiveIsItsOwnersAlone() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run(["--har", "out.har", server.url("/hello")], in: folder)
    #expect(outcome.status == 0)
    let mode = try FileManager.default.attributesOfItem(atPath: folder.path("out.har"))[.posixPermissions] as? Int
    #expect(mode == 0o600)
  }

  @Test func failuresAreInTheArchiveToo() async throws {
    let folder = try Folder()
    let outcome = try await Tool.run(
      [
        "--har", "out.har", "--show-secrets", "--auth", "a:b", "--auth-type", "basic", "http://127.0.0.1:1/",
      ], in: folder)
    #expect(outcome.status == 3)
    let entry = try #require(try HTTPArchive(json: folder.bytes("out.har")).entries.first)
    #expect(entry.failure?.code == "cannotConnect")
    #expect(entry.response == nil)
    #expect(entry.request.first(named: "authorization") == "Basic YTpi")
    let refused = try await Tool.run(["--har", "no/such/folder/x", "http://127.0.0.1:1/"], in: folder)
    #expect(refused.status == 1)
    #expect(refused.error.contains("no/such/folder/x"))
  }

  /// The first failure is the one that counts, and that its record is lost is told all the same.
  @Test func theLossOfAnArchiveIsTold() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let loss = "lupine: cannot write to /dev/full: No space left on device\n"
    let failed = try await Tool.run(["--fail", "--har", "/dev/full", server.url("/status?code=404")])
    #expect(failed.status == 22 && failed.error.contains(loss) && failed.error.contains("404"), "\(failed.error)")
    let other = try await Tool.run(["--har", "/dev/full", server.url("/status?code=404")])
    #expect(other.status == 1 && other.error == loss, "\(other.error)")
  }

  /// The answer to what is sent again, and a part that does not fit, with which nobody goes on.
  @Test func whatIsLetGoOfIsInTheArchiveAsAWhole() async throws {
    let isFirst = LockedFlag()
    let page = PatternBody.bytes(2_000_000)
    let server = try LoopbackServer { request, connection in
      if isFirst.take() { return try connection.respond(503, fields: ["Retry-After": "0"], body: page) }
      // Another part than was asked for.
      guard request.fields.first("Range") == nil else {
        return try connection.respond(206, fields: ["Content-Range": "bytes 0-1999999/2000000"], body: page)
      }
      try connection.respond(text: "whole")
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("old", to: "f")
    let outcome = try await Tool.run(
      ["--har", "out.har", "--retry", "1", "-dc", "-o", "f", server.url("/")], in: folder)
    #expect(try outcome.status == 0 && folder.bytes("f") == Array("whole".utf8), "\(outcome.error)")
    let entries = try HTTPArchive(json: folder.bytes("out.har")).entries
    #expect(entries.map { $0.response?.status } == [503, 206, 200])
    for entry in entries.prefix(2) {
      let body = entry.response?.body ?? []
      #expect(entry.failure == nil && body.count == page.count && PatternBody.matches(body, from: 0))
    }
  }

  /// Nobody waits for the body of an answer after which a request is sent again, but for what an archive has of it within the pause.
  @Test(arguments: [["-w", "%{http_code}"], ["-v"], ["--har", "out.har"]])
  func nothingIsWaitedForBeforeSendingAgain(_ options: [String]) async throws {
    let isFirst = LockedFlag()
    let go = try Latch()
    let server = try LoopbackServer { _, connection in
      guard isFirst.take() else { return try connection.respond(text: "whole") }
      try connection.begin(503, fields: ["Retry-After": "0"], framing: .length(100))
      try connection.write([1, 2, 3])
      _ = try connection.stall(until: go)
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let began = ContinuousClock.now
    let outcome = try await Tool.run(options + ["--retry", "1", server.url("/")], in: folder)
    go.release()
    #expect(
      outcome.status == 0 && String(decoding: outcome.output, as: UTF8.self).contains("whole"), "\(outcome.error)")
    // Half of the time after which nothing moving is a failure.
    #expect(ContinuousClock.now - began < .seconds(30))
  }

  /// What an archive waits for is a part of the pause, not one before it.
  @Test func thePauseBeforeSendingAgainIsOne() async throws {
    let isFirst = LockedFlag()
    let go = try Latch()
    let server = try LoopbackServer { _, connection in
      guard isFirst.take() else { return try connection.respond(text: "whole") }
      try connection.begin(503, fields: ["Retry-After": "8"], framing: .length(100))
      _ = try connection.stall(until: go)
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run(["--har", "out.har", "--retry", "1", server.url("/")], in: folder)
    go.release()
    #expect(outcome.status == 0 && outcome.text == "whole", "\(outcome.error)")
    let begins = try HTTPArchive(json: folder.bytes("out.har")).entries.map(\.startedAt)
    try #require(begins.count == 2)
    let pause = begins[1].timeIntervalSince(begins[0])
    // Two pauses of eight seconds would be sixteen.
    #expect(pause > 7.5 && pause < 15.9)
  }

  @Test func batchWritesAllItsExchanges() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let lines = (0..<20).map { #"{"id":\#($0),"url":"\#(server.url("/hello?n=\($0)"))"}"# }.joined(separator: "\n")
    let outcome = try await Tool.run(["batch", "--har", "all.har", "--concurrency", "4"], input: lines, in: folder)
    #expect(outcome.status == 0)
    #expect(outcome.lines.count == 20)
    let archive = try HTTPArchive(json: folder.bytes("all.har"))
    #expect(Set(archive.entries.map(\.request.url)) == Set((0..<20).map { server.url("/hello?n=\($0)") }))
    #expect(archive.entries.contains { $0.isReusedConnection == true })
  }

  @Test func printCurlSendsNothing() async throws {
    let outcome = try await Tool.run([
      "--print-curl", "--follow", "--insecure", "--timeout", "2.5", "PUT", "https://u:p@nobody.invalid/x?a=1",
      "name=it's",
    ])
    #expect(outcome.status == 0)
    #expect(outcome.error == "")
    // curl would repeat the method that it is told.
    #expect(outcome.lines.count == 2)
    #expect(outcome.lines.last == "# curl repeats PUT after every redirect; the request itself becomes GET after 303")
    for part in [
      "curl --request PUT ", "--anyauth --user '[redacted]'", #"--data-binary '{"name":"it'\''s"}'"#,
      "--location", "--insecure", "--max-time 2.500", "'https://nobody.invalid/x?a=1'",
    ] {
      #expect(outcome.text.contains(part), "\(part) is not in \(outcome.text)")
    }
    let shown = try await Tool.run(["--print-curl", "--show-secrets", "http://u:p@nobody.invalid/"])
    #expect(shown.text.contains("--anyauth --user u:p"))
    let proxied = try await Tool.run([
      "--print-curl", "--proxy", "socks5h://u:s3cret@p.invalid", "--no-proxy", "x.invalid", "http://nobody.invalid/",
    ])
    #expect(
      proxied.text.contains("--proxy socks5h://p.invalid:1080 --noproxy x.invalid --proxy-user '[redacted]'"))
    #expect(!proxied.text.contains("s3cret"))
  }

  /// What comes from standard input has its place in the form.
  @Test func printCurlKeepsTheFormAboutAStream() async throws {
    let outcome = try await Tool.run([
      "--print-curl", "http://nobody.invalid/", "--multipart", "a=100%", "--multipart", "f@-", "--multipart", "b=2",
    ])
    let text = outcome.text
    #expect(outcome.status == 0 && text.hasPrefix("{ printf '") && text.contains("; cat; printf '"), "\(text)")
    for part in [
      #"name="a"\015\n\015\n100%%"#, #"name="b""#, " | curl ", "--upload-file -", "\n# a part of the body is",
    ] {
      #expect(text.contains(part), "\(part) is not in \(text)")
    }
  }

  /// Until there is a new one.
  @Test func theOldArchiveStays() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("old", to: "out.har")
    let process = try Tool.process(["--har", "out.har", server.url("/slow")], in: folder)
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try process.run()
    #expect(await eventually { server.requestCount > 0 || !process.isRunning })
    process.interrupt()
    process.waitUntilExit()
    #expect(process.terminationReason == .uncaughtSignal)
    #expect(try folder.bytes("out.har") == Array("old".utf8))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path) == ["out.har"])
  }

  /// A link stays one, a file that may not be written stays as it is, and a pipe is written to.
  @Test func theArchiveGoesWhereItsNameLeads() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("old", to: "target")
    try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "target")
    #expect(try await Tool.run(["--har", "link", server.url("/hello")], in: folder).status == 0)
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("link")) == "target")
    #expect(try HTTPArchive(json: folder.bytes("target")).entries.count == 1)
    let piped = try await Tool.run(["--har", "/dev/stdout", "-o", "body", server.url("/hello")], in: folder)
    #expect(try HTTPArchive(json: [UInt8](piped.output)).entries.count == 1)
    // Behind what stands there already: here the body.
    let both = try await Tool.run(["--har", "/dev/stdout", server.url("/hello")], in: folder)
    #expect(both.text.hasPrefix("Hello, world!"))
    #expect(try HTTPArchive(json: [UInt8](both.output.dropFirst(13))).entries.count == 1)
    let failed = try await Tool.run(["--har", ".", server.url("/hello")], in: folder)
    #expect(failed.status == 1 && failed.error.contains("cannot write .") && server.requestCount == 3)
  }

  /// What curl would change of its own accord, and what a session file adds.
  @Test func printCurlIsTheSameRequest() async throws {
    let folder = try Folder()
    try folder.write(
      #"{"version":1,"cookies":[{"name":"sid","value":"s3cret","domain":"h.invalid","path":"/","hostOnly":true}]}"#,
      to: "s.json")
    let arguments = ["--print-curl", "--session", "s.json"]
    let hidden = try await Tool.run(arguments + ["http://h.invalid/"], in: folder)
    #expect(hidden.text.contains("Cookie: sid=") && !hidden.text.contains("s3cret"), "\(hidden.text)\(hidden.error)")
    let shown = try await Tool.run(arguments + ["--show-secrets", "http://h.invalid/"], in: folder)
    #expect(shown.text.contains("--header 'Cookie: sid=s3cret'"), "\(shown.text)")
    for url in ["http://i.invalid/", "http://h.invalid/x Cookie:a=b"] {
      let other = try await Tool.run(
        arguments + ["--show-secrets"] + url.split(separator: " ").map(String.init), in: folder)
      #expect(!other.text.contains("s3cret"))
    }
    for (path, isNeeded) in ["/a/../b": true, "/./b": true, "/a/%2E%2e/b": true, "/a/..b": false, "/": false] {
      let outcome = try await Tool.run(["--print-curl", "http://h.invalid" + path])
      #expect(outcome.text.contains("--path-as-is") == isNeeded, "\(outcome.text)")
    }
    for (arguments, statuses) in [
      (["PUT"], ""), (["GET", "-F"], ""), (["POST", "-F"], ""), (["HEAD", "-F"], ""), (["DELETE", "-F"], "303"),
      (["POST", "-F", "@-"], "301, 302, 303"),
    ] {
      var line = ["--print-curl"] + arguments
      line.insert("http://h.invalid/", at: 2)
      let text = try await Tool.run(line).text
      #expect(text.contains("# curl repeats") == !statuses.isEmpty, "\(text)")
      if !statuses.isEmpty { #expect(text.contains("becomes GET after \(statuses)\n"), "\(text)") }
    }
  }
}
