import Foundation
import LupineTestSupport
import LupineTesting
import Testing

@testable import lupine

/// Downloads that meet others, and files of others, under their names.
@Suite(.timeLimit(.minutes(3))) struct DownloadConflictTests {
  private static let count = 400_000

  /// A server whose first answer comes in parts, each when the next latch opens; the others break off, or stall.
  private func server(_ latches: [Latch], fields: ServerFields = [:], othersStall: Bool = false) throws
    -> LoopbackServer
  {
    let isFirst = LockedFlag()
    return try LoopbackServer { request, connection in
      let isFirst = isFirst.take()
      try connection.begin(fields: fields, framing: .length(Self.count))
      let content = PatternBody.bytes(Self.count)
      guard isFirst else {
        try connection.write(content[..<50_000])
        try connection.flush()
        if othersStall { _ = try connection.stall(until: nil) }
        return connection.abort()
      }
      for (index, latch) in latches.enumerated() {
        try connection.write(content[(100_000 * index)..<(100_000 * (index + 1))])
        _ = try connection.stall(until: latch)
      }
      try connection.write(content[(100_000 * latches.count)...])
      try connection.finish()
    }
  }

  private func start(_ arguments: [String], in folder: Folder) throws -> Process {
    let process = try Tool.process(arguments, in: folder)
    try folder.write("", to: "said")
    process.standardOutput = FileHandle.nullDevice
    process.standardError = try FileHandle(forWritingTo: folder.url("said"))
    try process.run()
    return process
  }

  private func wait(until path: String, has count: Int, in folder: Folder) async {
    #expect(await eventually { (try? folder.bytes(path).count) == count })
  }

  /// The second of two runs must not cut what the first one writes.
  @Test func goesOnWithNothingThatIsBeingWritten() async throws {
    let latches = [try Latch(), try Latch()]
    let server = try server(latches, fields: ["ETag": "\"a\""])
    defer { server.shutdown() }
    let folder = try Folder()
    let first = try start(["-d", "-o", "f", server.url("/f")], in: folder)
    #expect(await eventually { folder.exists("f.part.resume") })
    // More than was noted.
    latches[0].release()
    await wait(until: "f.part", has: 200_000, in: folder)
    let second = try await Tool.run(["-dc", "-o", "f", server.url("/f")], in: folder)
    #expect(second.status == 1 && second.error.contains("another download is writing f.part\n"), "\(second.error)")
    #expect(second.error.contains("        Wait until it ends") && server.requestCount == 1)
    latches[1].release()
    first.waitUntilExit()
    #expect(first.terminationStatus == 0)
    #expect(try folder.bytes("f") == PatternBody.bytes(Self.count))
  }

  /// Nor put a file of its own in the place of it.
  @Test(arguments: ["-d", "-dc"]) func replacesNothingThatIsBeingWritten(_ option: String) async throws {
    let latch = try Latch()
    let server = try server([latch], othersStall: true)
    defer { server.shutdown() }
    let folder = try Folder()
    let first = try start(["-d", "-o", "f", server.url("/f")], in: folder)
    await wait(until: "f.part", has: 100_000, in: folder)
    let second = try await Tool.run([option, "-o", "f", server.url("/f"), "--timeout", "60"], in: folder)
    #expect(second.status == 1 && second.error.contains("another download is writing f.part\n"), "\(second.error)")
    latch.release()
    first.waitUntilExit()
    #expect(first.terminationStatus == 0)
    #expect(try folder.bytes("f") == PatternBody.bytes(Self.count))
  }

  /// A server that has the rest of a file come in two parts, the second when the latch opens, and the whole at once.
  private func serverOfRests(_ latch: Latch) throws -> LoopbackServer {
    try LoopbackServer { request, connection in
      let content = PatternBody.bytes(Self.count)
      guard request.fields.first("Range") == "bytes=100000-" else { return try connection.respond(body: content) }
      let range = "bytes 100000-\(Self.count - 1)/\(Self.count)"
      try connection.begin(206, fields: ["Content-Range": range], framing: .length(Self.count - 100_000))
      try connection.write(content[100_000..<200_000])
      _ = try connection.stall(until: latch)
      try connection.write(content[200_000...])
      try connection.finish()
    }
  }

  /// A run that goes on with `f` by its length, when the first part of the rest is there and the second waits for the latch.
  private func withContinued(_ body: (Folder, Process, Latch, String) async throws -> Void) async throws {
    let latch = try Latch()
    let server = try serverOfRests(latch)
    defer { server.shutdown() }
    let folder = try Folder()
    try Data(PatternBody.bytes(100_000)).write(to: folder.url("f"))
    let run = try start(["-dc", "-o", "f", server.url("/f")], in: folder)
    await wait(until: "f", has: 200_000, in: folder)
    try await body(folder, run, latch, server.url("/f"))
  }

  /// Nor cut or replace what is gone on with under its own name.
  @Test(arguments: [["-d"], ["-dc"], []]) func leavesWhatIsContinued(_ options: [String]) async throws {
    try await withContinued { folder, first, latch, url in
      let second = try await Tool.run(options + ["-o", "f", url], in: folder)
      #expect(second.status == 1 && second.error.contains("another download is writing f\n"), "\(second.error)")
      #expect(try folder.bytes("f").count == 200_000 && !folder.exists("f.part"))
      latch.release()
      first.waitUntilExit()
      #expect(first.terminationStatus == 0)
      #expect(try folder.bytes("f") == PatternBody.bytes(Self.count))
    }
  }

  /// What another program puts in the place of it is not what was written.
  @Test func tellsThatItsFileWasReplaced() async throws {
    try await withContinued { folder, process, latch, _ in
      try FileManager.default.removeItem(at: folder.url("f"))
      try folder.write("mine", to: "f")
      latch.release()
      process.waitUntilExit()
      let said = String(decoding: try folder.bytes("said"), as: UTF8.self)
      #expect(process.terminationStatus == 1 && said.contains("what came is lost"), "\(said)")
      #expect(!said.contains("goes on from there") && !said.contains("✓"), "\(said)")
      #expect(try folder.bytes("f") == Array("mine".utf8))
    }
  }

  /// A file that another run has begun meanwhile under the final name.
  @Test func replacesNothingThatWasBegunMeanwhile() async throws {
    let latch = try Latch()
    let server = try server([latch], othersStall: true)
    defer { server.shutdown() }
    let folder = try Folder()
    let first = try start(["-d", "-o", "f", server.url("/f")], in: folder)
    await wait(until: "f.part", has: 100_000, in: folder)
    let second = try Tool.process(["-o", "f", server.url("/f")], in: folder)
    second.standardOutput = FileHandle.nullDevice
    second.standardError = FileHandle.nullDevice
    try second.run()
    await wait(until: "f", has: 50_000, in: folder)
    latch.release()
    first.waitUntilExit()
    let said = String(decoding: try folder.bytes("said"), as: UTF8.self)
    #expect(first.terminationStatus == 1 && said.contains("another download is writing f\n"), "\(said)")
    #expect(try folder.bytes("f").count == 50_000)
    #expect(try folder.bytes("f.part") == PatternBody.bytes(Self.count))
    second.terminate()
    second.waitUntilExit()
  }

  /// What lies behind the place that was noted goes when the rest comes, and not before: the attempt may come to nothing.
  @Test func cutsNothingBeforeTheAnswer() async throws {
    let isFirst = LockedFlag()
    let server = try LoopbackServer { request, connection in
      if isFirst.take() {
        try connection.begin(fields: ["ETag": "\"a\""], framing: .length(9_000))
        try connection.write(PatternBody.bytes(5_000))
        try connection.flush()
        return connection.abort()
      }
      guard request.query("busy") == nil else { return try connection.respond(503) }
      try StandardFile.respond(request, connection, 9_000)
    }
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", "-o", "f", server.url("/f")], in: folder)
    let longer = try folder.bytes("f.part") + [UInt8](repeating: 0, count: 7_000)
    try Data(longer).write(to: folder.url("f.part"))
    let busy = try await Tool.run(["-dc", "-o", "f", server.url("/f?busy")], in: folder)
    #expect(busy.status == 22 && server.recordedRequests.last?.fields.first("Range") == "bytes=5000-")
    #expect(try folder.bytes("f.part") == longer)
    let whole = try await Tool.run(["-dc", "-o", "f", server.url("/f")], in: folder)
    #expect(whole.status == 0 && whole.error.contains("continued"))
    #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
  }

  /// A part of the URL's name that another download left, or another program, stays without `--output`.
  @Test(arguments: ["download", "program", "record", "link"]) func leavesPartsOfOthers(_ whose: String) async throws {
    let (server, other) = (
      try LoopbackServer(routes: ServerRoute.standard()), try LoopbackServer(routes: ServerRoute.standard())
    )
    defer {
      server.shutdown()
      other.shutdown()
    }
    let folder = try Folder()
    switch whose {
    case "download": _ = try await Tool.run(["-dc", other.url("/bytes?n=9000&cut=5000")], in: folder)
    case "program": try folder.write("mine", to: "bytes.part")
    case "record": try folder.write("mine", to: "bytes.part.resume")
    default:
      try FileManager.default.createSymbolicLink(atPath: folder.path("bytes.part"), withDestinationPath: "nowhere")
    }
    let outcome = try await Tool.run(["-dc", server.url("/bytes?n=9000")], in: folder)
    #expect(outcome.status == 0 && outcome.error.contains("✓ bytes-1  "), "\(outcome.error)")
    #expect(try folder.bytes("bytes-1") == PatternBody.bytes(9_000))
    switch whose {
    case "download":
      let whole = try await Tool.run(["-dc", other.url("/bytes?n=9000")], in: folder)
      #expect(whole.status == 0 && whole.error.contains("✓ bytes  ") && whole.error.contains("continued"))
      #expect(try folder.bytes("bytes") == PatternBody.bytes(9_000))
    case "program": #expect(try folder.bytes("bytes.part") == Array("mine".utf8))
    case "record": #expect(try folder.bytes("bytes.part.resume") == Array("mine".utf8))
    default:
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("bytes.part")) == "nowhere")
    }
  }

  /// What it left itself, and does not fit any more, is replaced.
  @Test func keepsTheNameOfItsOwnPart() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", server.url("/bytes?n=9000&cut=5000&etag=old")], in: folder)
    let outcome = try await Tool.run(["-dc", server.url("/bytes?n=9000&etag=new")], in: folder)
    #expect(outcome.status == 0 && outcome.error.contains("✓ bytes  "), "\(outcome.error)")
    #expect(try folder.bytes("bytes") == PatternBody.bytes(9_000) && !folder.exists("bytes.part"))
  }

  /// A file that comes to be while the body is under way is as little overwritten as one that was there.
  @Test func leavesWhatAppearsMeanwhile() async throws {
    let latch = try Latch()
    let server = try server([latch])
    defer { server.shutdown() }
    let folder = try Folder()
    let process = try start(["-d", server.url("/f.bin")], in: folder)
    await wait(until: "f.bin.part", has: 100_000, in: folder)
    try folder.write("mine", to: "f.bin")
    latch.release()
    process.waitUntilExit()
    #expect(process.terminationStatus == 0)
    #expect(String(decoding: try folder.bytes("said"), as: UTF8.self).contains("✓ f-1.bin  "))
    #expect(try folder.bytes("f.bin") == Array("mine".utf8) && !folder.exists("f.bin.part"))
    #expect(try folder.bytes("f-1.bin") == PatternBody.bytes(Self.count))
  }

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
