internal import Synchronization
internal import LupineBase

/// A bounded queue of body chunks between a producer on any thread and the loop that sends them.
///
/// Back-pressure: `write` calls its continuation at once while fewer bytes wait than the high watermark, else when the queue has fallen to the
/// low one. The consumer side belongs to one loop.
package final class BodyChannel: Sendable {
  /// Default watermarks, in bytes.
  package static let lowWatermark = 64 * 1024
  package static let highWatermark = 256 * 1024

  /// Of a chunk so many bytes are handed out at a time: whoever sends them has others to serve.
  static let pieceSize = 256 * 1024

  /// What the sending side finds.
  enum Next {
    /// These bytes of an array.
    case chunk([UInt8], Range<Int>)
    case end(trailers: [(name: String, value: String)])
    case failed(any Error)
    /// Nothing yet; `onAvailable` is called once when there is.
    case empty
  }

  private enum End {
    case finished([(name: String, value: String)])
    case failed(any Error)
  }

  private struct State {
    var chunks = RingBuffer<[UInt8]>()
    /// What is left of a chunk that is longer than a piece.
    var rest: (chunk: [UInt8], offset: Int)?
    var bytes = 0
    var end: End?
    var isClosed = false
    var consumerWaits = false
    var onAvailable: (@Sendable () -> Void)?
    var blockedWriter: (@Sendable (Bool) -> Void)?
    var onClose: (@Sendable () -> Void)?
  }

  private let low: Int
  private let high: Int
  private let state = LockedStorage(State())

  /// - Parameters:
  ///   - low: a writer that was held goes on when no more bytes wait; not above `high`.
  ///   - high: a writer is held when so many bytes wait; at least 1.
  package init(lowWatermark low: Int = BodyChannel.lowWatermark, highWatermark high: Int = BodyChannel.highWatermark) {
    self.low = low
    self.high = high
  }

  /// Adds a chunk. `then` is called with true when more may be written, with false when nobody reads any more; at once or later, on
  /// the caller's thread or on the loop. One write at a time.
  package func write(_ chunk: [UInt8], then: @escaping @Sendable (Bool) -> Void) {
    let (notify, answer): ((@Sendable () -> Void)?, Bool?) = state.withLock { state in
      guard !state.isClosed, state.end == nil else { return (nil, false) }
      if !chunk.isEmpty {
        state.chunks.append(chunk)
        state.bytes += chunk.count
      }
      let notify = state.consumerWaits && !chunk.isEmpty ? state.onAvailable : nil
      if notify != nil { state.consumerWaits = false }
      guard state.bytes >= high else { return (notify, true) }
      state.blockedWriter = then
      return (notify, nil)
    }
    notify?()
    if let answer { then(answer) }
  }

  /// The body is complete; `trailers` are sent if the body is chunked.
  package func finish(trailers: [(name: String, value: String)] = []) {
    end(.finished(trailers))
  }

  /// The body cannot be completed; the request fails with `error`.
  package func fail(_ error: any Error) {
    end(.failed(error))
  }

  /// Names what to call when nobody will read any more, at once if that is so already: a producer that waits for something
  /// else than the channel would never know.
  package func onClose(_ body: @escaping @Sendable () -> Void) {
    let isClosed = state.withLock { state -> Bool in
      if !state.isClosed { state.onClose = body }
      return state.isClosed
    }
    if isClosed { body() }
  }

  private func end(_ end: End) {
    let notify: (@Sendable () -> Void)? = state.withLock { state in
      guard state.end == nil, !state.isClosed else { return nil }
      state.end = end
      guard state.consumerWaits else { return nil }
      state.consumerWaits = false
      return state.onAvailable
    }
    notify?()
  }

  // MARK: The sending side

  /// Names what to call when something arrives after `next` said `.empty`.
  func listen(_ onAvailable: @escaping @Sendable () -> Void) {
    state.withLock { $0.onAvailable = onAvailable }
  }

  func next() -> Next {
    let (next, writer): (Next, (@Sendable (Bool) -> Void)?) = state.withLock { state in
      if let (chunk, offset) = state.rest ?? state.chunks.popFirst().map({ (chunk: $0, offset: 0) }) {
        let piece = offset..<min(chunk.count, offset + Self.pieceSize)
        state.rest = piece.upperBound < chunk.count ? (chunk, piece.upperBound) : nil
        state.bytes -= piece.count
        guard state.bytes <= low, let writer = state.blockedWriter else { return (.chunk(chunk, piece), nil) }
        state.blockedWriter = nil
        return (.chunk(chunk, piece), writer)
      }
      switch state.end {
      case .finished(let trailers): return (.end(trailers: trailers), nil)
      case .failed(let error): return (.failed(error), nil)
      case nil:
        state.consumerWaits = true
        return (.empty, nil)
      }
    }
    writer?(true)
    return next
  }

  /// `next` said `.empty`, and nothing has come since.
  var isAwaited: Bool { state.withLock { $0.consumerWaits } }

  /// Nobody will read any more: a blocked writer is told, and later ones at once.
  package func close() {
    let (writer, onClose): ((@Sendable (Bool) -> Void)?, (@Sendable () -> Void)?) = state.withLock { state in
      state.isClosed = true
      state.chunks.removeAll()
      state.rest = nil
      state.bytes = 0
      state.onAvailable = nil
      defer {
        state.blockedWriter = nil
        state.onClose = nil
      }
      return (state.blockedWriter, state.onClose)
    }
    writer?(false)
    onClose?()
  }
}
