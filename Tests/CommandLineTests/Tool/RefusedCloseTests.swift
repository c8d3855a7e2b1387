import Foundation
import LupineTesting
import Testing

@testable import lupine

/// What only the close of a file tells, as file systems over the network do of a quota. A library in front of the C library says it here.
@Suite(.timeLimit(.minutes(3))) struct RefusedCloseTests {
  /// Swift brings one along.
  private static let compiler = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    .flatMap { folder in ["clang", "cc", "gcc"].map { "\(folder)/\($0)" } }
    .first { FileManager.default.isExecutableFile(atPath: $0) }

  /// Refuses what was written to files whose path ends like the variable.
  private static let source = #"""
    #define _GNU_SOURCE
    #include <errno.h>
    #include <fcntl.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    int close(int descriptor) {
      char link[64], path[4096] = "";
      const char *name = getenv("LUPINE_TEST_REFUSED");
      snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
      ssize_t rest = readlink(link, path, sizeof path - 1) - (name ? (ssize_t)strlen(name) : 0);
      int isRefused = name && rest >= 0 && !strcmp(path + rest, name)
        && (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
      int result = (int)syscall(SYS_close, descriptor);
      if (!isRefused) return result;
      errno = EDQUOT;
      return -1;
    }
    """#

  /// Runs a test with a server, a folder, and the environment for each name whose close is refused.
  private func withRefusals(
    _ body: (LoopbackServer, Folder, (_ name: String) -> [String: String]) async throws -> Void
  ) async throws {
    // A sanitizer stands in front of the C library itself.
    guard ProcessInfo.processInfo.environment["LUPINE_SANITIZE"] == nil else { return }
    let library = try Folder()
    try library.write(Self.source, to: "close.c")
    let compilation = Process()
    compilation.executableURL = URL(fileURLWithPath: try #require(Self.compiler))
    compilation.arguments = ["-shared", "-fPIC", "-o", library.path("close.so"), library.path("close.c")]
    try compilation.run()
    compilation.waitUntilExit()
    try #require(compilation.terminationStatus == 0)
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await body(server, Folder()) { name in
      ["LD_PRELOAD": library.path("close.so"), "LUPINE_TEST_REFUSED": "/\(name)"]
    }
  }

  @Test(.enabled(if: compiler != nil, "a C compiler is missing: apt-get install -y gcc"))
  func ofTheOutput() async throws {
    try await withRefusals { server, folder, refusing in
      let file = try await Tool.run([server.url("/hello"), "-o", "f"], in: folder, environment: refusing("f"))
      #expect(file.status == 1 && file.error.contains("cannot write to f: Disk quota exceeded"), "\(file.error)")
      // The file behind standard output has that name in these tests.
      let stream = try await Tool.run([server.url("/hello")], environment: refusing("output"))
      #expect(stream.status == 1 && stream.error.contains("standard output: Disk quota exceeded"), "\(stream.error)")
      let other = try await Tool.run([server.url("/hello"), "-o", "f"], in: folder, environment: refusing("g"))
      #expect(try other.status == 0 && folder.bytes("f") == Array("Hello, world!".utf8), "\(other.error)")
    }
  }

  /// The old file keeps its name, and what was noted before is gone on from.
  @Test(.enabled(if: compiler != nil, "a C compiler is missing: apt-get install -y gcc"))
  func ofADownload() async throws {
    try await withRefusals { server, folder, refusing in
      try folder.write("old", to: "f")
      let arguments = [server.url("/bytes?n=300000"), "-o", "f"]
      let refused = try await Tool.run(arguments + ["-d"], in: folder, environment: refusing("f.part"))
      #expect(refused.status == 1 && refused.error.contains("f.part: Disk quota exceeded"), "\(refused.error)")
      #expect(refused.error.contains("are in f.part; --continue goes on from there"), "\(refused.error)")
      #expect(try folder.bytes("f") == Array("old".utf8) && folder.exists("f.part"))
      let whole = try await Tool.run(arguments + ["-dc"], in: folder)
      #expect(try whole.status == 0 && folder.bytes("f") == PatternBody.bytes(300_000), "\(whole.error)")
    }
  }

  /// Of a file that another program began, nothing would tell which bytes are missing.
  @Test(.enabled(if: compiler != nil, "a C compiler is missing: apt-get install -y gcc"))
  func ofAFileOfAnother() async throws {
    try await withRefusals { server, folder, refusing in
      try Data(PatternBody.bytes(4_000)).write(to: folder.url("f"))
      let arguments = [server.url("/bytes?n=9000"), "-dc", "-o", "f"]
      let refused = try await Tool.run(arguments, in: folder, environment: refusing("f"))
      #expect(
        refused.status == 1 && refused.error.contains("are in f; --continue goes on from there"), "\(refused.error)")
      #expect(try folder.bytes("f") == PatternBody.bytes(4_000))
      let whole = try await Tool.run(arguments, in: folder)
      #expect(try whole.status == 0 && folder.bytes("f") == PatternBody.bytes(9_000), "\(whole.error)")
    }
  }
}
