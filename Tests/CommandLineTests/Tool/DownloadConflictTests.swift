import Foundation
import LupineTesting
import Testing

@testable import lupine

/// Downloads that meet others, and files of others, under their names.
@Suite(.timeLimit(.minutes(3))) struct DownloadConflictTests {
  /// There is no record of what another program began.
  @Test func leavesForeignNamesThatLookLikeRecords() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("mine", to: "f.resume")
    for length in [4_000, 9_000] {
      try Data(PatternBody.bytes(length)).write(to: folder.url("f"))
      let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=9000")], in: folder)
      #expect(outcome.status == 0, "\(outcome.error)")
      #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
      #expect(folder.exists("f.resume"))
    }
  }
}
