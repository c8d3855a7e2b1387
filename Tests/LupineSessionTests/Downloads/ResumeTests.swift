import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// Downloads that go on where they broke off, against servers that keep to their word and servers that do not.
@Suite(.timeLimit(.minutes(5))) struct ResumeTests {
  static let size = 300_000

  /// Breaks a download off, and gives what it left.
  func broken(
    _ session: Session, _ server: LoopbackServer, _ folder: DownloadFolder
  ) async throws -> ResumeData {
    let error = try await failure {
      try await session.download(
        for: Request(server.url("/file")), to: DownloadDestination(path: folder.target))
    }
    #expect([.connectionLost, .truncatedResponse].contains(error.code), "\(error)")
    #expect(folder.complete == [])
    return try #require(error.resumeData)
  }

  @discardableResult
  func resume(
    _ data: ResumeData, _ session: Session, _ folder: DownloadFolder
  ) async throws -> (received: [Int64], response: Response) {
    let seen = Locked<[Int64]>([])
    let (path, response) = try await session.download(
      resumeFrom: data, to: DownloadDestination(path: folder.target)
    ) { received, _ in seen.withLock { $0.append(received) } }
    #expect(path == folder.target)
    return (seen.withLock { $0 }, response)
  }

  @Sendable static func asks(_ request: ServerRequest) -> [String?] {
    [request.fields.first("Range"), request.fields.first("If-Range")]
  }

  @Test(arguments: [1, 4095, 4096, 4097, 65_536, 70_000, 299_999]) func goesOn(_ cut: Int) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(cut)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      #expect(data.receivedBytes == Int64(cut))
      #expect(data.expectedBytes == Int64(Self.size))
      #expect(data.urlString == server.url("/file"))
      #expect(abs(data.createdAt.timeIntervalSinceNow) < 600)
      #expect(folder.partials.count == 1)
      let partial = folder.partial(try #require(folder.partials.first))
      #expect(Pattern.matches(partial, cut))
      #expect(TextFile.mode(partial) == 0o600 && TextFile.mode(folder.temporary) == 0o700)
      // As it comes from a disk.
      let kept = try ResumeData(Data(data.bytes))
      #expect(kept == data)
      let (received, response) = try await resume(kept, session, folder)
      #expect(response.statusCode == 206)
      #expect(received.allSatisfy { $0 > cut } && received.last == Int64(Self.size) && received == received.sorted())
      #expect(Pattern.matches(folder.target, Self.size))
      #expect(server.recordedRequests.map(Self.asks) == [[nil, nil], ["bytes=\(cut)-", "\"v1\""]])
      #expect(server.recordedRequests.allSatisfy { $0.fields.values("Accept-Encoding") == ["identity"] })
    }
  }

  /// By the date of the last change, where there is no entity tag.
  @Test func goesOnByDate() async throws {
    let changed = "Sun, 06 Nov 1994 08:49:37 GMT"
    let file = FileServer(
      .init(size: Self.size, tag: nil, lastModified: changed, date: "Tue, 15 Nov 1994 08:12:31 GMT"), [.cut(1000)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      file.next(.init(leavesOut: ["Last-Modified"]))
      try await resume(data, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
      #expect(server.recordedRequests.last.map(Self.asks) == ["bytes=1000-", changed])
    }
  }

  /// What cannot be gone on from leaves nothing behind.
  static let hopeless: [FileServer.File] = [
    .init(size: size, tag: "W/\"v1\""), .init(size: size, tag: nil), .init(size: size, tag: "v1"),
    .init(
      size: size, tag: nil, lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", date: "Sun, 06 Nov 1994 08:49:38 GMT"),
    .init(size: size, tag: nil, lastModified: "Sun, 06 Nov 1994 08:49:37 GMT"),
    .init(
      size: size, tag: "W/\"v1\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", date: "Tue, 15 Nov 1994 08:12:31 GMT"),
    .init(size: size, coding: "gzip"),
  ]

  @Test(arguments: hopeless.indices) func noDataWithoutStrongValidator(_ index: Int) async throws {
    let file = FileServer(Self.hopeless[index], [.cut(1000)])
    try await withFileServer(file) { session, server, folder in
      let error = try await failure {
        try await session.download(for: Request(server.url("/file")), to: DownloadDestination(path: folder.target))
      }
      #expect(error.resumeData == nil)
      #expect(folder.partials == [] && folder.complete == [])
    }
  }

  @Test func noDataForOtherRequests() async throws {
    let file = FileServer(.init(size: Self.size))
    try await withFileServer(file) { session, server, folder in
      var part = try Request(server.url("/file"))
      part.fields[.range] = "bytes=5-"
      var post = try Request(server.url("/status?code=503"), method: .post)
      post.body = .bytes([1])
      let refusing = try Request(server.url("/file"))
      for (request, answer) in [
        (part, FileServer.Answer.cut(1000)), (refusing, .init(cut: 1000, fields: ["Accept-Ranges": "none"])),
        (post, .normal),
      ] {
        file.next(answer)
        let error = try await failure {
          try await session.download(for: request, to: DownloadDestination(path: folder.target))
        }
        #expect(error.resumeData == nil)
        #expect(folder.partials == [])
      }
      // A part that the caller asks for is a download like any other.
      let (path, response) = try await session.download(for: part, to: DownloadDestination(path: folder.target))
      #expect(response.statusCode == 206 && Pattern.matches(path, Self.size - 5, from: 5))
    }
  }

  /// Of the same address in another zone, which is another machine.
  @Test func noRequestToAnotherZone() async throws {
    let url = try URLReader.read("http://[fe80::1%25lupine0]/file")
    let validator = try #require(
      ResumeValidator(entityTags: ["\"v1\""], lastModified: [], dates: [], now: HTTPDate(seconds: 0)))
    let hash = ResumeHash.digest([UInt8]().span)
    let record = try ResumeRecord(
      url: url, source: ResumeSource(url, for: validator), validator: validator, offset: 1, total: nil, headHash: hash,
      tailHash: hash,
      partialName: "x", createdAt: 0)
    let data = try ResumeData(record.encoded())
    #expect(try Request(data.urlString).parsedURL == url)
    try await withFileServer(FileServer(.init(size: Self.size))) { session, _, _ in
      for other in ["http://[fe80::1%25lupine1]/file", "http://[fe80::1]/file"] {
        let error = try await failure {
          try await session.download(resumeFrom: data, request: Request(other), to: .temporary)
        }
        #expect(error.code == .badResumeData)
      }
    }
  }

  /// Answers after which everything is there and right, how many requests it takes, and which status the last one has.
  static let surprises: [(FileServer.Answer, requests: Int, status: Int)] = [
    (.init(ignoresRange: true), 2, 200),
    (.init(fields: ["ETag": "\"v2\""]), 3, 200),
    (.init(fields: ["ETag": "W/\"v1\""]), 3, 200),
    (.init(leavesOut: ["ETag"]), 3, 200),
    (.init(fields: ["Content-Range": "bytes 0-299999/300000"]), 3, 200),
    (.init(fields: ["Content-Range": "bytes 1001-299999/300000"]), 3, 200),
    (.init(fields: ["Content-Range": "bytes 1000-299999/300001"]), 3, 200),
    (.init(fields: ["Content-Range": "bytes 1000-299998/300000"]), 3, 200),
    (.init(fields: ["Content-Range": "bytes */300000"]), 3, 200),
    (.init(fields: ["Content-Range": "lines 1000-299999/300000"]), 3, 200),
    (.init(fields: ["Content-Range": "nonsense"]), 3, 200),
    (.init(leavesOut: ["Content-Range"]), 3, 200),
    (.init(fields: ["Content-Type": "multipart/byteranges; boundary=x"]), 3, 200),
    (.init(fields: ["Content-Encoding": "gzip"]), 3, 200),
    (.init(status: 416), 3, 200),
    (.init(status: 416, fields: ["Content-Range": "bytes */500"]), 3, 200),
    (.init(status: 416, fields: ["Content-Range": "bytes */300000"]), 3, 200),
  ]

  @Test(arguments: surprises.indices) func startsAgain(_ index: Int) async throws {
    let (answer, requests, status) = Self.surprises[index]
    let file = FileServer(.init(size: Self.size), [.cut(1000), answer])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let response = try await resume(data, session, folder).response
      #expect(response.statusCode == status)
      #expect(response.metrics.transactions.count == requests - 1)
      #expect(Pattern.matches(folder.target, Self.size))
      #expect(server.requestCount == requests)
      if requests == 3 { #expect(server.recordedRequests.last.map(Self.asks) == [nil, nil]) }
    }
  }

  /// Another version: the server says so by 200, or gives its rest without being asked for it.
  @Test(arguments: [false, true], [100_000, 300_000, 500_000]) func otherVersion(
    _ ignoresCondition: Bool, _ size: Int
  ) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .init(ignoresCondition: ignoresCondition)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      file.change { $0 = .init(size: size, tag: "\"v2\"", shift: 7) }
      try await resume(data, session, folder)
      #expect(Pattern.matches(folder.target, size, from: 7))
      #expect(server.requestCount == (ignoresCondition ? 3 : 2))
    }
  }

  /// Resume data of before never names a file with another version in it: the rest of its own might be joined to that where both begin with the same bytes.
  @Test func anotherVersionHasAnotherFile() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(100_000), .cut(200_000)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let name = try #require(folder.partials.first)
      file.change { $0 = .init(size: Self.size, tag: "\"v2\"", shift: 7) }
      let rest = try await leftover {
        try await session.download(resumeFrom: data, to: DownloadDestination(path: folder.target))
      }
      #expect(folder.partials.count == 1 && !folder.partials.contains(name))
      file.change { $0 = .init(size: Self.size) }
      #expect(try await resume(data, session, folder).response.statusCode == 200)
      #expect(Pattern.matches(folder.target, Self.size))
      // The other one can be gone on from as well.
      file.change { $0 = .init(size: Self.size, tag: "\"v2\"", shift: 7) }
      unsafe unlink(folder.target)
      #expect(try await resume(rest, session, folder).response.statusCode == 206)
      #expect(Pattern.matches(folder.target, Self.size, from: 7))
    }
  }

  /// A server that lies again when it was asked for the whole makes an error, and no third attempt.
  @Test(arguments: [416, 206]) func asksAgainOnlyOnce(_ status: Int) async throws {
    let lie = FileServer.Answer(status: status, fields: ["Content-Range": "bytes 7-9/10"])
    let file = FileServer(.init(size: Self.size), [.cut(1000), lie, lie])
    try await withFileServer(file, leaves: 1) { session, server, folder in
      let data = try await broken(session, server, folder)
      let error = try await failure { try await resume(data, session, folder) }
      #expect(error.code == .badResponse && error.response?.statusCode == status)
      #expect(server.requestCount == 3)
      #expect(error.resumeData == data)
    }
  }

  /// All bytes came, but not the end of the chunked body.
  @Test func everythingIsThereAlready() async throws {
    let file = FileServer(.init(size: Self.size), [.init(surplus: 1, stallsAfter: Self.size)])
    try await withFileServer(file) { session, server, folder in
      let latch = try Latch()
      let task = Task {
        try await session.download(for: Request(server.url("/file"))) { received, _ in
          if received == Int64(Self.size) { latch.release() }
        }
      }
      #expect(await eventually { latch.isReleased })
      task.cancel()
      let data = try await leftover { try await task.value }
      #expect(data.receivedBytes == Int64(Self.size) && data.expectedBytes == nil)
      let (received, response) = try await resume(data, session, folder)
      #expect(received == [Int64(Self.size)])
      #expect(response.statusCode == 416)
      #expect(Pattern.matches(folder.target, Self.size))
    }
  }

  /// A status that says nothing about the file: what is there stays, and can be gone on from later.
  @Test(arguments: [401, 404, 500, 503]) func otherStatusKeepsWhatIsThere(_ status: Int) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .init(status: status), .normal])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let error = try await failure { try await resume(data, session, folder) }
      #expect(error.code == .badResponse && error.response?.statusCode == status)
      #expect(error.partialBody == Array("no file today".utf8))
      #expect(error.resumeData == data)
      #expect(folder.complete == [])
      try await resume(data, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
    }
  }

  @Test func refusedConnectionKeepsWhatIsThere() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000)])
    let server = try LoopbackServer(routes: [file.route])
    let folder = try DownloadFolder()
    try await withSession(configure: { $0.temporaryDirectory = folder.parentPath }) { session in
      let data = try await broken(session, server, folder)
      server.shutdown()
      let gone = try RefusingPort(server.port)
      let error = try await failure { try await resume(data, session, folder) }
      withExtendedLifetime(gone) {}
      #expect(error.code == .cannotConnect && error.resumeData == data)
      data.discard(temporaryDirectory: folder.parentPath)
      #expect(folder.partials == [])
      data.discard(temporaryDirectory: folder.parentPath)
    }
  }

  /// The very first bytes behind what is there are too many already: nothing of it is gone on from again.
  @Test func tooMuchAtOnce() async throws {
    let file = FileServer(.init(size: 10), [.cut(5), .init(surplus: 1)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let error = try await failure { try await resume(data, session, folder) }
      #expect(error.code == .badResponse && error.response?.statusCode == 206, "\(error)")
      #expect(error.resumeData == nil)
      #expect(folder.partials == [] && folder.complete == [])
    }
  }

  /// The body is longer or shorter than `Content-Range` says, and only its end tells.
  @Test(arguments: [-100, 100]) func lengthThatLies(_ surplus: Int) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .init(surplus: surplus), .normal])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let error = try await failure { try await resume(data, session, folder) }
      #expect(error.code == (surplus > 0 ? .badResponse : .truncatedResponse), "\(error)")
      #expect(folder.complete == [])
      guard let rest = error.resumeData else {
        #expect(surplus > 0 && folder.partials == [])
        return
      }
      #expect(rest.receivedBytes <= Int64(Self.size - 100))
      try await resume(rest, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
    }
  }

  /// Whatever was done to the partial file meanwhile, the result is right, and nothing else was touched.
  enum Mischief: CaseIterable {
    case removed, emptied, shortened, grown, headChanged, tailChanged, symbolicLink, hardLink, directory, pipe
  }

  @Test(arguments: Mischief.allCases) func partialFileWasTouched(_ mischief: Mischief) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(100_000)])
    try await withFileServer(file, leaves: [.removed, .grown].contains(mischief) ? 0 : 1) { session, server, folder in
      let data = try await broken(session, server, folder)
      let name = try #require(folder.partials.first)
      let path = folder.partial(name)
      let other = try ScratchDirectory()
      let victim = try other.write(PatternBody.bytes(100_000), to: "victim")
      try mischief.act(on: path, victim)
      let response = try await resume(data, session, folder).response
      #expect(response.statusCode == (mischief == .grown ? 206 : 200))
      #expect(Pattern.matches(folder.target, Self.size))
      #expect(Pattern.matches(victim, 100_000))
    }
  }

  /// Resume data that was changed to name the partial file of another download: the bytes are compared first.
  @Test func nameOfAnotherPartialFile() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(100_000), .cut(50_000)])
    try await withFileServer(file, leaves: 2) { session, server, folder in
      let first = try ResumeRecord(decoding: try await broken(session, server, folder).bytes)
      file.change { $0 = .init(size: Self.size, tag: "\"v2\"", shift: 7) }
      let second = try ResumeRecord(decoding: try await broken(session, server, folder).bytes)
      let forged = try ResumeRecord(
        url: second.url, source: second.source, validator: second.validator, offset: second.offset,
        total: second.total, headHash: second.headHash, tailHash: second.tailHash, partialName: first.partialName,
        createdAt: 0)
      let response = try await resume(ResumeData(forged.encoded()), session, folder).response
      #expect(response.statusCode == 200)
      #expect(Pattern.matches(folder.target, Self.size, from: 7))
      #expect(Pattern.matches(folder.partial(first.partialName), 100_000))
      #expect(Pattern.matches(folder.partial(second.partialName), 50_000, from: 7))
    }
  }

  /// However the file is called that it names: what is complete stays in the folder.
  @Test(arguments: [("ab", "ab.download"), ("x.parts", "x.parts.download"), (".part", ".download")])
  func nameOfAnotherShape(_ name: String, _ complete: String) async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000)])
    try await withFileServer(file) { session, server, folder in
      let record = try ResumeRecord(decoding: try await broken(session, server, folder).bytes)
      #expect(unsafe rename(folder.partial(record.partialName), folder.partial(name)) == 0)
      let renamed = try ResumeRecord(
        url: record.url, source: record.source, validator: record.validator, offset: record.offset,
        total: record.total, headHash: record.headHash, tailHash: record.tailHash, partialName: name, createdAt: 0)
      let (path, response) = try await session.download(resumeFrom: ResumeData(renamed.encoded()))
      #expect(response.statusCode == 206 && path == folder.partial(complete) && Pattern.matches(path, Self.size))
      unsafe unlink(path)
    }
  }

  @Test func twoAtOnce() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .init(stallsAfter: 5000)])
    try await withFileServer(file) { session, server, folder in
      let data = try await broken(session, server, folder)
      let latch = try Latch()
      let first = Task {
        try await session.download(resumeFrom: data) { _, _ in latch.release() }
      }
      #expect(await eventually { latch.isReleased })
      // The partial file is in use: the second begins anew.
      let response = try await resume(data, session, folder).response
      #expect(response.statusCode == 200 && Pattern.matches(folder.target, Self.size))
      first.cancel()
      let rest = try await leftover { try await first.value }
      unsafe unlink(folder.target)
      try await resume(rest, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
    }
  }

  @Test func cancellationGivesData() async throws {
    let file = FileServer(.init(size: Self.size), [.init(stallsAfter: 123_456), .init(stallsAfter: 0)])
    try await withFileServer(file) { session, server, folder in
      let latch = try Latch()
      let task = Task {
        try await session.download(for: Request(server.url("/file"))) { received, _ in
          if received == 123_456 { latch.release() }
        }
      }
      #expect(await eventually { latch.isReleased })
      task.cancel()
      let error = try await failure { try await task.value }
      #expect(error.code == .cancelled)
      let data = try #require(error.resumeData)
      #expect(data.receivedBytes == 123_456)
      // Cancelled before anything came, it is what it was.
      let second = Task { try await session.download(resumeFrom: data) }
      #expect(await eventually { server.requestCount == 2 })
      second.cancel()
      let other = try await failure { try await second.value }
      #expect(other.resumeData == data)
      try await resume(data, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
    }
  }

  @Test func cancelledBeforeTheFirstByteLeavesNothing() async throws {
    let file = FileServer(.init(size: Self.size), [.init(stallsAfter: 0)])
    try await withFileServer(file) { session, server, folder in
      let task = Task { try await session.download(for: Request(server.url("/file"))) }
      #expect(await eventually { server.requestCount == 1 })
      task.cancel()
      let error = try await failure { try await task.value }
      #expect(error.code == .cancelled && error.resumeData == nil && folder.partials == [])
    }
  }

  @Test func credentialsStayWithTheRequest() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000)])
    try await withFileServer(file) { session, server, folder in
      var request = try Request(server.url("/file").replacing("http://", with: "http://me:hidden@") + "#part")
      request.fields[.authorization] = "Bearer hidden"
      request.fields[.cookie] = "hidden=1"
      let data = try await leftover { [request] in try await session.download(for: request) }
      #expect(!String(decoding: data.bytes, as: UTF8.self).contains("hidden"))
      let (path, _) = try await session.download(
        resumeFrom: data, request: request, to: DownloadDestination(path: folder.target))
      #expect(Pattern.matches(path, Self.size))
      #expect(server.recordedRequests.last?.fields.first("Authorization") == "Bearer hidden")
      #expect(server.recordedRequests.last?.fields.first("Range") == "bytes=1000-")
      for wrong in [
        try Request(server.url("/other")), try Request(server.url("/file"), method: .post),
        try Request("http://x/file"),
      ] {
        let error = try await failure { try await session.download(resumeFrom: data, request: wrong) }
        #expect([.badResumeData, .badRequest].contains(error.code))
      }
    }
  }

  @Test func bytesThatAreNoResumeData() throws {
    for bytes: [UInt8] in [[], [0], Array("lupineRD".utf8), [UInt8](repeating: 0x61, count: 100_000)] {
      let error = #expect(throws: SessionError.self) { try ResumeData(bytes) }
      #expect(error?.code == .badResumeData)
    }
  }
}

extension ResumeTests.Mischief {
  func act(on path: String, _ victim: String) throws {
    switch self {
    case .removed: unsafe unlink(path)
    case .emptied: try TextFile.truncate(path, to: 0)
    case .shortened: try TextFile.truncate(path, to: 99_999)
    case .grown: try TextFile.truncate(path, to: 200_000)
    case .headChanged: try Self.change(path, at: 10)
    case .tailChanged: try Self.change(path, at: 99_999)
    case .symbolicLink:
      unsafe unlink(path)
      unsafe symlink(victim, path)
    case .hardLink:
      unsafe unlink(path)
      unsafe link(victim, path)
    case .directory:
      unsafe unlink(path)
      unsafe mkdir(path, 0o700)
    case .pipe:
      unsafe unlink(path)
      unsafe mkfifo(path, 0o600)
    }
  }

  private static func change(_ path: String, at offset: Int) throws {
    let descriptor = unsafe open(path, O_RDWR | O_CLOEXEC)
    defer { close(descriptor) }
    var byte: UInt8 = 0
    guard unsafe pread(descriptor, &byte, 1, offset) == 1 else {
      throw LoopbackError.system(call: "pread", code: errno)
    }
    byte ^= 1
    _ = unsafe pwrite(descriptor, &byte, 1, offset)
  }
}
