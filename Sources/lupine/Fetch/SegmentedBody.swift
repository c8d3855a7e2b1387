/// A body made of pieces in memory and files, read while it is sent.
struct SegmentedBody: AsyncSequence, Sendable {
  typealias Element = [UInt8]
  typealias Failure = any Error

  enum Segment: Sendable, Equatable {
    case bytes([UInt8])
    /// With a size, exactly so many bytes: a file that grows meanwhile does not break the announced length.
    case file(path: String, size: Int64?)
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
    var remaining: Int64?
    var offset = 0

    mutating func next() async throws -> [UInt8]? {
      while let segment = segments.first {
        let chunk = try read(segment)
        if !chunk.isEmpty { return chunk }
        segments = segments.dropFirst()
        file = nil
        offset = 0
      }
      return nil
    }

    private mutating func read(_ segment: Segment) throws -> [UInt8] {
      switch segment {
      case .bytes(let bytes):
        let chunk = Array(bytes.dropFirst(offset).prefix(SegmentedBody.chunkSize))
        offset += chunk.count
        return chunk
      case .file(let path, let size):
        if file == nil {
          file = try InputFile(path)
          remaining = size
        }
        guard let file else { return [] }
        let limit = Int(Swift.min(remaining ?? .max, Int64(SegmentedBody.chunkSize)))
        guard limit > 0 else { return [] }
        let chunk = try file.read(upTo: limit)
        remaining = remaining.map { $0 - Int64(chunk.count) }
        return chunk
      case .standardInput:
        return try System.read(System.Stream.input.rawValue, upTo: SegmentedBody.chunkSize, name: "standard input")
      }
    }
  }
}
