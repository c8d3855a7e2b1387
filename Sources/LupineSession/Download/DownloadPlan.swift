internal import HTTPTypes
internal import LupineIO
internal import LupineRules

/// What is decided about a download before its request is sent.
struct DownloadPlan: Sendable {
  /// The request as it is to be sent: without codings, and with `Range` and `If-Range` if the download goes on.
  var request: Request
  /// What resume data names: the URL to ask for again, by GET.
  let url: ParsedURL
  let place: PartialPlace
  /// The file, if it was opened already.
  fileprivate(set) var partial: PartialFile?
  /// What was asked for, if the download goes on.
  fileprivate(set) var offer: RangeOffer?
  /// What the download goes on from.
  fileprivate(set) var resumeData: ResumeData?
  /// Whether the answer can be a version of a resource that can be asked for in parts: it answers a plain GET.
  let canResume: Bool

  /// A download whose file is made when its first bytes arrive: for a response that is under way already. Does not block.
  ///
  /// Unless the request says that it accepts codings, it asks for none: the parts of a coded body could not be put together, and its length
  /// would say nothing about the file's.
  ///
  /// - Parameter first: what the task has asked for before redirects led it to `request`; nil: the same.
  init(_ request: Request, behind first: Request? = nil, session: Session) {
    self.request = request
    // What was no plain GET gives something else to a GET than what is being downloaded.
    url = first.flatMap { Self.canResume($0, session) ? $0.parsedURL : nil } ?? request.parsedURL
    place = PartialPlace(parent: session.configuration.temporaryDirectory)
    canResume = Self.canResume(request, session)
    if request.acceptsCompressedContent != true, !request.fields.contains(.acceptEncoding),
      !session.configuration.additionalFields.contains(.acceptEncoding)
    {
      self.request.fields[.acceptEncoding] = "identity"
    }
  }

  private static func canResume(_ request: Request, _ session: Session) -> Bool {
    request.method == .get && request.body.isNone && !request.fields.contains(.range)
      && !session.configuration.additionalFields.contains(.range)
  }

  /// A download whose file is there before its request is sent, so that a folder or destination that cannot be written is an error before
  /// anything else.
  /// Blocks: on file threads only.
  ///
  /// A partial file that is gone, changed or not safely ours is not gone on with: the download begins anew, in another file.
  static func prepare(
    _ request: Request, resuming resumeData: ResumeData?, to destination: DownloadDestination? = nil, session: Session
  ) throws(SessionError) -> DownloadPlan {
    try destination?.check()
    var plan = DownloadPlan(request, session: session)
    if let resumeData {
      try plan.check(resumeData)
      if let partial = PartialFile.reopen(resumeData.record, in: plan.place) { plan.resume(resumeData, partial) }
    }
    if plan.partial == nil { plan.partial = try createPartial(in: plan.place, for: destination) }
    return plan
  }

  /// The same on a file thread, where `completion` is called too.
  ///
  /// - Parameter isWanted: asked when there is a thread for it, which may take long. False: nothing is done, and `completion` is not called.
  static func prepare(
    _ request: Request, resuming resumeData: ResumeData?, to destination: DownloadDestination?, session: Session,
    threads: FileThreads, if isWanted: @escaping @Sendable () -> Bool = { true },
    completion: @escaping @Sendable (Result<DownloadPlan, SessionError>) -> Void
  ) {
    threads.run { () throws(IOError) -> Result<DownloadPlan, SessionError>? in
      guard isWanted() else { return nil }
      do throws(SessionError) {
        return .success(try prepare(request, resuming: resumeData, to: destination, session: session))
      } catch {
        return .failure(error)
      }
    } completion: { result in
      switch result {
      case .success(let plan): if let plan { completion(plan) }
      case .failure(let error):
        completion(.failure(SessionError(.system, phase: .file, message: "no thread for files: \(error)")))
      }
    }
  }

  static func createPartial(
    in place: PartialPlace, for destination: DownloadDestination? = nil
  ) throws(SessionError) -> PartialFile {
    do throws(IOError) {
      return try PartialFile.create(
        in: place, for: destination?.path.map { DownloadDestination.directory(of: $0) })
    } catch {
      throw SessionError(error, "make a file in", path: place.path)
    }
  }

  private func check(_ resumeData: ResumeData) throws(SessionError) {
    guard resumeData.record.isOf(request.parsedURL) else {
      throw SessionError(
        .badResumeData, phase: .prepare,
        message: "the resume data is of another URL than the request",
        failingURL: request.urlString)
    }
    guard canResume else {
      throw SessionError(
        .badRequest, phase: .prepare, message: "only a GET without body and Range can be resumed",
        failingURL: request.urlString)
    }
  }

  private mutating func resume(_ resumeData: ResumeData, _ partial: PartialFile) {
    let offer = RangeOffer(resumeData.record)
    self.partial = partial
    self.offer = offer
    self.resumeData = resumeData
    request.fields[.acceptEncoding] = "identity"
    request.fields[.range] = "bytes=\(offer.offset)-"
    request.fields[.ifRange] = offer.validator?.text
  }
}

extension Request.Body {
  fileprivate var isNone: Bool {
    if case .none = self { true } else { false }
  }
}
