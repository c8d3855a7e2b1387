import LupineWire
import Testing

/// The cases of `Cases/*.md`, each fed whole, byte by byte, at every two-way split, and with bytes behind it.
struct WireCaseTests {
  @Test func thereAreAtLeastTwoHundredCases() throws {
    let cases = try WireCase.all()
    print("wire cases: \(cases.count) in \(Set(cases.map(\.file)).count) files")
    #expect(cases.count >= 200)
    #expect(Set(cases.map(\.description)).count == cases.count, "every case has a name of its own")
    for one in cases { #expect(!one.expected.isEmpty, "\(one) expects nothing") }
  }

  @Test(arguments: try WireCase.all())
  func saysWhatIsExpected(_ one: WireCase) {
    let whole = Feeder.feed(one, [one.input[...]])
    #expect(whole.log == one.expected, "\(one), whole")

    let bytes = one.input.indices.map { one.input[$0...$0] }
    #expect(Feeder.feed(one, bytes) == whole, "\(one), byte by byte")

    for split in Self.splits(one.input.count) {
      let result = Feeder.feed(one, [one.input[..<split], one.input[split...]])
      if result != whole {
        #expect(result == whole, "\(one), split at \(split)")
        break
      }
    }

    // What follows a response, or an error, must not change it. Bodies that end with the connection have nothing behind them.
    guard let last = whole.log.last, !one.closes, last != "more" else { return }
    for garbage in ["HTTP/1.1 500 No\r\n\r\n", "\r\n", "0\r\n\r\n", "\0"] {
      let trailed = Feeder.feed(one, [(one.input + Array(garbage.utf8))[...]])
      #expect(trailed == whole, "\(one), followed by \(garbage.debugDescription)")
    }
  }

  /// Switches that may move the end of a message from where another reader finds it.
  private static let ambiguous: WireLeniency = [
    .bareLineFeed, .bareLineFeedInChunks, .obsoleteLineFolding, .spaceBeforeColon, .leadingEmptyLines,
    .contentLengthWithTransferEncoding, .transferEncodingOnHTTP10,
  ]

  /// What is reusable under all switches is what is read without those that may make two messages of the same bytes.
  @Test(arguments: try WireCase.all())
  func reusesOnlyWhatNeedsNoAmbiguousLeniency(_ one: WireCase) {
    var lenient = one
    lenient.leniency.formUnion(Self.ambiguous)
    var strict = one
    strict.leniency.subtract(Self.ambiguous)
    let result = Feeder.feed(lenient, [one.input[...]])
    guard result.log.last?.hasPrefix("end reusable") == true else { return }
    #expect(Feeder.feed(strict, [one.input[...]]) == result, "\(one)")
  }

  /// Every position, or for long inputs the ends and a sample between.
  private static func splits(_ count: Int) -> [Int] {
    guard count > 2000 else { return Array(0...count) }
    return Array(0...60) + stride(from: 61, to: count - 60, by: count / 20) + Array((count - 60)...count)
  }
}
