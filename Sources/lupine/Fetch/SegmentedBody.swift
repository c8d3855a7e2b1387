/// A body made of pieces in memory and files, read while it is sent.
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
      case .file(let path):
        let open = try file ?? InputFile(path)
        file = open
        return try open.read(upTo: SegmentedBody.chunkSize)
      case .open(let file):
        return try file.read(upTo: SegmentedBody.chunkSize)
      case .standardInput:
        return try System.read(System.Stream.input.rawValue, upTo: SegmentedBody.chunkSize, name: "standard input")
      }
    }
  }
}
