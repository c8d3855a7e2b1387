internal import FoundationEssentials
internal import LupineBase
internal import LupineIO
internal import Synchronization

/// Passes a response on to the data delegate of its task, and stops the socket while the delegate is behind. When the delegate turns the task
/// into a download, the rest goes to the consumer of the download.
///
/// Invariants: at most one call with data is queued at a time, and it takes all that has gathered; what the task says of its end is queued
/// behind it.
final class DelegateConsumer: DeferredConsumer, PipeConsumer {
  private struct State {
    var callbacks: TaskCallbacks?
    var gathered: [UInt8] = []
    var isQueued = false
    var pause = PauseState()
    var source: (any TransportExchange)?
    var download: DownloadTaskConsumer?
    /// A copy of the body for the store of responses, while one is wanted.
    var kept: [UInt8]?
    var request: Request?

    /// Gathers bytes; says who goes on with them, whom to call, and whether the reader is behind now: so many bytes.
    mutating func take(
      _ bytes: Span<UInt8>, highWatermark: Int
    ) -> (download: DownloadTaskConsumer?, callbacks: TaskCallbacks?, pause: PauseState?) {
      if let download { return (download, nil, nil) }
      keep(bytes)
      guard let callbacks, callbacks.wants(.receivedData) else { return (nil, nil, nil) }
      gathered.append(bytes)
      defer { isQueued = true }
      return (
        nil, isQueued ? nil : callbacks,
        gathered.count >= highWatermark ? pause.change(to: true) : nil
      )
    }

    /// Past the limit nothing is kept.
    private mutating func keep(_ bytes: Span<UInt8>) {
      guard let count = kept?.count else { return }
      if count + bytes.count <= CachedResponse.maximumSize { kept?.append(bytes) } else { kept = nil }
    }
  }

  private let highWatermark: Int
  private let state = LockedStorage(State())

  /// - Parameter highWatermark: how many bytes may wait for the delegate.
  init(highWatermark: Int) { self.highWatermark = highWatermark }

  /// Before the start.
  func attach(_ callbacks: TaskCallbacks) {
    state.withLock { $0.callbacks = callbacks }
  }

  /// The body goes to a file from here on.
  func become(_ download: DownloadTaskConsumer) {
    state.withLock { $0.download = download }
  }

  func receive(_ response: Response, from source: any TransportExchange) {
    let download = state.withLock { state in
      state.source = source
      return state.download
    }
    if let download {
      download.receive(response, from: source)
    } else {
      beginKeeping(response)
    }
  }

  func receive(body bytes: Span<UInt8>, from source: any TransportExchange) {
    let taken = state.withLock { $0.take(bytes, highWatermark: highWatermark) }
    if let download = taken.download { return download.receive(body: bytes, from: source) }
    if let pause = taken.pause { source.setPaused(pause) }
    taken.callbacks?.received { [self] in take() }
  }

  /// That of the download; delegates are shown what comes.
  func pipe() -> BodyPipe? { download?.pipe() }

  func receive(piped count: Int, from source: any TransportExchange) {
    download?.receive(piped: count, from: source)
  }

  /// What has gathered, for the delegate's next call.
  private func take() -> Data {
    let (bytes, source, pause) = state.withLock { state -> ([UInt8], (any TransportExchange)?, PauseState?) in
      defer { state.gathered = [] }
      state.isQueued = false
      return (state.gathered, state.source, state.pause.change(to: false))
    }
    if let pause { source?.setPaused(pause) }
    return Data(bytes)
  }

  /// Of a task that became one, to its end and after it.
  var download: DownloadTaskConsumer? { state.withLock { $0.download } }

  var tellsDelegates: Bool { true }

  /// The end of a download is that of its file; one with something to store waits for the delegate's word on that.
  var endsLater: Bool { state.withLock { $0.download != nil || $0.kept != nil } }

  func end(_ result: Result<Response, SessionError>, of run: TaskRun) {
    let (download, callbacks, kept, request) = state.withLock { state in
      defer {
        state.kept = nil
        if let download = state.download {
          state = State()
          state.download = download
        }
      }
      return (state.download, state.callbacks, state.kept, state.request)
    }
    if let download { return download.end(result, of: run) }
    guard case .success(let response) = result, let callbacks, let kept, let request else {
      return run.settle(result) { end(result) }
    }
    let wait = run.waitForLastAnswer(response) { [self] failure in
      let result = Result<Response, SessionError>.failure(failure)
      run.settle(result) { end(result) }
    }
    guard let wait else { return }
    callbacks.offerToStore(CachedResponse(response: response, data: Data(kept)), for: request) { [self] store in
      run.answeredLast(wait) {
        run.settle(result) {
          callbacks.enqueue(store)
          end(result)
        }
      }
    }
  }

  func end(_ result: Result<Response, SessionError>) {
    let callbacks = state.withLock { state in
      // What has gathered stays: a call that takes it may be queued.
      defer {
        state.callbacks = nil
        state.source = nil
        state.kept = nil
      }
      return state.callbacks
    }
    switch result {
    case .success: callbacks?.completed(nil)
    case .failure(let error): callbacks?.completed(error)
    }
  }

  // MARK: The store of responses

  private func beginKeeping(_ response: Response) {
    let callbacks = state.withLock { state in
      // Of an attempt before.
      state.kept = nil
      return state.callbacks
    }
    // Not under the lock: the task is asked, under whose own lock delegates are attached here.
    guard let callbacks, callbacks.hasStore, let request = callbacks.currentRequest,
      CachedResponse.mayBeStored(response, to: request)
    else { return }
    state.withLock { state in
      guard state.callbacks != nil else { return }
      state.kept = []
      state.request = request
    }
  }
}
