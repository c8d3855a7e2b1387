internal import Synchronization
public import FoundationEssentials
internal import LupineBase
internal import LupineIO

extension Session {
  /// Fetches a request and collects its body in memory.
  ///
  /// A status of 400 and above is a response, not an error. Cancelling the task cancels the request.
  ///
  /// - Parameter delegate: hears of this task instead of the session's delegate, which gets what it leaves; see `SessionTaskDelegate`. Callbacks about data and the
  ///   completion are left out: the call itself brings those, after the last callback. So are the questions `didReceive response` and `willCacheResponse`.
  /// - Returns: the body, decoded, and the response with trailers and metrics.
  /// - Throws: `SessionError`, of a cancelled Swift task with `.cancelled`; `.bodyTooLarge` past `SessionConfiguration.maximumBufferedBodySize`, and after 64 KiB of a body whose `Content-Length` is beyond
  ///   that. `partialBody` holds what had arrived.
  public func data(
    for request: Request, delegate: (any SessionTaskDelegate)? = nil
  ) async throws -> (Data, Response) {
    try await answer(of: try buffered(request, delegate, .data, onSent: nil), delegate)
  }

  /// Fetches a URL and collects its body in memory; see `data(for:)`.
  public func data(from url: String, delegate: (any SessionTaskDelegate)? = nil) async throws -> (Data, Response) {
    try await data(for: Request(url), delegate: delegate)
  }

  /// A task of the `async` API whose body is collected. It may be cancelled before it begins.
  private func buffered(
    _ request: Request, _ delegate: (any SessionTaskDelegate)?, _ kind: TaskRun.Kind,
    onSent: (@Sendable (Int) -> Void)?
  ) throws(SessionError) -> BufferedRun {
    try checkValid(request)
    let isObserved = isObserved(delegate)
    return BufferedRun(
      request, session: self, kind: kind, isObserved: isObserved, onSent: onSent,
      resuming: isObserved ? .queue(delegateQueue) : isOffEngines ? .endOfTurn : .here)
  }

  private func upload(
    _ request: Request, _ delegate: (any SessionTaskDelegate)?, onSent: (@Sendable (Int) -> Void)?
  ) async throws -> (Data, Response) {
    try await answer(of: try buffered(request, delegate, .upload, onSent: onSent), delegate)
  }

  /// Sends bytes as the body of a request, and collects the response; see `data(for:)`.
  ///
  /// - Parameter progress: told, on the engine's thread, how many bytes have been handed to the network so far; it begins anew where the body has
  ///   to be sent again.
  public func upload(
    for request: Request, from data: Data, delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (Int64) -> Void)? = nil
  ) async throws -> (Data, Response) {
    try await upload(for: request, body: .data(data), delegate: delegate, progress: progress)
  }

  /// Sends a file as the body of a request, with `sendfile` where the connection is plaintext; see `data(for:)`.
  ///
  /// A file that shrinks while it is sent is an error.
  public func upload(
    for request: Request, fromFile path: String, delegate: (any SessionTaskDelegate)? = nil,
    progress: (@Sendable (Int64) -> Void)? = nil
  ) async throws -> (Data, Response) {
    try await upload(for: request, body: .file(path: path), delegate: delegate, progress: progress)
  }

  /// Sends an async sequence of chunks as the body of a request; chunked unless `length` is given. The next chunk is asked for when the
  /// socket has room.
  public func upload<Chunks: AsyncSequence & Sendable>(
    for request: Request, from chunks: Chunks, length: Int64? = nil,
    delegate: (any SessionTaskDelegate)? = nil, progress: (@Sendable (Int64) -> Void)? = nil
  ) async throws -> (Data, Response) where Chunks.Element == [UInt8] {
    try await upload(for: request, body: .sequence(chunks, length: length), delegate: delegate, progress: progress)
  }

  /// Sends the body of a request, whatever it is, as an upload; see `data(for:)`. A stream that can be made anew (`.stream(isReplayable: true)`) is sent again
  /// where a redirect or a challenge asks for it; where the request has no body, or a stream that cannot, the delegate is asked for one, as of
  /// `uploadTask(withStreamedRequest:)`.
  ///
  /// - Parameter progress: as of `upload(for:from:delegate:progress:)`.
  public func upload(
    for request: Request, delegate: (any SessionTaskDelegate)? = nil, progress: (@Sendable (Int64) -> Void)? = nil
  ) async throws -> (Data, Response) {
    try await upload(for: request, body: request.body, delegate: delegate, progress: progress)
  }

  private func upload(
    for request: Request, body: Request.Body, delegate: (any SessionTaskDelegate)?,
    progress: (@Sendable (Int64) -> Void)?
  ) async throws -> (Data, Response) {
    var request = request
    request.body = body
    guard let progress else { return try await upload(request, delegate, onSent: nil) }
    let total = Locked<Int64>(0)
    // Taken back at the end: a handle on the task holds the task, and it may hold the handle.
    let listener = LockedReference(progress)
    defer { listener.value = nil }
    return try await upload(request, delegate) { count in
      listener.value?(
        total.withLock {
          $0 += Int64(count)
          return $0
        })
    }
  }
}

extension Session {
  /// Fetches a request and collects its body in memory, without a task: `completion` is called once, on the engine's thread (of several, on that of the one which has
  /// the connection, so that completions of two requests may run at the same time); where no
  /// exchange is under way it may be on the thread of the caller, before this returns (the session is invalid, the head cannot be written, a file of the body cannot be
  /// read), of whoever cancels, or on one that something was waited for on: a file that is sent again, a hash, a network. Hold no lock around any that
  /// `completion` takes.
  ///
  /// The fastest way to many small requests: no hop to another thread. The engine waits while `completion` runs, so it must be short and
  /// must never block; further requests may be started from it.
  ///
  /// - Returns: a closure that cancels the request; nothing happens after its end.
  @discardableResult
  public func data(
    for request: Request, completion: @escaping @Sendable (Result<(Data, Response), SessionError>) -> Void
  ) -> @Sendable () -> Void {
    let run = BufferedRun(request, session: self, takesAnswersAtOnce: false, completion: completion)
    run.start()
    return run.cancel
  }

  /// Runs `work` on the engine's thread, where completions of `data(for:completion:)` run; of several engines on that of the first. With another transport, or when the engine has been shut down: at once, here.
  public func onEngine(_ work: @escaping @Sendable () -> Void) {
    guard let engine, engine.submit(work) else { return work() }
  }
}
