internal import LupineRules
internal import LupineSession
internal import LupineWire

/// Carries out a plan: sends the request and brings its answer to where it belongs.
struct FetchRun {
  private let plan: FetchPlan
  private let console: Console
  private let output: OutputOptions

  init(_ plan: FetchPlan, output: OutputOptions, console: Console = .current) {
    self.plan = plan
    self.output = output
    self.console = console
  }

  func run() async throws {
    let session = try Session(plan.configuration)
    do {
      let final = output.download ? try await download(session) : try await fetch(session)
      if output.verbose { tellEnd(final) }
      if output.timing { tellTiming(final.metrics) }
      try checkStatus(final)
    } catch let error as SessionError {
      if output.verbose { tell(error) }
      if output.timing, let metrics = error.metrics { tellTiming(metrics) }
      throw error
    }
  }

  // MARK: The body

  private func fetch(_ session: Session) async throws -> Response {
    let (body, response) = try await session.bytes(for: plan.request)
    try show(response)
    if output.fail, response.statusCode >= 400 {
      for try await _ in body.chunks {}
    } else if let path = output.output, path != "-" {
      let file = try OutputFile(path)
      for try await chunk in body.chunks { try file.write(chunk) }
    } else {
      try await BodyPrinter(console: console).print(body, of: response)
    }
    return body.finalResponse ?? response
  }

  private func download(_ session: Session) async throws -> Response {
    let download = Download(
      session: session, request: plan.request, path: output.output, continues: output.continues, console: console,
      show: { try show($0) })
    return try await download.run()
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
    if output.verbose {
      let printer = HeadPrinter(style: console.errorStyle, showsSecrets: output.showSecrets)
      tell(response.redirects, printer)
      System.tell(printer.request(response.requestHead) + "\n")
      for head in response.informational { System.tell(printer.response(head) + "\n") }
      System.tell(printer.response(response.head) + "\n")
    } else if console.outputIsTerminal, !output.body, !output.download, output.output == nil {
      let printer = HeadPrinter(style: console.outputStyle, showsSecrets: true, marks: false)
      try System.print(printer.response(response.head) + "\n")
    }
  }

  private func tell(_ redirects: [Response.Redirect], _ printer: HeadPrinter) {
    for redirect in redirects {
      System.tell(printer.request(redirect.requestHead) + "\n")
      System.tell(printer.response(redirect.head) + "\n")
    }
  }

  /// What is known only when the body has ended.
  private func tellEnd(_ response: Response) {
    let printer = HeadPrinter(style: console.errorStyle, showsSecrets: output.showSecrets)
    if !response.trailers.isEmpty { System.tell("\n" + printer.trailers(response.trailers)) }
  }

  /// How far a request came that failed before its response.
  private func tell(_ error: SessionError) {
    let printer = HeadPrinter(style: console.errorStyle, showsSecrets: output.showSecrets)
    if error.response == nil || error.code == .redirectRefused || error.code == .tooManyRedirects {
      if let response = error.response {
        tell(response.redirects, printer)
        System.tell(printer.request(response.requestHead) + "\n" + printer.response(response.head) + "\n")
      } else if !error.requestHead.isEmpty, error.requestBytesSent {
        System.tell(printer.request(error.requestHead) + "\n")
      }
    }
  }

  private func tellTiming(_ metrics: TaskMetrics) {
    let chart = TimingChart(style: console.errorStyle, width: System.columns(.error))
    System.tell("\n" + chart.text(metrics))
  }
}
