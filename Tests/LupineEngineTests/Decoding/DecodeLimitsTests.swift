import LupineEngine
import LupineRules
import Testing

@Suite struct DecodeLimitsTests {
  @Test func outputLimitIsExact() {
    let body = DeflateWriter.zeros(repeats: 1000)
    let size = UInt64(258_001)
    #expect(decode([.deflate], body, DecodeLimits(maximumOutput: size)).error == nil)
    for limit in [size - 1, 65_536, 32_768, 32_767, 1, 0] {
      let outcome = decode([.deflate], body, DecodeLimits(maximumOutput: limit))
      #expect(outcome.error == .outputLimit(limit: limit))
      #expect(outcome.output.count == Int(limit))
      let bytewise = decode([.deflate], body.indices.map { body[$0...$0] }, DecodeLimits(maximumOutput: limit))
      #expect(bytewise == outcome)
    }
  }

  @Test func outputLimitHoldsWithoutCodings() {
    let body = [UInt8](repeating: 7, count: 100)
    #expect(decode([], body, DecodeLimits(maximumOutput: 100)).error == nil)
    let outcome = decodeInEveryWay([], body, DecodeLimits(maximumOutput: 99))
    #expect(outcome == DecodeOutcome(output: Array(body.dropLast()), error: .outputLimit(limit: 99)))
  }

  /// urllib3 CVE-2025-66471: a bomb is stopped while it streams, with no more than the floor and a buffer handed out.
  @Test func bomb() {
    let body = DeflateWriter.zeros(repeats: 200_000)  // 51.6 MB in 325 KB
    let outcome = decode([.deflate], body, DecodeLimits(maximumOutput: nil))
    guard case .ratioLimit(limit: 100, let decoded, let encoded) = outcome.error else {
      Issue.record("not stopped: \(String(describing: outcome.error))")
      return
    }
    #expect(decoded > 1 << 20 && decoded <= 1 << 20 + 32 * 1024)
    #expect(decoded > encoded * 100)
    #expect(outcome.output.count == Int(decoded))
    let pieces = stride(from: 0, to: body.count, by: 100).map { body[$0..<min($0 + 100, body.count)] }
    let dripped = decode([.deflate], pieces, DecodeLimits(maximumOutput: nil))
    #expect(dripped.output.count == outcome.output.count)
    guard case .ratioLimit = dripped.error else {
      Issue.record("not stopped in pieces: \(String(describing: dripped.error))")
      return
    }
  }

  @Test func ratioDoesNotMatterBelowTheFloor() {
    let body = DeflateWriter.zeros(repeats: 4000)  // just under 1 MiB, ratio 158
    #expect(decode([.deflate], body).error == nil)
    let strict = decode([.deflate], body, DecodeLimits(ratioFloor: 64 << 10))
    guard case .ratioLimit = strict.error else {
      Issue.record("the floor was not lowered: \(String(describing: strict.error))")
      return
    }
    #expect(decode([.deflate], DeflateWriter.zeros(repeats: 8000), DecodeLimits(maximumRatio: nil)).error == nil)
    #expect(decode([.deflate], DeflateWriter.zeros(repeats: 8000), DecodeLimits(maximumRatio: 200)).error == nil)
  }

  /// urllib3 CVE-2025-66418: each coding alone stays under a ratio that both together exceed.
  @Test func chainedBomb() {
    let inner = DeflateWriter.zeros(repeats: 200_000)
    let outer = DeflateWriter.gzip(stored: inner)
    guard case .ratioLimit = decode([.deflate, .gzip], outer, DecodeLimits(maximumOutput: nil)).error else {
      Issue.record("a chained bomb was decoded")
      return
    }
    let limited = decode([.deflate, .gzip], outer, DecodeLimits(maximumOutput: 400_000, maximumRatio: nil))
    #expect(limited.error == .outputLimit(limit: 400_000))
    #expect(limited.output.count == 400_000)
  }

  /// swift-nio-extras GHSA-xhhr-p2r9-jmm7 and d2eeec0: a bomb that unfolds inside. The inner coding swallows padding, so that only the limit of the
  /// outer one sees it.
  @Test func bombOfPaddingWithinAChain() {
    let zeros = DeflateWriter.zeros(repeats: 100_000)
    let padding = [UInt8](repeating: 0, count: 1 + 258 * 100_000)
    let member = DeflateWriter.gzip(stored: Array("hello".utf8))
    let outer = DeflateWriter.gzip(stored: member) + DeflateWriter.gzip(raw: zeros, plain: padding)
    guard case .ratioLimit = decode([.gzip, .gzip], outer).error else {
      Issue.record("padding was unpacked without end")
      return
    }
    let limited = decode([.gzip, .gzip], outer, DecodeLimits(maximumOutput: 1 << 20, maximumRatio: nil))
    #expect(limited == DecodeOutcome(output: Array("hello".utf8), error: .outputLimit(limit: 1 << 20)))
  }

  struct Stop: Error {}

  private func feed(_ decoder: inout ContentDecoder, _ body: [UInt8], failing: Bool = false) throws {
    let failure: Stop? = failing ? Stop() : nil
    try decoder.decode(body.span) { _ in if let failure { throw failure } }
  }

  @Test func nothingGoesOnAfterAnError() throws {
    var decoder = try ContentDecoder(codings: [.gzip])
    #expect(throws: Stop.self) { try feed(&decoder, DecodingFixtures.gzip, failing: true) }
    #expect(throws: DecodeError.abandoned) { try feed(&decoder, DecodingFixtures.gzip) }
    #expect(throws: DecodeError.abandoned) { try decoder.finish() }
    var finished = try ContentDecoder(codings: [.gzip])
    try finished.finish()
    #expect(throws: DecodeError.abandoned) { try feed(&finished, DecodingFixtures.gzip) }
  }

  @Test func counts() throws {
    var decoder = try ContentDecoder(codings: [.gzip])
    try feed(&decoder, DecodingFixtures.gzip)
    let (encoded, decoded) = (decoder.encodedBytes, decoder.decodedBytes)
    #expect(encoded == UInt64(DecodingFixtures.gzip.count))
    #expect(decoded == UInt64(DecodingFixtures.text.count))
    var plain = try ContentDecoder(codings: [])
    try feed(&plain, [1, 2, 3])
    let (before, after) = (plain.encodedBytes, plain.decodedBytes)
    #expect(before == 3)
    #expect(after == 3)
  }
}
