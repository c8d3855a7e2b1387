import Foundation
import LupineRules
import LupineTesting
import Testing

@testable import lupine

/// `--proxy` and its kin, `proxy` and `noProxy` of a batch, and the environment.
@Suite(.timeLimit(.minutes(3))) struct ProxyToolTests {
  private static let asks = ScriptBytes(
    "HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic realm=p\r\nContent-Length: 0\r\n\r\n")
  private static let hello = ScriptBytes("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

  @Test func ofTheCommandLine() async throws {
    let proxy = try ScriptedServer([
      [.readHead, .send(Self.asks), .readHead, .send(Self.hello), .waitForClose],
      [.readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .readHead, .send(Self.hello), .waitForClose],
      [.readHead, .send("HTTP/1.1 403 No\r\n\r\n"), .waitForClose],
    ])
    defer { proxy.shutdown() }
    let url = "http://127.0.0.1:\(proxy.port)"
    let first = try await Tool.run(["http://a.example/x", "--proxy", url, "--proxy-auth", "u:p", "--verbose"])
    #expect(first.status == 0 && first.text == "hello")
    #expect(!first.error.contains("dTpw"))
    let second = try await Tool.run(["http://a.example/x", "--proxy", url, "--proxy-tunnel", "--timing"])
    #expect(second.text == "hello")
    #expect(second.error.contains("proxy"))
    let third = try await Tool.run(["https://a.example/x", "--proxy", url])
    #expect(third.status == 3)
    #expect(third.error.contains("403"))
    #expect(
      proxy.recordedRequests.map(\.target) == [
        "http://a.example/x", "http://a.example/x", "a.example:80", "/x", "a.example:443",
      ])
    #expect(proxy.recordedRequests.map { $0.fields.first("proxy-authorization") }.prefix(2) == [nil, "Basic dTpw"])
  }

  @Test(arguments: [["--proxy", "ftp://u:secret@h"], ["--proxy-tunnel"], ["--proxy-auth", "u:secret"]])
  func misuse(_ arguments: [String]) async throws {
    let outcome = try await Tool.run(["http://a.example/"] + arguments)
    #expect(outcome.status == 2)
    #expect(!outcome.error.contains("secret"))
  }

  @Test func ofABatch() async throws {
    let proxy = try ScriptedServer([
      [
        .readHead, .send(Self.asks), .readHead, .send("HTTP/1.1 200 OK\r\n\r\n"), .readHead, .send(Self.hello),
        .waitForClose,
      ]
    ])
    defer { proxy.shutdown() }
    let origin = try LoopbackServer(routes: ServerRoute.standard())
    defer { origin.shutdown() }
    let way = """
      "proxy": {"url": "http://127.0.0.1:\(proxy.port)", "tunnel": true, "headers": [["X-Trace", "1"]], \
      "auth": {"user": "u", "password": "p"}}
      """
    let outcome = try await Tool.run(
      ["batch", "--concurrency", "1"],
      input: """
        {"id": 1, "url": "http://a.example/", \(way)}
        {"id": 2, "url": "\(origin.url("/hello"))", "noProxy": "127.0.0.1", \(way)}
        {"id": 3, "url": "http://a.example/", "proxy": {"url": "ftp://u:secret@h"}}

        """)
    let results = try outcome.lines.map { try JSONReader.read($0) }
    #expect(results.count == 3)
    #expect(results.first { $0["id"] == .number("1") }?["status"] == .number("200"))
    #expect(results.first { $0["id"] == .number("2") }?["status"] == .number("200"))
    #expect(results.first { $0["id"] == .number("3") }?["error"]?["code"]?.string == "badProxy")
    #expect(!outcome.text.contains("secret"))
    #expect(origin.recordedRequests.count == 1)
    let connects = proxy.recordedRequests.prefix(2)
    #expect(connects.allSatisfy { $0.target == "a.example:80" && $0.fields.first("x-trace") == "1" })
    #expect(connects.map { $0.fields.first("proxy-authorization") } == [nil, "Basic dTpw"])
  }

  @Test func ofTheEnvironment() async throws {
    let answer: [ScriptStep] = [.readHead, .send(Self.hello), .waitForClose]
    let proxy = try ScriptedServer([answer, answer])
    defer { proxy.shutdown() }
    let origin = try LoopbackServer(routes: ServerRoute.standard())
    defer { origin.shutdown() }
    let address = "http://127.0.0.1:\(proxy.port)"
    let direct = "Hello, world!"
    let rows: [(environment: [String: String], arguments: [String], text: String)] = [
      (["http_proxy": address], [], "hello"),
      // A field of whoever asks a CGI program.
      (["HTTP_PROXY": address], [], direct), (["ALL_PROXY": address, "NO_PROXY": "127.0.0.0/8"], [], direct),
      (["http_proxy": address], ["--no-proxy", "127.0.0.1"], direct),
      // As with curl, it excepts from a proxy of the command line as well.
      (["no_proxy": "127.0.0.1"], ["--proxy", address], direct),
      (["NO_PROXY": "127.0.0.1"], ["--proxy", address], direct),
      (["no_proxy": "127.0.0.1"], ["--proxy", address, "--no-proxy", ""], "hello"),
    ]
    // Nothing of the test's own environment says anything of proxies; what sanitizers are told holds for the tool as well.
    let kept = ProcessInfo.processInfo.environment.filter { $0.key == "PATH" || $0.key.hasSuffix("SAN_OPTIONS") }
    for row in rows {
      let folder = try Folder()
      let process = try Tool.process([origin.url("/hello")] + row.arguments, in: folder)
      process.environment = kept.merging(row.environment) { $1 }
      try folder.write("", to: "output")
      process.standardOutput = try FileHandle(forWritingTo: folder.url("output"))
      let before = origin.requestCount
      try await Tool.finish(process) { try process.run() }
      #expect(process.terminationStatus == 0)
      let text = String(decoding: try folder.bytes("output"), as: UTF8.self)
      #expect(text == row.text, "\(row.environment) \(row.arguments)")
      #expect(origin.requestCount == before + (row.text == direct ? 1 : 0), "\(row.environment) \(row.arguments)")
    }
    #expect(proxy.recordedRequests.map(\.target) == [origin.url("/hello"), origin.url("/hello")])
  }

  @Test(arguments: [(member: "", isExcepted: true), (#", "noProxy": """#, false)])
  func exceptionsOfTheEnvironmentHoldForABatch(_ member: String, _ isExcepted: Bool) async throws {
    let proxy = try ScriptedServer([[.readHead, .send(Self.hello), .waitForClose]])
    defer { proxy.shutdown() }
    let origin = try LoopbackServer(routes: ServerRoute.standard())
    defer { origin.shutdown() }
    let folder = try Folder()
    let process = try Tool.process(["batch", "--concurrency", "1"], in: folder)
    process.environment = ProcessInfo.processInfo.environment.merging(["no_proxy": "127.0.0.1"]) { $1 }
    let way = #""proxy": {"url": "http://127.0.0.1:\#(proxy.port)"}"#
    try folder.write(#"{"url": "\#(origin.url("/hello"))", \#(way)\#(member)}"#, to: "input")
    process.standardInput = try FileHandle(forReadingFrom: folder.url("input"))
    try folder.write("", to: "output")
    process.standardOutput = try FileHandle(forWritingTo: folder.url("output"))
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 0)
    let lines = String(decoding: try folder.bytes("output"), as: UTF8.self).split(separator: "\n")
    let statuses = try lines.map { try JSONReader.read(String($0))["status"] }
    #expect(statuses == [JSONValue.number("200")])
    #expect(proxy.recordedRequests.map(\.target) == (isExcepted ? [] : [origin.url("/hello")]))
    #expect(origin.requestCount == (isExcepted ? 1 : 0))
  }
}
