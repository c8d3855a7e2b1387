internal import HTTPTypes
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// Saves a body under a name, which it gets when it is complete; see `PartFile` for what it is called until then.
struct Download {
  let session: Session
  let request: Request
  /// Nil: the name that the server or the URL suggests.
  let path: String?
  let continues: Bool
  /// Whether a body that is of no interest is read to its end all the same.
  let drains: Bool
  let console: Console
  let attempts: Attempts
  let show: (Response) throws -> Void

  /// What is there already, and what is asked because of it.
  private struct Partial {
    var file: PartFile
    var offer: RangeOffer
  }

  /// An answer that is not saved, and how it came if that was waited for.
  struct Refusal: Error {
    var failure: CommandFailure
    var response: Response
    var metrics: TaskMetrics?
  }

  private typealias Answer = (body: ResponseBytes, response: Response)

  func run() async throws -> (Response, TaskMetrics) {
    var partial = continues ? try findPartial() : nil
    var answer = try await ask(partial?.offer)
    if let offer = partial?.offer, case .askAgain = decide(answer.response, offer) {
      if attempts.isRecorded { await answer.body.drain(for: .seconds(1)) }
      partial = nil
      answer = try await ask(nil)
    }
    try show(answer.response)
    let decision = partial.map { decide(answer.response, $0.offer) } ?? .replace
    switch decision {
    case .complete:
      guard let partial else { break }
      try partial.file.goOn()
      let metrics = drains ? try await answer.body.drain() : nil
      let name = try partial.file.finish(as: path ?? nameOfURL, replacing: path != nil)
      return tellEnd(answer, partial.file, name, metrics, note: "was complete already")
    case .append(let count, let total):
      guard let partial else { break }
      try partial.file.goOn()
      note(answer.response, partial, total)
      let end = partial.file.size + count
      return try await receive(answer, into: partial.file, path ?? nameOfURL, total: total, end: end)
    case .replace, .fail, .askAgain: break
    }
    guard (200..<300).contains(answer.response.statusCode), answer.response.statusCode != 206 || isPart else {
      let metrics = drains ? try await answer.body.drain() : nil
      throw Refusal(failure: statusFailure(answer.response), response: answer.response, metrics: metrics)
    }
    // With its lock, which would be in the way of the new one's.
    partial = nil
    let (file, final) = try begin(answer.response)
    file.begin(version(answer.response, total: answer.response.expectedContentLength))
    return try await receive(answer, into: file, final, total: answer.response.expectedContentLength)
  }

  // MARK: Asking

  /// The caller asks for a part of the resource, which is a download like any other, but for `--continue`.
  private var isPart: Bool { request.fields.contains(.range) }

  private func ask(_ offer: RangeOffer?) async throws -> Answer {
    var request = request
    if let offer {
      request.fields[.range] = "bytes=\(offer.offset)-"
      request.fields[.ifRange] = offer.validator?.text
    }
    return try await attempts.bytes(for: request, session)
  }

  private func decide(_ response: Response, _ offer: RangeOffer) -> ResumeDecision {
    ResumeRule.decide(answer(response), to: offer)
  }

  private func answer(_ response: Response) -> RangeAnswer {
    RangeAnswer(status: response.statusCode, url: response.parsedURL, fields: response.head.fields)
  }

  // MARK: Files

  private func findPartial() throws -> Partial? {
    guard !isPart, request.method == .get else { return nil }
    let name = path ?? nameOfURL
    if let (file, record) = try PartFile.reopen(
      PartFile.path(for: name), for: request.parsedURL, replacing: path)
    {
      return Partial(file: file, offer: RangeOffer(record))
    }
    // A file that something else began: nothing tells its version, so its length is all there is to go by. It must have been named, as
    // one that only happens to be called like the URL would be spoilt.
    guard path != nil, let file = try PartFile.adopt(name) else { return nil }
    return Partial(file: file, offer: RangeOffer(offset: file.size, total: nil, validator: nil, source: nil))
  }

  private var nameOfURL: String {
    let last = request.parsedURL.path.split(separator: "/").last.map { String($0) } ?? ""
    return PartFile.unreserved(SafeFileName.name(ofSegment: last) ?? "download")
  }

  /// A new file, and the path that it gets in the end. Without --output nothing that is there is overwritten; with --continue it is the name
  /// that will be looked for, if that is free.
  private func begin(_ response: Response) throws -> (PartFile, final: String) {
    if let path { return (try PartFile.create(PartFile.path(for: path), replacing: path), path) }
    let wanted = continues ? nameOfURL : PartFile.unreserved(response.suggestedFileName)
    // What this very resource left, and does not fit any more, is no other file of that name.
    if continues, !FileSystem.isTaken(wanted), PartFile.isBeginning(PartFile.path(for: wanted), of: request.parsedURL) {
      return (try PartFile.create(PartFile.path(for: wanted)), wanted)
    }
    while true {
      let name = FileSystem.unusedName(wanted)
      // Another run may have taken it just now.
      if let file = try PartFile.createNew(PartFile.path(for: name)) { return (file, name) }
    }
  }

  /// How to go on with a file of this name.
  private func continuation(_ name: String) -> String {
    guard path == nil, name != nameOfURL else { return "--continue" }
    return "--continue --output \(TerminalText.escaped(ShellQuoting.argument(name)))"
  }

  /// What a later attempt has to know; nil if the server names no version, or sends a coded form of it.
  private func version(_ response: Response, total: Int64?) -> PartFile.Version? {
    let answer = answer(response)
    guard !isPart, request.method == .get, !answer.isCoded, !answer.refusesRanges,
      let validator = ResumeValidator(
        entityTags: answer.entityTags, lastModified: answer.lastModified, dates: answer.dates,
        now: HTTPDate(seconds: System.secondsSince1970()))
    else { return nil }
    return PartFile.Version(
      url: request.parsedURL, source: ResumeSource(answer.url, for: validator), validator: validator, total: total)
  }

  private func note(_ response: Response, _ partial: Partial, _ total: Int64) {
    guard let validator = partial.offer.validator else { return partial.file.begin(nil) }
    partial.file.begin(
      PartFile.Version(
        url: request.parsedURL, source: ResumeSource(response.parsedURL, for: validator), validator: validator,
        total: total))
  }

  /// - Parameter end: where the part ends that goes on with a file; nil: the response is the whole.
  private func receive(
    _ answer: Answer, into file: PartFile, _ final: String, total: Int64?, end: Int64? = nil
  ) async throws -> (Response, TaskMetrics) {
    let bar = console.progressBar
    let offset = file.size
    let name: String
    do {
      for try await chunk in answer.body.chunks {
        if let end, file.size + Int64(chunk.count) > end {
          // Nothing tells whether what came before belongs there.
          try file.giveUp(to: offset)
          throw mismatch(end)
        }
        try file.append(chunk)
        bar.show(file.size, of: total, startingAt: offset)
      }
      if let total, end != nil, file.size < total { throw mismatch(total) }
      name = try file.finish(as: final, replacing: path != nil)
    } catch {
      bar.clear()
      tellRemainder(file, final)
      throw error
    }
    bar.clear()
    return tellEnd(answer, file, name, note: offset > 0 ? "continued" : nil)
  }

  private func tellRemainder(_ file: PartFile, _ final: String) {
    guard file.isRemoved || file.hasItsName else { return }
    let remainder = file.remainder()
    let advice = "\(continuation(final)) \(remainder == nil ? "will start again" : "goes on from there")"
    let left = file.isRemoved ? "nothing is" : "\(Units.bytes(remainder ?? file.size)) are"
    System.tell("lupine: \(left) in \(TerminalText.escaped(file.path)); \(advice)\n")
  }

  private func tellEnd(
    _ answer: Answer, _ file: PartFile, _ name: String, _ drained: TaskMetrics? = nil, note: String?
  ) -> (Response, TaskMetrics) {
    let response = answer.body.finalResponse ?? answer.response
    let metrics = drained ?? response.metrics
    let seconds =
      Double(metrics.duration.components.attoseconds) / 1e18 + Double(metrics.duration.components.seconds)
    let notes = note.map { ", \($0)" } ?? ""
    System.tell(
      "\(console.errorStyle.paint("✓", .green)) \(TerminalText.escaped(name))  "
        + "\(Units.bytes(file.size)) in \(Units.significant(seconds)) s\(notes)\n")
    return (response, metrics)
  }

  // MARK: What goes wrong

  private func mismatch(_ total: Int64) -> CommandFailure {
    CommandFailure(
      .protocolError, "the server sent more or less than the rest of \(Units.bytes(total)), which it had announced")
  }

  private func statusFailure(_ response: Response) -> CommandFailure {
    if let failure = request.refusalToRepeat(after: response) { return failure }
    let status = "\(response.statusCode) \(response.head.reason) from \(SecretText.redacted(url: response.urlString))"
    let isRedirect = RedirectRule.isRedirect(response.statusCode) && request.redirects?.isEnabled != true
    let hint = isRedirect ? "; --follow follows redirects" : ""
    return CommandFailure(
      response.statusCode >= 400 ? .httpStatus : .failure, "nothing was saved: \(status)\(hint)")
  }
}
