internal import LupineBase
internal import LupineEngine
internal import LupineIO

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
    BodyStream(run: { write in
      try await run { chunk in
        observe(chunk)
        return await write(chunk)
      }
    })
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
    }
  }

  /// Reads the body, whatever it is: `take` is given one chunk after another, none of them empty, and says whether it wants more. For
  /// transports and recorders; a stream that is not replayable is used up.
  ///
  /// - Throws: `SessionError`: `.fileFailed` when the file cannot be read or is shorter than it was announced to be,
  ///   `.requestBodyFailed` when a stream throws or has another length than announced.
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
    case .file(let path, let offset, let length): try await Self.readFile(path, offset, length, take)
    case .stream(let length, _, let makeStream): try await Self.read(makeStream(), length, take)
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

  private static func read(
    _ stream: BodyStream, _ length: Int64?, _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) {
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
      throw SessionError(
        .requestBodyFailed, phase: .send, message: "the body sequence threw: \(error)", underlying: error)
    }
    let (count, isStopped) = state.withLock { $0 }
    if let length, count > length || count < length && !isStopped {
      throw SessionError(
        .requestBodyFailed, phase: .send, message: "the body was announced with \(length) bytes and has \(count)")
    }
  }

  private static func readFile(
    _ path: String, _ start: Int64, _ length: Int64?, _ take: @escaping @Sendable ([UInt8]) async -> Bool
  ) async throws(SessionError) {
    let file = try await onFileThread(path) { () throws(IOError) in try File.open(path) }
    var offset = start
    var left = length ?? .max
    while left > 0 {
      let (place, count) = (offset, Int(min(left, Int64(chunkSize))))
      let chunk = try await onFileThread(path) { () throws(IOError) in try file.read(at: place, count: count) }
      guard !chunk.isEmpty else { break }
      guard await take(chunk) else { return }
      offset += Int64(chunk.count)
      left -= Int64(chunk.count)
    }
    if length != nil, left > 0 {
      throw SessionError(.fileFailed, phase: .send, message: "\(path) is \(left) bytes shorter than the body asks for")
    }
  }

  private static func onFileThread<Value: Sendable>(
    _ path: String, _ job: @escaping @Sendable () throws(IOError) -> Value
  ) async throws(SessionError) -> Value {
    let threads: FileThreads
    do throws(IOError) {
      threads = try Engine.processFiles.get()
    } catch {
      throw SessionError(.system, phase: .file, message: "no thread for files: \(error)", underlying: error)
    }
    let result = await withCheckedContinuation { continuation in
      threads.run(job) { result in continuation.resume(returning: result) }
    }
    do throws(IOError) {
      return try result.get()
    } catch {
      throw SessionError(.fileFailed, phase: .send, message: "cannot read \(path): \(error)", underlying: error)
    }
  }
}
