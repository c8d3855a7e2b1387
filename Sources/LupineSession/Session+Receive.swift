internal import LupineBase
internal import Synchronization

extension Session {
  /// Fetches a request and shows every piece of its body where it lies: in the engine's own buffer, on the engine's thread.
  ///
  /// The fastest way through a large body: nothing is copied, and no other thread is woken. The engine waits while a closure runs, and all
  /// connections with it, so each must be short and must never block; whoever needs more time takes `bytes(for:)`, which has back-pressure.
  ///
  /// - Parameters:
  ///   - request: what to fetch. A status of 400 and above is a response, not an error.
  ///   - onResponse: told the final response, redirects behind it, before its body; without trailers and metrics as yet.
  ///   - onBody: shown the body, decoded, piece by piece in its order, never empty. The span is valid during the call.
  ///   - completion: called once, last: the response with trailers and metrics, or what went wrong. Where no exchange is under way it may be on the thread
  ///     of the caller, before this returns (the session is invalid, the head cannot be written, a file of the body cannot be read), of whoever cancels, or on one that
  ///     something was waited for on: a file that is sent again, a hash, a network. Hold no lock around any that it takes.
  /// - Returns: a closure that cancels the request, from any thread; nothing happens after its end.
  @discardableResult
  public func receive(
    _ request: Request, onResponse: (@Sendable (Response) -> Void)? = nil,
    onBody: @escaping @Sendable (Span<UInt8>) -> Void,
    completion: @escaping @Sendable (Result<Response, SessionError>) -> Void
  ) -> @Sendable () -> Void {
    // Empty after the end: whoever keeps the closure that cancels may be held by the others.
    let running = LockedReference<TaskRun>()
    let consumer = SpanConsumer(onResponse: onResponse, onBody: onBody) { result in
      running.value = nil
      completion(result)
    }
    let run = TaskRun(request, session: self, consumer: consumer, takesAnswersAtOnce: false)
    do throws(SessionError) {
      try checkValid(request)
      running.value = run
      run.start()
    } catch {
      completion(.failure(error))
    }
    return { running.value?.cancel() }
  }
}

/// Passes a body on as it comes.
private final class SpanConsumer: ResponseConsumer {
  private struct Closures {
    var onResponse: (@Sendable (Response) -> Void)?
    var onBody: @Sendable (Span<UInt8>) -> Void
    var completion: @Sendable (Result<Response, SessionError>) -> Void
  }

  /// Nil behind the end: a handle on the task holds the task, and they may hold the handle.
  private let closures: LockedStorage<Closures?>

  init(
    onResponse: (@Sendable (Response) -> Void)?, onBody: @escaping @Sendable (Span<UInt8>) -> Void,
    completion: @escaping @Sendable (Result<Response, SessionError>) -> Void
  ) {
    closures = LockedStorage(Closures(onResponse: onResponse, onBody: onBody, completion: completion))
  }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    closures.withLock { $0?.onResponse }?(response)
  }

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    closures.withLock { $0?.onBody }?(bytes)
  }

  func end(_ result: Result<Response, SessionError>) {
    let closures = closures.withLock { $0.take() }
    closures?.completion(result)
  }
}
