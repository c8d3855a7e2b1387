internal import Synchronization
internal import FoundationEssentials
internal import LupineBase

/// Collects a body in memory, up to a limit, and tells who waits for it.
final class BufferConsumer: ResponseConsumer {
  typealias Outcome = Result<(Data, Response), SessionError>

  /// A function in a structure passes generic code as it is; alone it would be wrapped on the way in, and once more on the way out.
  private struct Completion: Sendable {
    let call: @Sendable (Outcome) -> Void
  }

  private struct State {
    /// In the form in which it is handed out: of a body of a gigabyte even one copy more is a second, and `Data` grows in place.
    var bytes = Data()
    /// What the head announces; 0 if nothing.
    var expected = 0
    var isTooLarge = false
    var completion: Completion?
    /// Is woken, and takes the outcome then: it passes through no other hands.
    var waiter: Waiter?
    /// From the end until the waiter takes it.
    var outcome: Outcome?

    mutating func append(_ span: Span<UInt8>) {
      // Announced lengths are the peer's word: reserve for them within reason only. Most bodies come whole, and need none.
      if bytes.isEmpty, span.count < expected { bytes.reserveCapacity(min(expected, 1 << 20)) }
      unsafe span.withUnsafeBufferPointer { unsafe bytes.append($0) }
    }
  }

  private let state: LockedStorage<State>
  private let limit: Int
  private let place: Waiter.Place

  /// Calls `completion` once.
  init(limit: Int, completion: @escaping @Sendable (Outcome) -> Void) {
    self.limit = max(0, limit)
    place = Waiter.Place(loop: nil, queue: nil)
    state = LockedStorage(State(completion: Completion(call: completion)))
  }

  /// For who will `attach`, and then `take`.
  init(limit: Int, resuming place: Waiter.Place) {
    self.limit = max(0, limit)
    self.place = place
    state = LockedStorage(State())
  }

  /// Wakes `waiter` when the end has come, which may be now.
  func attach(_ waiter: Waiter) {
    let hasEnded = state.withLock { state in
      state.waiter = waiter
      return state.outcome != nil
    }
    if hasEnded { waiter.wake(of: self, at: place) }
  }

  /// What a `Waiter` asks for in its time.
  func resumeWaiter() {
    let waiter = state.withLock { state -> Waiter? in
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume()
  }

  /// For the waiter, once, when it was woken.
  func take() throws(SessionError) -> (Data, Response) {
    let outcome = state.withLock { state -> Outcome? in
      defer { state.outcome = nil }
      return state.outcome
    }
    guard let outcome else { preconditionFailure("a waiter takes the outcome once, after the end") }
    return try outcome.get()
  }

  func receive(_ response: Response, from exchange: any TransportExchange) {
    guard let length = response.expectedContentLength, length > 0 else { return }
    state.withLock { $0.expected = min(Int(clamping: length), limit) }
  }

  func receive(body bytes: Span<UInt8>, from exchange: any TransportExchange) {
    let isTooLarge = state.withLock { state -> Bool in
      guard !state.isTooLarge else { return false }
      let room = limit - state.bytes.count
      guard bytes.count > room else {
        state.append(bytes)
        return false
      }
      state.append(bytes.extracting(first: room))
      state.isTooLarge = true
      return true
    }
    if isTooLarge {
      // At once, so that what was read already is not decoded to its end for nobody.
      exchange.setPaused(.final)
      exchange.cancel()
    }
  }

  func end(_ result: Result<Response, SessionError>) {
    var bytes = Data()
    var completion: Completion?
    let isTooLarge = state.withLock { state in
      swap(&bytes, &state.bytes)
      swap(&completion, &state.completion)
      return state.isTooLarge
    }
    let outcome = outcome(of: result, bytes, isTooLarge)
    if let completion { return completion.call(outcome) }
    let waiter = state.withLock { state in
      state.outcome = outcome
      return state.waiter
    }
    waiter?.wake(of: self, at: place)
  }

  private func outcome(of result: Result<Response, SessionError>, _ bytes: Data, _ isTooLarge: Bool) -> Outcome {
    switch result {
    case .success(let response) where isTooLarge:
      // The rest had arrived before the cancellation did.
      var error = SessionError(.bodyTooLarge, phase: .receive, message: "", failingURL: response.urlString)
      error.requestBytesSent = true
      error.response = response
      error.requestHead = response.requestHead
      error.metrics = response.metrics
      return .failure(tooLarge(error, bytes))
    case .success(let response): return .success((bytes, response))
    case .failure(var error):
      error.partialBody = [UInt8](bytes)
      return .failure(isTooLarge ? tooLarge(error, bytes) : error)
    }
  }

  private func tooLarge(_ error: SessionError, _ bytes: Data) -> SessionError {
    var error = error
    error.code = .bodyTooLarge
    error.phase = .receive
    error.message =
      "the body is larger than \(limit) bytes; see SessionConfiguration.maximumBufferedBodySize, or use bytes(for:)"
    error.underlying = nil
    error.partialBody = [UInt8](bytes)
    return error
  }
}
