internal import Synchronization
internal import LupineBase
internal import LupineIO

/// Writes a body to a file, on file threads, and stops the socket while too much waits to be written.
///
/// Invariants: at most one job is under way; what arrives meanwhile is gathered and goes with the next; after an error nothing is written.
/// Two buffers take turns, one being filled while the other is written, so that memory is neither asked for nor touched anew each time.
final class FileConsumer: ResponseConsumer {
  private struct State {
    var gathered = Locked<[UInt8]>([])
    /// The buffer that is being written, or the one that will be filled next.
    var other = Locked<[UInt8]>([])
    var gatheredCount = 0
    var underWay = 0
    var offset: Int64
    var isBusy = false
    var isPaused = false
    var failure: SessionError?
    var exchange: (any TransportExchange)?
    var result: Result<Response, SessionError>?
    var completion: (@Sendable (Result<Response, SessionError>) -> Void)?
  }

  private static let lowWatermark = 128 << 10
  private static let highWatermark = 512 << 10

  private let file: File
  private let path: String
  private let threads: FileThreads
  private let onHead: @Sendable (Response) -> SessionError?
  private let progress: (@Sendable (Int64) -> Void)?
  private let state: LockedStorage<State>

  /// - Parameters:
  ///   - offset: where the body begins in the file.
  ///   - onHead: may refuse the response.
  ///   - progress: told how many bytes of the body have arrived.
  init(
    _ file: File, path: String, offset: Int64, threads: FileThreads,
    onHead: @escaping @Sendable (Response) -> SessionError?, progress: (@Sendable (Int64) -> Void)?,
    completion: @escaping @Sendable (Result<Response, SessionError>) -> Void
  ) {
    self.file = file
    self.path = path
    self.threads = threads
    self.onHead = onHead
    self.progress = progress
    state = LockedStorage(State(offset: offset, completion: completion))
  }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    let refusal = onHead(response)
    state.withLock { state in
      state.exchange = exchange
      state.failure = refusal
    }
    if refusal != nil { exchange.cancel() }
  }

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    let (mustPause, received) = state.withLock { state -> (Bool, Int64?) in
      guard state.failure == nil else { return (false, nil) }
      state.gathered.withLock { $0.append(bytes) }
      state.gatheredCount += bytes.count
      let pending = state.gatheredCount + state.underWay
      let mustPause = pending >= Self.highWatermark && !state.isPaused
      if mustPause { state.isPaused = true }
      return (mustPause, state.offset + Int64(pending))
    }
    if mustPause { exchange.pause() }
    guard let received else { return }
    progress?(received)
    startJob()
  }

  func end(_ result: Result<Response, SessionError>) {
    state.withLock { $0.result = result }
    startJob()
  }

  /// Writes what waits, unless a job is under way; completes when there is nothing left.
  private func startJob() {
    let (bytes, offset, completion) = state.withLock { state -> (Locked<[UInt8]>?, Int64, (() -> Void)?) in
      guard !state.isBusy else { return (nil, 0, nil) }
      guard state.gatheredCount == 0 || state.failure != nil else {
        state.isBusy = true
        swap(&state.gathered, &state.other)
        state.underWay = state.gatheredCount
        state.gatheredCount = 0
        return (state.other, state.offset, nil)
      }
      guard let result = state.result, let completion = state.completion else { return (nil, 0, nil) }
      state.completion = nil
      state.exchange = nil
      let failure = state.failure
      return (nil, 0, { completion(failure.map { .failure($0) } ?? result) })
    }
    completion?()
    guard let bytes else { return }
    let file = file
    threads.run { () throws(IOError) in
      try bytes.withLock { (bytes) throws(IOError) in
        try file.write(bytes, at: offset)
        bytes.removeAll(keepingCapacity: true)
      }
    } completion: {
      self.jobEnded($0)
    }
  }

  private func jobEnded(_ result: Result<Void, IOError>) {
    let (toResume, toCancel) = state.withLock { state -> ((any TransportExchange)?, (any TransportExchange)?) in
      state.isBusy = false
      if case .failure(let error) = result {
        state.failure = SessionError(
          .fileFailed, phase: .file, message: "cannot write \(path): \(error)", underlying: error)
        state.gathered = Locked([])
        state.gatheredCount = 0
        state.underWay = 0
        return (nil, state.exchange)
      }
      state.offset += Int64(state.underWay)
      state.underWay = 0
      guard state.isPaused, state.gatheredCount <= Self.lowWatermark else { return (nil, nil) }
      state.isPaused = false
      return (state.exchange, nil)
    }
    toResume?.resume()
    toCancel?.cancel()
    startJob()
  }
}
