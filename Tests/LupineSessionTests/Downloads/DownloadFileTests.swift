import Glibc
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// What the file system refuses: an error with a reason, and nothing left behind.
@Suite(.timeLimit(.minutes(5))) struct DownloadFileTests {
  private func fileFailure(_ error: SessionError, sourceLocation: SourceLocation = #_sourceLocation) throws
    -> FileFailure
  {
    #expect(
      error.code == .fileFailed && error.phase == .file && error.resumeData == nil, sourceLocation: sourceLocation)
    return try #require(error.underlying as? FileFailure, sourceLocation: sourceLocation)
  }

  /// What is the path of no file is told before anything is sent.
  @Test func pathsOfNoFile() async throws {
    let folder = try DownloadFolder()
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      for path in ["", "a\0b"] {
        let error = try await failure {
          try await session.download(
            for: Request(server.url("/hello")), to: DownloadDestination(path: path, overwrites: true))
        }
        #expect(try fileFailure(error).reason == .other)
      }
      #expect(server.requestCount == 0 && folder.partials == [])
    }
  }

  /// The partial file lies on one file system, the destination on another.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)"), arguments: [false, true])
  func movesToAnotherFileSystem(_ overwrites: Bool) async throws {
    let disk = try SmallDisk(bytes: 8 << 20)
    defer { disk.unmount() }
    let folder = try DownloadFolder()
    let path = disk.path + "/file"
    if overwrites { close(unsafe open(path, O_CREAT | O_WRONLY, 0o644)) }
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let (written, _) = try await session.download(
        for: Request(server.url("/bytes?n=5000000")), to: DownloadDestination(path: path, overwrites: overwrites))
      #expect(written == path && Pattern.matches(path, 5_000_000) && TextFile.mode(path) == 0o600)
      #expect(disk.names == ["file"] && folder.partials == [])
    }
  }

  /// What is broken off on another file system comes back into the folder, and is copied when it is complete.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func goesOnToAnotherFileSystem() async throws {
    let disk = try SmallDisk(bytes: 8 << 20)
    defer { disk.unmount() }
    let file = FileServer(.init(size: 500_000), [.cut(300_000), .cut(1000)])
    try await withFileServer(file) { session, server, folder in
      let destination = DownloadDestination(path: disk.path + "/file")
      var data = try await leftover { try await session.download(for: Request(server.url("/file")), to: destination) }
      for there in [300_000, 301_000] {
        #expect(data.receivedBytes == there && disk.names == [] && folder.partials.count == 1)
        guard there == 300_000 else { break }
        data = try await leftover { [data] in try await session.download(resumeFrom: data, to: destination) }
      }
      let (path, response) = try await session.download(resumeFrom: data, to: destination)
      #expect(response.statusCode == 206 && Pattern.matches(path, 500_000) && disk.names == ["file"])
    }
  }

  /// The destination's file system is too small, or that of the folder.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)"), arguments: [false, true]) func diskFull(
    _ holdsPartialFiles: Bool
  ) async throws {
    let disk = try SmallDisk(bytes: 1 << 20)
    defer { disk.unmount() }
    let folder = try DownloadFolder()
    let parent = holdsPartialFiles ? disk.path : folder.parentPath
    try await withServer(configure: { $0.temporaryDirectory = parent }) { session, server in
      let error = try await failure {
        try await session.download(
          for: Request(server.url("/bytes?n=5000000")),
          to: holdsPartialFiles ? .temporary : DownloadDestination(path: disk.path + "/file"))
      }
      #expect(try fileFailure(error).reason == .storageFull)
      #expect(folder.partials == [] && folder.complete == [])
      #expect(DirectoryListing.names(disk.path + "/lupine-\(geteuid())") == [])
      #expect(disk.names == (holdsPartialFiles ? ["lupine-\(geteuid())"] : []))
    }
  }

  /// Too small for the copy of what was gone on with.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func diskFullForTheCopy() async throws {
    let disk = try SmallDisk(bytes: 1 << 20)
    defer { disk.unmount() }
    let file = FileServer(.init(size: 3_000_000), [.cut(300_000)])
    try await withFileServer(file) { session, server, folder in
      let data = try await leftover { try await session.download(for: Request(server.url("/file"))) }
      let error = try await failure {
        try await session.download(resumeFrom: data, to: DownloadDestination(path: disk.path + "/file"))
      }
      #expect(try fileFailure(error).reason == .storageFull)
      #expect(disk.names == [])
    }
  }

  /// Too small for two: what was gone on from makes room for another version.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func anotherVersionOnASmallDisk() async throws {
    let disk = try SmallDisk(bytes: 1 << 20)
    defer { disk.unmount() }
    let file = FileServer(.init(size: 1_044_000), [.cut(1_040_000)])
    try await withFileServer(file) { _, server, folder in
      var configuration = SessionConfiguration()
      configuration.temporaryDirectory = disk.path
      let session = try Session(configuration)
      defer { session.invalidateAndCancel() }
      let data = try await leftover { try await session.download(for: Request(server.url("/file"))) }
      file.change { $0 = .init(size: 1_044_000, tag: "\"v2\"", shift: 7) }
      let (path, response) = try await session.download(resumeFrom: data, to: .temporary)
      #expect(response.statusCode == 200 && Pattern.matches(path, 1_044_000, from: 7))
      #expect(DirectoryListing.names(disk.path + "/lupine-\(geteuid())").count == 1)
    }
  }

  /// The process may write no larger files; its signal for that never arrives on our threads.
  @Test func sizeLimit() async {
    await #expect(processExitsWith: .success) {
      var limit = rlimit(rlim_cur: 100_000, rlim_max: 100_000)
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &limit)
      let folder = try DownloadFolder()
      let server = try LoopbackServer(routes: ServerRoute.standard())
      defer { server.shutdown() }
      var configuration = SessionConfiguration()
      configuration.temporaryDirectory = folder.parentPath
      let session = try Session(configuration)
      do {
        _ = try await session.download(for: Request(server.url("/bytes?n=5000000")))
        throw LoopbackError.misuse("a file larger than the limit was written")
      } catch let error as SessionError {
        guard (error.underlying as? FileFailure)?.reason == .storageFull, folder.partials.isEmpty else { throw error }
      }
    }
  }

  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func directoryThatCannotBeWritten() async throws {
    let folder = try DownloadFolder()
    let disk = try SmallDisk(bytes: 1 << 20, flags: UInt(MS_RDONLY))
    defer { disk.unmount() }
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let error = try await failure {
        try await session.download(
          for: Request(server.url("/hello")), to: DownloadDestination(path: disk.path + "/file"))
      }
      #expect(try fileFailure(error).reason == .permissionDenied)
      #expect(server.requestCount == 0 && folder.partials == [])
    }
    try await withServer(configure: { $0.temporaryDirectory = disk.path }) { session, server in
      let error = try await failure { try await session.download(for: Request(server.url("/hello"))) }
      #expect(try fileFailure(error).reason == .permissionDenied)
      #expect(server.requestCount == 0)
    }
  }

  @Test func destinationsThatAreNone() async throws {
    let folder = try DownloadFolder()
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let request = try Request(server.url("/hello"))
      for (path, reason) in [
        ("/tmp/lupine-no-such/directory/file", FileFailure.Reason.notFound), ("/etc/passwd/file", .notFound),
        ("/etc/passwd", .alreadyExists), ("/tmp", .alreadyExists), ("/dev/null", .alreadyExists),
      ] {
        let error = try await failure { try await session.download(for: request, to: DownloadDestination(path: path)) }
        let found = try fileFailure(error)
        #expect(found.reason == reason, "\(path): \(found)")
      }
      // A directory is not overwritten even if files may be.
      for path in [folder.parentPath, folder.parentPath + "/"] {
        let error = try await failure {
          try await session.download(for: request, to: DownloadDestination(path: path, overwrites: true))
        }
        #expect(try fileFailure(error).reason == .alreadyExists)
      }
      #expect(server.requestCount == 0 && folder.partials == [])
    }
  }

  /// A link to a directory is a name like any other: it is replaced, not followed.
  @Test func linksToDirectoriesAreReplaced() async throws {
    let folder = try DownloadFolder()
    let path = folder.target
    #expect(unsafe symlink(folder.parentPath, path) == 0)
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let destination = DownloadDestination(path: path, overwrites: true)
      _ = try await session.download(for: Request(server.url("/hello")), to: destination)
      var status = stat()
      #expect(unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG)
    }
  }

  /// A combining mark at the beginning of the name makes one character with the slash before it.
  @Test func namesThatBeginWithMarks() async throws {
    let folder = try DownloadFolder()
    let path = folder.parentPath + "/\u{301}x"
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let nowhere = DownloadDestination(path: folder.parentPath + "/none/\u{301}x")
      let error = try await failure { try await session.download(for: Request(server.url("/hello")), to: nowhere) }
      #expect(try fileFailure(error).reason == .notFound)
      #expect(server.requestCount == 0)
      let file = try await session.download(for: Request(server.url("/hello")))
      let other = folder.parentPath + "/\u{301}y"
      try FinishedFile.move(file.path, to: other, overwriting: false)
      try FinishedFile.move(other, to: path, overwriting: false)
      #expect(unsafe access(other, F_OK) != 0)
      #expect(TextFile.mode(path) == 0o600)
    }
  }

  /// Who writes `/dev/null` means the device: neither it nor what is like it is ever replaced, by a file that is moved or written.
  @Test func devicesAreNotReplaced() async throws {
    let folder = try DownloadFolder()
    let target = folder.target
    #expect(unsafe mkfifo(target, 0o600) == 0)
    #expect(unsafe symlink(target, target + "-link") == 0)
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      for path in [target, target + "-link"] {
        let destination = DownloadDestination(path: path, overwrites: true)
        let error = try await failure {
          try await session.download(for: Request(server.url("/hello")), to: destination)
        }
        #expect(try fileFailure(error).reason == .alreadyExists)
        #expect(throws: SessionError.self) { try CookieStorage().save(to: path, format: .json) }
      }
      #expect(server.requestCount == 0)
      let file = try await session.download(for: Request(server.url("/hello")))
      #expect(throws: SessionError.self) { try FinishedFile.move(file.path, to: target, overwriting: true) }
      var status = stat()
      #expect(unsafe lstat(target, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
    }
  }

  /// Nothing was there when the download began; what has come meanwhile stays.
  @Test func destinationThatCameMeanwhile() async throws {
    let folder = try DownloadFolder()
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let target = folder.target
      let error = try await failure {
        try await session.download(for: Request(server.url("/hello")), to: DownloadDestination(path: target)) { _, _ in
          close(unsafe open(target, O_CREAT | O_WRONLY, 0o600))
        }
      }
      #expect(try fileFailure(error).reason == .alreadyExists)
      #expect(TextFile.bytes(target) == [] && folder.complete == ["file"] && folder.partials == [])
    }
  }

  /// A link with the destination's name is replaced or respected, but never written through.
  @Test func linkAsDestination() async throws {
    let folder = try DownloadFolder()
    let scratch = try ScratchDirectory()
    let victim = try scratch.write([1, 2, 3], to: "victim")
    unsafe symlink(victim, folder.target)
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let request = try Request(server.url("/hello"))
      let error = try await failure {
        try await session.download(for: request, to: DownloadDestination(path: folder.target))
      }
      #expect(try fileFailure(error).reason == .alreadyExists)
      _ = try await session.download(for: request, to: DownloadDestination(path: folder.target, overwrites: true))
      #expect(TextFile.bytes(victim) == [1, 2, 3] && TextFile.read(folder.target) == "Hello, world!")
    }
  }

  /// `/tmp` is everybody's: somebody may have made our folder before us.
  @Test(arguments: ["link", "open", "file", "missing"]) func folderThatIsNotOurs(_ kind: String) async throws {
    let folder = try DownloadFolder()
    let scratch = try ScratchDirectory()
    switch kind {
    case "link": unsafe symlink(scratch.path, folder.temporary)
    case "open":
      unsafe mkdir(folder.temporary, 0o700)
      unsafe chmod(folder.temporary, 0o770)
    case "file": close(unsafe open(folder.temporary, O_CREAT | O_WRONLY, 0o600))
    default: break
    }
    let parent = kind == "missing" ? "/tmp/lupine-no-such" : folder.parentPath
    try await withServer(configure: { $0.temporaryDirectory = parent }) { session, server in
      let error = try await failure { try await session.download(for: Request(server.url("/hello"))) }
      #expect(try fileFailure(error).reason == (kind == "missing" ? .notFound : .untrusted))
      #expect(server.requestCount == 0 && scratch.names == [])
    }
  }

  @Test func emptyBodyMakesAnEmptyFile() async throws {
    let folder = try DownloadFolder()
    try await withServer(configure: { $0.temporaryDirectory = folder.parentPath }) { session, server in
      let (path, _) = try await session.download(for: Request(server.url("/status?code=204")))
      #expect(TextFile.bytes(path) == [] && TextFile.mode(path) == 0o600 && path.hasPrefix(folder.temporary))
      unsafe unlink(path)
      #expect(folder.partials == [])
    }
  }
}
