internal import HTTPTypes
internal import LupineBase
internal import LupineEngine
internal import LupineIO
package import LupineWire

extension BodyStream {
  /// Runs the producer: `take` is given one chunk after another, none of them empty, and says whether it wants more. For transports;
  /// a stream is read once.
  ///
  /// - Throws: what the producer throws.
  public func forEachChunk(_ take: @escaping @Sendable ([UInt8]) async -> Bool) async throws {
    try await run { chunk in chunk.isEmpty ? true : await take(chunk) }
  }

  /// The same stream, whose chunks are shown to `observe` before they go on.
  public func observed(by observe: @escaping @Sendable ([UInt8]) -> Void) -> BodyStream {
    observed(by: observe, atEnd: {})
  }

  /// - Parameters:
  ///   - atEnd: called when the stream has ended well, and whoever reads it has taken all of it.
  ///   - note: called with the trailer fields, if any are given, before they go on.
  package func observed(
    by observe: @escaping @Sendable ([UInt8]) -> Void, atEnd: @escaping @Sendable () -> Void,
    trailers note: (@Sendable ([(name: String, value: String)]) -> Void)? = nil
  ) -> BodyStream {
    var trailers = self.trailers
    if let note, let give = self.trailers {
      trailers = {
        let given = try await give()
        note(given.map { ($0.name.rawName, $0.value) })
        return given
      }
    }
    return BodyStream(
      run: { write in
        let isStopped = Locked(false)
        try await run { chunk in
          observe(chunk)
          let wantsMore = await write(chunk)
          if !wantsMore { isStopped.withLock { $0 = true } }
          return wantsMore
        }
        if !isStopped.withLock({ $0 }), !Task.isCancelled { atEnd() }
      }, trailers: trailers)
  }

  /// The same stream, in chunks of at most `packetSize` bytes with a pause of `delay` after each: an upload that leaves a slow line to others.
  public func paced(packetSize: Int, delay: Duration) -> BodyStream {
    let size = max(1, packetSize)
    return BodyStream(
      run: { write in
        let failure = Locked<(any Error)?>(nil)
        try await run { chunk in
          var rest = chunk[...]
          while !rest.isEmpty {
            guard await write(Array(rest.prefix(size))) else { return false }
            rest = rest.dropFirst(size)
            do {
              if delay > .zero { try await Task.sleep(for: delay.saturated) }
            } catch {
              failure.withLock { $0 = error }
              return false
            }
          }
          return true
        }
        if let error = failure.withLock({ $0 }) { throw error }
      }, trailers: trailers)
  }
}

extension Request.Body {
  /// Bytes of a chunk that is read from a file, or cut from bytes in memory.
  private static let chunkSize = 64 * 1024

  /// The length if it is known without looking: 0 of none, nil of a stream without one and of a file read to its end.
  public var knownLength: Int64? {
    switch self {
    case .none: 0
    case .bytes(let bytes): Int64(bytes.count)
    case .file(_, _, let length): length
    case .stream(let length, _, _): length
    case .segments(let segments): Self.sum(segments, \.knownLength)
    }
  }

  /// The length that a head would announce, for which files are looked at now; nil: it goes in chunks, or cannot be sent.
  package var announcedLength: Int64? {
    if case .segments(let segments) = self { return Self.sum(segments, \.announcedLength) }
    guard case .file(let path, let offset, nil) = self else { return knownLength }
    guard let size = (try? File.open(path).size()) ?? nil, offset >= 0, offset <= size else { return nil }
    return size - offset
  }

  /// How the body goes with a request of this method, for which files are looked at now.
  ///
  /// - Parameter hasTrailers: fields follow it, as they can behind chunks alone.
  package func framing(of method: String, hasTrailers: Bool) -> RequestFraming {
    if case .none = self { return .withoutBody(method) }
    guard !hasTrailers, let length = announcedLength else { return .chunked }
    return .length(length)
  }

  private static func sum(_ segments: [Segment], _ length: (Self) -> Int64?) -> Int64? {
    var total: Int64 = 0
    for segment in segments {
      guard let length = length(segment.body) else { return nil }
      let (sum, isTooLarge) = total.addingReportingOverflow(length)
      guard !isTooLarge else { return nil }
      total = sum
    }
    return total
  }

  /// Whether a second request can carry it: anything but a stream that can be made only once.
  public var isReplayable: Bool {
    switch self {
    case .none, .bytes, .file: true
    case .stream(_, let isReplayable, _): isReplayable
    case .segments(let segments): segments.allSatisfy(\.body.isReplayable)
    }
  }

  /// Whether a stream is in it: then only the transport sees its bytes.
  package var hasStream: Bool {
    switch self {
    case .none, .bytes, .file: false
    case .stream: true
    case .segments(let segments): segments.contains { $0.body.hasStream }
    }
  }

  /// The body as a stream, whatever it is, with the trailer fields that it has. One that is not replayable is used up by reading it.
  public func makeStream() -> BodyStream {
    guard case .stream(let length, _, let makeStream) = self else {
      return BodyStream(run: { write in try await forEachChunk(write) })
    }
    let stream = makeStream()
    guard let length else { return stream }
    return BodyStream(
      run: { write in _ = try await Self.read(stream, length, write) }, trailers: stream.trailers)
  }

  /// Reads the body, whatever it is: `take` is given one chunk after another, none of them empty, and says whether it wants more. For
  /// transports and recorders; a stream that is not replayable is used up.
  ///
  /// - Throws: `SessionError`: `.fileFailed` when the file cannot be read or is shorter than it was announced to be, `.fileChanged` when a
  ///   segment's file has not the size that it must have, `.requestBodyFailed` when a stream throws or has another length than announced,
  ///   `.cancelled` when the task is cancelled before a stream has ended. Trailer fields are not asked for; see `TransportRequest.readBody(_:)`.
  public func forEachChunk(_ take: @escaping @Sendable ([UInt8]) async -> Bool) async throws(SessionError) {
    switch self {
    case .none: break
    case .bytes(let bytes):
      var offset = 0
      while offset < bytes.count {
        let end = min(bytes.count, offset + Self.chunkSize)
        guard await take(Array(bytes[offset..<end])) else { return }
        offset = end
      }
    case .file(let path, let offset, let length): try await Self.readFile(path, offset, length, nil, take)
    case .stream(let length, _, let makeStream): _ = try await Self.read(makeStream(), length, take)
    case .segments(let segments):
      let isStopped = Locked(false)
      for segment in segments where !isStopped.withLock({ $0 }) {
        try await segment.forEachChunk { chunk in
          let wantsMore = await take(chunk)
          if !wantsMore { isStopped.withLock { $0 = true } }
          return wantsMore
        }
      }
    }
  }

  fileprivate static func readSegment(
    _ segment: Segment, _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) {
    switch segment {
    case .bytes: try await segment.body.forEachChunk(take)
    case .file(let path, let offset, let length, let fileSize):
      try await readFile(path, offset, length, fileSize, take)
    case .stream(let length, _, let makeStream):
      let stream = makeStream()
      try stream.checkTrailers(announced: [])
      _ = try await read(stream, length, take)
    }
  }

  /// Collects the body.
  ///
  /// - Throws: as `forEachChunk`, and `SessionError` with `.bodyTooLarge` past `limit` bytes.
  public func collect(upTo limit: Int) async throws(SessionError) -> [UInt8] {
    let collected = Locked<(bytes: [UInt8], isTooLarge: Bool)>(([], false))
    try await forEachChunk { chunk in
      collected.withLock { collected in
        collected.isTooLarge = chunk.count > limit - collected.bytes.count
        if !collected.isTooLarge { collected.bytes += chunk }
        return !collected.isTooLarge
      }
    }
    let (bytes, isTooLarge) = collected.withLock { $0 }
    guard !isTooLarge else {
      throw SessionError(.bodyTooLarge, phase: .send, message: "the request body is larger than \(limit) bytes")
    }
    return bytes
  }

  /// - Returns: whether the stream was read to its end.
  static func read(
    _ stream: BodyStream, _ length: Int64?, _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) -> Bool {
    let state = Locked<(count: Int64, isStopped: Bool)>((0, false))
    do {
      try await stream.forEachChunk { chunk in
        let count = state.withLock { state in
          state.count += Int64(chunk.count)
          return state.count
        }
        guard length.map({ count <= $0 }) ?? true, await take(chunk) else {
          state.withLock { $0.isStopped = true }
          return false
        }
        return true
      }
    } catch {
      try checkCancellation(false)
      // Of a form behind a stream, one that is throttled or has trailer fields.
      if let own = error as? SessionError, own.isOfBody { throw own }
      throw SessionError(
        .requestBodyFailed, phase: .send, message: "the body sequence threw: \(error)", underlying: error)
    }
    let (count, isStopped) = state.withLock { $0 }
    try checkCancellation(isStopped)
    if let length, count > length || count < length && !isStopped {
      throw SessionError(
        .requestBodyFailed, phase: .send, message: "the body was announced with \(length) bytes and has \(count)")
    }
    return !isStopped
  }

  /// A sequence that just ends when its task is cancelled has not been read to its end.
  static func checkCancellation(_ isStopped: Bool) throws(SessionError) {
    guard Task.isCancelled, !isStopped else { return }
    throw SessionError(.cancelled, phase: .send, message: "the task that read the body was cancelled")
  }

  private static func readFile(
    _ path: String, _ start: Int64, _ length: Int64?, _ fileSize: Int64?,
    _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) {
    let file = try await onFileThread("cannot read \(path)", .send) { () throws(IOError) in try File.open(path) }
    try await check(path, file, fileSize)
    var offset = start
    var left = length ?? .max
    while left > 0 {
      let (place, count) = (offset, Int(min(left, Int64(chunkSize))))
      let chunk = try await onFileThread("cannot read \(path)", .send) { () throws(IOError) in
        try file.read(at: place, count: count)
      }
      // Looked at before the last bytes are handed on, as the network does.
      if left == Int64(chunk.count) || chunk.isEmpty { try await check(path, file, fileSize) }
      guard !chunk.isEmpty else { break }
      guard await take(chunk) else { return }
      offset += Int64(chunk.count)
      left -= Int64(chunk.count)
    }
    if length != nil, left > 0 {
      throw SessionError(.fileFailed, phase: .send, message: "\(path) is \(left) bytes shorter than the body asks for")
    }
  }

  private static func check(_ path: String, _ file: File, _ fileSize: Int64?) async throws(SessionError) {
    guard let fileSize else { return }
    let size = try await onFileThread("cannot read \(path)", .send) { () throws(IOError) in try file.size() }
    guard size == fileSize else { throw SessionError.fileChanged(path, from: fileSize, to: size ?? -1, phase: .send) }
  }

  static func onFileThread<Value: Sendable>(
    _ what: String, _ phase: SessionError.Phase = .file, _ job: @escaping @Sendable () throws(IOError) -> Value
  ) async throws(SessionError) -> Value {
    let threads = try Engine.downloadThreads()
    let result = await withCheckedContinuation { continuation in
      threads.run(job) { result in continuation.resume(returning: result) }
    }
    do throws(IOError) {
      return try result.get()
    } catch {
      throw SessionError(.fileFailed, phase: phase, message: "\(what): \(error)", underlying: error)
    }
  }
}

extension Request.Body.Segment {
  /// The same as a whole body; what a file must be like is left out.
  var body: Request.Body {
    switch self {
    case .bytes(let bytes): .bytes(bytes)
    case .file(let path, let offset, let length, _): .file(path: path, offset: offset, length: length)
    case .stream(let length, let isReplayable, let makeStream):
      .stream(length: length, isReplayable: isReplayable, makeStream: makeStream)
    }
  }

  func forEachChunk(_ take: @escaping @Sendable ([UInt8]) async -> Bool) async throws(SessionError) {
    try await Request.Body.readSegment(self, take)
  }
}

extension SessionError {
  /// Whether a body that is read through a stream says it of itself: of its files, its length, what follows it. What another request ended with, whose body
  /// is passed on, names the URL of that one: its code would say that it had happened to the request which sends the body.
  var isOfBody: Bool {
    failingURL == nil && [Code.fileFailed, .fileChanged, .requestBodyFailed, .badTrailers, .system].contains(code)
  }

  static func fileChanged(_ path: String, from expected: Int64, to actual: Int64, phase: Phase) -> SessionError {
    SessionError(
      .fileChanged, phase: phase,
      message: "\(path) had \(expected) bytes when it was added to the body, and has \(actual) now")
  }
}
