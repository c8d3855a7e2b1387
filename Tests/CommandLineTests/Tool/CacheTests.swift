import Foundation
import LupineRules
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct CacheTests {
  private func withServer(_ body: (LoopbackServer, Folder) async throws -> Void) async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(
        fields: ["Cache-Control": request.path == "/fresh" ? "max-age=1000" : "no-store"], text: request.path)
    }
    defer { server.shutdown() }
    try await body(server, Folder())
  }

  @Test func responsesAreKeptBetweenRuns() async throws {
    try await withServer { server, folder in
      for _ in 0..<3 {
        let outcome = try await Tool.run(["--cache", "kept", server.url("/fresh")], in: folder)
        #expect(outcome.status == 0 && outcome.text == "/fresh", "\(outcome.error)")
      }
      #expect(server.requestCount == 1)
      for _ in 0..<2 { _ = try await Tool.run(["--cache", "kept", server.url("/other")], in: folder) }
      #expect(server.requestCount == 3)
      let line = #"{"url":"\#(server.url("/fresh"))","cache":"kept"}"# + "\n"
      let outcome = try await Tool.run(["batch"], input: line + line, in: folder)
      #expect(outcome.status == 0 && outcome.lines.count == 2, "\(outcome.error)")
      #expect(server.requestCount == 3)
    }
  }
}
