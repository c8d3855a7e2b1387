/// `cookies.txt`: the format of Netscape, curl, wget and Python.
///
/// A cookie a line, seven fields with a tab between: domain, whether names below it get it too, path, Secure, expiry in seconds since
/// 1970 (0, or nothing: with the session), name, value. `#HttpOnly_` before the domain says so. The format has no place for `SameSite`.
package enum NetscapeCookieFile {
  /// A line that was not understood.
  package struct Problem: Error, Hashable, Sendable, CustomStringConvertible {
    /// Counted from 1.
    package let line: Int
    package let reason: Reason

    package enum Reason: Hashable, Sendable {
      case lineTooLong(limit: Int)
      case notUTF8
      /// So many fields, where 7 belong (6: the value is empty).
      case fieldCount(Int)
      case invalidExpiry
      case invalidFlag
      /// Nothing from this line on was read.
      case fileTooLong(limit: Int)
    }

    package init(line: Int, reason: Reason) {
      self.line = line
      self.reason = reason
    }

    package var description: String { "line \(line): \(message)" }

    package var message: String {
      switch reason {
      case .lineTooLong(let limit): "longer than \(limit) bytes"
      case .notUTF8: "no UTF-8"
      case .fieldCount(let count): "\(count) fields with tabs between, where 7 belong"
      case .invalidExpiry: "the expiry is no number of seconds"
      case .invalidFlag: "a flag is neither TRUE nor FALSE"
      case .fileTooLong(let limit): "more than \(limit) bytes or cookies; the rest is not read"
      }
    }
  }

  /// Bytes of a line.
  package static let lineLimit = 8 * 1024
  /// Bytes of a file.
  package static let sizeLimit = 16 << 20
  /// Cookies of a file: more than a store keeps.
  package static let recordLimit = 10_000
  /// Problems that are reported; of the rest only the number is known.
  package static let problemLimit = 100

  package struct Content: Sendable {
    /// In the order of the file, expired ones too, each with its line.
    package var records: [(line: Int, record: CookieRecord)] = []
    /// The first ones.
    package var problems: [Problem] = []
    /// How many there are.
    package var problemCount = 0

    mutating func note(_ problem: Problem) {
      problemCount += 1
      if problems.count < NetscapeCookieFile.problemLimit { problems.append(problem) }
    }
  }

  /// Reads every line that is one; the others are problems. The records still have to be validated.
  package static func read(_ bytes: Span<UInt8>, now: HTTPDate) -> Content {
    var content = Content()
    var (index, line) = (0, 0)
    while index < bytes.count {
      line += 1
      guard index < sizeLimit, content.records.count < recordLimit else {
        content.note(Problem(line: line, reason: .fileTooLong(limit: index < sizeLimit ? recordLimit : sizeLimit)))
        break
      }
      var end = bytes.firstIndex(of: UInt8(ascii: "\n"), in: index..<bytes.count) ?? bytes.count
      let next = end + 1
      if end > index, bytes[end - 1] == UInt8(ascii: "\r") { end -= 1 }
      do throws(Problem) {
        if let record = try record(bytes, index..<end, line: line, now: now) {
          content.records.append((line, record))
        }
      } catch {
        content.note(error)
      }
      index = next
    }
    return content
  }

  /// What programs write into the first line, in lower case.
  private static let titles = ["# netscape http cookie file", "# http cookie file"]

  /// Whether a file is of this format: to be asked before it is written again, which keeps nothing that is no cookie. It is if any line is a
  /// cookie, if it has the title, and if there is nothing in it at all; a file of another format may be nothing but comments.
  package static func isOne(_ bytes: Span<UInt8>) -> Bool {
    let content = read(bytes, now: HTTPDate(seconds: 0))
    if !content.records.isEmpty || bytes.indices.allSatisfy({ [9, 10, 13, 32].contains(bytes[$0]) }) { return true }
    let end = bytes.firstIndex(of: UInt8(ascii: "\n"), in: 0..<bytes.count) ?? bytes.count
    guard end <= lineLimit, let line = bytes.text(0..<end)?.lowercased() else { return false }
    return titles.contains { line.hasPrefix($0) }
  }

  private static let httpOnlyPrefix = Array("#HttpOnly_".utf8)

  /// The cookie of a line; nil for an empty line and a comment.
  private static func record(
    _ bytes: Span<UInt8>, _ line: Range<Int>, line number: Int, now: HTTPDate
  ) throws(Problem) -> CookieRecord? {
    guard line.count <= lineLimit else { throw Problem(line: number, reason: .lineTooLong(limit: lineLimit)) }
    var start = line.lowerBound
    let isHTTPOnly =
      line.count >= httpOnlyPrefix.count
      && httpOnlyPrefix.indices.allSatisfy { bytes[start + $0] == httpOnlyPrefix[$0] }
    if isHTTPOnly { start += httpOnlyPrefix.count }
    guard !line.allSatisfy({ FieldScanner.isBlank(bytes[$0]) }), isHTTPOnly || bytes[start] != UInt8(ascii: "#") else {
      return nil
    }
    guard let text = bytes.text(start..<line.upperBound) else { throw Problem(line: number, reason: .notUTF8) }
    // A value may have tabs in it.
    let fields = text.utf8.split(separator: UInt8(ascii: "\t"), maxSplits: 6, omittingEmptySubsequences: false)
    guard fields.count >= 6 else { throw Problem(line: number, reason: .fieldCount(fields.count)) }
    func string(_ index: Int) -> String { String(Substring(fields[index])) }
    guard let includesSubdomains = flag(string(1)), let isSecure = flag(string(3)) else {
      throw Problem(line: number, reason: .invalidFlag)
    }
    guard let seconds = seconds(fields[4]) else { throw Problem(line: number, reason: .invalidExpiry) }
    var domain = string(0)
    // With a mark upon it the dot is one character, which is more than the dot.
    if domain.utf8.first == UInt8(ascii: ".") { domain.unicodeScalars.removeFirst() }
    return CookieRecord(
      name: string(5), value: fields.count > 6 ? string(6) : "", domain: domain.lowercased(),
      isHostOnly: !includesSubdomains, path: string(2), isSecure: isSecure, isHTTPOnly: isHTTPOnly,
      expiry: seconds == 0 ? nil : HTTPDate(seconds: seconds), created: now)
  }

  private static func flag(_ text: String) -> Bool? {
    switch text {
    case "TRUE", "true": true
    case "FALSE", "false": false
    default: nil
    }
  }

  /// Digits, perhaps with a minus or a fraction; what is beyond all bounds is the bound. Nothing is a session's cookie, as Python writes it.
  private static func seconds(_ bytes: Substring.UTF8View) -> Int64? {
    if bytes.isEmpty { return 0 }
    let isNegative = bytes.first == UInt8(ascii: "-")
    let digits = (isNegative ? bytes.dropFirst() : bytes).prefix { $0 != UInt8(ascii: ".") }
    guard !digits.isEmpty, bytes.count <= 32, digits.allSatisfy({ URLByteClass.of($0) & URLByteClass.digit != 0 })
    else {
      return nil
    }
    let value = FieldScanner.number(digits) ?? .max
    // A moment before 1970 is as expired as the first one, and 0 means something else.
    return isNegative ? 1 : value
  }

  /// The text of a file, session cookies included.
  ///
  /// - Returns: also how many cookies have no place in the format: those with a tab in the name or path.
  package static func write(_ records: [CookieRecord]) -> (text: String, omitted: Int) {
    var text = "# Netscape HTTP Cookie File\n\n"
    var omitted = 0
    for record in records {
      guard !record.name.utf8.contains(UInt8(ascii: "\t")), !record.path.utf8.contains(UInt8(ascii: "\t")) else {
        omitted += 1
        continue
      }
      if record.isHTTPOnly { text += "#HttpOnly_" }
      text += record.isHostOnly ? record.domain : ".\(record.domain)"
      text += record.isHostOnly ? "\tFALSE\t" : "\tTRUE\t"
      text += record.path
      text += record.isSecure ? "\tTRUE\t" : "\tFALSE\t"
      // 0 is a session cookie's.
      text += "\(record.expiry.map { max(1, $0.seconds) } ?? 0)\t\(record.name)\t\(record.value)\n"
    }
    return (text, omitted)
  }
}
