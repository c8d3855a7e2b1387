package import LupineRules

/// Undoes the content codings of a body piece by piece, in bounded memory: one buffer of 32 KiB and one window for each coding.
///
/// Use: `decode` for every piece of the body, then `finish` once. After an error, its own or the sink's, it only throws.
/// The bytes handed out, and the verdict, do not depend on how the body was split or on where the sink wanted a rest; only the ratio is
/// measured with an error of the few bytes (at most a block's header) that zlib may have read ahead.
///
/// Each stage is asked for output by the one behind it, and asks the one before it for input, so that decoding can stop between any two
/// buffers of output and go on later.
package struct ContentDecoder: ~Copyable {
  private struct Stage {
    let inflater: Inflater
    /// How much of its last output may be used: all of it but what lies over a limit.
    var usable = 0
    /// How much of that the next stage has taken.
    var taken = 0
    /// Thrown when it is asked for more: a limit was passed.
    var failure: DecodeError?
  }

  /// In the order of decoding, the last coding applied first.
  private var stages: [Stage]
  private let limits: DecodeLimits
  private var passed: UInt64 = 0
  private var isAbandoned = false

  /// - Parameter codings: in the order of `Content-Encoding`, as `ContentCodings.parse` gives them. Without any, bytes pass unchanged,
  ///   under the output limit.
  package init(codings: [ContentCoding], limits: DecodeLimits = DecodeLimits()) throws(DecodeError) {
    guard codings.count <= limits.maximumCodings else {
      throw DecodeError.tooManyCodings(count: codings.count, limit: limits.maximumCodings)
    }
    stages = codings.reversed().map { Stage(inflater: Inflater($0)) }
    self.limits = limits
  }

  /// Body bytes taken.
  package var encodedBytes: UInt64 { stages.first?.inflater.consumed ?? passed }

  /// Decoded bytes, those over a limit included.
  package var decodedBytes: UInt64 { stages.last?.inflater.produced ?? passed }

  /// Decodes a piece of the body and hands every byte that comes of it to `sink`, in spans, never empty, that are valid
  /// during the call.
  ///
  /// Throws `DecodeError`, or what the sink throws.
  package mutating func decode(_ input: Span<UInt8>, _ sink: (Span<UInt8>) throws -> Void) throws {
    var offset = 0
    _ = try decode(input, &offset) { bytes in
      try sink(bytes)
      return true
    }
  }

  /// The same from `offset` on, which moves past what was taken. The sink says whether it wants more for now; if not, decoding stops
  /// at once, after at most one buffer of 32 KiB.
  ///
  /// - Returns: true once everything given is decoded; else call again with the rest, even if that is empty.
  package mutating func decode(
    _ input: Span<UInt8>, _ offset: inout Int, _ sink: (Span<UInt8>) throws -> Bool
  ) throws -> Bool {
    guard !isAbandoned else { throw DecodeError.abandoned }
    isAbandoned = true
    var wantsMore = true
    if stages.isEmpty {
      let rest = input.extracting(offset...)
      offset = input.count
      if !rest.isEmpty { try pass(rest, sink) }
    } else {
      let last = stages.count - 1
      while wantsMore, try produce(last, input, &offset) {
        let inflater = stages[last].inflater
        wantsMore = try sink(inflater.output.extracting(first: stages[last].usable))
      }
    }
    isAbandoned = false
    return wantsMore
  }

  /// The body is complete: every coding must be.
  package mutating func finish() throws(DecodeError) {
    guard !isAbandoned else { throw DecodeError.abandoned }
    isAbandoned = true
    for stage in stages { try stage.inflater.finish() }
  }

  private mutating func pass(_ bytes: Span<UInt8>, _ sink: (Span<UInt8>) throws -> Bool) throws {
    let before = passed
    passed += UInt64(bytes.count)
    if let limit = limits.maximumOutput, passed > limit {
      if before < limit { _ = try sink(bytes.extracting(first: Int(limit - before))) }
      throw DecodeError.outputLimit(limit: limit)
    }
    _ = try sink(bytes)
  }

  /// Has a stage produce. False: it needs more than everything given.
  private mutating func produce(_ index: Int, _ input: Span<UInt8>, _ offset: inout Int) throws(DecodeError) -> Bool {
    if let failure = stages[index].failure { throw failure }
    let inflater = stages[index].inflater
    while true {
      let step: Inflater.Step
      if index == 0 {
        step = try inflater.step(input, &offset)
      } else {
        let source = stages[index - 1].inflater
        step = try inflater.step(
          source.output.extracting(first: stages[index - 1].usable), &stages[index - 1].taken)
      }
      switch step {
      case .output:
        stages[index].taken = 0
        judge(index)
        if stages[index].usable > 0 { return true }
        if let failure = stages[index].failure { throw failure }
      case .needsInput:
        // Its last output is gone: it was used up, else nobody would have asked for more.
        stages[index].usable = 0
        stages[index].taken = 0
        guard index > 0, try produce(index - 1, input, &offset) else { return false }
      }
    }
  }

  /// Holds a stage's output against the limits. What lies within them is still used.
  private mutating func judge(_ index: Int) {
    let inflater = stages[index].inflater
    let count = inflater.output.count
    let total = inflater.produced
    stages[index].usable = count
    if let limit = limits.maximumOutput, total > limit {
      let before = total - UInt64(count)
      stages[index].usable = before < limit ? Int(limit - before) : 0
      stages[index].failure = .outputLimit(limit: limit)
      return
    }
    // Only at full buffers, so that the split hardly matters.
    guard let ratio = limits.maximumRatio, total > limits.ratioFloor, total % UInt64(Inflater.bufferSize) == 0 else {
      return
    }
    let encoded = stages[0].inflater.consumed
    let (allowed, overflow) = encoded.multipliedReportingOverflow(by: ratio)
    if !overflow, total > allowed {
      stages[index].failure = .ratioLimit(limit: ratio, decoded: total, encoded: encoded)
    }
  }
}
