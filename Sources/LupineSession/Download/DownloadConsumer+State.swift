internal import LupineBase
internal import LupineIO

extension DownloadConsumer {
  /// A job of writing.
  struct Work {
    var piece: BodyPiece
    var offset: Int64
    var partial: PartialFile?
    var holdsOtherVersion: Bool
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
    case gather(total: Int64, expected: Int64?)
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
    return take(bytes.count)
  }

  /// What becomes of so many bytes that belong into the file.
  private mutating func take(_ count: Int) -> DownloadConsumer.Taken {
    guard failure == nil else { return .nothing }
    let total = offset + Int64(pieces.count + underWay + count)
    if let end, total > end {
      failure = SessionError(
        .badResponse, phase: .receive, message: "the body of the range is longer than Content-Range says")
      version = nil
      untouched = nil
      pieces = BodyPieces()
      return .cancel
    }
    isGathering = true
    return .gather(total: total, expected: expected)
  }

  /// The pipe for what belongs into the file; nil: there is none. One that was not to be had is not asked for again.
  mutating func takePipe() -> BodyPipe? {
    guard mode == .writing, failure == nil else { return nil }
    if !hasAskedForPipe {
      hasAskedForPipe = true
      pipe = BodyPipe.make()
    }
    // Its descriptors, and its place among the few that there are, go to others.
    if pipe?.isRefused ?? false { pipe = nil }
    return pipe
  }

  /// So many bytes have come in the pipe. The socket is stopped until they are written, as the pipe takes no more.
  mutating func take(piped count: Int) -> (taken: DownloadConsumer.Taken, pause: PauseState?) {
    guard mode == .writing, let pipe else { return (.nothing, nil) }
    let taken = take(count)
    guard case .gather = taken else { return (taken, nil) }
    isGathering = false
    pieces.add(count, in: pipe)
    return (taken, pause.change(to: true))
  }

  /// Bytes are in `piece`: a new one, or the last one with more in it.
  mutating func gathered(_ piece: GatheredBytes) {
    // What was gathered when writing failed is gone.
    if failure == nil { pieces.update(piece) }
  }

  /// What there was has been gathered.
  mutating func endGathering() -> PauseState? {
    isGathering = false
    guard failure == nil else { return nil }
    return pieces.count + underWay >= DownloadConsumer.highWatermark ? pause.change(to: true) : nil
  }

  /// Whether more may be read; else the next job is due.
  var mayGoOn: Bool { pieces.count < DownloadConsumer.pieceSize && !pieces.holdsPipe }

  mutating func nextStep() -> DownloadConsumer.Step {
    guard !isBusy, !isGathering else { return .nothing }
    if isPieceDue, let piece = pieces.takeFirst() {
      isBusy = true
      hasBegun = true
      underWay = piece.count
      return .write(.init(piece: piece, offset: offset, partial: partial, holdsOtherVersion: holdsOtherVersion))
    }
    guard let result, let completion else { return .nothing }
    let ending = DownloadConsumer.Ending(outcome: outcome(result), state: self)
    // Whoever has the task has this for as long: the file is open no longer than it must be, and no memory is kept.
    self = DownloadConsumer.State(run: run, waiters: waiters)
    return .finish(ending, completion)
  }

  /// The first bytes are written at once, so that a file that cannot be made is known of early, and the last ones whatever they are.
  private var isPieceDue: Bool {
    guard pieces.count > 0, failure == nil else { return false }
    return pieces.count >= DownloadConsumer.pieceSize || pieces.holdsPipe || !hasBegun || result != nil
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
