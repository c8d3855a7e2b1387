internal import Synchronization
internal import LupineBase

/// Passes a body on as chunks to one reader, and stops the socket while the reader is behind.
final class StreamConsumer: ResponseConsumer {
  private struct State {
    var chunks = RingBuffer<[UInt8]>()
    var bytes = 0
    var pause = PauseState()
    var exchange: (any TransportExchange)?
    var result: Result<Response, SessionError>?
    var head: CheckedContinuation<Response, any Error>?
    var reader: CheckedContinuation<[UInt8]?, any Error>?
    var readerPriority = TaskPriority.medium
    /// The end has been told to the reader.
    var isFinished = false
  }

  /// Pieces are put together up to so many bytes while nobody takes them: a server may send chunks of one byte, and an array costs 40 more.
  static let pieceLimit = 16 * 1024

  private let watermarks: BodyWatermarks
  private let state: LockedStorage<State>

  init(head: CheckedContinuation<Response, any Error>, watermarks: BodyWatermarks) {
    self.watermarks = watermarks
    state = LockedStorage(State(head: head))
  }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    let head = state.withLock { state in
      state.exchange = exchange
      defer { state.head = nil }
      return state.head
    }
    head?.resume(returning: response)
  }

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    let chunk = [UInt8](bytes)
    let (reader, priority, pause) = state.withLock {
      state -> (CheckedContinuation<[UInt8]?, any Error>?, TaskPriority, PauseState?) in
      let priority = state.readerPriority
      if let reader = state.reader {
        state.reader = nil
        return (reader, priority, nil)
      }
      state.bytes += chunk.count
      let isJoined = state.chunks.changeLast { last in
        guard last.count + chunk.count <= Self.pieceLimit else { return false }
        last += chunk
        return true
      }
      if !isJoined { state.chunks.append(chunk) }
      return (nil, priority, state.bytes >= watermarks.high ? state.pause.change(to: true) : nil)
    }
    // At the end of the turn, so that a reader which is woken finds all that the turn has read.
    if let reader {
      exchange.atEndOfTurn(priority: priority) { reader.resume(returning: chunk) }
    }
    if let pause { exchange.setPaused(pause) }
  }

  func end(_ result: Result<Response, SessionError>) {
    // What a user's own exchange does where it goes is not done under the lock.
    let (head, reader, exchange) = state.withLock { state in
      let exchange = state.exchange
      state.result = result
      state.exchange = nil
      defer {
        state.head = nil
        state.reader = nil
      }
      if state.reader != nil { state.isFinished = true }
      return (state.head, state.reader, exchange)
    }
    withExtendedLifetime(exchange) {}
    switch result {
    case .success(let response):
      // An empty body may end before its head was waited for.
      head?.resume(returning: response)
      reader?.resume(returning: nil)
    case .failure(let error):
      head?.resume(throwing: error)
      reader?.resume(throwing: error)
    }
  }

  /// The complete response, with trailers and metrics, once the body has ended well.
  var finalResponse: Response? {
    state.withLock { try? $0.result?.get() }
  }

  private static var isRead: SessionError {
    SessionError(
      .unknown, phase: .receive, message: "a response body has one reader at a time, and another one waits for more",
      requestBytesSent: true)
  }

  /// The next chunk, nil at the end; the error once. One reader at a time: another one that would have to wait as well is refused.
  func next() async throws -> [UInt8]? {
    let priority = Task.currentPriority
    return try await withCheckedThrowingContinuation { continuation in
      let (answer, exchange, pause) = state.withLock {
        state -> (Result<[UInt8]?, any Error>?, (any TransportExchange)?, PauseState?) in
        if let chunk = state.chunks.popFirst() {
          state.bytes -= chunk.count
          guard state.bytes <= watermarks.low else { return (.success(chunk), nil, nil) }
          return (.success(chunk), state.exchange, state.pause.change(to: false))
        }
        if state.isFinished { return (.success(nil), nil, nil) }
        switch state.result {
        case .success:
          state.isFinished = true
          return (.success(nil), nil, nil)
        case .failure(let error):
          state.isFinished = true
          return (.failure(error), nil, nil)
        case nil:
          guard state.reader == nil else { return (.failure(Self.isRead), nil, nil) }
          state.reader = continuation
          state.readerPriority = priority
          return (nil, nil, nil)
        }
      }
      if let pause { exchange?.setPaused(pause) }
      if let answer { continuation.resume(with: answer) }
    }
  }
}
