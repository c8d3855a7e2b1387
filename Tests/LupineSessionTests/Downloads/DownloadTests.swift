import FoundationEssentials
import Glibc
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Bodies into files: whole or not at all.
@Suite(.timeLimit(.minutes(5))) struct DownloadTests {
  @Test(arguments: [false, true], ["/bytes?n=5000000", "/chunked?n=5000000", "/bytes?n=0", "/gzip?n=5000000"])
  func fileHoldsTheBody(_ isSecure: Bool, _ path: String) async throws {
    let directory = try ScratchDirectory()
    let target = directory.path + "/file"
    try await withServer(isSecure: isSecure) { session, server in
      let seen = Locked<[Int64]>([])
      var request = try Request(server.url(path))
      // Downloads ask for no codings by themselves.
      if path.hasPrefix("/gzip") { request.acceptsCompressedContent = true }
      let (written, response) = try await session.download(for: request, to: DownloadDestination(path: target)) {
        received, _ in seen.withLock { $0.append(received) }
      }
      #expect(written == target)
      #expect(response.statusCode == 200)
      let bytes = TextFile.bytes(target)
      #expect(bytes.count == (path.hasSuffix("n=0") ? 0 : 5_000_000))
      #expect(PatternBody.matches(bytes, from: 0))
      #expect(directory.names == ["file"])
      #expect(TextFile.mode(target) == 0o600)
      let progress = seen.withLock { $0 }
      #expect(progress == progress.sorted())
      #expect((progress.last ?? 0) == Int64(bytes.count))
    }
  }

  @Test func temporaryFileIsNewAndPrivate() async throws {
    try await withServer { session, server in
      let (path, _) = try await session.download(for: Request(server.url("/hello")))
      defer { unsafe unlink(path) }
      #expect(TextFile.read(path) == "Hello, world!")
      #expect(TextFile.mode(path) == 0o600)
    }
  }

  @Test func existingFileStaysUnlessOverwritten() async throws {
    let directory = try ScratchDirectory()
    let target = try directory.write(Array("old".utf8), to: "file")
    try await withServer { session, server in
      let request = try Request(server.url("/hello"))
      let error = try await failure { try await session.download(for: request, to: DownloadDestination(path: target)) }
      #expect(error.code == .fileFailed)
      #expect(error.phase == .file)
      #expect(TextFile.read(target) == "old")
      _ = try await session.download(for: request, to: DownloadDestination(path: target, overwrites: true))
      #expect(TextFile.read(target) == "Hello, world!")
      #expect(directory.names == ["file"])
    }
  }

  @Test(arguments: [
    "/status?code=404", "/bytes?n=100000&cut=5000", "/gzip?n=200000000&zeros=1", "/redirect?to=ftp://x/",
  ]) func failureLeavesNothingBehind(_ path: String) async throws {
    let directory = try ScratchDirectory()
    let old = try directory.write(Array("old".utf8), to: "file")
    try await withServer { session, server in
      let error = try await failure {
        var request = try Request(server.url(path))
        request.acceptsCompressedContent = true
        return try await session.download(for: request, to: DownloadDestination(path: old, overwrites: true))
      }
      #expect(
        [.badResponse, .truncatedResponse, .cannotDecodeContent, .redirectRefused].contains(error.code), "\(error)")
      #expect(directory.names == ["file"])
      #expect(TextFile.read(old) == "old")
    }
  }

  @Test func missingDirectoryIsAnErrorBeforeAnythingIsSent() async throws {
    try await withServer { session, server in
      let error = try await failure {
        try await session.download(
          for: Request(server.url("/hello")), to: DownloadDestination(path: "/tmp/lupine-no-such/directory/file"))
      }
      #expect(error.code == .fileFailed)
      #expect(server.requestCount == 0)
    }
  }

  @Test func cancellationLeavesNothingBehind() async throws {
    let directory = try ScratchDirectory()
    try await withServer { session, server in
      let request = try Request(server.url("/slow?n=100000&after=50000"))
      let begun = try Latch()
      let path = directory.path + "/file"
      let task = Task {
        try await session.download(for: request, to: DownloadDestination(path: path)) { _, _ in begun.release() }
      }
      #expect(await eventually { begun.isReleased })
      task.cancel()
      try await expectFailure(.cancelled) { try await task.value }
      #expect(directory.names.isEmpty)
    }
  }

  /// A disk that fills up: an error that says so, and the server is not read to its end.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func diskFull() async throws {
    let disk = try SmallDisk(bytes: 1 << 20)
    defer { disk.unmount() }
    try await withServer { session, server in
      let error = try await failure {
        try await session.download(
          for: Request(server.url("/bytes?n=50000000")), to: DownloadDestination(path: disk.path + "/file"))
      }
      #expect(error.code == .fileFailed)
      #expect(error.phase == .file)
      #expect(disk.names.isEmpty)
    }
  }
}

extension TextFile {
  /// The permission bits of a file.
  static func mode(_ path: String) -> mode_t {
    var status = stat()
    guard unsafe stat(path, &status) == 0 else { return 0 }
    return status.st_mode & 0o777
  }
}

/// A file system in memory of a fixed size.
struct SmallDisk {
  static let hint = "mounting a tmpfs needs root (CAP_SYS_ADMIN): sudo make test, or docker run --cap-add SYS_ADMIN"

  /// Whether we may mount one.
  static let isAvailable: Bool = {
    guard let disk = try? SmallDisk(bytes: 1 << 20) else { return false }
    disk.unmount()
    return true
  }()

  private let directory: ScratchDirectory
  var path: String { directory.path }

  init(bytes: Int, flags: UInt = 0) throws {
    directory = try ScratchDirectory()
    guard unsafe mount("lupine", directory.path, "tmpfs", flags, "size=\(bytes)") == 0 else {
      throw LoopbackError.system(call: "mount", code: errno)
    }
  }

  var names: [String] { directory.names }

  func unmount() { unsafe umount(directory.path) }
}
