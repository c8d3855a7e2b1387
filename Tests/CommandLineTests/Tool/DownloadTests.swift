import Foundation
import Glibc
import LupineRules
import LupineTestSupport
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct DownloadTests {
  @Test func savesUnderItsNameAndOverwritesNothing() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    for name in ["hello", "hello-1"] {
      let outcome = try await Tool.run(["--download", server.url("/hello")], in: folder)
      #expect(outcome.status == 0 && outcome.text == "" && outcome.error.contains("✓ \(name)  13 B"))
      #expect(try folder.bytes(name) == Array("Hello, world!".utf8))
    }
    #expect(!folder.exists("hello.part"))
  }

  @Test func goesOnWhereItBrokeOff() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let broken = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && broken.error.contains("--continue goes on from there"))
    #expect(try folder.bytes("f.part") == PatternBody.bytes(100_000) && !folder.exists("f"))
    // The query of a URL may be a secret.
    let record = try FileManager.default.attributesOfItem(atPath: folder.url("f.part.resume").path)
    #expect((record[.posixPermissions] as? NSNumber)?.intValue == 0o600)
    let whole = try await Tool.run(["-d", "--continue", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    #expect(whole.status == 0)
    #expect(try folder.bytes("f") == PatternBody.bytes(300_000))
    #expect(!folder.exists("f.part") && !folder.exists("f.part.resume"))
    let request = try #require(server.recordedRequests.last)
    #expect(request.fields.first("Range") == "bytes=100000-")
    #expect(request.fields.first("If-Range") == "\"pattern-300000\"")
  }

  /// What a full disk has taken is there, and gone on from: a limit for files tells the same as a disk.
  @Test func aFullDisk() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/bash")
    let line = #"ulimit -f 100; trap '' XFSZ; exec timeout 60 "$@" 2>said"#
    process.arguments = ["-c", line, "bash", Tool.path, "-d", "-o", "f", server.url("/bytes?n=300000")]
    process.currentDirectoryURL = folder.root
    try await Tool.finish(process) { try process.run() }
    let said = String(decoding: try folder.bytes("said"), as: UTF8.self)
    #expect(process.terminationStatus == 1 && said.contains("File too large"), "\(said)")
    #expect(said.contains("100 KiB are in f.part; --continue goes on from there"), "\(said)")
    #expect(try folder.bytes("f.part") == PatternBody.bytes(102_400))
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    #expect(try outcome.status == 0 && folder.bytes("f") == PatternBody.bytes(300_000))
    #expect(server.recordedRequests.last?.fields.first("Range") == "bytes=102400-")
  }

  /// Where nothing can be noted, the download fails for that, and what is there is told all the same.
  @Test func nothingCanBeNoted() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try FileManager.default.createDirectory(at: folder.url("f.part.resume.new"), withIntermediateDirectories: false)
    let outcome = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    #expect(outcome.status == 1 && outcome.error.contains("f.part.resume.new"), "\(outcome.error)")
    #expect(outcome.error.contains("are in f.part; --continue will start again"), "\(outcome.error)")
    #expect(!folder.exists("f.part.resume"))
  }

  /// Files of one date under one path: the date tells no two of them apart, a tag does.
  @Test(arguments: [false, true]) func anotherQueryNeedsATag(_ hasTag: Bool) async throws {
    let version: ServerFields =
      hasTag
      ? ["ETag": "\"1\""]
      : ["Last-Modified": "Tue, 03 Nov 2020 10:00:00 GMT", "Date": "Wed, 04 Nov 2020 10:00:00 GMT"]
    let count = 9_000
    let server = try LoopbackServer { request, connection in
      let content = [UInt8](repeating: hasTag || request.query("n") == "1" ? 1 : 2, count: count)
      let from = request.fields.first("Range") == nil ? 0 : 5_000
      var fields = version
      if from > 0 { fields.append("Content-Range", "bytes \(from)-\(count - 1)/\(count)") }
      try connection.begin(from > 0 ? 206 : 200, fields: fields, framing: .length(count - from))
      guard request.query("cut") == nil else {
        try connection.write(content[..<5_000])
        try connection.flush()
        return connection.abort()
      }
      try connection.write(content[from...])
      try connection.finish()
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let broken = try await Tool.run(["-d", server.url("/f?n=1&cut")], in: folder)
    #expect(broken.status == 5 && folder.exists("f.part.resume"), "\(broken.error)")
    let other = try await Tool.run(["-dc", server.url("/f?n=2")], in: folder)
    #expect(other.status == 0, "\(other.error)")
    let range: String? = hasTag ? "bytes=5000-" : nil
    #expect(server.recordedRequests.last?.fields.first("Range") == range)
    #expect(try folder.bytes(hasTag ? "f" : "f-1") == [UInt8](repeating: hasTag ? 1 : 2, count: count))
    #expect(folder.exists("f.part") == !hasTag)
  }

  @Test func startsOverWhenTheFileChanged() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=9000&cut=5000&etag=old")], in: folder)
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=9000&etag=new")], in: folder)
    #expect(outcome.status == 0 && server.recordedRequests.last?.fields.first("If-Range") == "\"old\"")
    #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
  }

  /// A file that another program began, and one that is complete already.
  @Test func continuesForeignFiles() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try Data(PatternBody.bytes(4_000)).write(to: folder.url("f"))
    for note in ["continued", "complete already"] {
      let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=9000")], in: folder)
      #expect(outcome.status == 0 && outcome.error.contains(note))
      #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
    }
  }

  /// How an answer ends that says so changes nothing.
  @Test func isCompleteHoweverTheAnswerEnds() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.begin(416, fields: ["Content-Range": "bytes */4000"], framing: .length(50))
      try connection.write(Array("no".utf8))
      try connection.flush()
      connection.abort()
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try Data(PatternBody.bytes(4_000)).write(to: folder.url("f"))
    for options in [["-dc"], ["--fail", "-dc"]] {
      let outcome = try await Tool.run(options + ["-o", "f", server.url("/f")], in: folder)
      #expect(outcome.status == 0 && outcome.error.contains("complete already"))
    }
    #expect(try folder.bytes("f") == PatternBody.bytes(4_000) && !folder.exists("f.part"))
  }

  /// A file that only happens to be called like the URL is nobody's beginning: it stays, what comes gets another name,
  /// and the advice names that.
  @Test func leavesForeignFilesOfTheURLsName() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("mine", to: "bytes")
    let broken = try await Tool.run(["-d", server.url("/bytes?n=9000&cut=5000")], in: folder)
    #expect(broken.status == 5 && broken.error.contains("; --continue --output bytes-1 goes on from there"))
    #expect(try folder.bytes("bytes-1.part") == PatternBody.bytes(5_000))
    let whole = try await Tool.run(["-dc", server.url("/bytes?n=9000")], in: folder)
    #expect(whole.status == 0 && whole.error.contains("✓ bytes-2  "))
    #expect(server.requestCount == 2 && server.recordedRequests.last?.fields.first("Range") == nil)
    #expect(try folder.bytes("bytes-2") == PatternBody.bytes(9_000))
    let advised = try await Tool.run(
      ["-d", server.url("/bytes?n=9000"), "--continue", "--output", "bytes-1"], in: folder)
    #expect(advised.status == 0 && advised.error.contains("continued"))
    #expect(try folder.bytes("bytes-1") == PatternBody.bytes(9_000))
    #expect(try folder.bytes("bytes") == Array("mine".utf8))
  }

  /// Without `--output`, what broke off under the URL's name goes on under it.
  @Test func goesOnUnderTheNameOfTheURL() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let broken = try await Tool.run(["-d", server.url("/bytes?n=9000&cut=5000")], in: folder)
    #expect(broken.status == 5 && broken.error.contains("; --continue goes on from there"))
    let whole = try await Tool.run(["-dc", server.url("/bytes?n=9000")], in: folder)
    #expect(whole.status == 0 && whole.error.contains("✓ bytes  ") && whole.error.contains("continued"))
    #expect(try folder.bytes("bytes") == PatternBody.bytes(9_000))
    #expect(!folder.exists("bytes.part") && !folder.exists("bytes.part.resume") && !folder.exists("bytes-1"))
  }

  /// SIGKILL leaves a pair of files that fits.
  @Test func goesOnAfterBeingKilled() async throws {
    let isFirst = LockedFlag()
    let server = try LoopbackServer { request, connection in
      guard isFirst.take() else { return try StandardFile.respond(request, connection, 400_000) }
      try connection.begin(fields: ["ETag": "\"a\""], framing: .length(400_000))
      try connection.write(PatternBody.bytes(300_000))
      try connection.stall(until: nil)
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let process = try Tool.process(["-d", "-o", "f", server.url("/f")], in: folder)
    process.standardError = FileHandle.nullDevice
    process.standardOutput = FileHandle.nullDevice
    try process.run()
    #expect(await eventually { folder.exists("f.part.resume") })
    kill(process.processIdentifier, SIGKILL)
    process.waitUntilExit()
    let record = try ResumeRecord(decoding: folder.bytes("f.part.resume"))
    #expect(record.partialName == "f.part" && record.offset <= 300_000 && record.total == 400_000)
    #expect(try folder.bytes("f.part").count >= Int(record.offset))
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/f?signed=anew")], in: folder)
    #expect(outcome.status == 0 && outcome.error.contains("continued"))
    #expect(try folder.bytes("f") == PatternBody.bytes(400_000))
    #expect(!folder.exists("f.part") && !folder.exists("f.part.resume"))
    let request = try #require(server.recordedRequests.last)
    #expect(request.fields.first("Range") == "bytes=\(record.offset)-" && request.fields.first("If-Range") == "\"a\"")
  }

  /// The zone of a link-local address is a part of what is gone on with.
  @Test func goesOnWithinAZone() throws {
    let folder = try Folder()
    let url = try URLReader.read("http://[fe80::1%25eth0]/f?signed=now")
    let validator = try #require(
      ResumeValidator(entityTags: ["\"a\""], lastModified: [], dates: [], now: HTTPDate(seconds: 0)))
    do {
      let file = try PartFile.create(folder.path("f.part"))
      file.begin(PartFile.Version(url: url, source: ResumeSource(url, for: validator), validator: validator, total: 9))
      try file.append(Array("bytes".utf8))
      #expect(try file.checkpoint())
    }
    let record = try #require(
      try PartFile.reopen(folder.path("f.part"), for: URLReader.read("http://[fe80::1%25eth0]/f"))?.1)
    #expect(record.offset == 5 && record.url.identity == url.identity)
    for other in ["http://[fe80::1]/f", "http://[fe80::1%25eth1]/f"] {
      #expect(try PartFile.reopen(folder.path("f.part"), for: URLReader.read(other)) == nil)
    }
  }

  /// A partial file that was changed, a record that was, one of another file, none, and what is not its owner's alone: the download starts again.
  @Test(arguments: ["part", "record", "path", "none", "link", "second name", "record's second name", "pipe"])
  func startsAgainWhenInDoubt(_ what: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=9000&cut=5000")], in: folder)
    var part = try folder.bytes("f.part")
    var record = try folder.bytes("f.part.resume")
    try Data(part).write(to: folder.url("victim"))
    switch what {
    case "part":
      part[100] ^= 1
      try Data(part).write(to: folder.url("f.part"))
    case "record":
      record[40] ^= 1
      try Data(record).write(to: folder.url("f.part.resume"))
    case "none": try FileManager.default.removeItem(at: folder.url("f.part.resume"))
    case "link":
      try FileManager.default.removeItem(at: folder.url("f.part"))
      try FileManager.default.createSymbolicLink(at: folder.url("f.part"), withDestinationURL: folder.url("victim"))
    case "second name":
      try FileManager.default.removeItem(at: folder.url("victim"))
      try FileManager.default.linkItem(at: folder.url("f.part"), to: folder.url("victim"))
    case "record's second name":
      try FileManager.default.linkItem(at: folder.url("f.part.resume"), to: folder.url("other"))
    case "pipe":
      try FileManager.default.removeItem(at: folder.url("f.part.resume"))
      #expect(unsafe mkfifo(folder.path("f.part.resume"), 0o600) == 0)
    default: break
    }
    let path = what == "path" ? "/chunked?n=9000" : "/bytes?n=9000"
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url(path)], in: folder)
    #expect(try folder.bytes("victim") == PatternBody.bytes(5_000))
    if what == "link" {
      #expect(outcome.status == 1 && outcome.error.contains("f.part"))
    } else {
      #expect(outcome.status == 0 && server.recordedRequests.last?.fields.first("Range") == nil)
      #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
    }
  }

  /// A server that has its own idea of the rest is asked for the whole.
  @Test func asksAgainForTheWhole() async throws {
    let isFirst = LockedFlag()
    let server = try LoopbackServer { request, connection in
      if isFirst.take() {
        try connection.begin(fields: ["ETag": "\"a\""], framing: .length(9000))
        try connection.write(PatternBody.bytes(5000))
        try connection.flush()
        return connection.abort()
      }
      guard request.fields.first("Range") != nil else { return try StandardFile.respond(request, connection, 9000) }
      try connection.respond(
        206, fields: ["ETag": "\"b\"", "Content-Range": "bytes 5000-8999/9000"],
        body: [UInt8](repeating: 0, count: 4000))
    }
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", "-o", "f", server.url("/f")], in: folder)
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/f")], in: folder)
    #expect(outcome.status == 0 && server.requestCount == 3)
    #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
  }

  /// A server that sends more than its `Content-Range` announces: nothing tells which of it belongs there, and nothing is gone on from.
  @Test(arguments: [false, true]) func noMoreThanWasAnnounced(_ isWhole: Bool) async throws {
    let folder = try Folder()
    let (isFirst, isSecond) = (LockedFlag(), LockedFlag())
    let total = isWhole ? 10 : 20
    let server = try LoopbackServer { request, connection in
      if isFirst.take() {
        try connection.begin(fields: ["ETag": "\"a\""], framing: .length(total))
        try connection.write(PatternBody.bytes(5))
        try connection.flush()
        return connection.abort()
      }
      guard isSecond.take() else { return try StandardFile.respond(request, connection, total) }
      try connection.begin(206, fields: ["ETag": "\"a\"", "Content-Range": "bytes 5-9/\(total)"], framing: .chunked)
      guard isWhole else {
        try connection.write(PatternBody.bytes(20)[5...])
        return try connection.finish()
      }
      // What was announced, and a byte more when that has arrived.
      try connection.write(PatternBody.bytes(10)[5...])
      try connection.flush()
      let end = Date(timeIntervalSinceNow: 30)
      while (try? folder.bytes("f.part").count) != 10, Date() < end { sched_yield() }
      try connection.write([0])
      try connection.finish()
    }
    defer { server.shutdown() }
    _ = try await Tool.run(["-d", server.url("/f")], in: folder)
    let outcome = try await Tool.run(["-dc", server.url("/f")], in: folder)
    #expect(
      outcome.status == 5 && outcome.error.contains("nothing is in f.part; --continue will start again"),
      "\(outcome.error)")
    #expect(!folder.exists("f") && !folder.exists("f.part.resume") && !folder.exists("f.part"))
    let again = try await Tool.run(["-dc", server.url("/f")], in: folder)
    #expect(again.status == 0 && server.recordedRequests.last?.fields.first("Range") == nil)
    #expect(try folder.bytes("f") == PatternBody.bytes(total))
  }

  /// A file that another program began is what it was before such an answer.
  @Test func foreignFilesGetNoMoreThanWasAnnounced() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.begin(206, fields: ["Content-Range": "bytes 5-9/20"], framing: .chunked)
      for byte in PatternBody.bytes(20)[5...] {
        try connection.write([byte])
        try connection.flush()
      }
      try connection.finish()
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try Data(PatternBody.bytes(5)).write(to: folder.url("f"))
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/f")], in: folder)
    #expect(outcome.status == 5 && outcome.error.contains("goes on from there"), "\(outcome.error)")
    #expect(try folder.bytes("f") == PatternBody.bytes(5))
  }

  @Test func errorPageMakesNoFile() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run(["-d", "-o", "f", server.url("/status?code=404")], in: folder)
    #expect(outcome.status == 22 && !folder.exists("f") && !folder.exists("f.part"))
  }

  /// What is no file keeps its name: `/dev/null`, for one.
  @Test func replacesFilesAlone() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let path = folder.path("pipe")
    #expect(unsafe mkfifo(path, 0o600) == 0)
    let outcome = try await Tool.run([server.url("/hello"), "-d", "-o", "pipe"], in: folder)
    #expect(outcome.status == 2 && outcome.error.contains("pipe") && server.requestCount == 0)
    var status = stat()
    #expect(unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO)
  }

  private func permissions(_ path: String) -> mode_t? {
    var status = stat()
    return unsafe stat(path, &status) == 0 ? status.st_mode & 0o7777 : nil
  }

  /// Who could not read what is replaced cannot read what replaces it, nor what there is of it before; and a program stays one.
  @Test(arguments: [0o600, 0o640, 0o755, 0o4755] as [mode_t])
  func keepsThePermissionsOfWhatItReplaces(_ mode: mode_t) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let path = try folder.write("mine", to: "f")
    #expect(unsafe chmod(path, mode) == 0)
    let broken = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && permissions(path) == mode, "\(broken.error)")
    let part = try #require(permissions(folder.path("f.part")))
    #expect(part & 0o044 & ~mode == 0)
    let whole = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    #expect(whole.status == 0 && permissions(path) == mode & 0o777, "\(whole.error)")
    #expect(try folder.bytes("f") == PatternBody.bytes(300_000))
  }

  /// The group is a part of that: who shares the user's own could read the file of another one.
  @Test func keepsTheGroupOfWhatItReplaces() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let path = try folder.write("mine", to: "f")
    // Of another group, where the user may give a file to one.
    var groups = [gid_t](repeating: 0, count: 1024)
    let count = unsafe getgroups(1024, &groups)
    let others = (Array(groups.prefix(Int(max(0, count)))) + [1]).filter { $0 != getegid() }
    guard let group = others.first(where: { unsafe chown(path, uid_t.max, $0) == 0 }) else { return }
    #expect(unsafe chmod(path, 0o640) == 0)
    let broken = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && permissions(folder.path("f.part")) == 0o600, "\(broken.error)")
    let whole = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    var status = stat()
    #expect(unsafe stat(path, &status) == 0 && status.st_gid == group)
    #expect(whole.status == 0 && permissions(path) == 0o640, "\(whole.error)")
  }

  /// Where the group cannot be had, who is in one of both may do what everybody may, and no more.
  @Test(
    arguments: [
      (0o640, 0o600), (0o644, 0o644), (0o664, 0o644), (0o604, 0o600), (0o4755, 0o755), (0o770, 0o700), (0o465, 0o444),
    ] as [(mode_t, mode_t)]) func permissionsWithoutTheGroup(_ mode: mode_t, _ expected: mode_t)
  {
    #expect(OutputFile.permissions(replacing: mode, hasItsGroup: false) == expected)
    #expect(OutputFile.permissions(replacing: mode, hasItsGroup: true) == mode & 0o777)
  }

  /// It would replace a file by an empty one.
  @Test(arguments: [["-d"], []]) func thereIsNothingToSaveOfAHead(_ options: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try folder.write("mine", to: "f")
    let arguments = ["HEAD", server.url("/hello")]
    for name in ["f", "new"] {
      let outcome = try await Tool.run(arguments + options + ["-o", name], in: folder)
      #expect(outcome.status == 2 && outcome.error.contains("HEAD") && server.requestCount == 0)
    }
    #expect(try folder.bytes("f") == Array("mine".utf8) && !folder.exists("new"))
    // What is no file loses nothing.
    guard options.isEmpty else { return }
    let outcome = try await Tool.run(arguments + ["-o", "/dev/null", "-w", "%{http_code}"], in: folder)
    #expect(outcome.status == 0 && outcome.text == "200", "\(outcome.error)")
  }

  /// As long as the system takes, the incomplete file and its record have names that it takes too.
  @Test(arguments: [239, 240, 255], ["x", "é"]) func longNames(_ length: Int, _ letter: String) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let count = length / letter.utf8.count
    let name =
      String(repeating: "a", count: length - count * letter.utf8.count) + String(repeating: letter, count: count)
    let part = PartFile.path(for: name)
    #expect(part.utf8.count <= 244 && (length > 239) == (part != name + ".part"))
    let broken = try await Tool.run(["-d", "-o", name, server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && broken.error.contains("--continue goes on from there"), "\(broken.error)")
    #expect(folder.exists(part) && folder.exists(part + ".resume"))
    let whole = try await Tool.run(["-dc", "-o", name, server.url("/bytes?n=300000")], in: folder)
    #expect(whole.status == 0 && whole.error.contains("continued"), "\(whole.error)")
    #expect(try folder.bytes(name) == PatternBody.bytes(300_000))
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path) == [name])
  }

  @Test func longNamesThatAreTaken() async throws {
    let server = try LoopbackServer { _, connection in try connection.respond(text: "body") }
    defer { server.shutdown() }
    let folder = try Folder()
    let name = String(repeating: "x", count: 251) + ".txt"
    for _ in 0..<2 {
      let outcome = try await Tool.run(["-d", server.url("/" + name)], in: folder)
      #expect(outcome.status == 0, "\(outcome.error)")
    }
    let other = String(repeating: "x", count: 249) + "-1.txt"
    #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path).sorted() == [other, name].sorted())
  }
}
