/// Words of a shell command (POSIX sh; bash, dash, ksh and zsh agree on all that is used here), for any bytes.
///
/// Three forms: as it is, in single quotes, or, where there are control characters, characters that hide or reorder text, or bytes that are no
/// UTF-8, `"$(printf '...')"` with those in octal, line ends as `\n`. Not `$'...'`: dash, which is Debian's sh, does not know it. Line ends
/// at the end of an argument are the one control character that stands as it is: shells take them off what a command prints.
package enum ShellQuoting {
  /// One argument; nil if it holds NUL, which no argument can.
  package static func argument(_ bytes: [UInt8]) -> String? {
    guard !bytes.contains(0) else { return nil }
    if !bytes.isEmpty, bytes.allSatisfy(isPlain), bytes[0] != UInt8(ascii: "=") {
      return String(decoding: bytes, as: UTF8.self)
    }
    if isPrintable(bytes) { return inSingleQuotes(bytes[...]) }
    // The shell takes line ends off the end of what a command prints.
    let end = bytes.lastIndex { $0 != UInt8(ascii: "\n") }.map { $0 + 1 } ?? 0
    if isPrintable(bytes[..<end]) { return inSingleQuotes(bytes[...]) }
    let rest = bytes[end...]
    return "\"$(printf \(printfFormat(Array(bytes[..<end]))))\"" + (rest.isEmpty ? "" : inSingleQuotes(rest))
  }

  /// One argument; a NUL, which none can hold, is left out.
  package static func argument(_ text: String) -> String {
    argument(Array(text.utf8).filter { $0 != 0 }) ?? "''"
  }

  /// Whether the bytes can be shown as they are: UTF-8 without controls and without characters that hide or reorder text.
  package static func isPrintable(_ bytes: some Collection<UInt8>) -> Bool {
    guard let text = String(validating: bytes, as: UTF8.self) else { return false }
    return !text.unicodeScalars.contains(where: InvisibleText.isUnsafe)
  }

  /// The format, in single quotes, with which `printf` writes exactly these bytes, NUL included.
  package static func printfFormat(_ bytes: [UInt8]) -> String {
    var result: [UInt8] = [UInt8(ascii: "'")]
    var iterator = bytes.makeIterator()
    var parser = Unicode.UTF8.ForwardParser()
    var index = 0
    while index < bytes.count {
      switch parser.parseScalar(from: &iterator) {
      case .emptyInput: index = bytes.count
      case .error(let length):
        for byte in bytes[index..<index + length] { octal(byte, into: &result) }
        index += length
      case .valid(let encoded):
        append(Unicode.UTF8.decode(encoded), Array(encoded), isFirst: index == 0, into: &result)
        index += encoded.count
      }
    }
    result.append(UInt8(ascii: "'"))
    return String(decoding: result, as: UTF8.self)
  }

  private static func append(_ scalar: Unicode.Scalar, _ bytes: [UInt8], isFirst: Bool, into result: inout [UInt8]) {
    switch scalar {
    case "%": result += "%%".utf8
    case "\\": result += "\\\\".utf8
    // A quote would end the format; "!" calls up bash's history even here; a format that begins with "-" is an option.
    case "'", "!": octal(bytes[0], into: &result)
    case "-" where isFirst: octal(bytes[0], into: &result)
    case "\n": result += "\\n".utf8
    case _ where InvisibleText.isUnsafe(scalar): for byte in bytes { octal(byte, into: &result) }
    default: result += bytes
    }
  }

  private static func octal(_ byte: UInt8, into result: inout [UInt8]) {
    result.append(UInt8(ascii: "\\"))
    for shift in [6, 3, 0] { result.append(UInt8(ascii: "0") + (byte >> UInt8(shift)) & 7) }
  }

  private static func inSingleQuotes(_ bytes: ArraySlice<UInt8>) -> String {
    var result: [UInt8] = [UInt8(ascii: "'")]
    for byte in bytes {
      if byte == UInt8(ascii: "'") { result += "'\\''".utf8 } else { result.append(byte) }
    }
    result.append(UInt8(ascii: "'"))
    return String(decoding: result, as: UTF8.self)
  }

  /// Means nothing to any shell, wherever it stands in an argument.
  private static func isPlain(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."),
      UInt8(ascii: "/"), UInt8(ascii: ":"), UInt8(ascii: "@"), UInt8(ascii: "%"), UInt8(ascii: "+"),
      UInt8(ascii: "="), UInt8(ascii: ","):
      true
    default: false
    }
  }
}
