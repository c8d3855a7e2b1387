package import LupineRules

extension JSONWriter {
  /// Indented by two spaces; colours are empty for plain text.
  package static func pretty(_ value: JSONValue, style: Style = .plain) -> String {
    pretty(value, style: style, limit: .max) ?? ""
  }

  /// The same; nil if it has more than `limit` bytes, of which little more are ever held. A byte deep in a value can become hundreds.
  package static func pretty(_ value: JSONValue, style: Style = .plain, limit: Int) -> String? {
    var printer = PrettyPrinter(style: style, limit: limit)
    printer.print(value, indentation: 0)
    return printer.isWithinLimit ? printer.text : nil
  }
}

/// Lays a value out over lines.
private struct PrettyPrinter {
  let style: Style
  let limit: Int
  var text = ""

  init(style: Style, limit: Int) {
    self.style = style
    self.limit = limit
  }

  var isWithinLimit: Bool { text.utf8.count <= limit }

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
      guard isWithinLimit else { return }
      text += index > 0 ? ",\n" : "\n"
      text += String(repeating: "  ", count: indentation + 1)
      element(&self, index)
    }
    text += "\n" + String(repeating: "  ", count: indentation) + close
  }
}
