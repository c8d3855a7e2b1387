import Foundation
import LupineTesting
import Testing

@testable import lupine

/// Standard input is there once.
@Suite(.timeLimit(.minutes(3))) struct StandardInputTests {
  /// One line is all that is waited for, whatever the stream is, and by whatever name.
  @Test(arguments: [false, true], ["@-", "@/dev/stdin"])
  func credentialsAreOneLine(isSocket: Bool, _ name: String) async throws {
    // A socket has no name to open.
    guard !isSocket || name == "@-" else { return }
    let folder = try Folder()
    var ends: [Int32] = [0, 0]
    try #require(unsafe (isSocket ? socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) : pipe(&ends)) == 0)
    let reading = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    let writing = FileHandle(fileDescriptor: ends[1], closeOnDealloc: true)
    try writing.write(contentsOf: Data("Mufasa:Circle of Life\r\nand more".utf8))
    try await signIn(name, input: reading, in: folder)
    try writing.close()
  }

  @Test func credentialsOfAPipeAreOneLine() async throws {
    let folder = try Folder()
    try #require(unsafe mkfifo(folder.path("pipe"), 0o600) == 0)
    let pipe = try #require(FileHandle(forUpdatingAtPath: folder.path("pipe")))
    try pipe.write(contentsOf: Data("Mufasa:Circle of Life\nand more".utf8))
    try await signIn("@pipe", input: FileHandle.nullDevice, in: folder)
    try pipe.close()
  }

  private func signIn(_ credentials: String, input: FileHandle, in folder: Folder) async throws {
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life")
    let server = try LoopbackServer { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    defer { server.shutdown() }
    // Who waits for the end of it waits for ever.
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["timeout", "60", Tool.path, server.url("/"), "--auth", credentials, "-o", "out"]
    process.currentDirectoryURL = folder.root
    process.standardInput = input
    process.standardOutput = FileHandle.nullDevice
    process.standardError = FileHandle.nullDevice
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 0)
    #expect(try folder.bytes("out") == Array("Welcome.".utf8))
  }

  @Test(arguments: [
    ["-a", "@-", "--raw", "@-"], ["-a", "@-", "@-"], ["-a", "@-", "n@-"], ["-a", "@-", "--multipart", "n@-;type=a/b"],
    ["-a", "@-", "n=@-"], ["-a", "@-", "n:=@-"], ["a=@-", "b=@-"], ["a@-", "b@-"],
    ["-a", "@-", "--proxy", "http://127.0.0.1:1", "--proxy-auth", "@-"],
  ]) func hasOneReader(_ arguments: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/echo")] + arguments, input: "a:b\nbody")
    #expect(outcome.status == 2 && outcome.error.contains("can read standard input"), "\(outcome.error)")
    #expect(server.requestCount == 0)
  }

  /// A body that can be read only once cannot be measured: every request but the first would be another one.
  @Test(arguments: [["--raw", "@-"], ["@-"], ["n@-"], ["--raw", "@/dev/stdin"], ["-a", "@-", "n=@-"]])
  func benchWantsABodyThatStays(_ arguments: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let process = Process()
    process.executableURL = URL(filePath: "/bin/sh")
    let script = #"echo text | exec "$@" 2>said"#
    process.arguments =
      ["-c", script, "sh", Tool.path, "bench", server.url("/echo"), "-n", "10", "-c", "2"] + arguments
    process.currentDirectoryURL = folder.root
    process.standardOutput = FileHandle.nullDevice
    try await Tool.finish(process) { try process.run() }
    #expect(process.terminationStatus == 2)
    #expect(String(decoding: try folder.bytes("said"), as: UTF8.self).contains("standard input"))
    #expect(server.requestCount == 0)
  }

  @Test func benchRepeatsWhatItHasRead() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run(["bench", server.url("/echo"), "-n", "5", "-c", "2", "n=@-"], input: "text")
    #expect(outcome.status == 0, "\(outcome.error)")
    #expect(server.recordedRequests.map(\.text) == Array(repeating: #"{"n":"text"}"#, count: 5))
  }

  /// What was sent to where it is not wanted any more would be lost without a word.
  @Test(arguments: [308, 307, 302, 303]) func redirectsThatWantItAgain(_ status: Int) async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/old") { _, connection in
        try connection.respond(status, fields: ["Location": "/new?access_token=t0ken"], text: "Moved")
      },
      ServerRoute(nil, "/new") { request, connection in try connection.respond(text: request.method) },
    ])
    defer { server.shutdown() }
    let url = server.url("/old")
    let isFollowed = status < 304
    let outcome = try await Tool.run(["POST", url, "-F", "--fail", "@-"], input: "xx")
    #expect(outcome.status == (isFollowed ? 0 : 1) && outcome.text == (isFollowed ? "GET" : "Moved"))
    #expect(outcome.error.contains("can be read only once") == !isFollowed, "\(outcome.error)")
    #expect(outcome.error.contains("(@FILE)") == !isFollowed && !outcome.error.contains("t0ken"))
    let folder = try Folder()
    try folder.write("xx", to: "f")
    #expect(try await Tool.run(["POST", url, "-F", "@f"], in: folder).text == (isFollowed ? "GET" : "POST"))
    // Nobody asked for it to be followed.
    #expect(try await Tool.run(["POST", url, "@-"], input: "xx").status == 0)
    let saved = try await Tool.run(["POST", url, "-F", "-d", "-o", "g", "@-"], input: "xx", in: folder)
    #expect(saved.status == (isFollowed ? 0 : 1) && folder.exists("g") == isFollowed, "\(saved.error)")
    #expect(saved.error.contains("can be read only once") == !isFollowed, "\(saved.error)")
  }
}
