import Foundation
import LupineCommandLine
import LupineRules
import LupineSession
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct BatchTests {
  /// Runs requests and returns the results by identifier, with those of malformed lines under "null".
  private func batch(_ lines: [String], concurrency: Int = 16) async throws -> [String: JSONValue] {
    let outcome = try await Tool.run(
      ["batch", "--concurrency", "\(concurrency)"], input: lines.map { $0 + "\n" }.joined())
    #expect(outcome.status == 0 && outcome.error == "")
    #expect(outcome.lines.count == lines.count)
    var results: [String: JSONValue] = [:]
    for line in outcome.lines {
      let result = try JSONReader.read(line)
      let id = String(decoding: JSONWriter.line(result["id"] ?? .null), as: UTF8.self)
      #expect(results[id] == nil)
      results[id] = result
    }
    return results
  }

  private func body(_ result: JSONValue?) -> String? {
    result?["bodyBase64"]?.string.flatMap { Base64.decode($0) }.map { String(decoding: $0, as: UTF8.self) }
  }

  /// What `--help` shows of a request is what one may have.
  @Test func helpShowsEveryMember() async throws {
    let parts = BatchLine.form.split(separator: "\"", omittingEmptySubsequences: false)
    var names: Set<String> = []
    var depth = 0
    for (index, part) in parts.enumerated() {
      // Every second part stands between quotation marks.
      guard index.isMultiple(of: 2) else {
        if depth == 1, parts[index + 1].first == ":" { names.insert(String(part)) }
        continue
      }
      for character in part {
        switch character {
        case "{", "[": depth += 1
        case "}", "]": depth -= 1
        default: break
        }
      }
    }
    #expect(names == BatchLine.names && depth == 0)
    let help = try await Tool.run(["batch", "--help"]).text
    for name in BatchLine.names { #expect(help.contains("\"\(name)\":"), "\(name)") }
  }

  @Test func secretsStayAtTheirServer() async throws {
    let home = try LoopbackServer(routes: ServerRoute.standard())
    let away = try LoopbackServer(routes: ServerRoute.standard())
    defer {
      home.shutdown()
      away.shutdown()
    }
    let url = home.url("/redirect?to=\(away.url("/hello"))")
    let results = try await batch([
      #"{"id":1,"url":"\#(url)","headers":[["X-Own","1"]],"secrets":["x-own"]}"#,
      #"{"id":2,"url":"\#(url)","headers":[["X-Own","1"]],"secrets":["no name"]}"#,
      #"{"id":3,"url":"\#(url)","secrets":[1]}"#,
    ])
    #expect(results["1"]?["status"] == .number("200"))
    for id in ["2", "3"] { #expect(results[id]?["error"]?["code"] == .string("badRequest"), "\(id)") }
    #expect(home.recordedRequests.map { $0.fields.first("X-Own") } == ["1"])
    #expect(away.recordedRequests.map { $0.fields.first("X-Own") } == [nil])
  }

  @Test func everyFieldOfAResult() async throws {
    let server = try ScriptedServer([
      [
        .readHead,
        .send(
          "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 Fine\r\nX-Two: 1\r\nx-one: 2\r\nX-Two: 3\r\n"
            + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 5\r\n\r\n"),
        .waitForClose,
      ]
    ])
    defer { server.shutdown() }
    let request = #"{"id":{"k":[1]},"url":"\#(server.url("/p?q#f"))","headers":[["X-b","1"],["x-A","2"],["X-B","3"]]}"#
    let result = try #require(try await batch([request])[#"{"k":[1]}"#])
    guard case .object(let members) = result else { throw TestFailure() }
    #expect(
      members.map(\.name) == [
        "id", "status", "reason", "version", "headers", "bodyBase64", "file", "trailers", "informational", "url",
        "redirects", "reusedConnection", "metrics", "resumeData", "error",
      ])
    #expect(result["status"] == .number("200") && result["reason"] == .string("Fine"))
    #expect(result["version"] == .string("HTTP/1.1") && body(result) == "hello" && result["error"] == .null)
    #expect(
      result["headers"]
        == .pairs([("X-Two", "1"), ("x-one", "2"), ("X-Two", "3"), ("Transfer-Encoding", "chunked")]))
    #expect(result["trailers"] == .pairs([("X-Sum", "5")]))
    #expect(result["informational"] == .array([.array([.number("103"), .pairs([("link", "</a>")])])]))
    #expect(result["url"] == .string(server.url("/p?q")) && result["redirects"] == .array([]))
    #expect(result["reusedConnection"] == .boolean(false))
    #expect(try #require(result["metrics"]?["total"]?.number) > 0 && result["metrics"]?["connect"] != nil)
    let sent = try #require(server.recordedRequests.first)
    #expect(
      sent.target == "/p?q"
        && sent.fields.map(\.name).filter { $0.lowercased().hasPrefix("x-") } == ["X-b", "x-A", "X-B"])
  }

  /// It may be a terminal that the results go to.
  @Test func controlsOfThePeerAreEscaped() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["X-Evil": "a\u{9b}2J\u{202e}b"], text: "")
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run(["batch"], input: #"{"id":"\u009b","url":"\#(server.url())"}"# + "\n")
    #expect(outcome.text.contains(#"["X-Evil","a\u009b2J\u202eb"]"#), "\(outcome.text)")
    #expect(!outcome.text.unicodeScalars.contains { $0 == "\u{9b}" || $0 == "\u{202e}" })
    #expect(try JSONReader.read(try #require(outcome.lines.first))["id"] == .string("\u{9b}"))
  }

  /// Of a stream the file is read behind the head: by then there is somebody to be told half of a request, and perhaps to answer it.
  @Test(arguments: [#""chunked":true"#, #""trailers":[["X-A","b"]]"#])
  func nothingIsSentOfAFileThatCannotBeRead(_ member: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    for path in ["/nonexistent", "/"] {
      let line = #"{"id":1,"url":"\#(server.url("/hello"))","method":"POST","bodyFile":"\#(path)",\#(member)}"#
      let error = try await batch([line])["1"]?["error"]
      #expect(
        error?["code"] == .string("fileFailed") && error?["phase"] == .string("prepare"), "\(String(describing: error))"
      )
    }
    #expect(server.requestCount == 0)
  }

  @Test func malformedLinesGiveResults() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let results = try await batch([
      "{", #"{"id":1}"#, #"{"id":2,"url":"gopher://x"}"#, #"{"id":3,"url":"http://h/","headers":[["A","b\nc"]]}"#,
      #"{"id":4,"url":"\#(server.url("/hello"))"}"#, #"{"id":5,"url":"http://h/","resolve":{"h:80":"nonsense"}}"#,
      #"{"id":6,"url":"\#(server.url("/hello"))","bodyFile":"/nonexistent"}"#,
    ])
    let codes = results.mapValues { $0["error"]?["code"]?.string ?? "" }
    #expect(
      codes == [
        "null": "badRequest", "1": "badRequest", "2": "badURL", "3": "badRequest", "4": "", "5": "badRequest",
        "6": "fileFailed",
      ])
    #expect(results["null"]?["error"]?["message"]?.string?.contains("line 1 ") == true)
    #expect(results.filter { $0.key != "4" }.values.allSatisfy { $0["status"] == .null })
    #expect(body(results["4"]) == "Hello, world!")
  }

  /// They are sent with every kind of body, and again behind a redirect.
  @Test func trailersOfRequests() async throws {
    let again = ServerRoute("POST", "/from") { _, connection in
      _ = try connection.readBody()
      try connection.respond(307, fields: ["Location": "/upload"])
    }
    let server = try LoopbackServer(routes: [again] + ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("text", to: "f")
    let bodies = [
      #""body":"text""#, #""body":"text","headers":[["Content-Length","4"]]"#, #""bodyBase64":"dGV4dA==""#,
      #""bodyFile":"\#(folder.path("f"))""#, #""body":"text","chunked":true"#, #""body":"","chunked":true"#,
      #""chunked":true"#, #""multipart":[{"name":"a","value":"b"}]"#,
    ]
    let trailers = #""trailers":[["X-Sum","7"],["x-note","a:b"],["X-Sum","8"]]"#
    let lines = bodies.indices.map {
      #"{"id":\#($0),"method":"POST","url":"\#(server.url("/from"))",\#(bodies[$0]),\#(trailers)}"#
    }
    let results = try await batch(lines)
    #expect(results.values.allSatisfy { $0["status"] == .number("200") && $0["error"] == .null })
    let recorded = server.recordedRequests
    #expect(recorded.count == bodies.count * 2)
    for request in recorded {
      #expect(request.trailers.values("X-Sum") == ["7", "8"] && request.trailers.values("x-note") == ["a:b"])
      #expect(request.fields.values("Trailer") == ["X-Sum, x-note"] && request.fields.first("Content-Length") == nil)
    }
  }

  @Test(arguments: [
    (#""trailers":[["X-Sum","7"]]"#, "need a body"), (#""body":"x","trailers":{"X-Sum":"7"}"#, "must be an array"),
    (#""body":"x","trailers":[["X-Sum"]]"#, "array of [name, value] pairs"),
    (#""body":"x","trailers":[["a b","7"]]"#, "is no name"), (#""body":"x","trailers":[["A","b\nc"]]"#, "line ends"),
    (#""body":"x","chunked":false,"trailers":[["X-Sum","7"]]"#, #""chunked" is false"#),
    (#""body":"x","headers":[["Content-Length","2"]],"trailers":[["X-Sum","7"]]"#, "another Content-Length"),
    (#""bodyFile":"/dev/null","headers":[["Content-Length","0"]],"trailers":[["A","7"]]"#, "another Content-Length"),
    (#""body":"x","trailers":[["Content-Length","1"]]"#, "cannot be a trailer field"),
    (#""body":"x","trailers":[["Host","h"]]"#, "cannot be a trailer field"),
    (#""body":"x","trailers":[["X-Api-Key","k"]]"#, "is a secret"),
    (#""body":"x","secrets":["x-sum"],"trailers":[["X-Sum","7"]]"#, "is a secret"),
  ]) func trailersThatCannotFollow(_ members: String, _ reason: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let results = try await batch([#"{"id":1,"method":"POST","url":"\#(server.url("/upload"))",\#(members)}"#])
    let error = try #require(results["1"]?["error"])
    #expect(error["code"] == .string("badRequest") && error["message"]?.string?.contains(reason) == true, "\(error)")
    #expect(server.requestCount == 0)
  }

  /// A misspelt member would make another request than the one that is meant.
  @Test func unknownMembersAreRefused() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let results = try await batch([
      #"{"id":1,"url":"\#(server.url("/hello"))","methd":"DELETE"}"#,
      #"{"id":2,"url":"\#(server.url("/hello"))","insecur":null}"#,
      #"{"id":3,"url":"\#(server.url("/hello"))","proxy":{"url":"http://127.0.0.1:1","tunel":true}}"#,
    ])
    for (id, name) in ["1": "methd", "2": "insecur", "3": "tunel"] {
      let error = results[id]?["error"]
      #expect(error?["code"] == .string("badRequest"))
      #expect(error?["message"]?.string?.contains("\"\(name)\" is no member") == true)
    }
    #expect(server.requestCount == 0)
  }

  @Test func whatArrivedBeforeAnErrorIsGiven() async throws {
    let server = try ScriptedServer(
      [
        [
          .readHead,
          .sendAndFinish("HTTP/1.1 201 Half\r\nA: b\r\nContent-Length: 100\r\n\r\nonly this"), .waitForClose,
        ]
      ])
    defer { server.shutdown() }
    let result = try #require(try await batch([#"{"id":1,"url":"\#(server.url())"}"#])["1"])
    #expect(result["error"]?["code"] == .string("truncatedResponse") && result["error"]?["phase"] == .string("receive"))
    #expect(result["status"] == .number("201") && result["reason"] == .string("Half") && body(result) == "only this")
    #expect(result["headers"] == .pairs([("A", "b"), ("Content-Length", "100")]))
  }

  @Test func errorsHaveCodesAndPhases() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let secure = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: CertificateAuthority()))
    defer { secure.shutdown() }
    let results = try await batch([
      #"{"id":1,"url":"\#(server.url("/slow"))","timeout":0.2}"#,
      #"{"id":2,"url":"\#(server.url("/bytes?n=5000"))","maxBodyBytes":1000}"#,
      #"{"id":3,"url":"\#(secure.url("/hello", host: "127.0.0.1"))"}"#,
      #"{"id":4,"url":"\#(secure.url("/hello", host: "127.0.0.1"))","insecure":true}"#,
      #"{"id":5,"url":"\#(server.url("/redirect?n=3"))","maxRedirects":1}"#,
    ])
    let codes = results.mapValues { $0["error"]?["code"]?.string ?? "" }
    #expect(
      codes == [
        "1": "timedOut", "2": "bodyTooLarge", "3": "serverCertificateUntrusted", "4": "", "5": "tooManyRedirects",
      ])
    #expect(results["2"]?["status"] == .number("200"))
    #expect(results["2"]?["bodyBase64"] == .string(Base64.encode(PatternBody.bytes(1_000))))
    #expect(results["3"]?["error"]?["phase"] == .string("tls") && body(results["4"]) == "Hello, world!")
  }

  @Test func redirects() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let results = try await batch([
      #"{"id":1,"url":"\#(server.url("/redirect?n=2"))"}"#,
      #"{"id":2,"url":"\#(server.url("/redirect?n=2"))","followRedirects":false}"#,
    ])
    #expect(results["1"]?["status"] == .number("200") && results["1"]?["url"] == .string(server.url("/hello")))
    let first = try #require(results["1"]?["redirects"]?.array?.first)
    #expect(first["status"] == .number("302") && first["location"] == .string("/redirect?n=1&status=302"))
    #expect(results["1"]?["redirects"]?.array?.count == 2)
    #expect(results["2"]?["status"] == .number("302") && results["2"]?["redirects"] == .array([]))
  }

  @Test func bodies() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("from a file", to: "f")
    let url = server.url("/echo")
    let results = try await batch([
      #"{"id":1,"method":"POST","url":"\#(url)","body":"té\nxt"}"#,
      #"{"id":2,"method":"POST","url":"\#(url)","bodyBase64":"AAEC/w=="}"#,
      #"{"id":3,"method":"PUT","url":"\#(url)","bodyFile":"\#(folder.path("f"))"}"#,
      #"{"id":4,"method":"POST","url":"\#(url)","body":"chunked","chunked":true}"#,
      #"{"id":5,"method":"POST","url":"\#(url)","bodyFile":"\#(folder.path("f"))","chunked":true}"#,
    ])
    #expect(body(results["1"]) == "té\nxt" && results["2"]?["bodyBase64"] == .string("AAEC/w=="))
    #expect(
      body(results["3"]) == "from a file" && body(results["4"]) == "chunked" && body(results["5"]) == "from a file")
    let chunked = server.recordedRequests.filter { $0.fields.has("Transfer-Encoding", token: "chunked") }
    #expect(Set(chunked.map(\.text)) == ["chunked", "from a file"])
    #expect(chunked.allSatisfy { $0.fields.first("Content-Length") == nil })
  }

  @Test func forms() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("from a file", to: "f.txt")
    let url = server.url("/echo")
    let parts =
      #"[{"name":"a","value":"té"},{"name":"b","file":"\#(folder.path("f.txt"))"},"#
      + #"{"name":"c","file":"\#(folder.path("f.txt"))","fileName":"x\"y","type":"a/b"}]"#
    let results = try await batch([
      #"{"id":1,"method":"POST","url":"\#(url)","multipart":\#(parts),"headers":[["Content-Type","x/y"]]}"#,
      #"{"id":2,"method":"PUT","url":"\#(url)","multipart":\#(parts),"chunked":true}"#,
    ])
    for (id, isChunked) in [("1", false), ("2", true)] {
      let text = try #require(body(results[id]))
      let request = try #require(server.recordedRequests.first { $0.text == text })
      let types = request.fields.values("Content-Type")
      #expect(types.count == 1)
      let boundary = try #require(types.first?.split(separator: "=").last)
      #expect(
        text
          == "--\(boundary)\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nté\r\n--\(boundary)\r\n"
          + "Content-Disposition: form-data; name=\"b\"; filename=\"f.txt\"\r\nContent-Type: text/plain\r\n\r\nfrom a file\r\n"
          + "--\(boundary)\r\nContent-Disposition: form-data; name=\"c\"; filename=\"x%22y\"\r\nContent-Type: a/b\r\n"
          + "\r\nfrom a file\r\n--\(boundary)--\r\n")
      #expect(request.fields.first("Content-Length") == (isChunked ? nil : String(text.utf8.count)))
    }
  }

  /// A pipe that nobody writes to must not keep a thread of all lines.
  @Test func aFormWithAPipeHoldsUpNobody() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let isMade = unsafe mkfifo(folder.path("pipe"), 0o600) == 0
    #expect(isMade)
    let form = #""multipart":[{"name":"f","file":"\#(folder.path("pipe"))"}]"#
    let url = server.url("/hello")
    let results = try await batch(
      (0..<4).map { #"{"id":\#($0),"method":"POST","url":"\#(url)",\#(form)}"# } + [#"{"id":"plain","url":"\#(url)"}"#])
    #expect(results.count == 5 && body(results["plain"] ?? results["\"plain\""]) == "Hello, world!", "\(results)")
    for id in 0..<4 { #expect(results["\(id)"]?["error"]?["message"]?.string?.contains("no regular file") == true) }
  }

  @Test func connectionsAreSharedWithinEqualSettings() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let lines = (0..<10).map { #"{"id":\#($0),"url":"\#(server.url("/hello"))","insecure":\#($0 == 9)}"# }
    let results = try await batch(lines, concurrency: 1)
    #expect(results.values.count { $0["reusedConnection"] == .boolean(true) } == 8)
    #expect(server.connectionCount == 2)
  }

  @Test func resolveUnixSocketAndCodings() async throws {
    let folder = try Folder()
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let local = try LoopbackServer(routes: ServerRoute.standard(), address: .unix(folder.path("s")))
    defer { local.shutdown() }
    let results = try await batch([
      #"{"id":1,"url":"http://no.such.test/hello","resolve":{"no.such.test:80":"127.0.0.1:\#(server.port)"}}"#,
      #"{"id":2,"url":"http://local.test/hello","unixSocket":"\#(folder.path("s"))"}"#,
      #"{"id":3,"url":"\#(server.url("/gzip?n=100"))"}"#,
      #"{"id":4,"url":"\#(server.url("/gzip?n=100"))","compressed":false}"#,
    ])
    #expect(body(results["1"]) == "Hello, world!" && body(results["2"]) == "Hello, world!")
    #expect(server.recordedRequests.contains { $0.fields.first("Host") == "no.such.test" })
    #expect(results["3"]?["bodyBase64"] == .string(Base64.encode(PatternBody.bytes(100))))
    #expect(results["4"]?["bodyBase64"]?.string?.hasPrefix("H4sI") == true)
  }

  @Test func clientCertificates() async throws {
    let authority = try CertificateAuthority()
    var tls = try ServerTLS.minted(by: authority)
    tls.clientAuthorities = authority.rootPEM
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: tls)
    defer { server.shutdown() }
    let root = try authority.writeRoot()
    let client = try authority.issue(CertificateOrder(commonName: "someone", usage: .client)).write()
    defer {
      root.remove()
      client.remove()
    }
    let common = #""url":"\#(server.url("/hello", host: "127.0.0.1"))","caFile":"\#(root.certificatePath)""#
    let results = try await batch([
      #"{"id":1,\#(common),"clientCert":"\#(client.chainPath)","clientKey":"\#(client.privateKeyPath)"}"#,
      #"{"id":2,\#(common)}"#,
    ])
    #expect(
      body(results["1"]) == "Hello, world!" && results["2"]?["status"] == .null && results["2"]?["error"] != .null)
  }

  /// A result comes out while standard input is still open: nothing waits for the end of the batch.
  @Test func resultsStreamOut() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let process = try Tool.process(["batch"], in: folder)
    let (input, output) = (Pipe(), Pipe())
    process.standardInput = input
    process.standardOutput = output
    try process.run()
    for number in 1...3 {
      try input.fileHandleForWriting.write(
        contentsOf: Data((#"{"id":\#(number),"url":"\#(server.url("/hello"))"}"# + "\n").utf8))
      var line = Data()
      while line.last != UInt8(ascii: "\n") {
        let part = output.fileHandleForReading.availableData
        try #require(!part.isEmpty)
        line += part
      }
      #expect(try JSONReader.read([UInt8](line))["id"] == .integer(number))
    }
    try input.fileHandleForWriting.close()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
  }
}

struct TestFailure: Error {}
