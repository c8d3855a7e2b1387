import Foundation
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

@testable import lupine

/// Options that people know from curl, against real servers.
@Suite(.timeLimit(.minutes(3))) struct CurlOptionsTests {
  /// For what curl cannot be told a comment stands.
  @Test func bodiesOfHeadAndDownloads() async throws {
    let head = try await Tool.run(["HEAD", "http://a.invalid/", "a=b", "--print-curl"])
    #expect(
      head.text.contains("\n# curl waits for a body behind the answer; the request itself does not\n"), "\(head.text)")
    let download = try await Tool.run(["http://a.invalid/", "--download", "--print-curl"])
    #expect(download.text.contains("--header 'Accept-Encoding: identity'"), "\(download.text)")
    let own = try await Tool.run(["http://a.invalid/", "Accept-Encoding:br", "--download", "--print-curl"])
    #expect(own.text.contains("--header 'Accept-Encoding: br'") && !own.text.contains("identity"), "\(own.text)")
  }

  @Test func resolveIncludeAndWriteOut() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let format =
      "\\n%{http_code} %{response_code} %{num_redirects} %{size_download} %{remote_ip} %{content_type} %{url_effective}|"
      + "%{time_namelookup} %{time_connect} %{time_appconnect} %{time_starttransfer} %{time_total}"
    let outcome = try await Tool.run([
      "http://api.invalid:\(server.port)/redirect?to=/hello", "-Fi", "-w", format, "--resolve",
      "api.invalid:\(server.port):127.0.0.1", "--no-proxy", "*",
    ])
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    let text = outcome.text
    #expect(text.hasPrefix("HTTP/1.1 200 OK\n") && text.contains("\n\nHello, world!\n"), "\(text)")
    let parts = try #require(text.components(separatedBy: "\n").last).split(separator: "|").map(String.init)
    let url = "http://api.invalid:\(server.port)/hello"
    #expect(parts.first == "200 200 1 13 127.0.0.1 text/plain \(url)", "\(text)")
    let times = parts.last?.split(separator: " ").compactMap { Double($0) } ?? []
    #expect(times.count == 5 && times[3] > 0 && times[4] >= times[3] && times[2] == 0, "\(times)")
    #expect(server.recordedRequests.allSatisfy { $0.fields.first("Host") == "api.invalid:\(server.port)" })
    // The same as a curl command; and a failure, too, is told of.
    let command = try await Tool.run(["http://a.invalid:81/", "--resolve", "a.invalid:81:::1", "--print-curl"])
    #expect(command.text.contains("--resolve 'a.invalid:81:[::1]'"))
    let failed = try await Tool.run(["http://127.0.0.1:1/", "-w", "%{http_code} %{url_effective}"])
    #expect(failed.status == 3 && failed.text == "000 http://127.0.0.1:1/", "\(failed.text)")
    let misuse = try await Tool.run([server.url("/hello"), "-w", "%{nope}"])
    #expect(misuse.status == 2 && misuse.error.contains("%{time_total}"))
    #expect(server.requestCount == 2)
  }

  /// What is a file to the shell stays one to whom else writes there: nothing of it is lost, here the head and what is told after the transfer.
  @Test(arguments: ["/dev/stdout", "/proc/self/fd/1"]) func standardOutputByAName(_ name: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello"), "-i", "-o", name, "-w", "|%{http_code}"])
    #expect(outcome.status == 0 && outcome.text.hasPrefix("HTTP/1.1 200 OK\n"), "\(outcome.error)")
    #expect(outcome.text.hasSuffix("\n\nHello, world!|200"), "\(outcome.text)")
    // A download would take its place, which whoever may do so in `/dev` has lost then.
    let download = try await Tool.run([server.url("/hello"), "-d", "-o", "/proc/self/fd/1"])
    #expect(download.status == 2 && download.error.contains("something else"), "\(download.error)")
    #expect(server.requestCount == 1)
  }

  /// Nor is anything lost of what is told on standard error before the body.
  @Test(arguments: ["/dev/stderr", "/proc/self/fd/2"]) func standardErrorByAName(_ name: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello"), "-v", "-o", name])
    #expect(outcome.status == 0 && outcome.text.isEmpty)
    #expect(outcome.error.contains("HTTP/1.1 200 OK") && outcome.error.contains("Hello, world!"), "\(outcome.error)")
  }

  @Test func interface() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello"), "--interface", "127.0.0.2"])
    #expect(outcome.status == 0 && outcome.text == "Hello, world!", "\(outcome.error)")
    let other = try await Tool.run([server.url("/hello"), "--interface", "::1"])
    #expect(other.status != 0 && other.error.contains("local address ::1"), "\(other.error)")
    let command = try await Tool.run([server.url("/hello"), "--interface", "127.0.0.2", "--print-curl"])
    #expect(command.text.contains("--interface 127.0.0.2"))
    let misuse = try await Tool.run([server.url("/hello"), "--interface", "lo"])
    #expect(misuse.status == 2 && misuse.error.contains("names of interfaces"))
    for zone in ["fe80::1%no-such", "[fe80::1%no-such]"] {
      let scoped = try await Tool.run([server.url("/hello"), "--interface", zone])
      #expect(scoped.status == 2 && scoped.error.contains("has a zone that this machine lacks"), "\(scoped.error)")
    }
    #expect(server.requestCount == 1)
  }

  @Test func writeOutBehindRefusals() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    for option in ["--fail", "-d"] {
      let outcome = try await Tool.run([server.url("/status?code=404"), option, "-w", "%{http_code}"], in: folder)
      #expect(outcome.status == 22 && outcome.text == "404", "\(outcome.text)")
    }
    // What fails behind the head, such as its file, takes nothing from what came.
    for arguments in [["-o", "missing/file"], ["-d", "-o", "missing/file"]] {
      let outcome = try await Tool.run(
        [server.url("/hello"), "-w", "%{http_code} %{content_type}"] + arguments, in: folder)
      #expect(outcome.status != 0 && outcome.text == "200 text/plain", "\(outcome.text) \(outcome.error)")
    }
  }

  /// A download that has to be asked for anew has one head, that of what is saved.
  @Test func includeShowsOneHead() async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute(nil, "/file") { request, connection in
          // Another part than was asked for.
          guard request.fields.first("Range") == nil else {
            return try connection.respond(206, fields: ["Content-Range": "bytes 0-4/5"], text: "whole")
          }
          try connection.respond(fields: [:], text: "whole")
        }
      ])
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("old", to: "file")
    let outcome = try await Tool.run([server.url("/file"), "-d", "--continue", "-i", "-o", "file"], in: folder)
    #expect(outcome.status == 0 && server.requestCount == 2, "\(outcome.error)")
    #expect(outcome.text.components(separatedBy: "HTTP/1.1").count == 2, "\(outcome.text)")
    #expect(outcome.text.hasPrefix("HTTP/1.1 200 OK"))
    #expect(try folder.bytes("file") == Array("whole".utf8))
  }

  @Test func connectTimeout() async throws {
    // A server that never answers the handshake.
    let server = try ScriptedServer([[.waitForClose]], surplus: .repeatLast)
    defer { server.shutdown() }
    // Without the option it would be ten. Once is enough, as a busy machine may take long over anything.
    let limit = Duration.seconds(10)
    var time = limit
    for _ in 0..<3 where time >= limit {
      let begun = ContinuousClock.now
      let outcome = try await Tool.run(["https://127.0.0.1:\(server.port)/", "--connect-timeout", "0.3"])
      time = ContinuousClock.now - begun
      #expect(outcome.status == 6, "\(outcome.error)")
    }
    #expect(time < limit)
    #expect(try await Tool.run(["http://127.0.0.1:1/", "--connect-timeout", "0"]).status == 2)
  }

  @Test func retries() async throws {
    let busy: ScriptBytes = "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    let script: [ScriptStep] = [.readHead, .send(busy), .close]
    let good: [ScriptStep] = [
      .readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"), .close,
    ]
    // Lost before the head, and busy: once each.
    let server = try ScriptedServer([[.readHead, .close], script, good], surplus: .problem)
    defer { server.shutdown() }
    let outcome = try await Tool.run(["http://127.0.0.1:\(server.port)/", "--retry", "2", "-v"])
    #expect(outcome.status == 0 && outcome.text == "ok", "\(outcome.error)")
    #expect(outcome.error.contains("attempt 2 of 3 in ") && outcome.error.contains("503; attempt 3 of 3 in "))
    // Neither without the option, nor what may not be sent twice, nor more often than allowed.
    let cases: [(arguments: [String], requests: Int)] = [
      ([], 1), (["--retry", "3", "a=b"], 1), (["--retry", "1"], 2),
    ]
    for (arguments, requests) in cases {
      let server = try LoopbackServer { _, connection in
        try connection.respond(503, fields: ["Retry-After": "0"], text: "no")
      }
      defer { server.shutdown() }
      let outcome = try await Tool.run([server.url("/")] + arguments)
      #expect(outcome.status == 0 && outcome.text == "no" && outcome.error == "")
      #expect(server.requestCount == requests)
    }
  }

  /// What the server need not send is there already.
  @Test func notModifiedLeavesTheFile() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(request.fields.first("If-None-Match") == nil ? 200 : 304, text: "")
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("kept", to: "page")
    let outcome = try await Tool.run([server.url("/"), "If-None-Match:\"a\"", "-o", "page"], in: folder)
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    #expect(try folder.bytes("page") == Array("kept".utf8))
    let other = try await Tool.run([server.url("/"), "If-None-Match:\"a\"", "-o", "none"], in: folder)
    #expect(other.status == 0 && !folder.exists("none"))
    // An empty body is one.
    #expect(try await Tool.run([server.url("/"), "-o", "page"], in: folder).status == 0)
    #expect(try folder.bytes("page").isEmpty)
  }

  /// Refused before the body, and a server that does not know the expectation; in both forms of a request.
  @Test(arguments: [false, true]) func expectationIsAwaited(_ isBatch: Bool) async throws {
    for (refusal, answer) in [("403 Forbidden", "no"), ("417 Expectation Failed", "taken")] {
      let server = try ScriptedServer([
        [
          .readHead, .send(ScriptBytes("HTTP/1.1 \(refusal)\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")),
          .expectNothing,
        ],
        [.readHead, .readBody, .send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\ntaken"), .waitForClose],
      ])
      defer { server.shutdown() }
      if isBatch {
        let line = #"{"method":"PUT","url":"\#(server.url("/"))","body":"abc","headers":[["Expect","100-Continue"]]}"#
        let outcome = try await Tool.run(["batch"], input: line + "\n")
        #expect(outcome.text.contains(Data(answer.utf8).base64EncodedString()), "\(outcome.text)")
      } else {
        let outcome = try await Tool.run(["PUT", server.url("/"), "--raw", "abc", "Expect:100-continue"])
        #expect(outcome.status == 0 && outcome.text == answer, "\(outcome.error)")
      }
      #expect(server.recordedRequests.first?.fields.first("Expect") == "100-continue")
      #expect(server.recordedRequests.count == (answer == "no" ? 1 : 2))
    }
  }

  /// What an alias says can be taken back.
  @Test func anExpectationIsTakenBack() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([
      "PUT", server.url("/anything"), "--raw", "abc", "Expect:100-continue", "Expect:",
    ])
    #expect(outcome.status == 0 && server.recordedRequests.first?.fields.first("Expect") == nil, "\(outcome.error)")
  }

  @Test func passphraseOfAKey() async throws {
    let authority = try CertificateAuthority()
    var tls = try ServerTLS.minted(by: authority)
    tls.clientAuthorities = authority.rootPEM
    tls.requiresClientCertificate = true
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: tls)
    defer { server.shutdown() }
    let files = try authority.issue(CertificateOrder(commonName: "client", usage: .client)).write()
    defer { files.remove() }
    let root = try authority.writeRoot()
    defer { root.remove() }
    let folder = try Folder()
    try EncryptedKey.write(files.privateKeyPath, to: folder.path("key.pem"), passphrase: "open sesame")
    try folder.write("open sesame\nmore\n", to: "passphrase")
    let arguments = [
      server.url("/hello"), "--cacert", root.certificatePath, "--cert", files.chainPath, "--key",
      folder.path("key.pem"),
    ]
    let good = try await Tool.run(arguments + ["--key-pass", folder.path("passphrase")])
    #expect(good.status == 0 && good.text == "Hello, world!", "\(good.error)")
    let piped = try await Tool.run(arguments + ["--key-pass", "-"], input: "open sesame\n")
    #expect(piped.status == 0, "\(piped.error)")
    let without = try await Tool.run(arguments)
    #expect(without.status == 4 && without.error.contains("--key-pass FILE"), "\(without.error)")
    let command = try await Tool.run(arguments + ["--key-pass", folder.path("passphrase"), "--print-curl"])
    #expect(command.text.contains("--pass '[redacted]'") && !command.text.contains("sesame"))
    #expect(try await Tool.run([server.url("/"), "--key-pass", "x"]).status == 2)
    let twice = try await Tool.run(arguments + ["--key-pass", "-", "-a", "@-"])
    #expect(twice.status == 2 && twice.error.contains("--auth @-, --key-pass @-"), "\(twice.error)")
  }

  /// The URL stands behind what curl takes for the value of an option.
  @Test func theURLComesFirst() async throws {
    let outcome = try await Tool.run(["-d", "a=s3cret", "http://127.0.0.1:1/"])
    #expect(outcome.status == 2 && outcome.error.contains("The URL comes first"), "\(outcome.error)")
    #expect(outcome.error.contains("-d means --download here"))
    let other = try await Tool.run(["http://a=b/", "X-A:1"])
    #expect(other.status == 2 && !other.error.contains("comes first"), "\(other.error)")
  }
}
