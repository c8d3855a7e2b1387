internal import LupineBase
internal import LupineCommandLine
internal import LupineRules
internal import LupineSession
internal import LupineTesting
internal import LupineWire

/// Carries out a plan: sends the request and brings its answer to where it belongs.
struct FetchRun {
  private let plan: FetchPlan
  private let console: Console
  private let output: OutputOptions
  /// Nil unless there is verbose output.
  private let transcript: Transcript?
  private let writeOut: WriteOut?
  /// The head that has come, for what is said when something fails behind it that knows of none, such as a file.
  private let shown = Locked<Response?>(nil)

  init(_ plan: FetchPlan, output: OutputOptions, writeOut: WriteOut? = nil, console: Console = .current) {
    self.plan = plan
    self.output = output
    self.writeOut = writeOut
    self.console = console
    let printer = HeadPrinter(
      style: console.errorStyle, showsSecrets: output.showSecrets, secretNames: plan.secretNames)
    transcript = output.verbose ? Transcript(printer) : nil
  }

  func run() async throws {
    var configuration = plan.configuration
    if let transcript {
      let transport = try configuration.transport ?? NetworkTransport(configuration)
      configuration.transport = VerboseTransport(transport, transcript)
    }
    let session = try Session(configuration)
    let (final, metrics) = try await telling { [self] in
      output.download ? try await download(session) : try await fetch(session)
    }
    if output.verbose { tellEnd(final) }
    if output.timing { tellTiming(metrics) }
    try write(WriteOut.Facts(final, metrics))
    if let failure = plan.request.refusalToRepeat(after: final) { throw failure }
    // A download judges the status itself: 416 may say that all is there.
    if !output.download { try checkStatus(final) }
  }

  /// Tells what is known of a transfer that fails.
  private func telling(
    _ transfer: () async throws -> (Response, TaskMetrics)
  ) async throws -> (Response, TaskMetrics) {
    do {
      return try await transfer()
    } catch {
      transcript?.tell()
      if output.timing, let metrics = (error as? SessionError)?.metrics ?? (error as? Download.Refusal)?.metrics {
        tellTiming(metrics)
      }
      // The first failure is the one that counts.
      try? write(WriteOut.Facts(error, response: shown.withLock { $0 }, url: plan.request.urlString))
      if let refusal = error as? Download.Refusal { throw refusal.failure }
      throw error
    }
  }

  // MARK: The body

  private func fetch(_ session: Session) async throws -> (Response, TaskMetrics) {
    let (body, response) = try await attempts.bytes(for: plan.request, session)
    try show(response)
    if output.fail, response.statusCode >= 400 {
      let metrics = output.wantsWholeBody ? try await body.drain() : nil
      return (body.finalResponse ?? response, metrics ?? response.metrics)
    }
    var metrics: TaskMetrics?
    if let path = output.output, path != "-" {
      // What the server need not send again may be there.
      let file = response.statusCode == 304 ? nil : try OutputFile.emptied(path)
      for try await chunk in body.chunks { try file?.write(chunk) }
      try file?.flush()
    } else if try await !BodyPrinter(console: console).print(body, of: response), output.wantsWholeBody {
      metrics = try await body.drain()
    }
    let final = body.finalResponse ?? response
    return (final, metrics ?? final.metrics)
  }

  private func download(_ session: Session) async throws -> (Response, TaskMetrics) {
    let download = Download(
      session: session, request: plan.request, path: output.output, continues: output.continues,
      drains: output.wantsWholeBody, console: console, attempts: attempts, show: { try show($0) })
    return try await download.run()
  }

  private var attempts: Attempts {
    Attempts(
      policy: Attempts.policy(retries: output.retry), isVerbose: output.verbose, isRecorded: output.har != nil,
      transcript: transcript)
  }

  private func checkStatus(_ response: Response) throws(CommandFailure) {
    guard output.fail, response.statusCode >= 400 else { return }
    throw CommandFailure(
      .httpStatus, "\(response.statusCode) \(response.head.reason) from \(SecretText.redacted(url: response.urlString))"
    )
  }

  // MARK: What is said about it

  /// Everything up to and with the head of the final response.
  private func show(_ response: Response) throws {
    shown.withLock { $0 = response }
    if let transcript {
      // Nothing was sent for what the cache has.
      if response.requestHead.isEmpty { transcript.note(response: response.head) }
      transcript.tell()
    }
    let isOnTerminal = console.outputIsTerminal && !output.body && !output.download && output.output == nil
    if output.include || isOnTerminal && transcript == nil {
      let printer = HeadPrinter(style: console.outputStyle, showsSecrets: true, marks: false)
      try System.print(printer.response(response.head) + "\n")
    }
  }

  /// What is known only when the body has ended.
  private func tellEnd(_ response: Response) {
    // A request that was answered early may have gone on to its end.
    transcript?.tell()
    let printer = HeadPrinter(
      style: console.errorStyle, showsSecrets: output.showSecrets, secretNames: plan.secretNames)
    if !response.trailers.isEmpty { System.tell("\n" + printer.trailers(response.trailers)) }
  }

  private func write(_ facts: WriteOut.Facts) throws {
    guard let writeOut else { return }
    try System.print(writeOut.text(facts, isForTerminal: console.outputIsTerminal))
  }

  private func tellTiming(_ metrics: TaskMetrics) {
    let chart = TimingChart(
      style: console.errorStyle, width: System.columns(.error), showsSecrets: output.showSecrets)
    System.tell("\n" + chart.text(metrics))
  }
}

extension Request {
  /// Why a redirect that was to be followed is the answer: it asks for the body again, which can be read only once. Nil for every other answer.
  func refusalToRepeat(after response: Response) -> CommandFailure? {
    guard redirects?.isEnabled == true, !body.isReplayable, RedirectRule.isRedirect(response.statusCode),
      let location = response.head.fields.first(.location), !location.isEmpty
    else { return nil }
    return CommandFailure(
      .failure,
      """
      \(response.statusCode) from \(SecretText.redacted(url: response.urlString)) was not followed to \(SecretText.redacted(url: location)): \
      the body would have to be sent again, and can be read only once
              Write it to a file first, and send that (@FILE).
      """)
  }
}

extension ResponseBytes {
  /// Reads what is of no interest, for its times and for who records it: as much as an archive keeps. How it ends changes nothing.
  ///
  /// - Returns: the metrics, if it has ended.
  func drain() async throws -> TaskMetrics? {
    let limit = ArchiveRecorder.Limits().bodyBytes
    var count = 0
    do {
      for try await chunk in chunks {
        count += chunk.count
        if count >= limit { return nil }
      }
      return finalResponse?.metrics
    } catch let error as SessionError where error.code != .cancelled {
      return error.metrics
    }
  }

  /// Reads a body that only an archive is about, for so long: letting go of it ends its request, and a server may take any time for it.
  func drain(for time: Duration) async {
    await withTaskGroup(of: Void.self) { group in
      group.addTask { _ = try? await drain() }
      group.addTask { try? await Task.sleep(for: time) }
      await group.next()
      group.cancelAll()
    }
  }
}
