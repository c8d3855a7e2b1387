import LupineBase
import Testing

@Suite struct ByteExactTests {
  private struct Pair: Hashable {
    @ByteExact var text: String
    @ByteExact var other: String? = nil
  }

  @Test(arguments: [
    ("", "", true), ("a", "a", true), ("a", "A", false), ("a", "ab", false), ("\u{E9}", "e\u{301}", false),
    ("\u{E9}", "\u{E9}", true),
  ])
  func textIsComparedByItsBytes(_ one: String, _ other: String, _ isSame: Bool) {
    let (left, right) = (Pair(text: one, other: "x"), Pair(text: other, other: "x"))
    #expect((left == right) == isSame)
    #expect(Set([left, right]).count == (isSame ? 1 : 2))
    let (first, second) = (Pair(text: "x", other: one), Pair(text: "x", other: other))
    #expect((first == second) == isSame)
    #expect(Set([first, second]).count == (isSame ? 1 : 2))
  }

  /// Eight at a time, and the rest one by one: a difference is seen at each place of either.
  @Test func eachByteCounts() {
    func isSame(_ left: [UInt8], _ right: [UInt8]) -> Bool {
      let (isSame, isSameBack) = (left.span.hasBytes(of: right.span), right.span.hasBytes(of: left.span))
      #expect(isSame == isSameBack)
      return isSame
    }
    for count in 0...25 {
      let bytes = (0..<UInt8(count)).map { $0 }
      #expect(isSame(bytes, Array(bytes)) && !isSame(bytes, bytes + [0]))
      for place in 0..<count {
        var other = bytes
        other[place] ^= 0x80
        #expect(!isSame(bytes, other))
      }
    }
  }

  @Test func noTextIsNotTheEmptyOne() {
    #expect(Pair(text: "x") == Pair(text: "x", other: nil))
    #expect(Pair(text: "x") != Pair(text: "x", other: ""))
    #expect(Pair(text: "x", other: "") != Pair(text: "x"))
  }
}
