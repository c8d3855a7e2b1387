/// Unicode host names to A-labels (RFC 5890–5893), as far as that is possible without mapping tables.
///
/// The rule: what NFKC case folding changes is lower-cased, scalar by scalar; what then is not a letter, mark or digit that stays the same
/// under it, in normalisation form C, is refused, never mapped. So full-width forms, ligatures, ideographic full stops,
/// joiners, bidirectional controls, emoji and decomposed accents are typed refusals; the caller can pass the A-label.
/// Of RFC 5892's contextual characters only the middle dot between two `l` and unmixed Arabic digits are accepted; in A-labels also
/// joiners where they show.
///
/// An A-label that is given must decode to a label that encodes back to it, contains something that is not ASCII, and would not
/// be folded to another: otherwise two spellings would name one host (Rust idna CVE-2024-12224, Go CVE-2026-39821).
enum InternationalName {
  /// The ASCII form of a name that has at least one character outside ASCII.
  static func asciiName(_ name: String) throws(HostRefusal) -> [UInt8] {
    // Punycode is quadratic in a label, and no name of more than 253 scalars has an ASCII form that fits.
    guard name.unicodeScalars.count <= 254 else { throw HostRefusal.nameTooLong(name.unicodeScalars.count) }
    var lowered = ""
    for scalar in name.unicodeScalars {
      // CAPITAL SHARP S folds to `ss` or to `ß`, depending on the reader.
      guard scalar.value != 0x1E9E else { throw HostRefusal.disallowedScalar(scalar.value) }
      // Cherokee folds to its capitals, which hence stay.
      if scalar.properties.changesWhenNFKCCaseFolded {
        lowered += scalar.properties.lowercaseMapping
      } else {
        lowered.unicodeScalars.append(scalar)
      }
    }
    var output: [UInt8] = []
    let labels = lowered.unicodeScalars.split(separator: ".", omittingEmptySubsequences: false)
    for (index, label) in labels.enumerated() {
      if index > 0 { output.append(UInt8(ascii: ".")) }
      if label.allSatisfy(\.isASCII) {
        output.append(contentsOf: label.map { UInt8(ascii: $0) })
      } else {
        let scalars = Array(label)
        try checkUnicodeLabel(scalars)
        guard let encoded = Punycode.encode(scalars) else { throw HostRefusal.invalidPunycode }
        output.append(contentsOf: Array("xn--".utf8))
        output.append(contentsOf: encoded)
      }
    }
    return output
  }

  /// Checks what follows the `xn--` of an A-label.
  static func checkASCIILabel(_ bytes: Span<UInt8>, _ range: Range<Int>) throws(HostRefusal) {
    guard let label = Punycode.decode(bytes, range), label.contains(where: { !$0.isASCII }),
      let encoded = Punycode.encode(label), encoded.count == range.count,
      encoded.indices.allSatisfy({ encoded[$0] == bytes[range.lowerBound + $0] }), isNormalised(label)
    else { throw HostRefusal.invalidPunycode }
    for (index, scalar) in label.enumerated() {
      guard isStable(scalar) || isJoinerAfterVirama(label, index) || isNonJoinerInCursive(label, index) else {
        throw HostRefusal.disallowedScalar(scalar.value)
      }
    }
  }

  private static func checkUnicodeLabel(_ label: [Unicode.Scalar]) throws(HostRefusal) {
    guard isNormalised(label) else { throw HostRefusal.notNormalised }
    for (index, scalar) in label.enumerated() where !scalar.isASCII {
      guard isPermitted(scalar) || isMiddleDot(label, index) else { throw HostRefusal.disallowedScalar(scalar.value) }
    }
    guard let first = label.first, let last = label.last, first != "-", last != "-", !isMark(first),
      !(label.count >= 4 && label[2] == "-" && label[3] == "-")
    else { throw HostRefusal.invalidLabelForm }
    try checkDirections(label)
  }

  private static func isNormalised(_ label: [Unicode.Scalar]) -> Bool {
    var text = ""
    text.unicodeScalars.append(contentsOf: label)
    var span = text.utf8Span
    return span.checkForNFC(quickCheck: false)
  }

  /// Whether NFKC case folding leaves the character as it is, or RFC 5892 section 2.6 makes it an exception, and it is visible.
  private static func isStable(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007: true
    case 0x2D, 0x30...0x39, 0x61...0x7A: true
    case 0...0x7F: false
    default:
      !scalar.properties.changesWhenNFKCCaseFolded && !scalar.properties.isDefaultIgnorableCodePoint
        && !scalar.properties.isBidiControl && !scalar.properties.isWhitespace
        && !isUnassignedOrControl(scalar)
    }
  }

  private static func isUnassignedOrControl(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .control, .format, .privateUse, .surrogate, .unassigned, .lineSeparator, .paragraphSeparator,
      .spaceSeparator:
      true
    default: false
    }
  }

  /// RFC 5892's PVALID: letters, marks and digits that are stable, less its exceptions, its ignorable blocks (musical notation, combining
  /// marks for symbols) and the old Hangul jamo.
  private static func isPermitted(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0xDF, 0x3C2, 0x6FD, 0x6FE, 0xF0B, 0x3007: return true
    case 0x640, 0x7FA, 0x302E, 0x302F, 0x3031...0x3035, 0x303B: return false
    case 0x20D0...0x20FF, 0x1D100...0x1D24F: return false
    case 0x1100...0x11FF, 0xA960...0xA97F, 0xD7B0...0xD7FF: return false
    default: break
    }
    guard isStable(scalar) else { return false }
    switch scalar.properties.generalCategory {
    case .lowercaseLetter, .uppercaseLetter, .otherLetter, .modifierLetter, .nonspacingMark, .spacingMark,
      .decimalNumber:
      return true
    default: return false
    }
  }

  private static func isMark(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.properties.generalCategory {
    case .nonspacingMark, .spacingMark, .enclosingMark: true
    default: false
    }
  }

  /// RFC 5892 appendix A.3: Catalan `l·l`.
  private static func isMiddleDot(_ label: [Unicode.Scalar], _ index: Int) -> Bool {
    label[index].value == 0xB7 && index > 0 && index + 1 < label.count && label[index - 1] == "l"
      && label[index + 1] == "l"
  }

  /// RFC 5892 appendix A.1 and A.2, the part that needs no table: a joiner after a virama. Accepted in A-labels only.
  private static func isJoinerAfterVirama(_ label: [Unicode.Scalar], _ index: Int) -> Bool {
    (label[index].value == 0x200C || label[index].value == 0x200D) && index > 0
      && label[index - 1].properties.canonicalCombiningClass == .virama
  }

  /// RFC 5892 appendix A.1, its second part: ZERO WIDTH NON-JOINER between letters that it keeps apart, as in Persian. Accepted in A-labels
  /// only, and after a letter that joins only to the one before as well: which do takes a table.
  private static func isNonJoinerInCursive(_ label: [Unicode.Scalar], _ index: Int) -> Bool {
    guard label[index].value == 0x200C,
      let before = label[..<index].last(where: { !isNonspacingMark($0) }),
      let after = label[(index + 1)...].first(where: { !isNonspacingMark($0) })
    else { return false }
    return isCursive(before) && isCursive(after)
  }

  private static func isNonspacingMark(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.generalCategory == .nonspacingMark
  }

  /// A letter of the blocks whose scripts join letters: Arabic, Syriac, N'Ko, Mandaic, Mongolian, Phags-pa, Adlam and old relatives.
  private static func isCursive(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x620...0x77F, 0x7CA...0x7EA, 0x840...0x8C8, 0x1820...0x18AA, 0xA840...0xA872, 0x10AC0...0x10FFF,
      0x1E900...0x1E943:
      scalar.properties.isAlphabetic && !isMark(scalar)
    default: false
    }
  }

  /// Stricter than RFC 5893, which needs a table of directions: a label with a right-to-left letter has only those, digits, marks and
  /// hyphens, and neither begins with a digit nor ends with a hyphen. Arabic-Indic digits stand with no others (section 2, rule 4).
  private static func checkDirections(_ label: [Unicode.Scalar]) throws(HostRefusal) {
    let arabic = label.contains { (0x660...0x669).contains($0.value) }
    let european = label.contains { (0x30...0x39).contains($0.value) || (0x6F0...0x6F9).contains($0.value) }
    guard !(arabic && european) else { throw HostRefusal.mixedDirections }
    guard arabic || label.contains(where: isRightToLeft) else { return }
    guard let first = label.first, isRightToLeft(first), first.properties.generalCategory != .decimalNumber else {
      throw HostRefusal.mixedDirections
    }
    for scalar in label {
      let isNeutral =
        scalar == "-" || scalar.properties.generalCategory == .decimalNumber
        || scalar.properties.generalCategory == .nonspacingMark
      guard isNeutral || isRightToLeft(scalar) else { throw HostRefusal.mixedDirections }
    }
  }

  /// The blocks that Unicode reserves for right-to-left scripts.
  private static func isRightToLeft(_ scalar: Unicode.Scalar) -> Bool {
    switch scalar.value {
    case 0x590...0x8FF, 0xFB1D...0xFDFF, 0xFE70...0xFEFF, 0x10800...0x10FFF, 0x1E800...0x1EFFF: true
    default: false
    }
  }
}
