package import LupineRules

/// How much a body may grow while it is decoded. The bounds hold after every coding of a chain, not only after the last.
package struct DecodeLimits: Hashable, Sendable {
  /// Bytes; `nil` for no bound, which only a body that is streamed should have.
  package var maximumOutput: UInt64?
  /// Decoded bytes for each byte that arrived; `nil` for no bound.
  package var maximumRatio: UInt64?
  /// Decoded bytes below which the ratio does not matter: short repetitive answers are legitimate.
  package var ratioFloor: UInt64

  package init(maximumOutput: UInt64? = 256 << 20, maximumRatio: UInt64? = 100, ratioFloor: UInt64 = 1 << 20) {
    self.maximumOutput = maximumOutput
    self.maximumRatio = maximumRatio
    self.ratioFloor = ratioFloor
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
