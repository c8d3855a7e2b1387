import Foundation
import LupineTesting
import Testing

@testable import lupine

/// What has to be text and is none is refused: whatever took its place would be sent without a word.
@Suite(.timeLimit(.minutes(3))) struct TextTests {
  @Test(arguments: [["n=@bin"], ["-f", "n=@bin"], ["n=@-"], ["n:=@bin"]])
  func fieldsAreText(_ arguments: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try Data([0xFF, 0xFE]).write(to: folder.url("bin"))
    let script = #"exec "$@" <bin 2>said >out"#
    let status = try await shell(script, [server.url("/echo")] + arguments, in: folder)
    let said = String(decoding: try folder.bytes("said"), as: UTF8.self)
    #expect(status == 2 && !said.isEmpty && server.requestCount == 0, "\(said)")
    if arguments.last != "n:=@bin" { #expect(said.contains("is no UTF-8 text"), "\(said)") }
  }

  /// A file is sent as it is.
  @Test func bodiesAreBytes() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try Data([0xFF, 0xFE]).write(to: folder.url("bin"))
    let outcome = try await Tool.run([server.url("/echo"), "--raw", "@bin"], in: folder)
    #expect(outcome.status == 0 && [UInt8](outcome.output) == [0xFF, 0xFE])
  }

  @Test(arguments: [("--raw", true), ("-o", true), ("X-A:1", false)])
  func argumentsAreText(_ before: String, _ isOption: Bool) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let script = #"exec "$@" "$(printf 'a\377b')" 2>said >out"#
    let status = try await shell(script, [server.url("/echo"), before], in: folder)
    let said = String(decoding: try folder.bytes("said"), as: UTF8.self)
    #expect(status == 2 && server.requestCount == 0)
    #expect(said.contains("argument 3" + (isOption ? " (after \(before))" : "") + " is not UTF-8"), "\(said)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path).sorted() == ["out", "said"])
  }

  /// Runs a script whose arguments are the tool and its own.
  private func shell(_ script: String, _ arguments: [String], in folder: Folder) async throws -> Int32 {
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", script, "sh", Tool.path] + arguments
    process.currentDirectoryURL = folder.root
    try await Tool.finish(process) { try process.run() }
    return process.terminationStatus
  }
}
