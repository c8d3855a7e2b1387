import Foundation
import LupineSession
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct ExitStatusTests {
  @Test(arguments: [
    [], ["--bogus", "http://h/"], ["ftp://h/"], ["http://h/", "noitem"], ["http://h/", "a:=x"], ["http://h/", "a b:c"],
    ["http://h/", "a:b\r\nc:d"], ["--json", "--form", "http://h/"], ["--continue", "http://h/"],
    ["--download", "-o", "-", "http://h/"],
    ["--key", "k", "http://h/"],
    ["--timeout", "0", "http://h/"], ["--raw", "x", "http://h/", "a=b"], ["http://h:99999/"],
    ["http://h/", "--cacert", "/nonexistent"], ["-o", "", "http://h/"], ["-d", "-o", "", "http://h/"],
    ["http://h/", "a=@/nonexistent"], ["http://h/", "a:=@/nonexistent"], ["http://h/", "a@/nonexistent"],
    ["http://h/", "@/nonexistent"], ["http://h/", "--raw", "@/nonexistent"],
    ["http://h/", "--multipart", "a@/nonexistent"], ["bench", "http://h/", "@/nonexistent"],
    ["batch", "--concurrency", "0"], ["bench", "-c", "0", "http://h/"], ["bench"], ["demo", "--seconds", "0"],
  ]) func misuseIsTwo(_ arguments: [String]) async throws {
    let outcome = try await Tool.run(arguments)
    #expect(outcome.status == 2 && outcome.text == "" && !outcome.error.isEmpty)
  }

  /// Who writes a field in the wrong form writes its value too, which may be a secret.
  @Test(
    arguments: [
      (["-H", "X-Api-Key=s3cret"], "\"X-Api-Key=\""), (["-H", "X-Api-Key s3cret"], "\"X-Api-Key \""),
      (["-H", "X-Api-Key;s3cret"], "\"X-Api-Key;\""), (["-H", "X-Api-Key@s3cret"], "\"X-Api-Key@\""),
      (["-H", "X-Api-Key s3cret:1"], "\"X-Api-Key \""), (["-H", ":s3cret"], "\":\""),
      (["X-Api-Key s3cret"], "\"X-Api-Key \""), (["X-Api-Key s3cret:1"], "\"X-Api-Key \""),
      (["=s3cret"], "no name before \"=\""), (["key s3cret@"], "\"key \""),
      (["--raw", "x", "--trailer", "X-Sum=s3cret"], "\"X-Sum=\""),
      (["--raw", "x", "--trailer", "X-Sum s3cret:1"], "\"X-Sum \""),
      (["--multipart", "key:s3cret"], "\"key:\""), (["--secret", "X-Own: s3cret"], "\"X-Own:\""),
    ] as [([String], String)])
  func misuseRepeatsNoSecret(_ arguments: [String], _ beginning: String) async throws {
    let outcome = try await Tool.run(["http://h/"] + arguments)
    #expect(outcome.status == 2 && outcome.text == "" && outcome.error.contains(beginning), "\(outcome.error)")
    #expect(!outcome.error.contains("s3cret"), "\(outcome.error)")
  }

  /// Far more of them would end the process. Of those behind the body there may be fewer.
  /// The time of the parser of arguments grows with the square of the number of options: not each field is one.
  @Test(arguments: [["", ""], ["--header", ""], ["--trailer", "--trailer", "--raw", "body"]])
  func fieldsHaveALimit(_ options: [String]) async throws {
    func arguments(_ count: Int) -> [String] {
      let fields = (0..<count).flatMap { index in
        [options[index < 300 ? 0 : 1], "X-\(index):1"].filter { !$0.isEmpty }
      }
      return ["http://h/", "--print-curl"] + Array(options.dropFirst(2)) + fields
    }
    if options.count == 2 {
      let most = try await Tool.run(arguments(1_000))
      #expect(most.status == 0 && most.text.hasPrefix("curl "), "\(most.error)")
    }
    let more = try await Tool.run(arguments(1_001))
    #expect(more.status == 2 && more.text == "" && more.error.contains("1001 "), "\(more.error)")
    #expect(more.error.contains("a request has at most 1000"))
  }

  private static let title = "\u{1b}]0;x\u{7}"

  /// A script may have them from elsewhere.
  @Test(arguments: [["--" + title], ["bench", "--" + title], ["http://h/", "--timeout", title]])
  func argumentsMoveNoCursor(_ arguments: [String]) async throws {
    let outcome = try await Tool.run(arguments)
    #expect(outcome.status == 2 && outcome.text == "" && outcome.error.contains(#"\x1b]0;x\x07"#), "\(outcome.error)")
    #expect(!outcome.error.contains("\u{1b}") && outcome.error.contains("\n"))
  }

  @Test(arguments: [
    ["--help"], ["-h"], ["batch", "--help"], ["bench", "--help"], ["demo", "--help"], ["--version"], ["help"],
  ])
  func helpIsZero(_ arguments: [String]) async throws {
    let outcome = try await Tool.run(arguments)
    #expect(outcome.status == 0 && outcome.error == "" && outcome.text.lowercased().contains("lupine"))
  }

  @Test func helpListsEveryStatus() async throws {
    let text = try await Tool.run(["--help"]).text
    for status in ExitStatus.allCases { #expect(text.contains("\n  \(status.rawValue) ")) }
  }

  @Test func cannotConnectIsThree() async throws {
    let outcome = try await Tool.run(["http://127.0.0.1:1/"])
    #expect(outcome.status == 3 && outcome.error.contains("Is the server running"))
    #expect(try await Tool.run(["http://nothing.invalid/"]).status == 3)
  }

  @Test func untrustedIsFour() async throws {
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: CertificateAuthority()))
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello", host: "127.0.0.1")])
    #expect(outcome.status == 4 && outcome.error.contains("--cacert"))
    #expect(try await Tool.run([server.url("/hello", host: "127.0.0.1"), "--insecure"]).text == "Hello, world!")
  }

  @Test(arguments: [ScriptStep.close, .reset]) func aHandshakeThatIsCutIsFour(_ end: ScriptStep) async throws {
    let server = try ScriptedServer([[.read(5), end]])
    defer { server.shutdown() }
    let outcome = try await Tool.run(["https://127.0.0.1:\(server.port)/"])
    #expect(outcome.status == 4 && outcome.error.contains("during the TLS handshake"), "\(outcome.error)")
  }

  @Test(arguments: [
    "NOT HTTP\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "",
    "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
  ]) func brokenServerIsFive(_ response: String) async throws {
    let server = try ScriptedServer(
      [[.readHead, .sendAndFinish(ScriptBytes(response)), .waitForClose]], surplus: .repeatLast)
    defer { server.shutdown() }
    #expect(try await Tool.run([server.url()]).status == 5)
  }

  @Test func timeoutIsSix() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/slow"), "--timeout", "0.2"])
    #expect(outcome.status == 6 && outcome.error.contains("--timeout"))
    // A server that accepts and never says a word of TLS.
    let mute = try ScriptedServer([[.stall(nil)]])
    defer { mute.shutdown() }
    #expect(try await Tool.run(["https://127.0.0.1:\(mute.port)/", "--timeout", "0.2"]).status == 6)
  }

  @Test func failIsTwentyTwo() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let url = server.url("/status?code=404&body=gone")
    let failed = try await Tool.run([url, "--fail"])
    #expect(failed.status == 22 && failed.text == "" && failed.error.contains("404"))
    let shown = try await Tool.run([url])
    #expect(shown.status == 0 && shown.text == "gone")
    // How the body of a failure ends changes nothing.
    let script = ScriptBytes("HTTP/1.1 502 Bad\r\nContent-Length: 10\r\n\r\nhalf")
    let broken = try ScriptedServer([[.readHead, .sendAndFinish(script), .waitForClose]], surplus: .repeatLast)
    defer { broken.shutdown() }
    let cut = try await Tool.run(["http://127.0.0.1:\(broken.port)/", "--fail"])
    #expect(cut.status == 22 && cut.error.contains("502"))
    let timed = try await Tool.run(["http://127.0.0.1:\(broken.port)/", "--fail", "--timing"])
    #expect(timed.status == 22 && timed.error.contains("connect"), "\(timed.error)")
  }

  /// What nobody is shown is not waited for: the body of a failure, and of the answer that says that all is there already.
  @Test(arguments: [(404, ["--fail"], 22), (416, ["--download", "--continue", "--output", "f"], 0)])
  func nothingIsWaitedForThatIsNotShown(_ status: Int, _ options: [String], _ expected: Int32) async throws {
    let go = try Latch()
    let server = try LoopbackServer { _, connection in
      try connection.begin(status, fields: ["Content-Range": "bytes */4"], framing: .length(100))
      try connection.write([1, 2, 3])
      _ = try connection.stall(until: go)
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("data", to: "f")
    let began = ContinuousClock.now
    let outcome = try await Tool.run(options + ["--timeout", "30", server.url("/f")], in: folder)
    go.release()
    #expect(outcome.status == expected, "\(outcome.error)")
    // The time that the whole may take.
    #expect(ContinuousClock.now - began < .seconds(30))
  }

  /// A record of the exchange has it whole, whether its body is shown or not.
  @Test(arguments: ["--fail", "--download"]) func failuresAreRecordedWhole(_ option: String) async throws {
    let size = 1 << 20
    let server = try LoopbackServer { _, connection in try connection.respond(500, body: PatternBody.bytes(size)) }
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run([server.url(), option, "--timing", "--har", "a.har"], in: folder)
    #expect(outcome.status == 22 && outcome.error.contains("connect"), "\(outcome.error)")
    let entry = try HTTPArchive(json: try folder.bytes("a.har")).entries.first
    let isWhole = entry?.response?.body == PatternBody.bytes(size)
    #expect(isWhole)
  }

  /// 2 says that nothing was sent.
  @Test(arguments: [SessionError.Code.badURL, .badRequest, .badProxy]) func misuseSendsNothing(
    _ code: SessionError.Code
  ) {
    #expect(lupine.ExitStatus(SessionError(code, phase: .prepare, message: "")) == .misuse)
    #expect(lupine.ExitStatus(SessionError(code, phase: .prepare, message: "", requestBytesSent: true)) == .failure)
  }

  @Test func unwritableFileIsOne() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello"), "-o", "/nonexistent/f"])
    #expect(outcome.status == 1 && outcome.error.contains("/nonexistent/f"))
  }

  /// What a server says cannot act on the terminal of who reads the error.
  @Test func peerBytesAreEscapedInErrors() async throws {
    let server = try LoopbackServer { _, connection in try connection.respond(500, reason: "\u{1b}]0;x\u{7}") }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url(), "--fail", "-v"])
    #expect(!outcome.error.contains("\u{1b}") && !outcome.error.contains("\u{7}"))
  }

  @Test(arguments: [(399, 0, 1), (400, 22, 22), (599, 22, 22)] as [(Int, Int32, Int32)])
  func failureBeginsAtFourHundred(_ status: Int, _ fetched: Int32, _ downloaded: Int32) async throws {
    let server = try LoopbackServer { _, connection in try connection.respond(status, text: "x") }
    defer { server.shutdown() }
    let fetch = try await Tool.run([server.url(), "--fail"])
    #expect(fetch.status == fetched && fetch.text == (fetched == 0 ? "x" : ""), "\(fetch.error)")
    let folder = try Folder()
    let download = try await Tool.run(["--download", "-o", "f", server.url()], in: folder)
    #expect(download.status == downloaded && !folder.exists("f"), "\(download.error)")
  }

  /// Of what was sent, and of what was not.
  static let statuses: [(SessionError.Code, lupine.ExitStatus, lupine.ExitStatus)] = [
    (.badURL, .failure, .misuse), (.badRequest, .failure, .misuse), (.badProxy, .failure, .misuse),
    (.cannotAuthenticate, .failure, .misuse), (.badTrailers, .failure, .misuse),
    (.cannotFindHost, .cannotConnect, .cannotConnect), (.cannotConnect, .cannotConnect, .cannotConnect),
    (.notConnected, .cannotConnect, .cannotConnect), (.proxyFailed, .cannotConnect, .cannotConnect),
    (.proxyRefused, .cannotConnect, .cannotConnect), (.proxyAuthenticationRequired, .cannotConnect, .cannotConnect),
    (.secureConnectionFailed, .tls, .tls), (.serverCertificateUntrusted, .tls, .tls),
    (.connectionLost, .protocolError, .protocolError), (.truncatedResponse, .protocolError, .protocolError),
    (.badResponse, .protocolError, .protocolError), (.cannotDecodeContent, .protocolError, .protocolError),
    (.tooManyRedirects, .protocolError, .protocolError), (.redirectRefused, .protocolError, .protocolError),
    (.timedOut, .timeout, .timeout), (.fileFailed, .failure, .failure),
  ]

  @Test(arguments: statuses.indices) func everyCodeHasItsStatus(_ index: Int) {
    let row = Self.statuses[index]
    for (isSent, expected) in [(true, row.1), (false, row.2)] {
      let error = SessionError(row.0, phase: .receive, message: "", requestBytesSent: isSent)
      #expect(lupine.ExitStatus(error) == expected, "\(row.0.rawValue)")
    }
    #expect(lupine.ExitStatus(SessionError(.connectionLost, phase: .tls, message: "")) == .tls)
  }

  /// Docs/Errors.md says of each code what the tool does.
  @Test func theTableOfErrorsIsTrue() throws {
    let page = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../../Docs/Errors.md")
    let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n").filter { $0.hasPrefix("| `") }
    var codes: [String] = []
    for line in lines {
      let cells = line.split(separator: " | ")
      guard cells.count == 3 else { continue }
      let code = cells[0].filter { $0.isLetter }
      let told = cells[2].prefix { $0.isNumber }
      let status = lupine.ExitStatus(SessionError(SessionError.Code(rawValue: code), phase: .receive, message: ""))
      #expect(told == "\(status.rawValue)", "\(line)")
      codes.append(code)
    }
    #expect(Set(codes).isSuperset(of: Self.statuses.map(\.0.rawValue)) && codes.count == 33)
  }
}
