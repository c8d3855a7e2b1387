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
    case taken(total: Int64, expected: Int64?, pause: PauseState?)
  }
}

extension DownloadConsumer.State {
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
      dropGathered()
      return .cancel
    }
    gathered.withLock { $0.append(bytes) }
    gatheredCount += bytes.count
    let isFull = gatheredCount + underWay >= DownloadConsumer.highWatermark
    return .taken(total: total, expected: expected, pause: isFull ? pause.change(to: true) : nil)
  }

  mutating func dropGathered() {
    gathered = Locked([])
    gatheredCount = 0
  }

  mutating func nextStep() -> DownloadConsumer.Step {
    guard !isBusy else { return .nothing }
    if gatheredCount > 0, failure == nil {
      isBusy = true
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
    }
    failure.requestBytesSent = true
    failure.failingURL = failure.response?.urlString ?? failure.failingURL
    if mode == .refused { failure.partialBody = refusedBody }
    return .failure(failure)
  }
}
