import Glibc
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// Serves one file of `PatternBody`, in versions, and answers each request as it was told to.
final class FileServer: Sendable {
  /// What is done to one request.
  struct Answer: Sendable {
    /// Closes the connection after so many bytes of the body.
    var cut: Int?
    /// Closes with a reset: bytes that are under way may be lost.
    var resets = false
    var ignoresRange = false
    var ignoresCondition = false
    /// Answers with this status and nothing else.
    var status: Int?
    /// Takes the place of what the file has.
    var fields: ServerFields?
    /// Fields that the answer has not, although it should.
    var leavesOut: Set<String> = []
    /// Bytes of the body more or fewer than there should be, in chunks so that nothing else tells.
    var surplus = 0
    /// Waits for the client's end after so many bytes.
    var stallsAfter: Int?

    static let normal = Answer()
    static func cut(_ count: Int) -> Answer { Answer(cut: count) }
  }

  struct File: Sendable {
    var size: Int
    var tag: String? = "\"v1\""
    var lastModified: String?
    var date: String?
    /// Where in the pattern the version begins: versions differ in every byte.
    var shift = 0
    var coding: String?
  }

  private let answers = Locked<[Answer]>([])
  private let file: Locked<File>

  init(_ file: File, _ answers: [Answer] = []) {
    self.file = Locked(file)
    self.answers.withLock { $0 = answers }
  }

  func change(_ body: @Sendable (inout File) -> Void) {
    file.withLock { file in
      var changed = file
      body(&changed)
      file = changed
    }
  }

  func next(_ answer: Answer) { answers.withLock { $0.append(answer) } }

  var route: ServerRoute { ServerRoute("GET", "/file") { [self] in try serve($0, $1) } }

  func serve(_ request: ServerRequest, _ connection: ServerConnection) throws {
    let answer = answers.withLock { $0.isEmpty ? .normal : $0.removeFirst() }
    let file = file.withLock { $0 }
    if let status = answer.status {
      return try connection.respond(status, fields: answer.fields ?? [:], text: "no file today")
    }
    var head: [(String, String)] = [("Content-Type", "application/octet-stream"), ("Accept-Ranges", "bytes")]
    if let tag = file.tag { head.append(("ETag", tag)) }
    if let date = file.lastModified { head.append(("Last-Modified", date)) }
    if let date = file.date { head.append(("Date", date)) }
    if let coding = file.coding { head.append(("Content-Encoding", coding)) }
    let condition = request.fields.first("If-Range")
    let holds = condition.map { $0 == file.tag || $0 == file.lastModified } ?? true
    var range = 0..<file.size
    var status = 200
    if let text = request.fields.first("Range"), !answer.ignoresRange, holds || answer.ignoresCondition {
      guard let start = Int(text.dropFirst(6).dropLast()), start < file.size else {
        return try connection.respond(416, fields: ["Content-Range": "bytes */\(file.size)"])
      }
      range = start..<file.size
      status = 206
      head.append(("Content-Range", "bytes \(start)-\(file.size - 1)/\(file.size)"))
    }
    try send(status, head, range, file, answer, connection)
  }

  private func send(
    _ status: Int, _ head: [(String, String)], _ range: Range<Int>, _ file: File, _ answer: Answer,
    _ connection: ServerConnection
  ) throws {
    var fields = ServerFields()
    let replaced = answer.fields ?? [:]
    for (name, value) in head where replaced.first(name) == nil && !answer.leavesOut.contains(name) {
      fields.append(name, value)
    }
    for field in replaced { fields.append(field.name, field.value) }
    let count = range.count + answer.surplus
    try connection.begin(status, fields: fields, framing: answer.surplus == 0 ? .length(count) : .chunked)
    let sent = min(count, answer.cut ?? count, answer.stallsAfter ?? count)
    try Pattern.each(sent, from: range.lowerBound + file.shift) { try connection.write($0) }
    if answer.stallsAfter != nil {
      try connection.stall(until: nil)
    } else if answer.cut != nil {
      try connection.flush()
      connection.abort(reset: answer.resets)
    } else {
      try connection.finish()
    }
  }
}

/// `PatternBody` in large pieces: what is compared byte by byte takes minutes for a gigabyte in a debug build.
enum Pattern {
  private static let period = 65_521
  private static let slice = period * 4
  private static let table = PatternBody.bytes(period * 5)

  static func each(_ count: Int, from position: Int, _ body: (ArraySlice<UInt8>) throws -> Void) rethrows {
    var (position, rest) = (position, count)
    while rest > 0 {
      let size = min(rest, slice)
      let start = position % period
      try body(table[start..<start + size])
      position += size
      rest -= size
    }
  }

  /// Whether a file holds `count` bytes of the pattern from `position` on, and nothing else.
  static func matches(_ path: String, _ count: Int, from position: Int = 0) -> Bool {
    let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var buffer = [UInt8](repeating: 0, count: slice)
    var (isSame, matched) = (true, position)
    each(count, from: position) { expected in
      var filled = 0
      while isSame, filled < expected.count {
        let got = unsafe buffer.withUnsafeMutableBytes {
          unsafe read(descriptor, $0.baseAddress.map { unsafe $0 + filled }, expected.count - filled)
        }
        if got <= 0 { isSame = false } else { filled += got }
      }
      isSame = isSame && PatternBody.matches(buffer[..<expected.count], from: matched)
      matched += expected.count
    }
    let surplus = unsafe read(descriptor, &buffer, 1)
    return isSame && surplus == 0
  }
}

/// A directory for one session's partial files, and one for what is complete.
final class DownloadFolder: Sendable {
  private let scratch: ScratchDirectory
  private let parent: ScratchDirectory

  init() throws {
    scratch = try ScratchDirectory()
    parent = try ScratchDirectory()
  }

  deinit {
    for name in partials where unsafe unlink(temporary + "/" + name) != 0 { unsafe rmdir(temporary + "/" + name) }
    unsafe rmdir(temporary)
    unsafe unlink(temporary)
  }

  /// `SessionConfiguration.temporaryDirectory`.
  var parentPath: String { parent.path }
  /// The folder that the session makes in it.
  var temporary: String { parent.path + "/lupine-\(geteuid())" }
  /// What is in that folder.
  var partials: [String] { DirectoryListing.names(temporary) }
  var target: String { scratch.path + "/file" }
  var complete: [String] { scratch.names }

  func partial(_ name: String) -> String { temporary + "/" + name }
}

/// Runs `body` with a server of one file, a session and its folders. Afterwards there is no partial file but those named.
func withFileServer(
  _ server: FileServer, leaves: Int = 0, configure: (inout SessionConfiguration) -> Void = { _ in },
  _ body: (Session, LoopbackServer, DownloadFolder) async throws -> Void
) async throws {
  let folder = try DownloadFolder()
  try await withServer([server.route] + ServerRoute.standard()) {
    $0.temporaryDirectory = folder.parentPath
    configure(&$0)
  } _: { session, loopback in
    try await body(session, loopback, folder)
  }
  #expect(folder.partials.count == leaves)
}

/// What a download that must fail can go on from.
func leftover<Result>(
  sourceLocation: SourceLocation = #_sourceLocation, _ work: () async throws -> Result
) async throws -> ResumeData {
  let error = try await failure(sourceLocation: sourceLocation, work)
  return try #require(error.resumeData, sourceLocation: sourceLocation)
}
