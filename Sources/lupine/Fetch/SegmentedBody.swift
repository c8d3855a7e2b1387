import Dispatch

/// A body made of pieces in memory and files, read while it is sent.
///
/// What is read may be a pipe that says nothing for long, so it is read on a queue of its own and never on a thread of the concurrency pool.
struct SegmentedBody: AsyncSequence, Sendable {
  typealias Element = [UInt8]
  typealias Failure = any Error

  enum Segment: Sendable {
    case bytes([UInt8])
    case file(path: String)
    /// Open, because a pipe can be opened only once.
    case open(InputFile)
    case standardInput
  }

  static let chunkSize = 64 * 1024

  private let segments: [Segment]

  init(_ segments: [Segment]) {
    self.segments = segments
  }

  func makeAsyncIterator() -> AsyncIterator { AsyncIterator(segments: segments[...]) }

  struct AsyncIterator: AsyncIteratorProtocol {
    var segments: ArraySlice<Segment>
    var file: InputFile?
    var offset = 0
    private let queue = DispatchQueue(label: "lupine.body")

    init(segments: ArraySlice<Segment>) {
      self.segments = segments
    }

    mutating func next() async throws -> [UInt8]? {
      while let segment = segments.first {
        let chunk = try await read(segment)
        if !chunk.isEmpty { return chunk }
        segments = segments.dropFirst()
        file = nil
        offset = 0
      }
      return nil
    }

    private mutating func read(_ segment: Segment) async throws -> [UInt8] {
      switch segment {
      case .bytes(let bytes):
        let chunk = Array(bytes.dropFirst(offset).prefix(SegmentedBody.chunkSize))
        offset += chunk.count
        return chunk
      case .file(let path):
        let open = if let file { file } else { try await onQueue { () throws(System.Failure) in try InputFile(path) } }
        file = open
        return try await read(open)
      case .open(let file):
        return try await read(file)
      case .standardInput:
        return try await onQueue { () throws(System.Failure) in
          try System.read(System.Stream.input.rawValue, upTo: SegmentedBody.chunkSize, name: "standard input")
        }
      }
    }

    private func read(_ file: InputFile) async throws -> [UInt8] {
      try await onQueue { () throws(System.Failure) in try file.read(upTo: SegmentedBody.chunkSize) }
    }

    private func onQueue<Value: Sendable>(
      _ work: @escaping @Sendable () throws(System.Failure) -> Value
    ) async throws -> Value {
      try await withCheckedThrowingContinuation { continuation in
        queue.async { continuation.resume(with: Result(catching: work)) }
      }
    }
  }
}
