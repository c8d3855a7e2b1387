internal import LupineCommandLine
internal import LupineRules
internal import LupineSession

/// Oracle: in whatever pieces a body comes, a terminal is shown what a plain reading of the whole says, and after each piece all but three bytes of what
/// came: harmless characters as they are, no control but line feed and tab, nothing that reorders text or is not seen, at most four bytes for one. JSON
/// that is laid out is safe in the same way, reads back as the same value, is laid out again as the same, says what it says on one line, and is
/// nothing beyond its limit; colours change nothing but colours. What `--write-out` prints is its format, and values that are safe on a terminal.
///
/// The first byte chooses: a body; JSON; or a format and, each behind a byte 0xFF, a URL and a media type.
package enum TerminalTextFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let rest = Array(bytes.dropFirst())
    switch choice % 3 {
    case 0: checkBody(rest)
    case 1: checkJSON(rest)
    default: checkFormat(rest)
    }
  }

  // MARK: Bodies

  private static func checkBody(_ body: [UInt8]) {
    let expected = plainlyShown(body)
    for size in [1, 2, 3, 7, max(1, body.count)] {
      var stream = TerminalTextStream()
      var text: [UInt8] = []
      for start in stride(from: 0, to: body.count, by: size) {
        let end = min(body.count, start + size)
        text += Array(stream.text(Array(body[start..<end])).utf8)
        var ended = stream
        let held = Array(ended.finish().utf8)
        precondition(held.count <= 9, "more is held back than three bytes")
        // Of each beginning, as long as that takes no time.
        if body.count <= 64 { precondition(text + held == plainlyShown(Array(body[..<end])), "another beginning") }
      }
      text += Array(stream.finish().utf8)
      precondition(text == expected, "other pieces show another text")
      precondition(text.count <= 4 * body.count, "a body that grows")
      let more = stream.finish()
      precondition(more.isEmpty, "the end came twice")
    }
    checkHarmless(expected, "\n\t")
    let whole = String(decoding: body, as: UTF8.self)
    for keepsLines in [false, true] {
      let text = Array(TerminalText.escaped(whole, keepsLines: keepsLines).utf8)
      precondition(text == shown(scalars(body), keepsLines: keepsLines), "another text")
    }
  }

  private static func plainlyShown(_ body: [UInt8]) -> [UInt8] {
    let all = scalars(body)
    // A CR before a line feed is a part of the line's end.
    let rest = all.indices.filter { all[$0] != 0x0D || $0 + 1 == all.count || all[$0 + 1] != 0x0A }.map { all[$0] }
    return shown(rest, keepsLines: true)
  }

  private static func shown(_ scalars: [UInt32], keepsLines: Bool) -> [UInt8] {
    var result: [UInt8] = []
    for value in scalars {
      if isHarmless(value) || keepsLines && (value == 0x0A || value == 0x09) {
        result += Array(String(Character(Unicode.Scalar(value) ?? "\u{FFFD}")).utf8)
      } else {
        let digits = Array(String(value, radix: 16).utf8)
        let zeros = [UInt8](repeating: UInt8(ascii: "0"), count: max(0, (value < 0x100 ? 2 : 4) - digits.count))
        let (begin, end) = value < 0x100 ? ("\\x", "") : ("\\u{", "}")
        result += Array(begin.utf8) + zeros + digits + Array(end.utf8)
      }
    }
    return result
  }

  /// By Unicode's properties instead of a list.
  private static func isHarmless(_ value: UInt32) -> Bool {
    guard let scalar = Unicode.Scalar(value) else { return false }
    switch scalar.properties.generalCategory {
    case .control, .lineSeparator, .paragraphSeparator: return false
    // Such as the selectors of variants: they are seen by the character before them.
    case .nonspacingMark: return true
    default: return !scalar.properties.isDefaultIgnorableCodePoint && !(0xFFF9...0xFFFB).contains(value)
    }
  }

  private static func checkHarmless(_ text: [UInt8], _ kept: String = "") {
    let exceptions = kept.unicodeScalars.map { $0.value }
    let isSafe = scalars(text).allSatisfy { isHarmless($0) || exceptions.contains($0) }
    precondition(isSafe, "a terminal acts on it, or hides it")
  }

  /// The scalars of UTF-8 (Unicode, table 3-7); the longest beginning of a sequence that does not go on is one U+FFFD.
  private static func scalars(_ bytes: [UInt8]) -> [UInt32] {
    var result: [UInt32] = []
    var index = 0
    while index < bytes.count {
      let lead = bytes[index]
      index += 1
      let (count, second) = continuation(of: lead)
      var value = UInt32(lead)
      if lead >= 0x80 { value &= 0x3F >> UInt32(count) }
      var isWhole = lead < 0x80 || count > 0
      for place in 0..<count {
        let range: ClosedRange<UInt8> = place == 0 ? second : 0x80...0xBF
        guard index < bytes.count, range.contains(bytes[index]) else {
          isWhole = false
          break
        }
        value = value << 6 | UInt32(bytes[index] & 0x3F)
        index += 1
      }
      result.append(isWhole ? value : 0xFFFD)
    }
    return result
  }

  /// How many bytes follow a first one, and which of them may be the second.
  private static func continuation(of lead: UInt8) -> (count: Int, second: ClosedRange<UInt8>) {
    switch lead {
    case 0xC2...0xDF: return (1, 0x80...0xBF)
    case 0xE0: return (2, 0xA0...0xBF)
    case 0xED: return (2, 0x80...0x9F)
    case 0xE1...0xEF: return (2, 0x80...0xBF)
    case 0xF0: return (3, 0x90...0xBF)
    case 0xF1...0xF3: return (3, 0x80...0xBF)
    case 0xF4: return (3, 0x80...0x8F)
    default: return (0, 0x80...0xBF)
    }
  }

  // MARK: JSON

  private static func checkJSON(_ text: [UInt8]) {
    guard let value = try? JSONReader.read(text, valueLimit: 1_000) else { return }
    let laidOut = JSONWriter.pretty(value)
    let bytes = Array(laidOut.utf8)
    checkHarmless(bytes, "\n")
    guard let again = try? JSONReader.read(bytes) else { preconditionFailure("what is laid out is no JSON") }
    // The bytes as well: texts are the same however Unicode writes them.
    precondition(again == value && JSONWriter.line(again) == JSONWriter.line(value), "it reads as another value")
    precondition(Array(JSONWriter.pretty(again).utf8) == bytes, "it is laid out otherwise the second time")
    precondition(onOneLine(bytes) == JSONWriter.line(value, escapingC1: true), "on one line it says something else")
    precondition(!bytes.contains(0x09) && bytes.last != 0x0A && !bytes.isEmpty, "another layout")
    let coloured = JSONWriter.pretty(value, style: Style(isColoured: true))
    precondition(withoutColours(Array(coloured.utf8)) == bytes, "colours change more than colours")
    for (style, whole) in [(Style.plain, laidOut), (Style(isColoured: true), coloured)] {
      let count = whole.utf8.count
      let within = JSONWriter.pretty(value, style: style, limit: count)
      precondition(within == whole, "nothing within the limit")
      for limit in [0, count / 2, count - 1] {
        precondition(JSONWriter.pretty(value, style: style, limit: limit) == nil, "more than the limit")
      }
    }
  }

  /// Without blanks and line ends between the tokens.
  private static func onOneLine(_ text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var isString = false
    var isEscaped = false
    for byte in text {
      if isString || byte != 0x20 && byte != 0x0A { result.append(byte) }
      if byte == UInt8(ascii: "\""), !isEscaped { isString.toggle() }
      isEscaped = isString && byte == UInt8(ascii: "\\") && !isEscaped
    }
    return result
  }

  /// Without `ESC [ … m`.
  private static func withoutColours(_ text: [UInt8]) -> [UInt8] {
    var result: [UInt8] = []
    var rest = text[...]
    while let byte = rest.popFirst() {
      guard byte == 0x1B else {
        result.append(byte)
        continue
      }
      guard rest.popFirst() == UInt8(ascii: "["), let end = rest.firstIndex(of: UInt8(ascii: "m")) else {
        preconditionFailure("what is no colour")
      }
      let isColour = rest[..<end].allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ";") }
      precondition(isColour, "more than a colour")
      rest = rest[(end + 1)...]
    }
    return result
  }

  // MARK: Formats

  private static func checkFormat(_ bytes: [UInt8]) {
    let texts = bytes.split(separator: 0xFF, maxSplits: 2, omittingEmptySubsequences: false).map {
      String(decoding: $0, as: UTF8.self)
    }
    let url = texts.count > 1 ? texts[1] : ""
    let contentType = texts.count > 2 ? texts[2] : ""
    let facts = Self.facts(url, contentType)
    let format = Array(texts[0].utf8)
    for isForTerminal in [true, false] {
      let values = Self.values(of: facts, isForTerminal: isForTerminal)
      let expected = plainlyWritten(format, values)
      guard let template = Self.template(texts[0]) else {
        precondition(expected == nil, "a format is refused")
        continue
      }
      let text = Array(template.text(facts, isForTerminal: isForTerminal).utf8)
      precondition(text == expected, "something else is written")
      // What the caller writes goes out as it is.
      guard isForTerminal, let own = plainlyWritten(format, values.mapValues { _ in [] }) else { continue }
      if scalars(own).allSatisfy({ isHarmless($0) }) { checkHarmless(text) }
    }
  }

  private static func template(_ format: String) -> WriteOut? {
    do throws(WriteOut.Refusal) {
      return try WriteOut(format)
    } catch {
      precondition(error.message.utf8.count <= 2_048, "a message as long as its format")
      checkHarmless(Array(error.message.utf8))
      return nil
    }
  }

  private static func facts(_ url: String, _ contentType: String) -> WriteOut.Facts {
    var times = TransactionMetrics.Times()
    times.fetchStart = 1_000
    times.requestStart = 2_000
    times.responseStart = 2_000 + Int64(contentType.utf8.count) * 123_456_789
    times.responseEnd = times.responseStart
    var metrics = TaskMetrics()
    metrics.start = 1_000
    metrics.duration = .nanoseconds(Int64(url.utf8.count) * 987_654_321)
    metrics.redirectCount = url.utf8.count
    metrics.transactions = [TransactionMetrics(method: "GET", times: times)]
    return WriteOut.Facts(
      url: url, status: contentType.utf8.count % 1_000, contentType: contentType, metrics: metrics)
  }

  private static func values(of facts: WriteOut.Facts, isForTerminal: Bool) -> [String: [UInt8]] {
    let last = facts.metrics?.transactions.last
    let begin = facts.metrics?.start ?? 0
    func seconds(_ instant: Int64?) -> String {
      guard let instant, instant > begin else { return "0.000000" }
      var text = String((instant - begin) / 1_000)
      while text.utf8.count < 7 { text = "0" + text }
      return "\(text.dropLast(6)).\(text.suffix(6))"
    }
    let status = String(String(1_000 + facts.status).dropFirst())
    let total = begin + Int64(facts.url.utf8.count) * 987_654_321
    let values = [
      "http_code": status, "response_code": status, "time_total": seconds(total),
      "time_namelookup": seconds(last?.resolveEnd), "time_connect": seconds(last?.connectEnd),
      "time_appconnect": seconds(last?.secureConnectionEnd), "time_starttransfer": seconds(last?.responseStart),
      "size_download": "0", "num_redirects": "\(facts.url.utf8.count)", "url_effective": facts.url, "remote_ip": "",
      "content_type": facts.contentType,
    ]
    return values.mapValues { value in
      let bytes = Array(value.utf8)
      return isForTerminal ? shown(scalars(bytes), keepsLines: false) : bytes
    }
  }

  /// Nil: it is no format.
  private static func plainlyWritten(_ format: [UInt8], _ values: [String: [UInt8]]) -> [UInt8]? {
    let escapes: [UInt8: UInt8] = [
      UInt8(ascii: "n"): 0x0A, UInt8(ascii: "t"): 0x09, UInt8(ascii: "r"): 0x0D, UInt8(ascii: "\\"): UInt8(ascii: "\\"),
    ]
    var result: [UInt8] = []
    var rest = format[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "%"), rest.first == UInt8(ascii: "%") {
        rest.removeFirst()
        result.append(byte)
      } else if byte == UInt8(ascii: "%"), rest.first == UInt8(ascii: "{") {
        guard let end = rest.firstIndex(of: UInt8(ascii: "}")) else { return nil }
        guard let value = values[String(decoding: rest[..<end].dropFirst(), as: UTF8.self)] else { return nil }
        result += value
        rest = rest[(end + 1)...]
      } else if byte == UInt8(ascii: "\\"), let escaped = rest.first.flatMap({ escapes[$0] }) {
        rest.removeFirst()
        result.append(escaped)
      } else {
        result.append(byte)
      }
    }
    return result
  }
}
