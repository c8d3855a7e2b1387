/// Writes JSON values: on one line for programs, or indented and in colour for people.
enum JSONWriter {
  /// On one line. Control characters are always escaped, so a value never breaks a line.
  static func line(_ value: JSONValue) -> [UInt8] {
    var output: [UInt8] = []
    write(value, into: &output)
    return output
  }

  /// Indented by two spaces; colours are empty for plain text.
  static func pretty(_ value: JSONValue, style: Style = .plain) -> String {
    var printer = PrettyPrinter(style: style)
    printer.print(value, indentation: 0)
    return printer.text
  }

  private static func write(_ value: JSONValue, into output: inout [UInt8]) {
    switch value {
    case .null: output += "null".utf8
    case .boolean(let flag): output += (flag ? "true" : "false").utf8
    case .number(let text): output += text.utf8
    case .string(let text): quote(text, into: &output)
    case .array(let values):
      output.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        write(value, into: &output)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let members):
      output.append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        quote(member.name, into: &output)
        output.append(UInt8(ascii: ":"))
        write(member.value, into: &output)
      }
      output.append(UInt8(ascii: "}"))
    }
  }

  /// A string literal. DEL and the C1 controls are escaped too: terminals act on them.
  static func quote(_ text: String, into output: inout [UInt8], escapingC1: Bool = false) {
    output.append(UInt8(ascii: "\""))
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": output += #"\""#.utf8
      case "\\": output += #"\\"#.utf8
      case "\n": output += #"\n"#.utf8
      case "\r": output += #"\r"#.utf8
      case "\t": output += #"\t"#.utf8
      case _ where scalar.value < 0x20 || scalar.value == 0x7F || escapingC1 && TerminalText.isUnsafe(scalar):
        let digits = String(scalar.value, radix: 16)
        output += "\\u".utf8
        output += String(repeating: "0", count: max(0, 4 - digits.count)).utf8
        output += digits.utf8
      default: output += UTF8.encode(scalar).map { Array($0) } ?? []
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  static func quoted(_ text: String, escapingC1: Bool = false) -> String {
    var output: [UInt8] = []
    quote(text, into: &output, escapingC1: escapingC1)
    return String(decoding: output, as: UTF8.self)
  }
}

/// Lays a value out over lines.
private struct PrettyPrinter {
  let style: Style
  var text = ""

  init(style: Style) {
    self.style = style
  }

  mutating func print(_ value: JSONValue, indentation: Int) {
    switch value {
    case .null: text += style.paint("null", .magenta)
    case .boolean(let flag): text += style.paint(flag ? "true" : "false", .magenta)
    case .number(let number): text += style.paint(number, .yellow)
    case .string(let string): text += style.paint(JSONWriter.quoted(string, escapingC1: true), .green)
    case .array(let values):
      block("[", "]", count: values.count, indentation) { printer, index in
        printer.print(values[index], indentation: indentation + 1)
      }
    case .object(let members):
      block("{", "}", count: members.count, indentation) { printer, index in
        let name = JSONWriter.quoted(members[index].name, escapingC1: true)
        printer.text += printer.style.paint(name, .blue) + ": "
        printer.print(members[index].value, indentation: indentation + 1)
      }
    }
  }

  private mutating func block(
    _ open: String, _ close: String, count: Int, _ indentation: Int, _ element: (inout PrettyPrinter, Int) -> Void
  ) {
    text += open
    guard count > 0 else {
      text += close
      return
    }
    for index in 0..<count {
      text += index > 0 ? ",\n" : "\n"
      text += String(repeating: "  ", count: indentation + 1)
      element(&self, index)
    }
    text += "\n" + String(repeating: "  ", count: indentation) + close
  }
}
