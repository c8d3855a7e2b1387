internal import Synchronization
internal import LupineBase
internal import LupineRules

/// A response body as it arrives. Iterating it yields bytes; `chunks` and `lines` are faster for most work.
///
/// Back-pressure: when the reader is 256 KiB behind (`SessionConfiguration.bodyWatermarks`), the socket is not read. Letting go of the body, or cancelling the task that
/// reads it, cancels the request. One reader at a time: where one waits for more, another one that would have to wait as well throws `SessionError` with
/// `.unknown`, and the first goes on.
public struct ResponseBytes: AsyncSequence, Sendable {
  /// A byte.
  public typealias Element = UInt8
  /// A `SessionError`; of a reader whose Swift task is cancelled one with `.cancelled`, and no `CancellationError`.
  public typealias Failure = any Error

  let source: BodySource

  /// The response with trailers and metrics; nil until the body has ended.
  public var finalResponse: Response? { source.consumer.finalResponse }

  /// The body in the pieces in which it arrived.
  public var chunks: Chunks { Chunks(source: source) }

  /// The body as lines of UTF-8, without their ends (LF or CRLF), each of at most 1 MiB; see `lines(upTo:)`.
  public var lines: Lines { lines(upTo: 1 << 20) }

  /// The body as lines of UTF-8, without their ends (LF or CRLF). Invalid UTF-8 is repaired.
  ///
  /// A line that is longer is an error, `.bodyTooLarge`, as soon as that is known, and the request is cancelled: whatever the server sends, no more is held.
  ///
  /// - Parameter limit: the most bytes of a line as they came, its end left out. Below 0 counts as 0.
  public func lines(upTo limit: Int) -> Lines { Lines(source: source, limit: limit) }

  /// Collects the rest of the body.
  ///
  /// - Throws: `SessionError` with `.bodyTooLarge` past `limit` bytes, or whatever ends the body early.
  public func collect(upTo limit: Int) async throws -> [UInt8] {
    var all: [UInt8] = []
    while let chunk = try await source.next() {
      guard all.count + chunk.count <= limit else {
        throw source.refusal("the body is larger than \(limit) bytes")
      }
      all += chunk
    }
    return all
  }

  /// Iterates byte by byte.
  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(source: source)
  }

  /// Iterates byte by byte over buffered chunks.
  public struct AsyncIterator: AsyncIteratorProtocol {
    let source: BodySource
    private var chunk: [UInt8] = []
    private var index = 0

    init(source: BodySource) {
      self.source = source
    }

    /// The next byte; nil at the end.
    public mutating func next() async throws -> UInt8? {
      while index == chunk.count {
        guard let next = try await source.next() else { return nil }
        chunk = next
        index = 0
      }
      defer { index += 1 }
      return chunk[index]
    }
  }

  /// The body in the pieces in which it arrived.
  public struct Chunks: AsyncSequence, Sendable {
    /// A piece of the body, never empty.
    public typealias Element = [UInt8]
    /// A `SessionError`; of a reader whose Swift task is cancelled one with `.cancelled`, and no `CancellationError`.
    public typealias Failure = any Error

    let source: BodySource

    /// Iterates piece by piece.
    public func makeAsyncIterator() -> AsyncIterator {
      AsyncIterator(source: source)
    }

    /// Iterates piece by piece.
    public struct AsyncIterator: AsyncIteratorProtocol {
      let source: BodySource

      /// The next piece, never empty; nil at the end.
      public mutating func next() async throws -> [UInt8]? {
        try await source.next()
      }
    }
  }
}

/// Holds a body's reader and its request together: when the last holder goes, the request is cancelled.
final class BodySource: Sendable {
  let consumer: StreamConsumer
  private let run: TaskRun

  init(consumer: StreamConsumer, run: TaskRun) {
    self.consumer = consumer
    self.run = run
  }

  deinit {
    run.cancel()
  }

  /// Gives the request up because of what its body is.
  func refusal(_ message: String) -> SessionError {
    run.cancel()
    return SessionError(
      .bodyTooLarge, phase: .receive, message: message, failingURL: run.currentURL.requestString,
      requestBytesSent: true)
  }

  func next() async throws -> [UInt8]? {
    try await withTaskCancellationHandler {
      try await consumer.next()
    } onCancel: {
      run.cancel()
    }
  }
}

extension Session {
  /// Fetches a request and returns as soon as its head is there; the body follows as it is read.
  ///
  /// - Returns: the body, and the response, as yet without trailers: see `ResponseBytes.finalResponse`.
  /// - Throws: `SessionError`; what goes wrong later is thrown by the body.
  public func bytes(
    for request: Request, delegate: (any SessionTaskDelegate)? = nil
  ) async throws -> (ResponseBytes, Response) {
    try checkValid(request)
    let cancellation = CancellationRelay<TaskRun> { $0.cancel() }
    let parts = PartsBox()
    let response = try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let consumer = StreamConsumer(head: continuation, watermarks: bodyWatermarks)
        let run = TaskRun(request, session: self, consumer: consumer, isObserved: isObserved(delegate))
        parts.source.withLock { $0 = BodySource(consumer: consumer, run: run) }
        cancellation.attach(run)
        launch(run, delegate)
      }
    } onCancel: {
      cancellation.cancel()
    }
    guard let source = parts.source.withLock({ $0 }) else {
      preconditionFailure("the continuation ran without its body")
    }
    return (ResponseBytes(source: source), response)
  }
}

/// Carries the body out of the continuation's closure.
private final class PartsBox: Sendable {
  let source = LockedStorage<BodySource?>(nil)
}
