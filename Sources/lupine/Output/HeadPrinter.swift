internal import LupineCommandLine
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// Lays out message heads for people: secrets hidden unless asked for, control characters escaped.
struct HeadPrinter: Sendable {
  var style: Style
  var showsSecrets: Bool
  /// Before each line: ">" and "<" in verbose output, nothing otherwise.
  var marks = true
  /// Names of fields that are secrets besides the known ones, in lower case.
  var secretNames: Set<String> = []

  private static let mark = "[hidden; --show-secrets shows it]"

  /// A request head as it was sent, without the empty line at its end.
  func request(_ bytes: [UInt8]) -> String {
    var lines = String(decoding: bytes, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: true)
    guard !lines.isEmpty else { return "" }
    let first = TerminalText.escaped(shown(requestLine: String(lines.removeFirst())))
    let parts = first.split(separator: " ", maxSplits: 1)
    var text = line(">", style.paint(String(parts[0]), .bold, .green) + (parts.count > 1 ? " " + parts[1] : ""))
    for line in lines {
      let parts = line.utf8.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
      let value = parts.count > 1 ? Substring(parts[1].drop { $0 == UInt8(ascii: " ") }) : ""
      text += field(">", String(Substring(parts[0])), String(value))
    }
    return text
  }

  /// A response head in wire order and case.
  func response(_ head: ResponseHead) -> String {
    let colour: Style.Colour =
      switch head.status {
      case ..<300: .green
      case ..<400: .cyan
      case ..<500: .yellow
      default: .red
      }
    let reason = head.reason.isEmpty ? "" : " " + TerminalText.escaped(head.reason)
    var text = line("<", "\(head.version) " + style.paint("\(head.status)\(reason)", .bold, colour))
    text += fields("<", head.fields)
    return text
  }

  /// What followed the body of a request, in the order in which it was sent.
  func request(trailers fields: [(name: String, value: String)]) -> String {
    fields.map { field(">", $0.name, $0.value) }.joined()
  }

  /// What followed the body of a response.
  func trailers(_ fields: FieldSection) -> String {
    self.fields("<", fields)
  }

  private func fields(_ mark: String, _ fields: FieldSection) -> String {
    fields.pairs.map { field(mark, $0.name, $0.value) }.joined()
  }

  private func field(_ mark: String, _ name: String, _ value: String) -> String {
    let shown: String
    if showsSecrets {
      shown = value
    } else {
      let lower = name.lowercased()
      shown =
        switch lower {
        case "authorization", "proxy-authorization": Self.hidden(credentials: value)
        case "cookie", "set-cookie": Self.mark
        case _ where APIKeyField.isOne(lowercased: lower) || secretNames.contains(lower): Self.mark
        default: SecretText.redacted(field: name, value: value)
        }
    }
    return line(mark, style.paint(TerminalText.escaped(name), .cyan) + ": " + TerminalText.escaped(shown))
  }

  /// A request line whose target is without credentials.
  private func shown(requestLine: String) -> String {
    let words = requestLine.split(separator: " ", omittingEmptySubsequences: false)
    guard !showsSecrets, words.count == 3 else { return requestLine }
    return "\(words[0]) \(SecretText.redacted(url: String(words[1]))) \(words[2])"
  }

  /// The scheme may be seen. By bytes: with a mark behind it, which a secret may begin with, a blank or a sign is another character.
  private static func hidden(credentials value: String) -> String {
    let bytes = value.utf8
    guard let space = bytes.firstIndex(of: UInt8(ascii: " ")),
      !bytes[..<space].contains(where: { $0 == UInt8(ascii: "=") || $0 == UInt8(ascii: ";") })
    else { return mark }
    return "\(value[..<space]) \(mark)"
  }

  private func line(_ mark: String, _ text: String) -> String {
    (marks ? style.paint(mark, .dim) + " " : "") + text + "\n"
  }
}
