internal import Synchronization
internal import FoundationEssentials
internal import LupineBase

/// Collects a body in memory, up to a limit, and tells who waits for it.
final class BufferConsumer: ResponseConsumer {
  private struct State {
    /// In the form in which it is handed out: of a body of a gigabyte even one copy more is a second, and `Data` grows in place.
    var bytes = Data()
    /// What the head announces; 0 if nothing.
    var expected = 0
    var isTooLarge = false
    var completion: (@Sendable (Result<(Data, Response), SessionError>) -> Void)?

    mutating func append(_ span: Span<UInt8>) {
      // Announced lengths are the peer's word: reserve for them within reason only. Most bodies come whole, and need none.
      if bytes.isEmpty, span.count < expected { bytes.reserveCapacity(min(expected, 1 << 20)) }
      unsafe span.withUnsafeBufferPointer { unsafe bytes.append($0) }
    }
  }

  private let state: LockedStorage<State>
  private let limit: Int

  init(limit: Int, completion: @escaping @Sendable (Result<(Data, Response), SessionError>) -> Void) {
    self.limit = max(0, limit)
    state = LockedStorage(State(completion: completion))
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
    let (bytes, isTooLarge, completion) = state.withLock { state in
      defer {
        state.completion = nil
        state.bytes = Data()
      }
      return (state.bytes, state.isTooLarge, state.completion)
    }
    switch result {
    case .success(let response) where isTooLarge:
      // The rest had arrived before the cancellation did.
      var error = SessionError(.bodyTooLarge, phase: .receive, message: "", failingURL: response.urlString)
      error.requestBytesSent = true
      error.response = response
      error.requestHead = response.requestHead
      error.metrics = response.metrics
      completion?(.failure(tooLarge(error, bytes)))
    case .success(let response): completion?(.success((bytes, response)))
    case .failure(var error):
      error.partialBody = [UInt8](bytes)
      completion?(.failure(isTooLarge ? tooLarge(error, bytes) : error))
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
