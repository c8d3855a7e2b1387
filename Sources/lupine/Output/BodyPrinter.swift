internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// Writes a body to standard output: as it came, or, on a terminal, safe and pleasant to read.
struct BodyPrinter {
  /// JSON up to this size is laid out anew on a terminal; more is shown as it came.
  private static let layoutLimit = 8 << 20
  /// The same of what is made of it.
  private static let laidOutLimit = 32 << 20

  let console: Console

  /// - Returns: false if it is not shown, and not read to its end.
  func print(_ body: ResponseBytes, of response: Response) async throws -> Bool {
    guard console.outputIsTerminal else {
      let output = System.Stream.output.rawValue
      for try await chunk in body.chunks { try System.write(chunk, to: output, name: "standard output") }
      try System.flush(output, name: "standard output")
      return true
    }
    if Self.isJSON(response.mimeType) { return try await printJSON(body) }
    var stream = body.chunks.makeAsyncIterator()
    return try await printText(try await stream.next()) { try await stream.next() }
  }

  static func isJSON(_ mediaType: String?) -> Bool {
    guard let mediaType else { return false }
    return mediaType == "application/json" || mediaType == "text/json" || mediaType.hasSuffix("+json")
  }

  private func printJSON(_ body: ResponseBytes) async throws -> Bool {
    var stream = body.chunks.makeAsyncIterator()
    var all: [UInt8] = []
    do {
      while all.count <= Self.layoutLimit, let chunk = try await stream.next() { all += chunk }
    } catch {
      // What came is shown all the same.
      _ = try await printText(all.isEmpty ? nil : all) { nil }
      throw error
    }
    if all.count > Self.layoutLimit { return try await printText(all) { try await stream.next() } }
    guard !all.isEmpty else { return true }
    guard let value = try? JSONReader.read(all),
      let text = JSONWriter.pretty(value, style: console.outputStyle, limit: Self.laidOutLimit)
    else { return try await printText(all) { nil } }
    try System.print(text + "\n")
    return true
  }

  /// Where `more` throws, what came until then ends its line all the same.
  private func printText(_ first: [UInt8]?, _ more: () async throws -> [UInt8]?) async throws -> Bool {
    guard let first else { return true }
    if first.prefix(1024).contains(0) {
      System.tell("lupine: the body is binary and not shown on a terminal; use --output FILE, or a pipe\n")
      return false
    }
    var text = TerminalTextStream()
    var next: [UInt8]? = first
    var (endsLine, failure) = (true, (any Error)?.none)
    while let chunk = next {
      let shown = text.text(chunk)
      if let last = shown.utf8.last { endsLine = last == UInt8(ascii: "\n") }
      try System.print(shown)
      do { next = try await more() } catch { (next, failure) = (nil, error) }
    }
    let rest = text.finish()
    if !rest.isEmpty { endsLine = false }
    try System.print(rest + (endsLine ? "" : "\n"))
    if let failure { throw failure }
    return true
  }
}
