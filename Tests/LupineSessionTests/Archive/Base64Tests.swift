import LupineSession
import Testing

@Suite struct Base64Tests {
  @Test(arguments: [
    ("", []), ("AA==", [0]), ("AAE=", [0, 1]), ("+/8A", [0xFB, 0xFF, 0]), ("AAAAAA==", [0, 0, 0, 0]),
    // Bits that nobody reads.
    ("AB==", [0]), ("AAF=", [0, 1]),
  ]) func decodes(_ text: String, _ bytes: [UInt8]) {
    #expect(Base64.decode(text) == bytes)
  }

  @Test(arguments: [
    "A", "AA", "AAA", "AA=", "A===", "====", "AB=C", "A=A=", "=AAA", "AAAA=", "AAAA==", "AAAA====", "AA==AAAA",
    "AA\nAA",
    " AAAA", "AA-_", "AA*A", "AAÄ",
  ]) func refuses(_ text: String) {
    #expect(Base64.decode(text) == nil)
  }

  @Test func readsWhatItWrites() {
    for count in 0...64 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 200) }
      #expect(Base64.decode(Base64.encode(bytes)) == bytes)
    }
  }
}
