internal import LupineCommandLine

/// What the standard streams are: decides about colours, layouts and progress, once.
struct Console: Sendable {
  var outputIsTerminal: Bool
  var errorIsTerminal: Bool
  var usesColour: Bool
  /// Whether the terminal does what escape sequences say.
  var knowsEscapes: Bool

  static let current = Console(
    outputIsTerminal: System.Stream.output.isTerminal, errorIsTerminal: System.Stream.error.isTerminal,
    // https://no-color.org: any value but the empty one.
    usesColour: (System.environment("NO_COLOR") ?? "").isEmpty,
    knowsEscapes: System.environment("TERM") != "dumb")

  var outputStyle: Style { Style(isColoured: outputIsTerminal && usesColour && knowsEscapes) }
  var errorStyle: Style { Style(isColoured: errorIsTerminal && usesColour && knowsEscapes) }

  var progressBar: ProgressBar { ProgressBar(isActive: errorIsTerminal && knowsEscapes, style: errorStyle) }
}
