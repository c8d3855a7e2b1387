import Foundation
import LupineTesting
import Testing

@testable import lupine

/// What has the name of a download already.
@Suite(.timeLimit(.minutes(3))) struct DownloadTargetTests {
  /// What runs the tool as a user who may not write everything, as root may.
  private static let user = geteuid() == 0 ? ["setpriv", "--reuid", "65534", "--clear-groups"] : []

  /// Whether there is such a user, who may start the tool.
  private static let isAvailable: Bool = {
    let probe = Process()
    probe.executableURL = URL(filePath: "/usr/bin/env")
    probe.arguments = user + [Tool.path, "--version"]
    probe.standardOutput = FileHandle.nullDevice
    probe.standardError = FileHandle.nullDevice
    return (try? probe.run()).map {
      probe.waitUntilExit()
      return probe.terminationStatus == 0
    } ?? false
  }()

  private func run(_ arguments: [String], in folder: Folder) async throws -> (status: Int32, said: String) {
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    let words = Self.user + [Tool.path] + arguments
    process.arguments = ["-c", #"exec timeout 60 "$@" 2>said"#, "sh"] + words
    process.currentDirectoryURL = folder.root
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    try await Tool.finish(process) { try process.run() }
    return (process.terminationStatus, String(decoding: try folder.bytes("said"), as: UTF8.self))
  }

  /// Who may write in its directory could put another file in its place.
  @Test(
    .enabled(
      if: isAvailable,
      "root needs setpriv (apt-get install -y util-linux), CAP_SETUID, and a build that user 65534 can reach"))
  func whatMayNotBeWrittenStays() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let path = try folder.write("mine", to: "f")
    try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "f")
    try #require(unsafe chmod(path, 0o444) == 0)
    try #require(unsafe chmod(folder.root.path, 0o777) == 0)
    let cases: [(options: [String], name: String)] = [(["-d"], "f"), (["-dc"], "f"), (["-d"], "link"), ([], "f")]
    for (options, name) in cases {
      let outcome = try await run(options + ["-o", name, server.url("/hello")], in: folder)
      let isTold = outcome.said.contains("cannot write \(name): Permission denied\n")
      #expect(outcome.status == 1 && isTold, "\(outcome.said)")
      #expect(server.requestCount == (options.isEmpty ? 1 : 0))
    }
    #expect(try folder.bytes("f") == Array("mine".utf8))
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.root.path).sorted()
    #expect(names == ["f", "link", "said"])
  }

  /// What a link leads to is replaced and gone on with, as without `--download`: what is incomplete stands beside that.
  @Test func aLinkStaysOne() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try FileManager.default.createDirectory(at: folder.url("sub"), withIntermediateDirectories: false)
    try folder.write("old", to: "sub/target")
    try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "sub/target")
    let broken = try await Tool.run(
      ["-d", "-o", "sub/target", server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && folder.exists("sub/target.part"), "\(broken.error)")
    let whole = try await Tool.run(["-dc", "-o", "link", server.url("/bytes?n=300000")], in: folder)
    #expect(whole.status == 0 && whole.error.contains("continued"), "\(whole.error)")
    #expect(try folder.bytes("sub/target") == PatternBody.bytes(300_000))
    let anew = try await Tool.run(["-d", "-o", "link", server.url("/hello")], in: folder)
    #expect(anew.status == 0, "\(anew.error)")
    #expect(try folder.bytes("sub/target") == Array("Hello, world!".utf8))
    // What another program began.
    try Data(PatternBody.bytes(4_000)).write(to: folder.url("sub/target"))
    let foreign = try await Tool.run(["-dc", "-o", "link", server.url("/bytes?n=9000")], in: folder)
    #expect(foreign.status == 0 && foreign.error.contains("continued"), "\(foreign.error)")
    #expect(try folder.bytes("sub/target") == PatternBody.bytes(9_000))
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("link")) == "sub/target")
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path).sorted() == ["link", "sub"])
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("sub")) == ["target"])
  }
}
