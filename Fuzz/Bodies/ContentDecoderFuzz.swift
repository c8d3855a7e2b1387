internal import CLupineZlib
internal import LupineEngine
internal import LupineRules

/// Oracle: a body gives the same bytes and the same verdict (but for the ratio) however it is split and wherever the sink wants a rest, and
/// never more bytes than the limits allow; of one coding they are what zlib itself gives, asked once for everything.
///
/// The first byte chooses the codings, the second the limits and the split; the rest is the body.
package enum ContentDecoderFuzz {
  private struct Outcome: Equatable {
    var output: [UInt8] = []
    var error: DecodeError?

    /// zlib reads a little ahead when it can, so that a body on the edge of the ratio may fall on either side of it.
    var hitRatio: Bool {
      if case .ratioLimit = error { true } else { false }
    }
  }

  package static func run(bytes: [UInt8]) {
    guard bytes.count >= 2 else { return }
    let codings = (0..<Int(bytes[0] & 3)).map { (bytes[0] >> (2 + $0)) & 1 == 0 ? ContentCoding.gzip : .deflate }
    let limit: UInt64 = bytes[1] & 0x80 == 0 ? 1 << 18 : 1000
    let limits = DecodeLimits(
      maximumOutput: limit, maximumRatio: bytes[1] & 0x40 == 0 ? nil : 10, ratioFloor: 1 << 15)
    let body = Array(bytes.dropFirst(2))
    let whole = decode(codings, body, pieces: max(1, body.count), limits)
    precondition(UInt64(whole.output.count) <= limit, "more than the limit was handed out")
    if codings.count == 1, !whole.hitRatio { compare(whole, with: reference(codings[0], body, limit: Int(limit))) }
    for pieces in [1 + Int(bytes[1] & 0x3F), 1] where pieces > 1 || body.count <= 4096 {
      let split = decode(codings, body, pieces: pieces, limits, restsAfterEach: bytes[1] & 0x20 != 0)
      if split.hitRatio || whole.hitRatio { continue }
      precondition(
        split == whole,
        """
        in pieces of \(pieces): \(split.output.count) bytes, \(String(describing: split.error)); \
        whole: \(whole.output.count) bytes, \(String(describing: whole.error))
        """)
    }
  }

  private static func compare(_ outcome: Outcome, with reference: [UInt8]?) {
    guard let reference else { return }
    precondition(outcome.error == nil, "refused: \(String(describing: outcome.error)), and zlib takes it")
    precondition(outcome.output == reference, "\(outcome.output.count) bytes, and zlib gives \(reference.count)")
  }

  /// What zlib makes of the whole in one call; nil unless it is one complete stream and no more, within the limit.
  private static func reference(_ coding: ContentCoding, _ body: [UInt8], limit: Int) -> [UInt8]? {
    guard body.count >= 2 else { return nil }
    let isWrapped = body[0] & 0x8F == 8 && (Int(body[0]) << 8 | Int(body[1])) % 31 == 0
    let windowBits = coding == .gzip ? MAX_WBITS + 16 : isWrapped ? MAX_WBITS : -MAX_WBITS
    var stream = unsafe z_stream()
    guard unsafe CLupineZlib_inflateInit2(&stream, windowBits) == Z_OK else { return nil }
    defer { unsafe inflateEnd(&stream) }
    var (input, output) = (body, [UInt8](repeating: 0, count: limit + 1))
    let code = unsafe input.withUnsafeMutableBufferPointer { from in
      unsafe output.withUnsafeMutableBufferPointer { to in
        unsafe stream.next_in = from.baseAddress
        unsafe stream.avail_in = UInt32(from.count)
        unsafe stream.next_out = to.baseAddress
        unsafe stream.avail_out = UInt32(to.count)
        return unsafe inflate(&stream, Z_FINISH)
      }
    }
    let left = unsafe Int(stream.avail_out)
    guard code == Z_STREAM_END, unsafe stream.avail_in == 0, left > 0 else { return nil }
    return Array(output.dropLast(left))
  }

  private static func decode(
    _ codings: [ContentCoding], _ body: [UInt8], pieces: Int, _ limits: DecodeLimits, restsAfterEach: Bool = false
  ) -> Outcome {
    var outcome = Outcome()
    do {
      var decoder = try ContentDecoder(codings: codings, limits: limits)
      for start in stride(from: 0, to: body.count, by: pieces) {
        let piece = body[start..<min(start + pieces, body.count)]
        var offset = 0
        while try !decoder.decode(
          piece.span, &offset,
          { bytes in
            for index in bytes.indices { outcome.output.append(bytes[index]) }
            return !restsAfterEach
          })
        {}
      }
      try decoder.finish()
    } catch let error as DecodeError {
      outcome.error = error
    } catch {
      preconditionFailure("an error of another type: \(error)")
    }
    return outcome
  }
}
