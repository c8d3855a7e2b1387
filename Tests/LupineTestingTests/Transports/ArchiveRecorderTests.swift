import FoundationEssentials
import LupineSession
import Testing

@testable import LupineTesting

@Suite(.timeLimit(.minutes(5))) struct ArchiveRecorderTests {
  /// Who asks for an archive while files are read takes nothing from those who ask later.
  @Test func everyFileIsWaitedFor() async throws {
    let folder = FileManager.default.temporaryDirectory.path
    let (large, small) = (folder + "/lupine-large-\(UUID().uuidString)", folder + "/lupine-small-\(UUID().uuidString)")
    try Data(count: 16 << 20).write(to: URL(filePath: large))
    try Data(count: 1 << 20).write(to: URL(filePath: small))
    defer { for path in [large, small] { try? FileManager.default.removeItem(atPath: path) } }
    let recorder = ArchiveRecorder()
    func record(_ path: String) throws {
      let request = HTTPArchive.Request(method: "PUT", url: "http://a.example/")
      let entry = HTTPArchive.Entry(startedAt: Date(), request: request, response: nil)
      recorder.record(entry, at: try #require(recorder.reserve()), body: .file(path: path))
    }
    try record(large)
    let begun = Total()
    let early = Task {
      begun.set(1)
      return await recorder.archive()
    }
    #expect(await eventually { begun.value == 1 })
    for _ in 0..<50 { try record(small) }
    _ = await early.value
    let archive = await recorder.archive()
    #expect(archive.entries.map { $0.request.body?.count } == [16 << 20] + Array(repeating: 1 << 20, count: 50))
  }
}
