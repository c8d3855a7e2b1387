import Foundation
import LupineTesting
import Testing

@testable import lupine

/// The main form against real servers.
@Suite(.timeLimit(.minutes(3))) struct FetchTests {
  @Test func bodyGoesUnchangedToStandardOutput() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let json = try await Tool.run([":\(server.port)/json"])
    #expect(json.status == 0 && json.text == #"{"greeting":"Hello, world!","count":13}"# && json.error == "")
    let bytes = try await Tool.run([server.url("/bytes?n=300000")])
    #expect([UInt8](bytes.output) == PatternBody.bytes(300_000))
    let gzip = try await Tool.run([server.url("/gzip?n=5000")])
    #expect([UInt8](gzip.output) == PatternBody.bytes(5_000))
    let plain = try await Tool.run([server.url("/hello"), "--no-compressed"])
    #expect(plain.text == "Hello, world!")
    #expect(server.recordedRequests.last?.fields.first("Accept-Encoding") == nil)
  }

  @Test(arguments: [
    (["a=1", "b:=[2]"], "POST", "application/json", #"{"a":"1","b":[2]}"#),
    (["-f", "a=1 2", "b=é"], "POST", "application/x-www-form-urlencoded; charset=utf-8", "a=1+2&b=%C3%A9"),
    (["--raw", "text"], "POST", "text/plain; charset=utf-8", "text"),
    (["--raw", "[1]"], "POST", "application/json", "[1]"),
    (["--raw", "@-"], "POST", "application/octet-stream", "from stdin"),
    (["--json", "Content-Type:application/x", "a=b"], "POST", "application/x", #"{"a":"b"}"#),
  ]) func bodies(_ arguments: [String], _ method: String, _ type: String, _ body: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/echo")] + arguments, input: "from stdin")
    #expect(outcome.status == 0 && outcome.text == body)
    let request = try #require(server.recordedRequests.first)
    #expect(request.method == method && request.fields.values("Content-Type") == [type])
  }

  @Test func headersQueryAndMethod() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let url = server.url("/headers?x=1#f")
    let outcome = try await Tool.run(["PUT", url, "X-B:2", "x-a:1", "q==a b", "User-Agent:", "X-E;", "-H", "X-B: 3"])
    #expect(outcome.status == 0)
    let request = try #require(server.recordedRequests.first)
    #expect(request.method == "PUT" && request.target == "/headers?x=1&q=a%20b")
    #expect(request.fields.map(\.name).filter { $0.lowercased().hasPrefix("x-") } == ["X-B", "x-a", "X-E", "X-B"])
    #expect(request.fields.values("X-B") == ["2", "3"] && request.fields.first("X-E") == "")
    #expect(request.fields.first("User-Agent") == nil)
  }

  /// The main form, which is called as the tool, is no word before a URL.
  @Test func aHostOfTheToolsName() async throws {
    let outcome = try await Tool.run(["lupine", "X-A:1", "--print-curl"])
    #expect(outcome.status == 0, "\(outcome.error)")
    #expect(outcome.text.contains("'X-A: 1'") && outcome.text.hasSuffix(" http://lupine/\n"), "\(outcome.text)")
  }

  @Test(arguments: [["--raw", "text"], ["--raw", "@-"], ["a=1"], ["--multipart", "a=1"]])
  func fieldsBehindTheBody(_ body: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let trailers = ["--trailer", "X-Sum: 7", "--trailer", "x-note:a:b", "--trailer", "x-mark:\u{301}"]
    let outcome = try await Tool.run([server.url("/upload")] + body + trailers, input: "text")
    let shown = #""chunked":true,"trailers":{"X-Sum":"7","x-note":"a:b","x-mark":"#
    #expect(outcome.status == 0 && outcome.text.contains(shown), "\(outcome.error)")
    #expect(server.recordedRequests.first?.fields.first("Trailer") == "X-Sum, x-note, x-mark")
    let curl = try await Tool.run([server.url("/upload"), "--print-curl"] + body + trailers, input: "text")
    let comment = "# curl sends no trailer fields; the request itself has X-Sum, x-note, x-mark behind its body"
    #expect(curl.text.contains(comment))
    #expect(server.requestCount == 1)
  }

  @Test(arguments: [
    ["--trailer", "X-Sum: 7"], ["--raw", "x", "--trailer", "X-Sum"], ["--raw", "x", "--trailer", "a b: 7"],
    ["--raw", "x", "--trailer", "Content-Type: a/b"], ["--raw", "x", "--trailer", "X-Api-Key: k"],
    ["--raw", "x", "--trailer", "X-Sum: 7", "--secret", "x-sum"],
  ]) func fieldsThatCannotFollow(_ arguments: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    for others in [[], ["--print-curl"]] {
      let outcome = try await Tool.run([server.url("/upload")] + arguments + others)
      #expect(outcome.status == 2 && outcome.text == "", "\(outcome.error)")
    }
    #expect(server.requestCount == 0)
  }

  /// A command for curl is made of what would be sent, and of nothing else.
  @Test(
    arguments: [
      (["Content-Length:4"], 2), (["Content-Length:5", "--raw", "text"], 2), (["Content-Length:4", "@-"], 2),
      (["Transfer-Encoding:chunked"], 2), (["Transfer-Encoding:chunked", "--raw", "text"], 2),
      (["Transfer-Encoding:gzip", "@-"], 2), (["Content-Length:5", "--raw", "text", "--trailer", "X-Sum:7"], 2),
      (["Content-Length:4", "--raw", "text"], 0), (["Transfer-Encoding:chunked", "@-"], 0),
      (["Content-Length:4", "--raw", "text", "--trailer", "X-Sum:7"], 0), (["Content-Length:4", "@f"], 0),
      (["Content-Length:5", "@f"], 2), (["POST", "Content-Length:0"], 0),
    ] as [([String], Int32)]) func fieldsThatFrameTheBody(_ arguments: [String], _ status: Int32) async throws
  {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("text", to: "f")
    var line = arguments
    line.insert(server.url("/upload"), at: line.first == "POST" ? 1 : 0)
    for others in [[], ["--print-curl"]] {
      let outcome = try await Tool.run(line + others, input: "text", in: folder)
      #expect(outcome.status == status && outcome.text.isEmpty == (status != 0), "\(outcome.error)")
    }
    #expect(server.requestCount == (status == 0 ? 1 : 0))
  }

  @Test func multipartUpload() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write(String(repeating: "x", count: 100_000), to: "big.json")
    let outcome = try await Tool.run([server.url("/upload"), "note=hi", "doc@big.json"], in: folder)
    #expect(outcome.status == 0 && outcome.text.contains(#""chunked":false"#))
    let request = try #require(server.recordedRequests.first)
    let boundary = try #require(request.fields.first("Content-Type")?.split(separator: "=").last)
    #expect(request.text.hasPrefix("--\(boundary)\r\nContent-Disposition: form-data; name=\"note\"\r\n\r\nhi\r\n"))
    #expect(request.text.contains("name=\"doc\"; filename=\"big.json\"\r\nContent-Type: application/json\r\n\r\nxxx"))
    #expect(request.text.hasSuffix("x\r\n--\(boundary)--\r\n"))
  }

  /// Without a boundary no server finds the parts.
  @Test(arguments: [["a@f"], ["--form", "b=1", "a@f"], ["--multipart", "a@f"]])
  func multipartOfAnotherTypeHasItsBoundary(_ body: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("content", to: "f")
    let arguments = [server.url("/upload"), "Content-Type:multipart/related"] + body
    #expect(try await Tool.run(arguments, in: folder).status == 0)
    let request = try #require(server.recordedRequests.first)
    let type = try #require(request.fields.first("Content-Type"))
    #expect(type.hasPrefix("multipart/related; boundary="), "\(type)")
    let boundary = try #require(type.split(separator: "=").last)
    #expect(request.text.hasPrefix("--\(boundary)\r\n") && request.text.hasSuffix("\r\n--\(boundary)--\r\n"))
  }

  @Test func multipartOptions() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("content", to: "f.cer")
    let arguments = [
      server.url("/echo"), "--multipart", "a[]==1", "--multipart", "f@f.cer", "--multipart", "f@f.cer;type=a/b", "q==1",
    ]
    let outcome = try await Tool.run(arguments, in: folder)
    #expect(outcome.status == 0)
    let request = try #require(server.recordedRequests.first)
    let boundary = try #require(request.fields.first("Content-Type")?.split(separator: "=").last)
    let file = "Content-Disposition: form-data; name=\"f\"; filename=\"f.cer\"\r\nContent-Type: "
    #expect(
      outcome.text
        == "--\(boundary)\r\nContent-Disposition: form-data; name=\"a[]\"\r\n\r\n=1\r\n--\(boundary)\r\n\(file)"
        + "application/x-x509-ca-cert\r\n\r\ncontent\r\n--\(boundary)\r\n\(file)a/b\r\n\r\ncontent\r\n--\(boundary)--\r\n"
    )
    #expect(request.method == "POST" && request.target == "/echo?q=1")
    #expect(request.fields.first("Content-Length") == String(outcome.text.utf8.count))
    let piped = try await Tool.run([server.url("/echo"), "--multipart", "s@-"], input: "from stdin")
    #expect(piped.text.contains("name=\"s\"; filename=\"-\"") && piped.text.contains("\r\n\r\nfrom stdin\r\n--"))
    #expect(server.recordedRequests.last?.fields.first("Transfer-Encoding") == "chunked")
    #expect(try await Tool.run([server.url("/echo"), "--multipart", "a=b", "--json"]).status == 2)
    #expect(try await Tool.run([server.url("/echo"), "--multipart", "a=b", "c=d"]).status == 2)
    #expect(server.requestCount == 2)
  }

  @Test func redirectsOnRequestOnly() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    #expect(try await Tool.run([server.url("/redirect?n=3")]).text.hasPrefix("Moved"))
    #expect(try await Tool.run([server.url("/redirect?n=3"), "--follow"]).text == "Hello, world!")
    let limited = try await Tool.run([server.url("/redirect?n=3"), "--max-redirects", "2"])
    #expect(limited.status == 5 && limited.error.contains("tooManyRedirects"))
  }

  @Test func verboseShowsBothHeadsAsSent() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let arguments = [server.url("/redirect?to=/trailers"), "-vF", "--timing", "X-a:1", "Authorization:Bearer t0ken"]
    let outcome = try await Tool.run(arguments)
    #expect(outcome.text == "trailers follow")
    let sent = server.recordedRequests.map { "> \($0.method) \($0.target) \($0.version)\n> Host: " }
    #expect(sent.count == 2 && sent.allSatisfy { outcome.error.contains($0) })
    #expect(outcome.error.contains("> X-a: 1\n") && outcome.error.contains("< HTTP/1.1 302 Found\n"))
    #expect(outcome.error.contains("< X-Checksum: 15\n") && outcome.error.contains("firstByte"))
    #expect(!outcome.error.contains("t0ken") && outcome.error.contains("> Authorization: Bearer [hidden"))
    #expect(!outcome.error.contains("\u{1b}"))
    #expect(try await Tool.run(arguments + ["--show-secrets"]).error.contains("> Authorization: Bearer t0ken\n"))
  }

  /// Neither the request line nor `Location` tells who is asking, unless that is wanted.
  @Test func verboseHidesSecretsOfURLs() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(302, fields: ["Location": "http://user:pa55@other.test/end?a=1&access_token=t0ken"])
    }
    defer { server.shutdown() }
    let arguments = [server.url("/start?access_token=t0ken&a=1", host: "user:pa55@127.0.0.1"), "-v"]
    let hidden = try await Tool.run(arguments)
    #expect(hidden.status == 0 && hidden.error.contains("> GET /start?access_token=REDACTED&a=1 HTTP/1.1\n"))
    #expect(hidden.error.contains("< Location: http://other.test/end?a=1&access_token=REDACTED\n"))
    #expect(!hidden.error.contains("t0ken") && !hidden.error.contains("pa55"))
    let shown = try await Tool.run(arguments + ["--show-secrets"])
    #expect(shown.error.contains("> GET /start?access_token=t0ken&a=1 HTTP/1.1\n"))
    #expect(shown.error.contains("< Location: http://user:pa55@other.test/end?a=1&access_token=t0ken\n"))
  }

  /// Nor does the waterfall, of redirects either.
  @Test func timingHidesSecretsOfURLs() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/start") { _, connection in
        try connection.respond(302, fields: ["Location": "/end?a=1&access_token=t0ken"])
      },
      ServerRoute(nil, "/end") { _, connection in try connection.respond(text: "here") },
    ])
    defer { server.shutdown() }
    let arguments = [server.url("/start?access_token=t0ken&a=1"), "-F", "--timing"]
    let hidden = try await Tool.run(arguments)
    #expect(hidden.status == 0 && hidden.text == "here")
    for path in ["/start?access_token=REDACTED&a=1", "/end?a=1&access_token=REDACTED"] {
      #expect(hidden.error.contains("\(path)  "), "\(hidden.error)")
    }
    #expect(!hidden.error.contains("t0ken"))
    let shown = try await Tool.run(arguments + ["--show-secrets"])
    for path in ["/start?access_token=t0ken&a=1", "/end?a=1&access_token=t0ken"] {
      #expect(shown.error.contains("\(path)  "), "\(shown.error)")
    }
  }

  /// A form has the file that its path names to the system, where `~` is a name, and `..` behind a link is above what that leads to.
  @Test func filesOfAFormAreWhereTheSystemSays() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let root = folder.root.path
    for name in ["~", "home", "real/sub"] {
      try FileManager.default.createDirectory(atPath: "\(root)/\(name)", withIntermediateDirectories: true)
    }
    try FileManager.default.createSymbolicLink(atPath: "\(root)/link", withDestinationPath: "real/sub")
    for name in ["~/f", "real/f"] { try Data("meant".utf8).write(to: URL(filePath: "\(root)/\(name)")) }
    for name in ["home/f", "f"] { try Data("wrong".utf8).write(to: URL(filePath: "\(root)/\(name)")) }
    for path in ["~/f", "link/../f"] {
      let outcome = try await Tool.run(
        [server.url("/upload"), "doc@\(path)"], in: folder, environment: ["HOME": "\(root)/home"])
      #expect(outcome.status == 0, "\(outcome.error)")
      let text = try #require(server.recordedRequests.last).text
      #expect(text.contains("name=\"doc\"; filename=\"f\"\r\n") && text.contains("\r\n\r\nmeant\r\n"), "\(text)")
    }
  }

  /// A pipe has no length, and can be opened only once: all of it comes, in chunks.
  @Test(arguments: [["@pipe"], ["--raw", "@pipe"]]) func bodyOfAPipe(_ arguments: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let content = PatternBody.bytes(200_000)
    try Data(content).write(to: folder.url("content"))
    let pipe = folder.path("pipe")
    try #require(unsafe mkfifo(pipe, 0o600) == 0)
    // More than a pipe holds. A process and no thread, because a reader that goes away ends the writer.
    let writer = Process()
    writer.executableURL = URL(filePath: "/bin/sh")
    writer.arguments = ["-c", "exec cat content >pipe"]
    writer.currentDirectoryURL = folder.root
    try writer.run()
    defer {
      // It waits for a reader if there was none.
      if writer.isRunning { writer.terminate() }
      writer.waitUntilExit()
    }
    let outcome = try await Tool.run(["POST", server.url("/upload"), "--timeout", "60"] + arguments, in: folder)
    #expect(outcome.status == 0 && outcome.text.contains(#""bytes":200000,"#), "\(outcome.error)")
    let request = try #require(server.recordedRequests.first)
    #expect(request.body == content && request.bodyIsComplete)
    #expect(request.fields.first("Transfer-Encoding") == "chunked")
  }

  /// It can be opened as files are, and only reading it fails.
  @Test(arguments: [["POST", "@."], ["PUT", "--raw", "@."]]) func aDirectoryIsNoBody(_ words: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([words[0], server.url("/upload")] + words.dropFirst(), in: Folder())
    #expect(outcome.status == 2 && outcome.error.contains("directory"), "\(outcome.error)")
    #expect(server.recordedRequests.isEmpty)
  }

  @Test func unixSocket() async throws {
    let folder = try Folder()
    let server = try LoopbackServer(routes: ServerRoute.standard(), address: .unix(folder.path("s")))
    defer { server.shutdown() }
    let outcome = try await Tool.run(["http://anything.test/hello", "--unix-socket", folder.path("s")])
    #expect(outcome.text == "Hello, world!" && server.recordedRequests.first?.fields.first("Host") == "anything.test")
    let format = ["-w", "|%{remote_ip}"]
    let told = try await Tool.run(["http://anything.test/hello", "--unix-socket", folder.path("s")] + format)
    #expect(told.text == "Hello, world!|\(folder.path("s"))", "\(told.text)")
  }

  @Test func clientCertificate() async throws {
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
    let url = server.url("/hello", host: "127.0.0.1")
    let arguments = [url, "--cacert", root.certificatePath]
    let outcome = try await Tool.run(arguments + ["--cert", client.chainPath, "--key", client.privateKeyPath])
    #expect(outcome.status == 0 && outcome.text == "Hello, world!")
    #expect(server.tlsSummaries.values.contains { $0.clientSubject == "/CN=someone" })
    #expect(try await Tool.run(arguments).status != 0)
  }

  /// What a pipe has can be read once: a look whether it can be would leave nothing for the handshake.
  @Test(arguments: ["--cacert", "--cert", "--key"]) func certificatesOfAPipe(_ option: String) async throws {
    let authority = try CertificateAuthority()
    var tls = try ServerTLS.minted(by: authority)
    tls.clientAuthorities = authority.rootPEM
    tls.requiresClientCertificate = true
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: tls)
    defer { server.shutdown() }
    let root = try authority.writeRoot()
    let client = try authority.issue(CertificateOrder(commonName: "someone", usage: .client)).write()
    defer {
      root.remove()
      client.remove()
    }
    let folder = try Folder()
    let pipe = folder.path("pipe")
    try #require(unsafe mkfifo(pipe, 0o600) == 0)
    var files = ["--cacert": root.certificatePath, "--cert": client.chainPath, "--key": client.privateKeyPath]
    let content = try #require(files[option])
    files[option] = pipe
    let writer = Process()
    writer.executableURL = URL(filePath: "/bin/sh")
    writer.arguments = ["-c", #"exec cat "$1" >pipe"#, "sh", content]
    writer.currentDirectoryURL = folder.root
    try writer.run()
    defer {
      // It waits for a reader if there was none.
      if writer.isRunning { writer.terminate() }
      writer.waitUntilExit()
    }
    let arguments = [server.url("/hello", host: "127.0.0.1"), "--timeout", "60"]
    let outcome = try await Tool.run(arguments + files.flatMap { [$0.key, $0.value] }, in: folder)
    #expect(outcome.status == 0 && outcome.text == "Hello, world!", "\(outcome.error)")
    // Of a certificate in a pipe the key is elsewhere.
    let alone = try await Tool.run(arguments + ["--cert", "pipe"], in: folder)
    #expect(alone.status == 2 && alone.error.contains("--key FILE"), "\(alone.error)")
  }

  @Test func outputFile() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run([server.url("/bytes?n=70000"), "-o", "f"], in: folder)
    #expect(outcome.status == 0 && outcome.text == "")
    #expect(try folder.bytes("f") == PatternBody.bytes(70_000))
  }

  @Test func defaultFieldsThatAreLeftOut() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let url = server.url("/redirect?to=/echo")
    for items in [["Accept:"], ["Accept: ", "X-A:1"], ["Accept:", "a=b"]] {
      #expect(try await Tool.run([url, "-F"] + items).status == 0)
    }
    #expect(server.requestCount == 6 && server.recordedRequests.allSatisfy { $0.fields.first("Accept") == nil })
    #expect(try await Tool.run([url, "User-Agent:", "Accept-Encoding:"]).status == 0)
    #expect(server.recordedRequests.last?.fields.map(\.name) == ["Host", "Accept"])
    #expect(try await Tool.run(["--print-curl", url, "Accept:"]).text.contains("--header Accept: "))
  }
}
