internal import LupineRules

/// Why a line makes no request; becomes the `error` of its result.
package struct BatchRefusal: Error, Sendable, Equatable {
  /// Bytes of a message, whatever it repeats: a line may be as long as a body.
  package static let lengthLimit = 1_024
  /// Characters of a text that a message repeats.
  private static let quotedLimit = 64

  package let code: String
  package let message: String

  package init(_ message: String, code: String = "badRequest") {
    self.message =
      message.utf8.count <= Self.lengthLimit
      ? message : Self.beginning(of: message, scalars: (Self.lengthLimit - 3) / 4) + "…"
    self.code = code
  }

  /// Text of a line as a message repeats it: its beginning in quotation marks, with escapes for what terminals act on and what hides text.
  package static func quoted(_ text: String) -> String {
    let start = beginning(of: text, scalars: quotedLimit)
    return JSONWriter.quoted(start, escapingC1: true) + (start.utf8.count < text.utf8.count ? "…" : "")
  }

  /// The same of what ought to begin with a name: up to and with the first blank or sign that may stand behind one. Who writes a field in another form than is wanted writes its
  /// value too, which may be a secret.
  package static func quoted(nameIn text: String) -> String {
    let end = text.unicodeScalars.firstIndex { "=:;,@".unicodeScalars.contains($0) || $0.properties.isWhitespace }
    return quoted(end.map { String(text.unicodeScalars[...$0]) } ?? text)
  }

  /// By scalars: a character may have any number of marks.
  private static func beginning(of text: String, scalars count: Int) -> String {
    var result = String.UnicodeScalarView()
    for scalar in text.unicodeScalars.prefix(count) { result.append(scalar) }
    return String(result)
  }
}
