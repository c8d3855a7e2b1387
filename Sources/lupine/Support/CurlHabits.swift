/// Options of curl that mean something else here, where they stand as curl's.
enum CurlHabits {
  /// One line for each letter that stands directly before an argument that looks like curl's. No line repeats what was given: cookies and data are secrets.
  static func warnings(_ arguments: [String]) -> [String] {
    var warnings: [String] = []
    let line = arguments.prefix { $0 != "--" }
    for (option, value) in zip(line, line.dropFirst()) {
      guard let warning = warning(option, before: value), !warnings.contains(warning) else { continue }
      warnings.append(warning)
    }
    return warnings
  }

  private static func warning(_ option: String, before value: String) -> String? {
    switch option {
    case "-b" where isPair(value):
      "-b means --body here, the body alone; a cookie is a header field: 'Cookie:NAME=VALUE'"
    case "-F" where isPair(value):
      "-F means --follow here; fields of a form are items: --form NAME=VALUE, or NAME@FILE for a file"
    case "-d" where isPair(value) || isBody(value):
      "-d means --download here; data are items: NAME=VALUE for JSON, with --form for a form, or --raw TEXT"
    default: nil
    }
  }

  /// `name=value`, and none of the items that curl has not: `name==value`, `name:=json` and `name:value=`.
  private static func isPair(_ text: String) -> Bool {
    guard let mark = text.firstIndex(where: { ":=@/?".contains($0) }), text[mark] == "=" else { return false }
    return mark > text.startIndex && !text[text.index(after: mark)...].hasPrefix("=") && !text.hasPrefix("-")
  }

  private static func isBody(_ text: String) -> Bool {
    text.hasPrefix("{") || text.hasPrefix("[") || text.hasPrefix("@")
  }
}
