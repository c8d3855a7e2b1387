import FoundationEssentials
import Logging
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// A plaintext and a TLS server that answer for every host below `.example`, `.test` and for the loopback addresses, and a session whose jar is empty.
struct CookieStage {
  let session: Session
  let plain: LoopbackServer
  let secure: LoopbackServer

  var jar: CookieStorage {
    get throws { try #require(session.configuration.cookieStorage) }
  }

  static let hosts = [
    "a.example", "b.example", "www.a.example", "deep.www.a.example", "nota.example", "a.example.", "shop.co.test",
  ]

  /// - Parameter host: in a URL's spelling.
  func url(_ path: String, _ host: String = "a.example") -> String { plain.url(path, host: host) }
  func secureURL(_ path: String, _ host: String = "a.example") -> String { secure.url(path, host: host) }

  /// A path that sets cookies, and perhaps redirects.
  static func set(_ cookies: String..., to target: String? = nil, status: Int? = nil) -> String {
    var items = cookies.map { "c=\(escaped($0))" }
    if let target { items.append("to=\(escaped(target))") }
    if let status { items.append("status=\(status)") }
    return "/set?" + items.joined(separator: "&")
  }

  private static func escaped(_ text: String) -> String {
    text.utf8.map { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        String(UnicodeScalar(byte))
      default: "%" + (byte < 16 ? "0" : "") + String(byte, radix: 16)
      }
    }.joined()
  }

  /// Expects that a request to `url` says this in its `Cookie` field.
  func expect(_ cookies: String, at url: String, sourceLocation: SourceLocation = #_sourceLocation) async throws {
    let (text, _) = try await session.text(url)
    #expect(text == cookies, sourceLocation: sourceLocation)
  }

  /// All `Cookie` fields of each request that has reached either server.
  var allReceived: [[String]] { (plain.recordedRequests + secure.recordedRequests).map { $0.fields.values("Cookie") } }

  /// Every `Cookie` field that has reached either server, in order of arrival at each.
  var received: [String?] { (plain.recordedRequests + secure.recordedRequests).map { $0.fields.first("Cookie") } }
}

private let cookieRoutes: [ServerRoute] = [
  ServerRoute(nil, "/set") { request, connection in
    var fields = ServerFields()
    for item in request.queryItems where item.name == "c" { fields.append("Set-Cookie", item.value) }
    var status = request.number("status") ?? 200
    if let target = request.query("to") {
      fields.append("Location", target)
      status = request.number("status") ?? 302
    }
    _ = try connection.readBody()
    try connection.respond(status, fields: fields, text: "")
  }
]

private let echo: LoopbackServer.Handler = { request, connection in
  try connection.respond(text: request.fields.values("Cookie").joined(separator: "\n"))
}

/// Runs `body` on a stage.
func withCookieStage(
  configure: (inout SessionConfiguration) -> Void = { _ in }, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: (CookieStage) async throws -> Void
) async throws {
  let routes =
    cookieRoutes
    + ["/", "/cookies", "/a", "/a/b", "/a/b/c", "/ab", "/only", "/only/x"].map { ServerRoute(nil, $0, handler: echo) }
  let order = CertificateOrder(
    commonName: "cookies", dnsNames: CookieStage.hosts.filter { !$0.hasSuffix(".") } + ["localhost"],
    ipAddresses: ["127.0.0.1"])
  let plain = try LoopbackServer(routes: routes)
  let secure = try LoopbackServer(routes: routes, tls: try TestIdentity.server(order))
  defer {
    plain.shutdown()
    secure.shutdown()
  }
  func settings(_ configuration: inout SessionConfiguration) {
    for host in CookieStage.hosts {
      for port in [plain.port, secure.port] { configuration.nameOverrides["\(host):\(port)"] = "127.0.0.1:\(port)" }
    }
    configuration.redirects.allowsDowngrade = true
    configure(&configuration)
  }
  try await withSession(ports: [plain.port, secure.port], configure: settings, sourceLocation: sourceLocation) {
    try await body(CookieStage(session: $0, plain: plain, secure: secure))
  }
}

/// Suffixes that the tests know.
enum TestSuffixes {
  static func storage() throws -> CookieStorage {
    try withFolder { folder in
      let path = folder + "/suffixes.dat"
      try Data("// a comment\ntest\nco.test\n".utf8).write(to: URL(filePath: path))
      return try CookieStorage(publicSuffixListPath: path)
    }
  }
}

/// Gives a folder of its own to `body`, and removes it.
func withFolder<Result>(_ body: (String) throws -> Result) throws -> Result {
  let folder = "/tmp/lupine-cookies-\(UUID().uuidString)"
  try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
  defer { try? FileManager.default.removeItem(atPath: folder) }
  return try body(folder)
}

/// Keeps everything that is logged.
final class LogKeeper: Sendable {
  private struct Handler: LogHandler {
    let keeper: LogKeeper
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.trace

    func log(event: LogEvent) {
      keeper.lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") }
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }
  }

  private let lines = Locked<[String]>([])

  var logger: Logger { Logger(label: "cookies") { _ in Handler(keeper: self) } }
  var text: String { lines.withLock { $0.joined(separator: "\n") } }
}
