import LupineEngine
import LupineRules
import Testing

/// What a body decoded to, and how it ended.
struct DecodeOutcome: Equatable {
  var output: [UInt8] = []
  var error: DecodeError?
}

/// Decodes `pieces` one after another; `output` holds what was handed out before an error too.
func decode(_ codings: [ContentCoding], _ pieces: [ArraySlice<UInt8>], _ limits: DecodeLimits) -> DecodeOutcome {
  var outcome = DecodeOutcome()
  do {
    var decoder = try ContentDecoder(codings: codings, limits: limits)
    for piece in pieces {
      try decoder.decode(piece.span) { bytes in
        let count = bytes.count
        #expect(count > 0)
        outcome.output.reserveCapacity(outcome.output.count + bytes.count)
        for index in bytes.indices { outcome.output.append(bytes[index]) }
      }
    }
    try decoder.finish()
  } catch let error as DecodeError {
    outcome.error = error
  } catch {
    Issue.record("not a DecodeError: \(error)")
  }
  return outcome
}

/// Decodes with a rest after every buffer of output.
func decodeResting(_ codings: [ContentCoding], _ body: [UInt8], _ limits: DecodeLimits) -> DecodeOutcome {
  var outcome = DecodeOutcome()
  do {
    var decoder = try ContentDecoder(codings: codings, limits: limits)
    var rest = body[...]
    while true {
      var offset = 0
      var calls = 0
      let isDone = try decoder.decode(rest.span, &offset) { bytes in
        calls += 1
        for index in bytes.indices { outcome.output.append(bytes[index]) }
        return false
      }
      #expect(calls <= 1, "the sink was called although it wanted a rest")
      rest = rest.dropFirst(offset)
      if isDone { break }
    }
    #expect(rest.isEmpty)
    try decoder.finish()
  } catch let error as DecodeError {
    outcome.error = error
  } catch {
    Issue.record("not a DecodeError: \(error)")
  }
  return outcome
}

func decode(
  _ codings: [ContentCoding], _ body: [UInt8], _ limits: DecodeLimits = DecodeLimits()
) -> DecodeOutcome {
  decode(codings, [body[...]], limits)
}

/// Decodes whole, byte by byte and at every split in two (at some, if the body is long), and expects one outcome.
func decodeInEveryWay(
  _ codings: [ContentCoding], _ body: [UInt8], _ limits: DecodeLimits = DecodeLimits(),
  sourceLocation: SourceLocation = #_sourceLocation
) -> DecodeOutcome {
  let whole = decode(codings, body, limits)
  let bytewise = decode(codings, body.indices.map { body[$0...$0] }, limits)
  #expect(bytewise == whole, "byte by byte", sourceLocation: sourceLocation)
  #expect(decodeResting(codings, body, limits) == whole, "with rests", sourceLocation: sourceLocation)
  for split in stride(from: 0, through: body.count, by: max(1, body.count / 500)) {
    let halves = decode(codings, [body[..<split], body[split...]], limits)
    #expect(halves == whole, "split at \(split)", sourceLocation: sourceLocation)
  }
  return whole
}

@Suite struct ContentDecoderTests {
  static let text = DecodingFixtures.text

  static let bodies: [(String, [ContentCoding], [UInt8])] = [
    ("gzip", [.gzip], DecodingFixtures.gzip),
    ("gzip with every header field", [.gzip], DecodingFixtures.gzipFull),
    ("zlib", [.deflate], DecodingFixtures.zlib),
    ("zlib, fast", [.deflate], DecodingFixtures.zlibFast),
    ("zlib, small window", [.deflate], DecodingFixtures.zlibSmallWindow),
    ("raw deflate", [.deflate], DecodingFixtures.raw),
    ("stored gzip", [.gzip], DeflateWriter.gzip(stored: text)),
    ("gzip in gzip", [.gzip, .gzip], DeflateWriter.gzip(stored: DecodingFixtures.gzip)),
    ("deflate in gzip", [.deflate, .gzip], DeflateWriter.gzip(stored: DecodingFixtures.zlib)),
    ("raw in gzip", [.deflate, .gzip], DeflateWriter.gzip(stored: DecodingFixtures.raw)),
    ("zero padding after gzip", [.gzip], DecodingFixtures.gzip + [0, 0, 0, 0, 0]),
    ("nothing at all", [], text),
  ]

  @Test(arguments: bodies) func decodes(_ name: String, _ codings: [ContentCoding], _ body: [UInt8]) {
    #expect(decodeInEveryWay(codings, body) == DecodeOutcome(output: Self.text))
  }

  @Test(arguments: [UInt64(1), 2, 3]) func decodesLongBodies(_ seed: UInt64) {
    let (raw, plain) = DeflateWriter.random(count: 150_000, seed: seed)
    #expect(decode([.deflate], raw) == DecodeOutcome(output: plain))
    let body = DeflateWriter.gzip(raw: raw, plain: plain)
    let pieces = stride(from: 0, to: body.count, by: 1447).map { body[$0..<min($0 + 1447, body.count)] }
    #expect(decode([.gzip], pieces, DecodeLimits()) == DecodeOutcome(output: plain))
    #expect(decode([.gzip], body.indices.map { body[$0...$0] }, DecodeLimits()) == DecodeOutcome(output: plain))
  }

  @Test func decodesSeveralMembers() {
    let body =
      DecodingFixtures.gzip + DecodingFixtures.gzipFull + DeflateWriter.gzip(stored: []) + DecodingFixtures.gzip
    #expect(decodeInEveryWay([.gzip], body) == DecodeOutcome(output: Self.text + Self.text + Self.text))
  }

  @Test func fiveCodingsAreDecodedAndSixRefused() {
    // curl CVE-2022-32206 and CVE-2023-23916, urllib3 CVE-2025-66418.
    var body = Self.text
    for _ in 0..<5 { body = DeflateWriter.gzip(stored: body) }
    #expect(decodeInEveryWay(Array(repeating: .gzip, count: 5), body) == DecodeOutcome(output: Self.text))
    #expect(throws: DecodeError.tooManyCodings(count: 6, limit: 5)) {
      _ = try ContentDecoder(codings: Array(repeating: .gzip, count: 6))
    }
    let two = DecodeLimits(maximumCodings: 2)
    #expect(throws: DecodeError.tooManyCodings(count: 3, limit: 2)) {
      _ = try ContentDecoder(codings: Array(repeating: .gzip, count: 3), limits: two)
    }
  }

  /// curl CVE-2025-0725: the bytes of a gzip header that came in pieces were counted for old versions of zlib, and the sum overflowed. Here zlib reads the
  /// header, however long it is: an extra field as long as it may be, a name and a comment.
  @Test func aLongHeaderInPieces() {
    var body: [UInt8] = [0x1F, 0x8B, 8, 0x1C, 0, 0, 0, 0, 0, 255, 0xFF, 0xFF]
    body += [UInt8](repeating: 7, count: 65_535)
    for byte: UInt8 in [0x61, 0x62] { body += [UInt8](repeating: byte, count: 70_000) + [0] }
    let header = body.count
    body += DecodingFixtures.gzip.dropFirst(10)
    for size in [1, 1_447, body.count] {
      let pieces = stride(from: 0, to: body.count, by: size).map { body[$0..<min($0 + size, body.count)] }
      #expect(decode([.gzip], pieces, DecodeLimits()) == DecodeOutcome(output: Self.text))
      let cut = stride(from: 0, to: header, by: size).map { body[$0..<min($0 + size, header)] }
      #expect(decode([.gzip], cut, DecodeLimits()).error == .truncated(.gzip, offset: UInt64(header)))
    }
  }

  @Test(arguments: [[], [.gzip], [.deflate], [.gzip, .deflate]] as [[ContentCoding]])
  func anEmptyBodyIsEmpty(_ codings: [ContentCoding]) {
    #expect(decode(codings, []) == DecodeOutcome())
    #expect(decode(codings, [[], []], DecodeLimits()) == DecodeOutcome())
  }

  static let framed: [(String, ContentCoding, [UInt8])] = [
    ("gzip", .gzip, DecodingFixtures.gzip), ("full gzip", .gzip, DecodingFixtures.gzipFull),
    ("zlib", .deflate, DecodingFixtures.zlib), ("raw", .deflate, DecodingFixtures.raw),
  ]

  @Test(arguments: framed) func truncation(_ name: String, _ coding: ContentCoding, _ body: [UInt8]) {
    for length in 1..<body.count {
      let outcome = decode([coding], Array(body[..<length]))
      #expect(outcome.error == .truncated(coding, offset: UInt64(length)), "\(length) bytes")
      #expect(Self.text.starts(with: outcome.output))
    }
  }

  @Test func truncationOfTheSecondMember() {
    let first = DecodingFixtures.gzip
    let outcome = decodeInEveryWay([.gzip], first + first.dropLast())
    #expect(outcome.error == .truncated(.gzip, offset: UInt64(first.count * 2 - 1)))
    #expect(outcome.output == Self.text + Self.text)
  }

  @Test func truncationWithinAChain() {
    let body = DeflateWriter.gzip(stored: DecodingFixtures.zlib.dropLast(1))
    #expect(
      decodeInEveryWay([.deflate, .gzip], body).error
        == .truncated(.deflate, offset: UInt64(DecodingFixtures.zlib.count - 1)))
  }

  static let trailing: [(String, ContentCoding, [UInt8], [UInt8], UInt64)] = [
    ("text after gzip", .gzip, DecodingFixtures.gzip, Array("x".utf8), 0),
    ("data after padding", .gzip, DecodingFixtures.gzip, [0, 0, 1], 2),
    ("a member after padding", .gzip, DecodingFixtures.gzip, [0] + DecodingFixtures.gzip, 1),
    ("zeros after zlib", .deflate, DecodingFixtures.zlib, [0], 0),
    ("a stream after zlib", .deflate, DecodingFixtures.zlib, DecodingFixtures.zlib, 0),
    ("text after raw", .deflate, DecodingFixtures.raw, [0x41], 0),
  ]

  @Test(arguments: trailing) func garbage(_ row: (String, ContentCoding, [UInt8], [UInt8], UInt64)) {
    let outcome = decodeInEveryWay([row.1], row.2 + row.3)
    #expect(outcome.error == .trailingGarbage(row.1, offset: UInt64(row.2.count) + row.4))
    #expect(outcome.output == Self.text)
  }

  @Test func faults() {
    func corrupted(_ body: [UInt8], at index: Int) -> [UInt8] {
      var copy = body
      copy[index] ^= 0x55
      return copy
    }
    let gzip = DecodingFixtures.gzip
    for index in [0, 1, 2, gzip.count - 1, gzip.count - 4, gzip.count - 5, gzip.count - 8] {
      let outcome = decodeInEveryWay([.gzip], corrupted(gzip, at: index))
      guard case .corrupt(.gzip, _) = outcome.error else {
        Issue.record("byte \(index): \(String(describing: outcome.error))")
        continue
      }
    }
    let zlib = decodeInEveryWay([.deflate], corrupted(DecodingFixtures.zlib, at: DecodingFixtures.zlib.count - 1))
    #expect(
      zlib == DecodeOutcome(output: Self.text, error: .corrupt(.deflate, offset: UInt64(DecodingFixtures.zlib.count))))
    guard case .corrupt = decodeInEveryWay([.gzip], Array("<html>not gzip</html>".utf8)).error else {
      Issue.record("text was taken for gzip")
      return
    }
    guard case .corrupt = decodeInEveryWay([.deflate], [0x07, 0xFF]).error else {
      Issue.record("block type 3 was accepted")
      return
    }
    guard case .dictionaryNeeded = decodeInEveryWay([.deflate], DecodingFixtures.dictionary).error else {
      Issue.record("a preset dictionary was not noticed")
      return
    }
  }

  /// Every single-bit fault is an error or gives the text; none traps, and none goes on without end.
  @Test func bitFlips() {
    for index in DecodingFixtures.gzipFull.indices {
      for bit in 0..<8 {
        var body = DecodingFixtures.gzipFull
        body[index] ^= 1 << bit
        let outcome = decode([.gzip], body)
        #expect(outcome.error != nil || outcome.output == Self.text)
      }
    }
  }
}
