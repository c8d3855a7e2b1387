import Foundation
import LupineBase
import LupineSession
import LupineTesting
import Testing

@testable import lupine

/// Standard streams that fail, that nobody reads, or that say nothing for long.
@Suite(.timeLimit(.minutes(3))) struct StreamTests {
  /// Both ends of a pipe.
  private struct Pipe {
    let reading: FileHandle
    let writing: FileHandle

    init() throws {
      var ends: [Int32] = [0, 0]
      try #require(unsafe pipe(&ends) == 0)
      // An end that the tool inherits would keep its own input from ending.
      for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
      reading = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
      writing = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    }
  }

  private func server(_ size: Int = 4) throws -> LoopbackServer {
    try LoopbackServer(routes: [
      ServerRoute(nil, "/") { request, connection in
        try connection.respond(fields: ["Set-Cookie": "a=b; Max-Age=1000"], body: PatternBody.bytes(size))
      }
    ])
  }

  /// The tool under a shell's line, which is to end within a minute.
  private func process(
    _ arguments: [String], in folder: Folder, line: String = #"exec timeout 60 "$@" 2>said"#
  ) -> Process {
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    process.arguments = ["-c", line, "sh", Tool.path] + arguments
    process.currentDirectoryURL = folder.root
    process.standardInput = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    return process
  }

  private func said(_ folder: Folder) -> String { String(decoding: (try? folder.bytes("said")) ?? [], as: UTF8.self) }

  /// The input says no more, and does not end: who waits for it waits for ever.
  @Test(arguments: [true, false]) func batchWhoseOutputFails(isDiskFull: Bool) async throws {
    let server = try server()
    defer { server.shutdown() }
    let folder = try Folder()
    let line = #"{"url":"\#(server.url("/"))","cookieFile":"jar"}"# + "\n"
    let input = try Pipe()
    try input.writing.write(contentsOf: Data(line.utf8))
    let process = process(["batch", "--concurrency", "4"], in: folder)
    process.standardInput = input.reading
    let output = try Pipe()
    try output.reading.close()
    process.standardOutput = isDiskFull ? FileHandle(forWritingAtPath: "/dev/full") : output.writing
    try await Tool.finish(process) { try process.run() }
    try input.writing.close()
    #expect(process.terminationStatus == 1)
    #expect(said(folder).contains("cannot write to standard output") == isDiskFull)
    #expect(String(decoding: try folder.bytes("jar"), as: UTF8.self).contains("\ta\tb"))
  }

  /// What was asked for is told, whatever becomes of the lines. A socket whose other end goes with something unread is reset.
  @Test func batchWhoseInputFails() async throws {
    let latch = try Latch()
    let server = try LoopbackServer { _, connection in
      _ = try connection.stall(until: latch)
      try connection.respond(text: "here")
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("", to: "results")
    var ends: [Int32] = [0, 0]
    try #require(unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
    for descriptor in ends { _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC) }
    let (near, far) = (
      FileHandle(fileDescriptor: ends[0], closeOnDealloc: true),
      FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    )
    try near.write(contentsOf: Data("unread".utf8))
    try far.write(contentsOf: Data((#"{"url":"\#(server.url("/"))"}"# + "\n").utf8))
    let process = process(["batch"], in: folder)
    process.standardInput = near
    process.standardOutput = try FileHandle(forWritingTo: folder.url("results"))
    try await Tool.finish(process) {
      try process.run()
      Thread.detachNewThread {
        _ = try? server.waitForRequests(1, seconds: 60)
        try? far.close()
        latch.release()
      }
    }
    #expect(process.terminationStatus == 1 && said(folder).contains("cannot read standard input"), "\(said(folder))")
    #expect(String(decoding: try folder.bytes("results"), as: UTF8.self).contains(#""status":200"#))
  }

  @Test(arguments: [["--help"], ["--version"], ["help", "batch"]])
  func helpThatCannotBeWritten(_ arguments: [String]) async throws {
    let folder = try Folder()
    let process = process(arguments, in: folder, line: #"exec timeout 60 "$@" >/dev/full 2>said"#)
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 1 && said(folder).contains("cannot write"), "\(said(folder))")
  }

  /// What is under way is not waited for: nobody could be told of it.
  @Test func batchEndsWithItsOutput() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/fast") { _, connection in try connection.respond(text: "here") },
      ServerRoute(nil, "/never") { _, connection in _ = try connection.stall(until: nil) },
    ])
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write(["never", "fast"].map { #"{"url":"\#(server.url("/"))\#($0)"}"# + "\n" }.joined(), to: "lines")
    let process = process(
      ["batch", "--concurrency", "2"], in: folder, line: #"exec timeout 60 "$@" <lines >/dev/full 2>said"#)
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 1, "\(said(folder))")
  }

  /// What cannot be kept of a batch that fails is told, beside why it failed.
  @Test func batchThatLosesItsRecords() async throws {
    let server = try server()
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write(#"{"url":"\#(server.url("/"))","cookieFile":"/nonexistent/jar"}"# + "\n", to: "lines")
    let process = process(
      ["batch", "--har", "/dev/full"], in: folder, line: #"exec timeout 60 "$@" <lines >/dev/full 2>said"#)
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 1)
    for name in ["to standard output", "/nonexistent/jar", "to /dev/full"] {
      #expect(said(folder).contains("cannot write \(name): "), "\(said(folder))")
    }
  }

  /// As with `lupine URL | head`: what is kept for the next run is kept.
  @Test func recordsOutliveTheReader() async throws {
    let server = try server(4 << 20)
    defer { server.shutdown() }
    let folder = try Folder()
    let process = process([server.url("/"), "--session", "s.json", "--har", "a.har"], in: folder)
    let output = try Pipe()
    try output.reading.close()
    process.standardOutput = output.writing
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 1)
    #expect(said(folder).isEmpty)
    #expect(folder.exists("s.json"))
    let archive = try HTTPArchive(json: try folder.bytes("a.har"))
    #expect(archive.entries.count == 1)
  }

  /// What the tool opens itself, such as a connection, has not their places.
  @Test(
    arguments: [("<&-", ["batch"], "read standard input"), (">&-", [], "write to standard output")]
      as [(String, [String], String)])
  func streamsThatAreClosed(_ closed: String, _ command: [String], _ operation: String) async throws {
    let server = try server()
    defer { server.shutdown() }
    let folder = try Folder()
    let arguments = command.isEmpty ? [server.url("/")] : command
    let process = process(arguments, in: folder, line: #"exec timeout 60 "$@" 2>said "# + closed)
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 1)
    #expect(said(folder).contains("cannot \(operation): Bad file descriptor"), "\(said(folder))")
  }

  /// A parent may have shared its streams with an event loop: they are not ready, and have not failed.
  @Test func streamsThatBlockNobody() async throws {
    let size = 1 << 20
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/") { request, connection in
        let word = try connection.readBody()
        try connection.respond(body: word + PatternBody.bytes(size))
      }
    ])
    defer { server.shutdown() }
    let folder = try Folder()
    let (input, output) = (try Pipe(), try Pipe())
    for descriptor in [input.reading.fileDescriptor, output.writing.fileDescriptor] {
      try #require(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0)
    }
    let process = process(["POST", server.url("/"), "@-"], in: folder)
    process.standardInput = input.reading
    process.standardOutput = output.writing
    let received = Locked(Data())
    let isRead = try Latch()
    try await Tool.finish(process) {
      try process.run()
      try output.writing.close()
      Thread.detachNewThread {
        // The head has come: the body is being waited for.
        _ = try? server.waitForRequests(1, seconds: 60)
        try? input.writing.write(contentsOf: Data("word".utf8))
        try? input.writing.close()
        let all = try? output.reading.readToEnd()
        received.withLock { $0 = all ?? Data() }
        isRead.release()
      }
    }
    #expect(process.terminationStatus == 0, "\(said(folder))")
    #expect(isRead.wait())
    let isWhole = received.withLock { $0 } == Data("word".utf8) + Data(PatternBody.bytes(size))
    #expect(isWhole)
  }
}
