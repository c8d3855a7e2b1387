package import LupineRules

/// How much a body may grow while it is decoded. The bounds hold after every coding of a chain, not only after the last.
package struct DecodeLimits: Hashable, Sendable {
  /// Bytes; `nil` for no bound, which only a body that is streamed should have.
  package var maximumOutput: UInt64?
  /// Decoded bytes for each byte that arrived; `nil` for no bound.
  package var maximumRatio: UInt64?
  /// Decoded bytes below which the ratio does not matter: short repetitive answers are legitimate.
  package var ratioFloor: UInt64
  /// Codings in a chain; each has a buffer and a window of its own.
  package var maximumCodings: Int

  package init(
    maximumOutput: UInt64? = 256 << 20, maximumRatio: UInt64? = 100, ratioFloor: UInt64 = 1 << 20,
    maximumCodings: Int = ContentCodings.maximumCount
  ) {
    self.maximumOutput = maximumOutput
    self.maximumRatio = maximumRatio
    self.ratioFloor = ratioFloor
    self.maximumCodings = maximumCodings
  }
}

/// Why a body cannot be decoded. Offsets count the encoded bytes that the named coding had consumed.
package enum DecodeError: Error, Hashable, Sendable {
  case tooManyCodings(count: Int, limit: Int)
  /// Decoding gave more than `limit` bytes; no more than `limit` of them were handed out.
  case outputLimit(limit: UInt64)
  /// `decoded` bytes came of `encoded` ones, and more than `limit` for each is not allowed.
  case ratioLimit(limit: UInt64, decoded: UInt64, encoded: UInt64)
  /// Not the format, or a checksum or length that does not match.
  case corrupt(ContentCoding, offset: UInt64)
  /// The body ended within the coding.
  case truncated(ContentCoding, offset: UInt64)
  /// Bytes after the end of the coding; only zero bytes are padding, and only after gzip.
  case trailingGarbage(ContentCoding, offset: UInt64)
  /// zlib asks for a preset dictionary, which HTTP has none of.
  case dictionaryNeeded(offset: UInt64)
  case outOfMemory
  /// The decoder was used again after it failed or after its consumer did.
  case abandoned
}

extension DecodeError: CustomStringConvertible {
  package var description: String {
    switch self {
    case .tooManyCodings(let count, let limit): "\(count) content codings, more than \(limit)"
    case .outputLimit(let limit): "the decoded body has more than \(limit) bytes"
    case .ratioLimit(let limit, let decoded, let encoded):
      "\(encoded) bytes became \(decoded), more than \(limit) times as many"
    case .corrupt(let coding, let offset): "the \(coding.name) data is corrupt at byte \(offset)"
    case .truncated(let coding, let offset): "the \(coding.name) data ends early, after byte \(offset)"
    case .trailingGarbage(let coding, let offset): "bytes follow the end of the \(coding.name) data, at byte \(offset)"
    case .dictionaryNeeded(let offset): "the deflate data asks for a preset dictionary, at byte \(offset)"
    case .outOfMemory: "zlib is out of memory"
    case .abandoned: "the decoder was used after an error"
    }
  }
}
