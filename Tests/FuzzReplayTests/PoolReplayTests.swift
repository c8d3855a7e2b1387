import Foundation
import LupineFuzzBodies
import Testing

/// Replays the pool's seeds, and every walk that once broke an invariant. A broken invariant ends the process.
@Suite struct PoolReplayTests {
  @Test func replaysWalks() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fuzz/Corpora/PoolWalk")
    let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    #expect(files.count >= 12)
    for file in files.sorted(by: { $0.path < $1.path }) {
      let walk = Array(try Data(contentsOf: file))
      PoolWalk.run(bytes: walk)
      // The invariants are checked after every step, so that cut walks add nothing; bent ones do, and so do other limits.
      PoolWalk.runBent(bytes: walk, bits: [0x01, 0x02, 0x04, 0x08], reach: 24)
    }
  }
}
