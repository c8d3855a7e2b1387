/// Colours of a terminal; every one is empty where output is no terminal, or where `NO_COLOR` is set.
package struct Style: Sendable, Equatable {
  package enum Colour: String, Sendable {
    case bold = "1"
    case dim = "2"
    case red = "31"
    case green = "32"
    case yellow = "33"
    case blue = "34"
    case magenta = "35"
    case cyan = "36"
  }

  package var isColoured: Bool

  package static let plain = Style(isColoured: false)

  package init(isColoured: Bool) {
    self.isColoured = isColoured
  }

  package func paint(_ text: String, _ colours: Colour...) -> String {
    guard isColoured, !text.isEmpty else { return text }
    return "\u{1b}[" + colours.map(\.rawValue).joined(separator: ";") + "m" + text + "\u{1b}[0m"
  }
}
