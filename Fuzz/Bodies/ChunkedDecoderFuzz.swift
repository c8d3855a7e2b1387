internal import LupineWire

/// Oracle: every split of the input gives the same data, trailers and error; the data is no longer than the input; the same data and
/// trailers, encoded again, decode to themselves.
///
/// The first byte chooses leniency and limits; the rest is the body.
package enum ChunkedDecoderFuzz {
  private struct Outcome: Equatable {
    var data: [UInt8] = []
    var trailers: FieldSection?
    var ended = false
    var consumed = 0
    var error: WireError?
  }

  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    var leniency: WireLeniency = []
    if choice & 1 != 0 { leniency.insert(.bareLineFeedInChunks) }
    if choice & 2 != 0 { leniency.insert(.whitespaceAfterChunkSize) }
    if choice & 4 != 0 { leniency.insert([.bareLineFeed, .obsoleteLineFolding]) }
    var limits = WireLimits()
    if choice & 8 != 0 {
      limits.chunkLine = 10
      limits.chunkExtensions = 16
      limits.trailers = 40
      limits.trailerFields = 3
      limits.fieldLine = 20
    }
    let input = Array(bytes.dropFirst())
    let whole = feed(input, pieces: max(1, input.count), leniency, limits)
    precondition(whole.data.count <= input.count, "more data than input")
    for pieces in [1, 2 + Int(choice >> 4)] {
      let split = feed(input, pieces: pieces, leniency, limits)
      precondition(split == whole, "in pieces of \(pieces): \(split); whole: \(whole)")
    }
    if whole.ended { encodeAgain(whole) }
  }

  private static func feed(
    _ input: [UInt8], pieces: Int, _ leniency: WireLeniency, _ limits: WireLimits
  ) -> Outcome {
    var decoder = ChunkedDecoder(limits: limits, leniency: leniency)
    var outcome = Outcome()
    do {
      for start in stride(from: 0, to: input.count, by: pieces) where !outcome.ended {
        let piece = Array(input[start..<min(start + pieces, input.count)])
        var offset = 0
        feeding: while true {
          switch try decoder.next(piece.span, &offset) {
          case .needMore:
            precondition(offset == piece.count, "bytes left, and more wanted")
            break feeding
          case .data(let range): outcome.data += piece[range]
          case .trailers(let section): outcome.trailers = section
          case .end:
            outcome.ended = true
            break feeding
          }
        }
      }
      outcome.consumed = decoder.consumed
      precondition(decoder.consumed <= input.count, "took more than there was")
    } catch {
      outcome.error = error
    }
    return outcome
  }

  private static func encodeAgain(_ outcome: Outcome) {
    var wire: [UInt8] = []
    do {
      if !outcome.data.isEmpty {
        try ChunkEncoder.header(outcome.data.count, into: &wire)
        wire += outcome.data + ChunkEncoder.lineEnd
      }
      let before = wire
      precondition(
        (try? ChunkEncoder.end(trailers: [("a b", "c")], into: &wire)) == nil && wire == before, "a bad trailer")
      try ChunkEncoder.end(trailers: outcome.trailers?.pairs ?? [], into: &wire)
    } catch {
      preconditionFailure("what was decoded is not encoded: \(error)")
    }
    // Values that are not UTF-8 become other bytes by way of strings, three for one.
    var limits = WireLimits()
    limits.trailers *= 4
    limits.fieldLine *= 4
    let again = feed(wire, pieces: wire.count, [], limits)
    precondition(again.ended && again.data == outcome.data, "other data when encoded again")
    precondition(again.trailers?.pairs.map(\.value) == outcome.trailers?.pairs.map(\.value), "other trailers")
  }
}
