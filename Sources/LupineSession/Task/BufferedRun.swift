internal import Synchronization
internal import FoundationEssentials
internal import LupineBase

/// A task that collects its body in memory, up to a limit, and tells who waits for it. It is a consumer of its own: of the many small tasks
/// each object is a part of the cost.
final class BufferedRun: TaskRun, @unchecked Sendable {
  typealias Outcome = Result<(Data, Response), SessionError>

  /// A function in a structure passes generic code as it is; alone it would be wrapped on the way in, and once more on the way out.
  private struct Completion: Sendable {
    let call: @Sendable (Outcome) -> Void
  }

  private struct Buffer {
    /// In the form in which it is handed out: of a body of a gigabyte even one copy more is a second, and `Data` grows in place.
    var bytes = Data()
    /// What the head announces; 0 if nothing.
    var expected = 0
    /// How many bytes may come.
    var limit: Int
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

  private let buffer: LockedStorage<Buffer>
  private let place: Waiter.Place

  /// Calls `completion` once.
  init(
    _ request: Request, session: Session, kind: Kind = .data, isObserved: Bool = false, takesAnswersAtOnce: Bool = true,
    completion: @escaping @Sendable (Outcome) -> Void
  ) {
    place = .here
    buffer = LockedStorage(Buffer(limit: Self.limit(of: request, session), completion: Completion(call: completion)))
    super.init(
      request, session: session, consumer: nil, kind: kind, isObserved: isObserved,
      takesAnswersAtOnce: takesAnswersAtOnce)
  }

  /// For who will `attach`, and then `takeOutcome`.
  init(
    _ request: Request, session: Session, kind: Kind, isObserved: Bool, onSent: (@Sendable (Int) -> Void)?,
    resuming place: Waiter.Place
  ) {
    self.place = place
    buffer = LockedStorage(Buffer(limit: Self.limit(of: request, session)))
    super.init(
      request, session: session, consumer: nil, kind: kind, isObserved: isObserved, onSent: onSent)
  }

  private static func limit(of request: Request, _ session: Session) -> Int {
    max(0, request.maximumBufferedBodySize ?? session.configuration.maximumBufferedBodySize)
  }

  /// Wakes `waiter` when the end has come, which may be now.
  func attach(_ waiter: Waiter) {
    let hasEnded = buffer.withLock { buffer in
      buffer.waiter = waiter
      return buffer.outcome != nil
    }
    if hasEnded { waiter.wake(of: self, at: place) }
  }

  /// What a `Waiter` asks for in its time.
  func resumeWaiter() {
    buffer.withLock { $0.waiter.take() }?.resume()
  }

  /// For the waiter, once, when it was woken.
  func takeOutcome() throws(SessionError) -> (Data, Response) {
    guard let outcome = buffer.withLock({ $0.outcome.take() }) else {
      preconditionFailure("a waiter takes the outcome once, after the end")
    }
    return try outcome.get()
  }

  override func take(_ response: Response) {
    guard let length = response.expectedContentLength, length > 0 else { return }
    let isExcess = buffer.withLock { buffer -> Bool in
      guard length <= buffer.limit else { return true }
      buffer.expected = Int(length)
      return false
    }
    if isExcess { expectExcess(response) }
  }

  /// More is announced than may come: of a body that is not decoded, which may be none, no more is taken than may explain it.
  @inline(never)
  private func expectExcess(_ response: Response) {
    let isCoded = response.decodedLength(isDecoded: true) == nil
    buffer.withLock { buffer in
      if !isCoded { buffer.limit = min(buffer.limit, SessionConfiguration.excessLimit) }
      buffer.expected = buffer.limit
    }
  }

  override func take(body bytes: Span<UInt8>) {
    let isTooLarge = buffer.withLock { buffer -> Bool in
      guard !buffer.isTooLarge else { return false }
      let room = buffer.limit - buffer.bytes.count
      guard bytes.count > room else {
        buffer.append(bytes)
        return false
      }
      buffer.append(bytes.extracting(first: room))
      buffer.isTooLarge = true
      return true
    }
    if isTooLarge {
      // At once, so that what was read already is not decoded to its end for nobody.
      setPaused(.final)
      cancel()
    }
  }

  override var isBodyTooLarge: Bool { buffer.withLock { $0.isTooLarge } }

  override func takeEnd(_ result: Result<Response, SessionError>) {
    var bytes = Data()
    var isTooLarge = false
    var waiter: Waiter?
    let completion = buffer.withLock { buffer -> Completion? in
      swap(&bytes, &buffer.bytes)
      isTooLarge = buffer.isTooLarge
      if let completion = buffer.completion.take() { return completion }
      buffer.outcome = outcome(of: result, bytes, isTooLarge)
      waiter = buffer.waiter
      return nil
    }
    if let completion {
      completion.call(outcome(of: result, bytes, isTooLarge))
    } else {
      waiter?.wake(of: self, at: place)
    }
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
    let limit = Self.limit(of: request, session)
    error.message =
      "the body is larger than \(limit) bytes; see SessionConfiguration.maximumBufferedBodySize, or use bytes(for:)"
    error.underlying = nil
    error.partialBody = [UInt8](bytes)
    return error
  }
}
