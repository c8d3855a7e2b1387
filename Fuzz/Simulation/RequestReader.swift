internal import LupineBase

/// Reads the requests of a client: a small strict reader of its own, because it judges what the client writes.
///
/// The target of a request is `/` and its number.
package struct RequestReader {
  package struct Head {
    package var number = -1
    package var method = ""
    package var length = 0
    package var isChunked = false
    package var expectsContinue = false

    package var hasBody: Bool { isChunked || length > 0 }
  }

  package enum Event {
    case head(Head)
    case body([UInt8])
    case end
    /// What the client sent is no request.
    case malformed(String)
  }

  private enum State {
    case head
    case length(Int)
    case chunkSize
    case chunk(Int)
    case chunkEnd
    case trailers
    case broken
  }

  private var state = State.head
  private var waiting: [UInt8] = []

  package init() {}

  /// Whether a request has begun and not ended.
  package var isInside: Bool {
    if case .head = state { !waiting.isEmpty } else { true }
  }

  package mutating func read(_ bytes: Span<UInt8>, _ sink: (Event) -> Void) {
    waiting += [UInt8](bytes)
    while step(sink) {}
  }

  private mutating func step(_ sink: (Event) -> Void) -> Bool {
    switch state {
    case .broken: return false
    case .head:
      guard let headEnd = find([13, 10, 13, 10]) else { return false }
      let head = parse(waiting[..<headEnd])
      waiting.removeFirst(headEnd + 4)
      guard let head else { return malformed(sink) }
      sink(.head(head))
      state = head.isChunked ? .chunkSize : .length(head.length)
      if !head.hasBody { end(sink) }
    case .length(let left):
      guard !waiting.isEmpty else { return false }
      let piece = take(left, sink)
      state = .length(left - piece)
      if left == piece { end(sink) }
    case .chunkSize:
      guard let line = takeLine() else { return false }
      guard let size = Int(line, radix: 16), size >= 0 else { return malformed(sink) }
      state = size == 0 ? .trailers : .chunk(size)
    case .chunk(let left):
      guard !waiting.isEmpty else { return false }
      let piece = take(left, sink)
      state = left == piece ? .chunkEnd : .chunk(left - piece)
    case .chunkEnd:
      guard let line = takeLine() else { return false }
      guard line.isEmpty else { return malformed(sink) }
      state = .chunkSize
    case .trailers:
      guard let line = takeLine() else { return false }
      if line.isEmpty { end(sink) }
    }
    return true
  }

  private mutating func end(_ sink: (Event) -> Void) {
    state = .head
    sink(.end)
  }

  private mutating func malformed(_ sink: (Event) -> Void) -> Bool {
    state = .broken
    sink(.malformed(String(decoding: waiting.prefix(60), as: UTF8.self)))
    return false
  }

  private mutating func take(_ most: Int, _ sink: (Event) -> Void) -> Int {
    let piece = Array(waiting.prefix(most))
    waiting.removeFirst(piece.count)
    sink(.body(piece))
    return piece.count
  }

  private mutating func takeLine() -> String? {
    guard let end = find([13, 10]) else { return nil }
    let line = String(decoding: waiting[..<end], as: UTF8.self)
    waiting.removeFirst(end + 2)
    return line
  }

  private func find(_ mark: [UInt8]) -> Int? {
    guard waiting.count >= mark.count else { return nil }
    return (0...waiting.count - mark.count).first { start in
      waiting[start] == mark[0] && waiting[start..<start + mark.count].elementsEqual(mark)
    }
  }

  private func parse(_ bytes: ArraySlice<UInt8>) -> Head? {
    let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
    let words = lines[0].split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, words[2] == "HTTP/1.1", words[1].hasPrefix("/"), let number = Int(words[1].dropFirst())
    else { return nil }
    var head = Head()
    head.number = number
    head.method = String(words[0])
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { return nil }
      let value = line[line.index(after: colon)...].drop { $0 == " " }
      switch line[..<colon].lowercased() {
      case "content-length":
        guard let length = Int(value), length >= 0 else { return nil }
        head.length = length
      case "transfer-encoding":
        guard value == "chunked" else { return nil }
        head.isChunked = true
      case "expect": head.expectsContinue = value == "100-continue"
      default: break
      }
    }
    return head.isChunked && head.length > 0 ? nil : head
  }
}
