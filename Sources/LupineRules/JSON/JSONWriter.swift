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

  /// A string literal. DEL and the C1 controls are escaped too: terminals act on them.
  package static func quote(_ text: String, into output: inout [UInt8], escapingC1: Bool = false) {
    output.append(UInt8(ascii: "\""))
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": output += #"\""#.utf8
      case "\\": output += #"\\"#.utf8
      case "\n": output += #"\n"#.utf8
      case "\r": output += #"\r"#.utf8
      case "\t": output += #"\t"#.utf8
      case _ where scalar.value < 0x20 || scalar.value == 0x7F || escapingC1 && InvisibleText.isUnsafe(scalar):
        for unit in Character(scalar).utf16 {
          let digits = String(unit, radix: 16)
          output += "\\u".utf8
          output += String(repeating: "0", count: max(0, 4 - digits.count)).utf8
          output += digits.utf8
        }
      default: output += UTF8.encode(scalar).map { Array($0) } ?? []
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  package static func quoted(_ text: String, escapingC1: Bool = false) -> String {
    var output: [UInt8] = []
    quote(text, into: &output, escapingC1: escapingC1)
    return String(decoding: output, as: UTF8.self)
  }
}
