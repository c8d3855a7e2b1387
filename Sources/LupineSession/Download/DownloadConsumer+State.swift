internal import LupineBase

extension DownloadConsumer {
  /// A job of writing.
  struct Work {
    var bytes: Locked<[UInt8]>
    var offset: Int64
    var partial: PartialFile?
    var mustEmpty: Bool
  }

  /// What there is when everything has been written.
  struct Ending {
    var outcome: Result<Response, SessionError>
    var state: State
  }

  enum Step {
    case nothing
    case write(Work)
    case finish(Ending, Completion)
  }

  /// What came of bytes of the body.
  enum Taken {
    case nothing
    case cancel
    /// They belong into this buffer.
    case gather(Locked<[UInt8]>, total: Int64, expected: Int64?)
  }
}

extension DownloadConsumer.State {
  /// What becomes of bytes of the body. If they are gathered, `endGathering` must follow: nothing is written before.
  mutating func take(_ bytes: Span<UInt8>) -> DownloadConsumer.Taken {
    switch mode {
    case .waiting, .complete: return .nothing
    case .refused:
      let room = DownloadConsumer.refusedBodyLimit - refusedBody.count
      refusedBody.append(bytes.extracting(first: room))
      return bytes.count > room ? .cancel : .nothing
    case .writing: break
    }
    guard failure == nil else { return .nothing }
    let total = offset + Int64(gatheredCount + underWay + bytes.count)
    if let end, total > end {
      failure = SessionError(
        .badResponse, phase: .receive, message: "the body of the range is longer than Content-Range says")
      version = nil
      untouched = nil
      dropGathered()
      return .cancel
    }
    isGathering = true
    return .gather(gathered, total: total, expected: expected)
  }

  /// So many bytes more are in the buffer that `take` named.
  mutating func endGathering(_ count: Int) -> PauseState? {
    isGathering = false
    // What was gathered when writing failed is gone.
    guard failure == nil else { return nil }
    gatheredCount += count
    lastRead = count
    let limit = isSmall ? DownloadConsumer.smallHighWatermark : DownloadConsumer.highWatermark
    return gatheredCount + underWay >= limit ? pause.change(to: true) : nil
  }

  mutating func dropGathered() {
    gathered = Locked([])
    gatheredCount = 0
  }

  mutating func nextStep() -> DownloadConsumer.Step {
    guard !isBusy, !isGathering else { return .nothing }
    if isPieceDue {
      isBusy = true
      hasBegun = true
      swap(&gathered, &other)
      underWay = gatheredCount
      gatheredCount = 0
      return .write(.init(bytes: other, offset: offset, partial: partial, mustEmpty: mustEmpty))
    }
    guard let result, let completion else { return .nothing }
    self.completion = nil
    exchange = nil
    return .finish(.init(outcome: outcome(result), state: self), completion)
  }

  /// Whether the body comes in small pieces.
  private var isSmall: Bool { lastRead <= DownloadConsumer.smallRead }

  /// The first bytes are written at once, so that a file that cannot be made is known of early, and the last ones whatever they are.
  private var isPieceDue: Bool {
    guard gatheredCount > 0, failure == nil else { return false }
    let size = isSmall ? DownloadConsumer.smallPieceSize : DownloadConsumer.pieceSize
    return gatheredCount >= size || !hasBegun || result != nil
  }

  /// Our own failure comes before that of the exchange, which it caused.
  private func outcome(_ result: Result<Response, SessionError>) -> Result<Response, SessionError> {
    guard var failure else { return result }
    switch result {
    case .success(let response):
      failure.response = response
      failure.metrics = response.metrics
      failure.requestHead = response.requestHead
    case .failure(let error):
      failure.response = error.response ?? failure.response
      failure.metrics = error.metrics
      failure.requestHead = error.requestHead
      failure.sensitiveFields = error.sensitiveFields
    }
    failure.requestBytesSent = true
    failure.failingURL = failure.response?.urlString ?? failure.failingURL
    if mode == .refused { failure.partialBody = refusedBody }
    return .failure(failure)
  }
}
