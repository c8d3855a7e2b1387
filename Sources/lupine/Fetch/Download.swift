internal import HTTPTypes
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// Saves a body under a name. While it is incomplete it is called `NAME.part`, and `NAME.part.validator` says of which version it is a
/// part (RFC 9110 13.1.5), so that a later attempt goes on with the same bytes or starts over.
struct Download {
  let session: Session
  let request: Request
  /// Nil: the name that the server or the URL suggests.
  let path: String?
  let continues: Bool
  let console: Console
  let show: (Response) throws -> Void

  private struct Partial {
    var path: String
    var size: Int64
    var validator: String?
  }

  func run() async throws -> Response {
    let partial = continues ? try findPartial() : nil
    var request = request
    if let partial {
      request.fields[.range] = "bytes=\(partial.size)-"
      if let validator = partial.validator { request.fields[.ifRange] = validator }
    }
    let (body, response) = try await session.bytes(for: request)
    try show(response)
    let final = try destination(response)
    if response.statusCode == 416, let partial, Self.completeLength(response) == partial.size {
      for try await _ in body.chunks {}
      return try finish(body.finalResponse ?? response, partial.path, final, note: "was complete already")
    }
    guard (200..<300).contains(response.statusCode) else { throw statusFailure(response, partial) }
    let offset = try Self.offset(response, partial)
    let part = final + ".part"
    if offset > 0, let partial, partial.path != part { try FileSystem.rename(partial.path, to: part) }
    let file = offset > 0 ? try OutputFile(appendingTo: part) : try OutputFile(part)
    if offset == 0 { try remember(response, part) }
    do {
      try await receive(body, response, into: file, from: offset)
    } catch let error as SessionError {
      let size = FileSystem.size(part) ?? 0
      System.tell("lupine: \(Units.bytes(size)) are in \(TerminalText.escaped(part)); --continue goes on from there\n")
      throw error
    }
    return try finish(body.finalResponse ?? response, part, final, note: offset > 0 ? "continued" : nil)
  }

  // MARK: Steps

  private func findPartial() throws -> Partial? {
    let name = path ?? nameOfURL
    let part = name + ".part"
    if let size = FileSystem.size(part), size > 0 {
      let validator = (try? System.contents(of: part + ".validator")).map { String(decoding: $0, as: UTF8.self) }
      return Partial(path: part, size: size, validator: validator?.isEmpty == true ? nil : validator)
    }
    // A file that something else began: nothing tells its version, so its length is all there is to go by.
    if let size = FileSystem.size(name), size > 0 { return Partial(path: name, size: size, validator: nil) }
    return nil
  }

  private var nameOfURL: String {
    let last = request.parsedURL.path.split(separator: "/").last.map { String($0) } ?? ""
    return SafeFileName.component(last) ?? "download"
  }

  /// The final path. Without --output nothing that is there is overwritten; when going on, it is the name that was looked for.
  private func destination(_ response: Response) throws -> String {
    if let path { return path }
    if continues { return nameOfURL }
    return FileSystem.unusedName(response.suggestedFileName)
  }

  private func receive(_ body: ResponseBytes, _ response: Response, into file: OutputFile, from offset: Int64)
    async throws
  {
    let bar = console.progressBar
    defer { bar.clear() }
    let total = response.expectedContentLength.map { $0 + offset }
    var done = offset
    for try await chunk in body.chunks {
      try file.write(chunk)
      done += Int64(chunk.count)
      bar.show(done, of: total, startingAt: offset)
    }
  }

  private func finish(_ response: Response, _ part: String, _ final: String, note: String?) throws -> Response {
    if part != final { try FileSystem.rename(part, to: final) }
    FileSystem.remove(final + ".part.validator")
    let size = FileSystem.size(final) ?? 0
    let seconds =
      Double(response.metrics.duration.components.attoseconds) / 1e18
      + Double(response.metrics.duration.components.seconds)
    let notes = note.map { ", \($0)" } ?? ""
    System.tell(
      "\(console.errorStyle.paint("✓", .green)) \(TerminalText.escaped(final))  "
        + "\(Units.bytes(size)) in \(Units.significant(seconds)) s\(notes)\n")
    return response
  }

  /// Keeps what names this version: a strong entity tag, else the date of its last change.
  private func remember(_ response: Response, _ part: String) throws {
    let tag = response.head.fields.first(named: "etag").flatMap { $0.hasPrefix("\"") ? $0 : nil }
    guard let validator = tag ?? response.head.fields.first(named: "last-modified") else {
      FileSystem.remove(part + ".validator")
      return
    }
    try OutputFile(part + ".validator").write(Array(validator.utf8))
  }

  // MARK: What the response means

  /// Where the body begins in the file: 0 if the server sends everything.
  private static func offset(_ response: Response, _ partial: Partial?) throws(CommandFailure) -> Int64 {
    guard response.statusCode == 206, let partial else { return 0 }
    let range = response.head.fields.first(named: "content-range") ?? ""
    guard range.hasPrefix("bytes \(partial.size)-") else {
      throw CommandFailure(
        .protocolError, "the server sent another range (\"\(range)\") than was asked for; start over without --continue"
      )
    }
    return partial.size
  }

  /// N of `Content-Range: bytes */N`.
  private static func completeLength(_ response: Response) -> Int64? {
    guard let range = response.head.fields.first(named: "content-range"), range.hasPrefix("bytes */") else {
      return nil
    }
    return Int64(range.dropFirst(8))
  }

  private func statusFailure(_ response: Response, _ partial: Partial?) -> CommandFailure {
    let status = "\(response.statusCode) \(response.head.reason) from \(response.urlString)"
    let hint =
      switch response.statusCode {
      case 416: partial.map { "; \($0.path) is longer than the file: remove it" } ?? ""
      case 300..<400: "; --follow follows redirects"
      default: ""
      }
    return CommandFailure(
      response.statusCode >= 400 ? .httpStatus : .failure, "nothing was saved: \(status)\(hint)")
  }
}
