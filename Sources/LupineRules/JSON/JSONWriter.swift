/// Writes JSON values on one line.
package enum JSONWriter {
  /// On one line. Control characters are always escaped, so a value never breaks a line.
  ///
  /// - Parameter escapingC1: escape also what terminals act on, or what hides text.
  package static func line(_ value: JSONValue, escapingC1: Bool = false) -> [UInt8] {
    var output: [UInt8] = []
    write(value, escapingC1, into: &output)
    return output
  }

  private static func write(_ value: JSONValue, _ escapingC1: Bool, into output: inout [UInt8]) {
    switch value {
    case .null: output += "null".utf8
    case .boolean(let flag): output += (flag ? "true" : "false").utf8
    case .number(let text): output += text.utf8
    case .string(let text): quote(text, into: &output, escapingC1: escapingC1)
    case .array(let values):
      output.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        write(value, escapingC1, into: &output)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let members):
      output.append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        quote(member.name, into: &output, escapingC1: escapingC1)
        output.append(UInt8(ascii: ":"))
        write(member.value, escapingC1, into: &output)
      }
      output.append(UInt8(ascii: "}"))
    }
  }

  /// A string literal. DEL is escaped too, and the C1 controls where they are asked for: terminals act on them.
  package static func quote(_ text: String, into output: inout [UInt8], escapingC1: Bool = false) {
    let bytes = Array(text.utf8)
    output.append(UInt8(ascii: "\""))
    // What stands as it is goes in one piece with what is beside it.
    var start = 0
    var index = 0
    while index < bytes.count {
      let byte = bytes[index]
      let end = byte < 0x80 ? index + 1 : index + (~byte).leadingZeroBitCount
      let isSpecial = byte < 0x80 ? !standsForItself(byte) : escapingC1
      if isSpecial, let scalar = scalar(bytes, index..<end), byte < 0x80 || InvisibleText.isUnsafe(scalar) {
        if start < index { output += bytes[start..<index] }
        escape(scalar, into: &output)
        start = end
      }
      index = end
    }
    if start < index { output += bytes[start..<index] }
    output.append(UInt8(ascii: "\""))
  }

  /// Of an ASCII byte.
  private static func standsForItself(_ byte: UInt8) -> Bool {
    byte >= 0x20 && byte != 0x7F && byte != UInt8(ascii: "\"") && byte != UInt8(ascii: "\\")
  }

  /// The character that stands there.
  private static func scalar(_ bytes: [UInt8], _ range: Range<Int>) -> Unicode.Scalar? {
    guard range.count > 1 else { return Unicode.Scalar(bytes[range.lowerBound]) }
    var value = UInt32(bytes[range.lowerBound] & 0x7F >> UInt8(range.count))
    for byte in bytes[range.dropFirst()] { value = value << 6 | UInt32(byte & 0x3F) }
    return Unicode.Scalar(value)
  }

  private static func escape(_ scalar: Unicode.Scalar, into output: inout [UInt8]) {
    let letter: UInt8? =
      switch scalar {
      case "\"", "\\": UInt8(ascii: scalar)
      case "\n": UInt8(ascii: "n")
      case "\r": UInt8(ascii: "r")
      case "\t": UInt8(ascii: "t")
      default: nil
      }
    if let letter {
      output.append(UInt8(ascii: "\\"))
      output.append(letter)
      return
    }
    for unit in UTF16.encode(scalar) ?? UTF16.encodedReplacementCharacter {
      output += #"\u"#.utf8
      for shift in [12, 8, 4, 0] {
        let digit = UInt8(truncatingIfNeeded: unit >> UInt16(shift)) & 0xF
        output.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      }
    }
  }

  package static func quoted(_ text: String, escapingC1: Bool = false) -> String {
    var output: [UInt8] = []
    quote(text, into: &output, escapingC1: escapingC1)
    return String(decoding: output, as: UTF8.self)
  }
}
