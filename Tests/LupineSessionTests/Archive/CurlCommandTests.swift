import Foundation
import HTTPTypes
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// Commands are run by real shells and a real curl, and what arrives is compared with what the session sends.
@Suite(.timeLimit(.minutes(10))) struct CurlCommandTests {
  static let curl = ["/usr/bin/curl", "/usr/local/bin/curl"].first { FileManager.default.isExecutableFile(atPath: $0) }
  static let shells = ["/bin/sh", "/bin/bash", "/bin/zsh"].filter { FileManager.default.isExecutableFile(atPath: $0) }

  @Test func commandsReadAsExpected() throws {
    var request = try Request("https://user:pw@a.example/p?x=1#f")
    request.fields[.authorization] = "Bearer s3cret"
    #expect(
      request.curlCommand(configuration: .ephemeral)
        == "curl --header 'Authorization: Bearer [redacted]' --header 'User-Agent: Lupine/0.1' "
        + "--header 'Accept-Encoding: gzip, deflate' --compressed --cookie '' --location --max-redirs 20 "
        + "--proto-redir '=https' --http1.1 'https://a.example/p?x=1'")
    #expect(request.curlCommand(redactingSecrets: false, configuration: .ephemeral).contains("s3cret"))
    // Without its zone a link-local address is nobody's.
    #expect(
      try Request("http://[fe80::1%25eth0]:81/a").curlCommand(configuration: .ephemeral)
        .hasSuffix(" --globoff 'http://[fe80::1%25eth0]:81/a'"))
    var expecting = try Request("http://a.example/", method: .post, body: .bytes([0x61]))
    expecting.fields[.expect] = "100-continue"
    expecting.expectsContinue = true
    #expect(expecting.curlCommand(configuration: .ephemeral).split(separator: "Expect: 100-continue").count == 2)
    // As it is sent: some servers want a length even of nothing. Where curl announces it by itself, it is not said twice.
    for method in [HTTPRequest.Method.delete, .post] {
      var empty = try Request("http://a.example/", method: method)
      empty.fields[.contentLength] = "0"
      #expect(empty.curlCommand(configuration: .ephemeral).contains("Content-Length: 0") == (method == .delete))
    }
    request.redirects = .disabled
    request.method = .put
    request.totalTimeout = .milliseconds(1_500)
    request.timeoutInterval = .milliseconds(2_001)
    request.acceptsCompressedContent = false
    var configuration = SessionConfiguration()
    configuration.userAgent = nil
    configuration.connectTimeout = .seconds(3)
    configuration.nameOverrides = ["a.example:443": "127.0.0.1:8443", "b.example:80": "[::1]:80"]
    configuration.nameOverrides["Bücher.example:81"] = "[::1]:81"
    configuration.tls.roots = .file("/etc/my ca.pem")
    configuration.tls.verifiesServer = false
    configuration.tls.minimumVersion = .tls13
    configuration.tls.publicKeyPins = [[UInt8](repeating: 0, count: 32)]
    configuration.tls.clientIdentity = .init(
      certificatePath: "c:1:\u{301}.pem", privateKeyPath: "k.pem", passphrase: "s3cret")
    let command = request.curlCommand(configuration: configuration)
    for part in [
      "--request PUT", "--header 'Authorization: Bearer [redacted]'", "--header User-Agent:", "--header Content-Type:",
      "--data-binary ''", "--max-time 1.500", "--speed-limit 1 --speed-time 3", "--connect-timeout 3",
      "--connect-to a.example:443:127.0.0.1:8443", "--resolve 'b.example:80:[::1]'",
      "--resolve 'xn--bcher-kva.example:81:[::1]'", "--cacert '/etc/my ca.pem'",
      "--insecure", "--tlsv1.3", #"--cert 'c\:1\:\#u{301}.pem'"#, "--key k.pem", "--pass '[redacted]'",
      "--pinnedpubkey sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
    ] {
      #expect(command.contains(part), "\(part) is not in \(command)")
    }
    #expect(!command.contains("s3cret") && !command.contains("--location") && !command.contains("--compressed"))
    configuration.unixSocketPath = "@name"
    configuration.localAddress = "[::1]"
    configuration.tls.additionalRoots = [[1], [2]]
    let other = request.curlCommand(configuration: configuration)
    #expect(other.contains("--interface ::1"))
    #expect(other.contains("--abstract-unix-socket name") && other.contains("trusts 2 certificates in memory as well"))
  }

  /// What was due long ago is the shortest time that curl has.
  @Test func timesThatAreLongOver() throws {
    var request = try Request("http://a.example/")
    for time in [Date.distantPast.timeIntervalSinceNow, -1, 0, 1e-9] {
      request.timeoutInterval = .seconds(time)
      request.totalTimeout = .seconds(time)
      let command = request.curlCommand(configuration: .ephemeral)
      #expect(command.contains("--max-time 0.001 ") && command.contains("--speed-time 1 "), "\(command)")
    }
    request.timeoutInterval = .seconds(1.5)
    #expect(request.curlCommand(configuration: .ephemeral).contains("--speed-time 2 "))
  }

  /// With a mark behind it a sign is another character, and the same byte.
  @Test func signsBeforeMarksAreSigns() throws {
    var configuration = SessionConfiguration()
    configuration.unixSocketPath = "@\u{301}"
    let request = try Request("http://a.example/", method: .post, body: .file(path: "-\u{301}"))
    let command = request.curlCommand(configuration: configuration)
    #expect(command.contains("--abstract-unix-socket") && command.contains("@./"), "\(command)")
  }

  /// curl knows no pins of authorities; without verification only the server's own key counts here too.
  @Test(arguments: [true, false]) func whatPinsAreComparedWith(verifies: Bool) throws {
    var configuration = SessionConfiguration()
    configuration.tls.verifiesServer = verifies
    let request = try Request("https://a.example/")
    #expect(!request.curlCommand(configuration: configuration).contains("pinnedpubkey"))
    configuration.tls.publicKeyPins = [[UInt8](repeating: 0, count: 32)]
    let command = request.curlCommand(configuration: configuration)
    #expect(
      command.contains("--pinnedpubkey sha256//") && command.contains("\n# curl compares") == verifies, "\(command)")
  }

  /// To another origin curl drops `Authorization` and `Cookie` alone: of every other secret that it would take there, a comment says so.
  @Test(arguments: [
    ("Authorization", false), ("Cookie", false), ("X-Plain", false), ("X-Api-Key", true), ("private-token", true),
    ("Origin", true), ("X-Mine", true), ("X-Of-The-Session", true),
  ]) func whatRedirectsTakeAlong(_ name: String, _ isKept: Bool) throws {
    var configuration = SessionConfiguration.ephemeral
    // What redirects set has a comment of its own.
    configuration.cookieStorage = nil
    configuration.sensitiveFields = [try #require(HTTPField.Name("x-of-the-session"))]
    let field = try #require(HTTPField.Name(name))
    var request = try Request("https://a.example/")
    request.sensitiveFields = [try #require(HTTPField.Name("x-mine"))]
    let comment = "\n# curl repeats \(name) after a redirect to another origin; the request itself does not"
    #expect(!request.curlCommand(configuration: configuration).contains("\n#"))
    configuration.additionalFields[field] = "of the session"
    #expect(request.curlCommand(configuration: configuration).hasSuffix(comment) == isKept)
    request.fields[field] = "https://b.example"
    for redacts in [true, false] {
      let command = request.curlCommand(redactingSecrets: redacts, configuration: configuration)
      #expect(command.hasSuffix(comment) == isKept && command.contains("\n#") == isKept, "\(command)")
    }
    request.redirects = .disabled
    #expect(!request.curlCommand(configuration: configuration).contains("\n#"))
  }

  // MARK: Quoting

  @Test(arguments: shells) func shellsGiveBackEveryByte(_ shell: String) throws {
    var generator = SeededGenerator(seed: 11)
    var words: [[UInt8]] = (1...255).map { [UInt8($0)] }
    words += (1...255).map { [0x61, UInt8($0), 0x62] }
    words += [
      [], Array("a\n".utf8), Array("\n".utf8), Array("\u{1}\n\n".utf8), Array("$'\\n'".utf8), Array("-n\u{1}".utf8),
    ]
    for _ in 0..<400 {
      let count = Int.random(in: 1...40, using: &generator)
      words.append((0..<count).map { _ in UInt8.random(in: 1...255, using: &generator) })
    }
    // What means something to shells, in every mixture.
    let special = Array("'\"\\$`!%-\n\t *?[]{}()<>|&;#~=^\u{1b}".utf8)
    for _ in 0..<400 {
      let count = Int.random(in: 1...12, using: &generator)
      words.append((0..<count).map { _ in special.randomElement(using: &generator) ?? 0x20 })
    }
    let arguments = try words.map { try #require(ShellQuoting.argument($0)) }
    for argument in arguments {
      // Only line ends at the end, which no shell lets a command print.
      var shown = argument[...]
      if shown.hasSuffix("\n'") { shown.removeLast() }
      while shown.hasSuffix("\n") { shown.removeLast() }
      #expect(shown.unicodeScalars.allSatisfy { !InvisibleText.isUnsafe($0) })
    }
    for start in stride(from: 0, to: words.count, by: 100) {
      let end = min(words.count, start + 100)
      let output = try Self.run(shell, "printf '%s\\0' \(arguments[start..<end].joined(separator: " "))")
      #expect(output.status == 0)
      #expect(Self.split(output.bytes) == Array(words[start..<end]))
    }
  }

  @Test(arguments: shells) func formatsPrintEveryByte(_ shell: String) throws {
    var generator = SeededGenerator(seed: 12)
    var bodies: [[UInt8]] = [Array(0...255), [], [0, 0, 0x31], Array("-%s\\".utf8), Array("\n\n".utf8)]
    bodies.append((0..<50_000).map { _ in UInt8.random(in: 0...255, using: &generator) })
    for body in bodies {
      #expect(try Self.run(shell, "printf \(ShellQuoting.printfFormat(body))").bytes == body)
    }
  }

  // MARK: Through curl

  private struct Case: Sendable, CustomTestStringConvertible {
    var name: String
    var input: [UInt8] = []
    var make: @Sendable (String, String) throws -> Request

    var testDescription: String { name }
  }

  private static func request(
    _ url: String, _ method: HTTPRequest.Method, _ body: Request.Body = .none, _ fields: [(String, String)] = []
  ) throws -> Request {
    var request = try Request(url, method: method, body: body)
    for (name, value) in fields {
      request.fields.append(HTTPField(name: try #require(HTTPField.Name(name)), value: value))
    }
    return request
  }

  private static let cases: [Case] = [
    Case(name: "get") { url, _ in try request(url + "?a=b%20c&d=[1]{2}", .get) },
    Case(name: "fields") { url, _ in
      try request(
        url, .get, .none,
        [
          ("X-A", "it's \"$HOME\" `x` \\ !"), ("X-Tab", "a\tb"), ("X-Empty", ""), ("X-A", "again"),
          ("Accept", "text/html"),
          ("User-Agent", "mine"), ("Host", "named.example"), ("Authorization", "Basic eDp5"), ("X-At", "@file"),
        ])
    },
    Case(name: "head") { url, _ in try request(url, .head) },
    Case(name: "options") { url, _ in try request(url, .options) },
    Case(name: "range") { url, _ in try request(url, .get, .none, [("Range", "bytes=0-1")]) },
    Case(name: "range without codings") { url, _ in
      var request = try request(url, .get, .none, [("Range", "bytes=0-1")])
      request.acceptsCompressedContent = false
      return request
    },
    Case(name: "delete") { url, _ in try request(url, .delete) },
    Case(name: "empty post") { url, _ in try request(url, .post) },
    Case(name: "text") { url, _ in
      try request(
        url, .post, .bytes(Array("{\"it's\": 1,\n \"x\": \"é\"}\n\n".utf8)), [("Content-Type", "application/json")])
    },
    Case(name: "text with an at") { url, _ in try request(url, .put, .bytes(Array("@/etc/passwd".utf8))) },
    Case(name: "every byte") { url, _ in
      try request(url, .post, .bytes(Array(0...255) + Array((0...255).reversed())), [("Content-Type", "x/y")])
    },
    Case(name: "long text") { url, _ in try request(url, .post, .bytes([UInt8](repeating: 0x61, count: 300_000))) },
    Case(name: "file") { url, path in try request(url, .put, .file(path: path)) },
    Case(name: "part of a file") { url, path in try request(url, .post, .file(path: path, offset: 1_000, length: 500))
    },
    Case(name: "end of a file") { url, path in try request(url, .patch, .file(path: path, offset: 69_000)) },
    Case(name: "pieces") { url, path in
      try request(
        url, .post,
        .segments([
          .bytes(Array("it's\r\n\0%s".utf8)), .file(path: path), .bytes([]),
          .file(path: path, offset: 3, length: 6, fileSize: 70_000), .bytes(Array(0...255)),
        ]))
    },
    Case(name: "pieces with a stream", input: Array("streamed".utf8)) { url, _ in
      try request(
        url, .post,
        .segments([
          .bytes(Array("[".utf8)),
          .stream(length: 8, isReplayable: true) { BodyStream([Array("streamed".utf8)]) },
        ]))
    },
    Case(name: "pieces with a stream in chunks", input: Array("100%\\n\0\n".utf8)) { url, path in
      try request(
        url, .post,
        .segments([
          .bytes(Array("--b\r\nit's 100% of \\n and %s!\r\n".utf8)), .file(path: path),
          .stream(length: nil, isReplayable: true) { BodyStream([Array("100%\\n\0\n".utf8)]) }, .bytes(Array(0...255)),
        ]))
    },
    Case(name: "pieces with two streams", input: Array("[onetwo".utf8)) { url, _ in
      try request(
        url, .put,
        .segments([
          .bytes(Array("[".utf8)), .stream(length: 3, isReplayable: true) { BodyStream([Array("one".utf8)]) },
          .stream(length: nil, isReplayable: true) { BodyStream([Array("two".utf8)]) },
        ]))
    },
    Case(name: "stream with a length", input: Array("streamed".utf8)) { url, _ in
      try request(url, .post, .stream(length: 8, isReplayable: true) { BodyStream([Array("streamed".utf8)]) })
    },
    Case(name: "stream in chunks", input: Array("streamed".utf8)) { url, _ in
      try request(url, .post, .stream(length: nil, isReplayable: true) { BodyStream([Array("streamed".utf8)]) })
    },
  ]

  @Test(.enabled(if: curl != nil, "curl is missing: apt-get install -y curl"), arguments: cases.indices)
  func curlSendsWhatTheSessionSends(_ index: Int) async throws {
    let test = Self.cases[index]
    let scratch = FileManager.default.temporaryDirectory.appendingPathComponent("lupine it's \(UUID().uuidString)")
    try Data(PatternBody.bytes(70_000)).write(to: scratch)
    defer { try? FileManager.default.removeItem(at: scratch) }
    try await withServer { session, server in
      let request = try test.make(server.url("/echo"), scratch.path)
      let (body, _) = try await session.data(for: request)
      let command = request.curlCommand(redactingSecrets: false, configuration: .ephemeral)
      let output = try Self.run("/bin/sh", Self.silent(command), input: test.input)
      #expect(output.status == 0, "\(test.name): \(command)")
      if request.method != .head { #expect(output.bytes == Array(body)) }
      let recorded = server.recordedRequests
      try #require(recorded.count == 2, "\(test.name): \(command)")
      let (ours, theirs) = (recorded[0], recorded[1])
      #expect(theirs.method == ours.method)
      #expect(theirs.target == ours.target)
      #expect(theirs.body == ours.body, "\(test.name)")
      #expect(Self.fields(theirs) == Self.fields(ours), "\(test.name): \(command)")
    }
  }

  /// Where the method stays the body goes along, whatever method it is; curl by itself would go on without it.
  @Test(
    .enabled(if: curl != nil, "curl is missing: apt-get install -y curl"),
    arguments: [("PUT", 301), ("PATCH", 302), ("DELETE", 307), ("GET", 303), ("POST", 302)])
  func curlTakesTheBodyWhereTheSessionTakesIt(_ method: String, _ status: Int) async throws {
    let moved = ServerRoute(nil, "/moved") { _, connection in
      _ = try connection.readBody()
      try connection.respond(status, fields: ["Location": "/echo"], text: "")
    }
    try await withServer([moved] + ServerRoute.standard()) { session, server in
      let request = try Self.request(
        server.url("/moved"), try #require(HTTPRequest.Method(method)), .bytes(Array("text".utf8)),
        [("Content-Type", "x/y")])
      let (body, _) = try await session.data(for: request)
      #expect(String(decoding: body, as: UTF8.self) == (method == "POST" ? "" : "text"))
      let command = request.curlCommand(redactingSecrets: false, configuration: .ephemeral)
      let output = try Self.run("/bin/sh", Self.silent(command))
      #expect(output.status == 0 && output.bytes == Array(body), "\(command)")
      let recorded = server.recordedRequests
      try #require(recorded.count == 4, "\(command)")
      #expect(recorded.prefix(2).map(\.method) == recorded.suffix(2).map(\.method))
      #expect(recorded.prefix(2).map(\.body) == recorded.suffix(2).map(\.body))
    }
  }

  /// A sign-in that ends in a redirect works as it does here.
  @Test(.enabled(if: curl != nil, "curl is missing: apt-get install -y curl"))
  func curlKeepsTheCookiesThatRedirectsSet() async throws {
    let login = ServerRoute(nil, "/login") { _, connection in
      try connection.respond(302, fields: ["Set-Cookie": "sid=1; Path=/", "Location": "/cookies"], text: "")
    }
    let jar = CookieStorage()
    try await withServer([login] + ServerRoute.standard(), configure: { $0.cookieStorage = jar }) { session, server in
      let request = try Request(server.url("/login"))
      var configuration = SessionConfiguration.ephemeral
      let command = request.curlCommand(redactingSecrets: false, configuration: configuration)
      try await session.expect("sid=1", from: request)
      let output = try Self.run("/bin/sh", Self.silent(command))
      #expect(output.status == 0 && String(decoding: output.bytes, as: UTF8.self) == "sid=1", "\(command)")
      // Beside a field that is written they would go in another one.
      configuration.cookieStorage = jar
      let comment = "\n# curl keeps no cookies that redirects set; the request itself does"
      let again = request.curlCommand(configuration: configuration)
      #expect(again.hasSuffix(comment) && !again.contains("--cookie"), "\(again)")
      var own = request
      own.fields[.cookie] = "own=1"
      for storage in [jar, CookieStorage()] {
        configuration.cookieStorage = storage
        let command = own.curlCommand(configuration: configuration)
        #expect(command.hasSuffix(comment) && !command.contains("--cookie"), "\(command)")
      }
      configuration.cookieStorage = nil
      #expect(!own.curlCommand(configuration: configuration).contains(comment))
      configuration.cookieStorage = jar
      configuration.redirects = .disabled
      #expect(!request.curlCommand(configuration: configuration).contains(comment))
    }
  }

  @Test(.enabled(if: curl != nil, "curl is missing: apt-get install -y curl")) func curlConnectsAndTrustsAsConfigured()
    async throws
  {
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try TestIdentity.server(CertificateOrder(dnsNames: ["service.example"])))
    defer { server.shutdown() }
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("lupine-curl-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let authority = directory.appendingPathComponent("a b's.pem").path
    try Data(TestIdentity.authority.get().rootPEM.utf8).write(to: URL(fileURLWithPath: authority))
    var configuration = SessionConfiguration()
    configuration.nameOverrides = ["service.example:443": "127.0.0.1:\(server.port)"]
    configuration.tls.roots = .file(authority)
    configuration.tls.minimumVersion = .tls13
    let request = try Request("https://service.example/redirect?to=/hello")
    let command = request.curlCommand(configuration: configuration)
    let output = try Self.run("/bin/sh", Self.silent(command))
    #expect(output.status == 0)
    #expect(String(decoding: output.bytes, as: UTF8.self) == "Hello, world!")
    configuration.tls.roots = .system
    let untrusted = try Self.run("/bin/sh", Self.silent(request.curlCommand(configuration: configuration)))
    #expect(untrusted.status == 60)
  }

  /// Without its progress, which is nobody's business here, and without the tester's own settings.
  static func silent(_ command: String) -> String {
    command.replacing("curl --", with: "curl -q --silent --noproxy '*' --", maxReplacements: 1)
  }

  static func fields(_ request: ServerRequest) -> [String] {
    request.fields.map { "\($0.name.lowercased()): \($0.value)" }.sorted()
  }

  private static func split(_ bytes: [UInt8]) -> [[UInt8]] {
    bytes.split(separator: 0, omittingEmptySubsequences: false).dropLast().map(Array.init)
  }

  static func run(
    _ shell: String, _ script: String, input: [UInt8] = []
  ) throws -> (status: Int32, bytes: [UInt8]) {
    let directory = FileManager.default.temporaryDirectory.appendingPathComponent("lupine-sh-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let (text, standardInput, output) = (
      directory.appendingPathComponent("script"), directory.appendingPathComponent("in"),
      directory.appendingPathComponent("out")
    )
    // A file, because one argument cannot be as long as the longest command here.
    try Data(script.utf8).write(to: text)
    try Data(input).write(to: standardInput)
    try Data().write(to: output)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: shell)
    process.arguments = [text.path]
    process.standardInput = try FileHandle(forReadingFrom: standardInput)
    process.standardOutput = try FileHandle(forWritingTo: output)
    try process.run()
    process.waitUntilExit()
    return (process.terminationStatus, [UInt8](try Data(contentsOf: output)))
  }
}
