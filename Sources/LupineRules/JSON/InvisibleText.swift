/// Characters that are not seen, but change what is.
package enum InvisibleText {
  /// Controls (C0, DEL, C1) and the characters that reorder or hide text.
  package static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0: true
    case 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2069, 0xFEFF: true
    default: false
    }
  }
}
