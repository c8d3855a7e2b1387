internal import LupineRules

/// Oracle: a shell's own rules, written down a second time (POSIX 2.2 and `printf`), make one word of what was quoted, which is exactly the
/// bytes; nothing in it is expanded, and no byte that a terminal acts on is in it; a text that must not be shown loses its secrets, and stays
/// as it is when that is done twice.
package enum ShellQuotingFuzz {
  package static func run(bytes: [UInt8]) {
    let secretFree = SecretText.redacted(url: String(decoding: bytes, as: UTF8.self))
    precondition(
      SecretText.redacted(url: secretFree) == secretFree || secretFree.contains("//"), "redacting is not stable")
    guard let quoted = ShellQuoting.argument(bytes) else { return precondition(bytes.contains(0), "refused") }
    var shown = quoted[...]
    // Line ends at the end cannot be written otherwise.
    if shown.hasSuffix("\n'") { shown.removeLast() }
    while shown.hasSuffix("\n") { shown.removeLast() }
    precondition(!shown.unicodeScalars.contains(where: InvisibleText.isUnsafe), "a terminal would act on it")
    precondition(word(Array(quoted.utf8)) == bytes, "a shell reads another word")
    let text = String(decoding: bytes, as: UTF8.self)
    precondition(word(Array(ShellQuoting.argument(text).utf8)) == Array(text.utf8), "a shell reads another text")
    precondition(printf(Array(ShellQuoting.printfFormat(bytes).utf8)) == bytes, "printf writes other bytes")
  }

  /// What a shell makes of one word; nil if it would be anything but one word without expansions.
  private static func word(_ text: [UInt8]) -> [UInt8]? {
    var rest = text[...]
    var result: [UInt8] = []
    let substitution = Array("\"$(printf ".utf8)
    guard !text.isEmpty, text != Array("=".utf8) else { return nil }
    while let byte = rest.first {
      switch byte {
      case UInt8(ascii: "'"):
        guard let end = rest.dropFirst().firstIndex(of: UInt8(ascii: "'")) else { return nil }
        result += rest[(rest.startIndex + 1)..<end]
        rest = rest[(end + 1)...]
      case UInt8(ascii: "\\"):
        guard let next = rest.dropFirst().first else { return nil }
        result.append(next)
        rest = rest.dropFirst(2)
      case UInt8(ascii: "\"") where rest.starts(with: substitution):
        rest = rest.dropFirst(substitution.count)
        guard rest.first == UInt8(ascii: "'"), let end = rest.dropFirst().firstIndex(of: UInt8(ascii: "'")),
          rest[(end + 1)...].starts(with: ")\"".utf8), var output = printf(Array(rest[...end]))
        else { return nil }
        while output.last == UInt8(ascii: "\n") { output.removeLast() }
        result += output
        rest = rest[(end + 3)...]
      default:
        let allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:@%+=,"
        guard allowed.utf8.contains(byte) else { return nil }
        result.append(byte)
        rest = rest.dropFirst()
      }
    }
    return result
  }

  /// What `printf` writes of a format in single quotes.
  private static func printf(_ format: [UInt8]) -> [UInt8]? {
    guard format.count >= 2, format.first == UInt8(ascii: "'"), format.last == UInt8(ascii: "'") else { return nil }
    var rest = format.dropFirst().dropLast()
    var result: [UInt8] = []
    if rest.first == UInt8(ascii: "-") || rest.contains(UInt8(ascii: "'")) || rest.contains(UInt8(ascii: "!")) {
      return nil
    }
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "%"):
        guard rest.popFirst() == UInt8(ascii: "%") else { return nil }
        result.append(byte)
      case UInt8(ascii: "\\"):
        if rest.first == UInt8(ascii: "\\") {
          result.append(byte)
          rest = rest.dropFirst()
          continue
        }
        if rest.first == UInt8(ascii: "n") {
          result.append(UInt8(ascii: "\n"))
          rest = rest.dropFirst()
          continue
        }
        guard rest.count >= 3, let value = UInt8(String(decoding: rest.prefix(3), as: UTF8.self), radix: 8) else {
          return nil
        }
        result.append(value)
        rest = rest.dropFirst(3)
      default: result.append(byte)
      }
    }
    return result
  }
}
