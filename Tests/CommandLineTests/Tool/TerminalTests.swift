import Foundation
import LupineTesting
import Testing

@testable import lupine

/// The tool on a pseudo-terminal.
@Suite(.timeLimit(.minutes(3))) struct TerminalTests {
  private func run(_ arguments: [String], environment: [String: String] = [:]) async throws -> String {
    var (master, slave): (Int32, Int32) = (-1, -1)
    try #require(unsafe openpty(&master, &slave, nil, nil, nil) == 0)
    let folder = try Folder()
    let process = try Tool.process(arguments, in: folder)
    var variables = ProcessInfo.processInfo.environment
    variables["NO_COLOR"] = nil
    variables["TERM"] = "xterm"
    process.environment = variables.merging(environment) { $1 }
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle(fileDescriptor: slave, closeOnDealloc: false)
    process.standardError = FileHandle(fileDescriptor: slave, closeOnDealloc: false)
    try await Tool.finish(process) {
      try process.run()
      close(slave)
    }
    // What was written stays in the terminal's buffer; at its end the kernel reports an error instead of zero bytes.
    var all: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    while case let count = unsafe read(master, &buffer, buffer.count), count > 0 { all += buffer[..<count] }
    close(master)
    return String(decoding: all, as: UTF8.self).replacingOccurrences(of: "\r\n", with: "\n")
  }

  @Test func jsonIsLaidOutAndColoured() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let coloured = try await run([server.url("/json")])
    #expect(coloured.contains("\u{1b}[1;32m200 OK\u{1b}[0m\n") && coloured.contains("\u{1b}[34m\"count\"\u{1b}[0m"))
    let plain = try await run([server.url("/json"), "--body"], environment: ["NO_COLOR": "1"])
    #expect(plain == "{\n  \"greeting\": \"Hello, world!\",\n  \"count\": 13\n}\n")
  }

  /// It may be all that there is to find the fault by.
  @Test(arguments: ["application/json", "text/plain"]) func whatCameOfABrokenBodyIsShown(_ type: String) async throws {
    let server = try LoopbackServer { _, connection in
      try connection.begin(fields: ["Content-Type": type], framing: .length(1_000))
      try connection.write(Array("{\"a\": [1,\u{7}".utf8))
      try connection.finish()
    }
    defer { server.shutdown() }
    let shown = try await run([server.url(), "--body"], environment: ["NO_COLOR": "1"])
    #expect(shown.hasPrefix("{\"a\": [1,\\x07\nlupine: "), "\(shown)")
  }

  @Test func controlsOfThePeerAreEscaped() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["X-Evil": "a\u{9b}2J"], text: "\u{1b}]0;title\u{7}\u{1b}[2Jtext\r\nend")
    }
    defer { server.shutdown() }
    let shown = try await run([server.url(), "-v"], environment: ["NO_COLOR": ""])
    #expect(shown.contains(#"\x1b]0;title\x07\x1b[2Jtext"# + "\nend\n") && shown.contains(#"a\x9b2J"#))
    #expect(!shown.contains("\u{1b}]") && !shown.contains("\u{1b}[2J") && !shown.contains("\u{9b}"))
  }

  /// It would show what moves the cursor elsewhere, a bar of progress for one.
  @Test func dumbTerminalsGetNoEscapes() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let arguments = ["--download", "--output", "f", server.url("/hello")]
    #expect(try await run(arguments).contains("\u{1b}[K"))
    let shown = try await run(arguments, environment: ["TERM": "dumb"])
    #expect(!shown.contains("\u{1b}") && shown.contains(" f  13 B in "), "\(shown)")
  }

  /// What is told of the end stands in the place of the bar.
  @Test func theBarGoesBeforeTheEnd() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let shown = try await run(
      ["--download", "--output", "f", server.url("/hello")], environment: ["NO_COLOR": "1"])
    #expect(shown.contains("100%") && shown.contains("\r\u{1b}[K✓ f  13 B in "), "\(shown)")
    #expect(!shown.hasSuffix("\u{1b}[K"), "\(shown)")
  }

  @Test func binaryIsNotShown() async throws {
    let server = try LoopbackServer { _, connection in try connection.respond(body: [0x61, 0, 0x62]) }
    defer { server.shutdown() }
    #expect(try await run([server.url(), "-b"]).contains("binary"))
  }

  /// Its figures are those of all of it.
  @Test func binaryIsReadForWhoWantsItsFigures() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(body: [0] + PatternBody.bytes(2_000_000))
    }
    defer { server.shutdown() }
    let shown = try await run([server.url(), "-b", "-w", "%{size_download}"])
    #expect(shown.contains("binary") && shown.hasSuffix("\n2000001"), "\(shown)")
  }
}
