internal import LupineRules

extension ResponseBytes {
  /// The body as lines.
  public struct Lines: AsyncSequence, Sendable {
    /// A line without its end.
    public typealias Element = String
    /// A `SessionError`; of a reader whose Swift task is cancelled one with `.cancelled`, and no `CancellationError`.
    public typealias Failure = any Error

    let source: BodySource
    let limit: Int

    /// Iterates line by line.
    public func makeAsyncIterator() -> AsyncIterator {
      AsyncIterator(source: source, limit: limit)
    }

    /// Iterates line by line.
    public struct AsyncIterator: AsyncIteratorProtocol {
      private let source: BodySource
      private var scanner: LineScanner
      private var chunk: [UInt8] = []
      private var index = 0
      private var hasEnded = false
      private var isOver = false

      init(source: BodySource, limit: Int) {
        self.source = source
        scanner = LineScanner(limit: limit)
      }

      private enum Step {
        case line(String)
        case more
        case over
        case failed(SessionError)
      }

      /// The next line; nil at the end. A last line without an end counts, an empty one does not.
      ///
      /// - Throws: `SessionError` with `.bodyTooLarge` for a line that is longer than the limit, nil after that; whatever ends the body early.
      public mutating func next() async throws -> String? {
        while true {
          switch step() {
          case .line(let line): return line
          case .more: try await receive()
          case .over: return nil
          case .failed(let error): throw error
          }
        }
      }

      private mutating func receive() async throws {
        do {
          if let next = try await source.next() {
            chunk = next
            index = 0
          } else {
            hasEnded = true
          }
        } catch {
          // What is left of a body that was cut is no line.
          isOver = true
          throw error
        }
      }

      // A function of its own: inlined into a coroutine it is what the optimizer for size (Swift 6.3) cannot split.
      @inline(never)
      private mutating func step() -> Step {
        guard !isOver else { return .over }
        do {
          if let line = try scanner.next(in: chunk, from: &index) {
            return .line(String(decoding: line, as: UTF8.self))
          }
          guard hasEnded else { return .more }
          isOver = true
          return try scanner.rest().map { .line(String(decoding: $0, as: UTF8.self)) } ?? .over
        } catch {
          return .failed(refusal(error))
        }
      }

      private mutating func refusal(_ error: StreamLimitExceeded) -> SessionError {
        isOver = true
        return source.refusal("a line of the body is longer than \(error.limit) bytes; see ResponseBytes.lines(upTo:)")
      }
    }
  }
}
