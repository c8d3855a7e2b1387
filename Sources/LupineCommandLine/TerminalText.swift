internal import LupineRules

/// Makes text of a peer safe to show: control characters cannot move the cursor, change the title or hide anything.
package enum TerminalText {
  /// Escapes every unsafe character, line ends and tabs as well unless `keepsLines`.
  package static func escaped(_ text: String, keepsLines: Bool = false) -> String {
    guard text.unicodeScalars.contains(where: InvisibleText.isUnsafe) else { return text }
    var result = ""
    for scalar in text.unicodeScalars {
      if !InvisibleText.isUnsafe(scalar) || keepsLines && (scalar == "\n" || scalar == "\t") {
        result.unicodeScalars.append(scalar)
      } else if scalar.value < 0x100 {
        result += "\\x" + hexadecimal(scalar.value, digits: 2)
      } else {
        result += "\\u{" + hexadecimal(scalar.value, digits: 4) + "}"
      }
    }
    return result
  }

  private static func hexadecimal(_ value: UInt32, digits: Int) -> String {
    let text = String(value, radix: 16)
    return String(repeating: "0", count: max(0, digits - text.count)) + text
  }
}
