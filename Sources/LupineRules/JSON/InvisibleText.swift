/// Characters that are not seen, but change what is.
package enum InvisibleText {
  /// Controls (C0, DEL, C1), line and paragraph separators, the anchors of annotations, and what Unicode has shown as nothing (Default_Ignorable_Code_Point:
  /// what reorders text, blanks of no width, fillers, tags), but for marks: a variation selector is seen by the look of the character before it.
  package static func isUnsafe(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0..<0x20, 0x7F..<0xA0: true
    case 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x206F: true
    case 0xAD, 0x61C, 0x115F...0x1160, 0x180E, 0x3164, 0xFEFF, 0xFFA0, 0xFFF0...0xFFFB: true
    case 0x1BCA0...0x1BCA3, 0x1D173...0x1D17A, 0xE0000...0xE00FF, 0xE01F0...0xE0FFF: true
    default: false
    }
  }
}
