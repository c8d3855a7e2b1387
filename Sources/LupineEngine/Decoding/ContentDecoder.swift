package import LupineRules

/// Undoes the content codings of a body piece by piece, in bounded memory: one buffer of 32 KiB and one window for each coding.
///
/// Use: `decode` for every piece of the body, then `finish` once. After an error, its own or the sink's, it only throws.
/// The bytes handed out, and the verdict, do not depend on how the body was split; only the ratio is measured with an error of the few bytes
/// (at most a block's header) that zlib may have read ahead.
package struct ContentDecoder: ~Copyable {
  /// In the order of decoding, the last coding applied first.
  private let stages: [Inflater]
  private let limits: DecodeLimits
  private var passed: UInt64 = 0
  private var isAbandoned = false

  /// - Parameter codings: in the order of `Content-Encoding`, as `ContentCodings.parse` gives them. Without any, bytes pass unchanged,
  ///   under the output limit.
  package init(codings: [ContentCoding], limits: DecodeLimits = DecodeLimits()) throws(DecodeError) {
    guard codings.count <= ContentCodings.maximumCount else {
      throw DecodeError.tooManyCodings(count: codings.count, limit: ContentCodings.maximumCount)
    }
    stages = codings.reversed().map(Inflater.init)
    self.limits = limits
  }

  /// Body bytes taken.
  package var encodedBytes: UInt64 { stages.first?.consumed ?? passed }

  /// Decoded bytes, those over a limit included.
  package var decodedBytes: UInt64 { stages.last?.produced ?? passed }

  /// Decodes a piece of the body and hands every byte that comes of it to `sink`, in spans, never empty, that are valid
  /// during the call.
  ///
  /// Throws `DecodeError`, or what the sink throws.
  package mutating func decode(_ input: Span<UInt8>, _ sink: (Span<UInt8>) throws -> Void) throws {
    guard !isAbandoned else { throw DecodeError.abandoned }
    guard input.count > 0 else { return }
    isAbandoned = true
    if stages.isEmpty {
      passed += UInt64(input.count)
      try deliver(input, total: passed, encoded: passed, sink)
    } else {
      try push(input, into: 0, sink)
    }
    isAbandoned = false
  }

  /// The body is complete: every coding must be.
  package mutating func finish() throws(DecodeError) {
    guard !isAbandoned else { throw DecodeError.abandoned }
    isAbandoned = true
    for stage in stages { try stage.finish() }
  }

  private func push(_ input: Span<UInt8>, into index: Int, _ sink: (Span<UInt8>) throws -> Void) throws {
    let stage = stages[index]
    var offset = 0
    while case .output = try stage.step(input, &offset) {
      let encoded = stages[0].consumed
      if index + 1 < stages.count {
        try deliver(stage.output, total: stage.produced, encoded: encoded) { bytes in
          try push(bytes, into: index + 1, sink)
        }
      } else {
        try deliver(stage.output, total: stage.produced, encoded: encoded, sink)
      }
    }
  }

  /// Hands out what the limits allow.
  private func deliver(
    _ bytes: Span<UInt8>, total: UInt64, encoded: UInt64, _ sink: (Span<UInt8>) throws -> Void
  ) throws {
    if let limit = limits.maximumOutput, total > limit {
      let before = total - UInt64(bytes.count)
      if before < limit { try sink(bytes.extracting(first: Int(limit - before))) }
      throw DecodeError.outputLimit(limit: limit)
    }
    try sink(bytes)
    // Only at full buffers, so that the split hardly matters.
    if let ratio = limits.maximumRatio, total > limits.ratioFloor, total % UInt64(Inflater.bufferSize) == 0 {
      let (allowed, overflow) = encoded.multipliedReportingOverflow(by: ratio)
      guard overflow || total <= allowed else {
        throw DecodeError.ratioLimit(limit: ratio, decoded: total, encoded: encoded)
      }
    }
  }
}
