import Foundation
import LupineRules
import LupineTestSupport
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

  @Test func aCommandForCurlMakesNoCache() async throws {
    let folder = try Folder()
    let outcome = try await Tool.run(["--print-curl", "--cache", "kept", "http://h.invalid/"], in: folder)
    #expect(outcome.status == 0 && outcome.text.hasPrefix("curl "), "\(outcome.error)")
    #expect(!folder.exists("kept"))
  }

  /// Whose certificate is sent, and which roots are trusted, is not taken from a file of nearly the same name.
  @Test func pathsAreToldApartByTheirBytes() {
    let setters: [(inout BatchRequest.SessionKey, String) -> Void] = [
      { $0.caFile = $1 }, { $0.clientCertificate = $1 }, { $0.clientKey = $1 }, { $0.unixSocket = $1 },
      { $0.cache = $1 },
    ]
    for (index, set) in setters.enumerated() {
      func key(_ path: String) -> BatchRequest.SessionKey {
        var key = BatchRequest.SessionKey()
        set(&key, path)
        return key
      }
      #expect(key("\u{E9}") == key("\u{E9}") && key("\u{E9}") != key("e\u{301}"), "\(index)")
    }
  }

  /// A batch may name more directories than a process may have files open.
  @Test func cachesGoWithTheirSessions() async throws {
    let folder = try Folder()
    let before = DescriptorCensus.now()
    let sessions = BatchSessions(concurrency: 1)
    for number in 0..<(BatchSessions.limit + 20) {
      var key = BatchRequest.SessionKey()
      key.cache = folder.path("\(number)")
      _ = try sessions.session(for: key)
    }
    func openCaches() -> Int {
      before.newcomers().count { $0.contains(folder.root.lastPathComponent) && $0.hasSuffix("/lock") }
    }
    #expect(await eventually { openCaches() <= BatchSessions.limit })
    #expect(openCaches() == BatchSessions.limit)
    await sessions.flushCaches()
  }
}
