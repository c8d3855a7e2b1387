internal import FoundationEssentials
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineWire
internal import Synchronization

/// What becomes of the file: on a file thread, once everything is written.
extension DownloadConsumer {
  func finish(_ ending: Ending, _ completion: @escaping Completion) {
    threads.run { () throws(IOError) in
      self.conclude(ending)
    } completion: { result in
      switch result {
      case .success(let outcome): self.over(outcome, completion)
      case .failure(let error): self.over(.failure(self.abandon(ending, error)), completion)
      }
    }
  }

  private func over(_ outcome: Result<DownloadedFile, SessionError>, _ completion: Completion) {
    var resumeData: ResumeData?
    if case .failure(let error) = outcome { resumeData = error.resumeData }
    let (run, waiters) = state.withLock { ($0.run.take(), $0.waiters.end(resumeData)) }
    completion(outcome, run) { for waiter in waiters { waiter(resumeData) } }
  }

  private func conclude(_ ending: Ending) -> Result<DownloadedFile, SessionError> {
    switch ending.outcome {
    case .success(let response):
      if let error = Self.shortage(ending.state, response) { return .failure(leave(error, ending.state)) }
      do throws(SessionError) {
        var state = ending.state
        let partial = try complete(state)
        state.partial = partial
        // Cancelled while there was no thread for it, or while the disk took its time.
        if let error = state.run?.commit(response) { return .failure(leave(error, state)) }
        return .success(DownloadedFile(partial, response))
      } catch {
        return .failure(error)
      }
    case .failure(let error): return .failure(leave(error, ending.state))
    }
  }

  /// The end where there is no thread that could bring the file to where resume data can name it: what it was resumed from holds while nothing was written.
  /// Why the download failed counts more.
  private func abandon(_ ending: Ending, _ noThread: IOError) -> SessionError {
    var state = ending.state
    state.version = nil
    if case .failure(let error) = ending.outcome { return leave(error, state) }
    return leave(SessionError(.system, phase: .file, message: "no thread for files: \(noThread)"), state)
  }

  /// The file, with everything that the system has to say about it.
  private func complete(_ state: State) throws(SessionError) -> PartialFile {
    let partial = if let made = state.partial { made } else { try DownloadPlan.createPartial(in: place) }
    do throws(IOError) {
      if state.holdsOtherVersion { try partial.file.truncate(to: 0) }
      try partial.file.flush()
      return partial
    } catch {
      partial.remove()
      throw SessionError(error, "write", path: partial.path)
    }
  }

  /// A range that ended well and is shorter than was said, or than the rest.
  private static func shortage(_ state: State, _ response: Response) -> SessionError? {
    guard let end = state.end, let expected = state.expected, state.offset < max(end, expected) else { return nil }
    var error = SessionError(
      .truncatedResponse, phase: .receive,
      message: "the server gave the range to byte \(state.offset) of \(expected) only", failingURL: response.urlString,
      requestBytesSent: true, response: response)
    error.metrics = response.metrics
    error.requestHead = response.requestHead
    return error
  }

  /// Keeps what can be gone on from, and removes everything else.
  private func leave(_ error: SessionError, _ state: State) -> SessionError {
    var error = error
    guard let partial = state.partial else { return error }
    if let untouched = state.untouched {
      error.resumeData = untouched
    } else if let version = state.version, state.offset > 0, !state.holdsOtherVersion {
      error.resumeData = try? keep(partial, version, state.offset)
      if error.resumeData == nil { partial.remove() }
    } else {
      partial.remove()
    }
    // Whoever gets the error may go on at once, while this object still lives.
    partial.file.unlock()
    return error
  }

  /// Brings the file to where resume data can name it, and names it.
  private func keep(_ partial: PartialFile, _ version: DownloadVersion, _ offset: Int64) throws -> ResumeData {
    let kept = try partial.isInFolder ? partial : partial.movedIntoFolder(place, count: offset)
    defer { kept.file.unlock() }
    do {
      let record = try kept.record(
        version, url: url, offset: offset, createdAt: Int64(Date().timeIntervalSince1970))
      return try ResumeData(record)
    } catch {
      kept.remove()
      throw error
    }
  }
}

extension RangeAnswer {
  init(_ response: Response) {
    self.init(status: response.statusCode, url: response.parsedURL, fields: response.head.fields)
  }
}
