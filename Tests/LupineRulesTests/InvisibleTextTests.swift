import LupineRules
import Testing

@Suite struct InvisibleTextTests {
  /// Every scalar, by Unicode's own properties.
  @Test func isWhatUnicodeSays() {
    var others: [UInt32] = []
    for value in UInt32(0)...0x10FFFF {
      guard let scalar = Unicode.Scalar(value) else { continue }
      if InvisibleText.isUnsafe(scalar) != Self.isUnsafe(scalar) { others.append(value) }
    }
    #expect(others == [])
  }

  private static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: true
    case .nonspacingMark: false
    default: scalar.properties.isDefaultIgnorableCodePoint || ("\u{FFF9}"..."\u{FFFB}").contains(scalar)
    }
  }
}
