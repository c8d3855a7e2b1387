internal import ArgumentParser
internal import FoundationEssentials
internal import LupineBase
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// JSON requests in, JSON results out, one a line.
struct BatchCommand: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "batch",
    abstract: "Carry out JSON requests from standard input, with JSON results on standard output.",
    discussion: """
      One request a line, one result a line, in the order in which they finish; "id" tells which belongs to which. Connections are \
      shared. A line that makes no request gives a result with an error. The exit status is 0 unless the streams themselves fail.

      REQUEST:
      \(BatchLine.form)
        Only "url" is needed; the values shown for flags and numbers are the defaults (no timeout).
        "trailers" follow the body, which goes in chunks then: they need one, and no "chunked" of false.

      RESULT:
        {"id", "status", "reason", "version", "headers": [[name, value]], "bodyBase64", "file",
         "trailers": [[name, value]], "informational": [[status, [[name, value]]]], "url",
         "redirects": [{"status", "url", "location"}], "reusedConnection",
         "metrics": {phase: microseconds}, "resumeData", "error": {"code", "phase", "message"} or null}
        What arrived before an error is there too.
      """)

  @Option(help: ArgumentHelp("Requests under way at a time.", valueName: "n"))
  var concurrency = 16

  @Option(help: ArgumentHelp("Write every exchange to a HAR 1.2 file.", valueName: "file"))
  var har: String?

  @Flag(help: "Do not hide credentials, cookies and keys in --har.")
  var showSecrets = false

  func validate() throws {
    if !(1...65_536).contains(concurrency) { throw ValidationError("--concurrency is between 1 and 65536.") }
  }

  mutating func run() async throws {
    if concurrency > 256 { System.raiseDescriptorLimit() }
    let archive = try har.map { try ArchiveFile($0, showsSecrets: showSecrets) }
    let concurrency = concurrency
    try await ArchiveFile.writing(archive) { try await BatchRun(concurrency: concurrency, archive: archive).run() }
  }
}

/// Carries out a batch: each worker takes a line, fetches, writes the result, and takes the next one.
struct BatchRun: Sendable {
  private let concurrency: Int
  private let lines: LineReader
  private let sessions: BatchSessions
  /// Held while a line is written, so that lines never mix. Why no more can be written, once that is so: half a line may be there.
  private let output = Locked<System.Failure?>(nil)

  init(concurrency: Int, archive: ArchiveFile? = nil) {
    self.concurrency = concurrency
    lines = LineReader(System.Stream.input.rawValue)
    sessions = BatchSessions(concurrency: concurrency, archive: archive)
  }

  func run() async throws {
    do {
      try await work()
    } catch {
      // What the servers have set so far is kept too.
      await sessions.flushCaches()
      do throws(SessionError) {
        try sessions.saveCookies()
      } catch let loss {
        System.tell(loss: loss)
      }
      throw error
    }
    await sessions.flushCaches()
    try sessions.saveCookies()
  }

  /// Ends with the lines, where these fail when all that was read is told, or with the first failure of the output: nothing is begun then, and nothing
  /// waited for, whose result nobody could be told.
  private func work() async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<concurrency {
        group.addTask {
          while let entry = await next() { try write(await result(of: entry)) }
        }
      }
      defer { lines.stop() }
      while try await group.next() != nil {}
    }
    if let failure = lines.failure { throw failure }
  }

  private func write(_ result: BatchResult) throws(System.Failure) {
    // It may be a terminal that shows it.
    let line = JSONWriter.line(result.json, escapingC1: true) + [UInt8(ascii: "\n")]
    try output.withLock { failure throws(System.Failure) in
      if let failure { throw failure }
      do throws(System.Failure) {
        try System.write(line, to: System.Stream.output.rawValue, name: "standard output")
      } catch {
        failure = error
        throw error
      }
    }
  }

  /// What a line asks for. The line itself and its JSON, each as long as a body in it, are gone when that is carried out.
  private struct Entry: Sendable {
    var id = JSONValue.null
    var request: Result<BatchRequest, BatchRefusal>
  }

  private func next() async -> Entry? {
    guard let line = await lines.next() else { return nil }
    return Self.entry(of: line)
  }

  private static func entry(of line: LineReader.Line) -> Entry {
    switch line {
    case .tooLong(let number):
      return Entry(request: .failure(BatchRefusal("line \(number) is longer than 64 MiB; use \"bodyFile\"")))
    case .text(let number, let bytes):
      do throws(JSONError) {
        return entry(of: try BatchLine.json(bytes))
      } catch {
        return Entry(request: .failure(BatchRefusal("line \(number) cannot be read as JSON: \(error)")))
      }
    }
  }

  private static func entry(of json: JSONValue) -> Entry {
    let id = json["id"] ?? .null
    do throws(BatchRefusal) {
      return Entry(id: id, request: .success(try BatchRequest(json)))
    } catch {
      return Entry(id: id, request: .failure(error))
    }
  }

  private func result(of entry: Entry) async -> BatchResult {
    let id = entry.id
    do {
      let request = try entry.request.get()
      let session = try sessions.session(for: request.sessionKey)
      if let file = request.file { return try await download(request.request, to: file, session, id) }
      let (body, response) = try await session.data(for: request.request)
      return BatchResult(id: id, response: response, body: [UInt8](body))
    } catch let refusal as BatchRefusal {
      return BatchResult(id: id, refusal)
    } catch let error as SessionError {
      return BatchResult(id: id, error)
    } catch {
      return BatchResult(id: id, BatchRefusal("\(error)", code: SessionError.Code.unknown.rawValue))
    }
  }

  private func download(
    _ request: Request, to file: BatchLine.File, _ session: Session, _ id: JSONValue
  ) async throws -> BatchResult {
    let destination = DownloadDestination(path: file.path, overwrites: true)
    let (path, response) =
      if let data = file.resumeData {
        try await session.download(resumeFrom: data, request: request, to: destination)
      } else {
        try await session.download(for: request, to: destination)
      }
    return BatchResult(id: id, response: response, file: path)
  }
}
