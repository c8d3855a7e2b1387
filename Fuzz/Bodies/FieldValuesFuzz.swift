internal import LupineRules

/// Oracle: what is read of a field, written down again, reads as itself; a suggested file name is one visible component of at most 255 bytes
/// and stays as it is; the two calendars agree, and with days that are counted one year after another; lengths and delays are never negative.
///
/// The whole input is the value of `Content-Type`, `Content-Disposition`, `Content-Range`, `Retry-After`, `Content-Encoding`, `Link` and of a date.
package enum FieldValuesFuzz {
  private static let now = HTTPDate(seconds: 1_800_000_000)

  package static func run(bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    if let type = MediaType(text) { check(type) }
    if let disposition = ContentDisposition(text) { check(disposition) }
    if let name = SafeFileName.component(text) { check(fileName: name) }
    if let range = ContentRange(text) { check(range) }
    if let date = HTTPDate(text, now: now) {
      precondition(HTTPDate(lenient: text, now: now) == date, "leniency reads another date")
      check(date)
    }
    if let delay = RetryAfter(text, now: now)?.delay(from: now) { precondition(delay >= 0, "a delay into the past") }
    check(internetDate: text)
    check(codings: text)
    for link in LinkValue.read(text) { check(link) }
  }

  private static func check(_ link: LinkValue) {
    precondition(!link.target.contains(">"), "a target with an end inside")
    let relations = link.relations.joined(separator: " ")
    let written = LinkValue.read(", <\(link.target)>; rel=\(quoted(relations)), <x>")
    precondition(written.count == 2 && written[0].target == link.target, "a link reads differently")
    precondition(written[0].relations == link.relations, "relations read differently")
  }

  private static func check(_ type: MediaType) {
    precondition(MediaType(type.essence)?.essence == type.essence, "type/subtype reads differently")
    precondition(type.essence == type.essence.lowercased(), "a type in capitals")
    precondition(type.suffix.map { !$0.isEmpty && type.essence.hasSuffix("+\($0)") } ?? true, "another suffix")
    if let charset = type["charset"], charset.utf8.count <= 64 {
      precondition(type.charset == charset.lowercased(), "another character set")
    }
    var written = type.essence
    for (name, value) in type.parameters {
      written += "; \(name)=\(quoted(value))"
    }
    precondition(
      MediaType(written)?.parameters.map(\.value) == type.parameters.map(\.value), "a parameter reads differently")
  }

  private static func quoted(_ value: String) -> String {
    var written = "\""
    for scalar in value.unicodeScalars {
      if scalar == "\"" || scalar == "\\" { written += "\\" }
      written.unicodeScalars.append(scalar)
    }
    return written + "\""
  }

  private static func check(_ disposition: ContentDisposition) {
    precondition(disposition.type == disposition.type.lowercased(), "a disposition in capitals")
    if let name = disposition.fileName { check(fileName: name) }
  }

  private static func check(fileName name: String) {
    precondition((1...SafeFileName.maximumLength).contains(name.utf8.count), "a name of \(name.utf8.count) bytes")
    precondition(name != "." && name != ".." && !name.hasPrefix("."), "a hidden name")
    for scalar in name.unicodeScalars {
      precondition(
        scalar != "/" && scalar != "\\" && scalar.value >= 0x20 && scalar.value != 0x7F, "more than one component")
    }
    precondition(SafeFileName.component(name) == name, "a safe name is not its own safe name")
  }

  private static func check(_ range: ContentRange) {
    switch range {
    case .part(let part, let total):
      precondition(part.lowerBound >= 0 && total.map { part.upperBound < $0 } ?? true, "a part outside the whole")
      let written = "bytes \(part.lowerBound)-\(part.upperBound)/\(total.map { "\($0)" } ?? "*")"
      precondition(ContentRange(written) == range, "a part reads differently")
    case .unsatisfied(let total):
      precondition(total >= 0 && ContentRange("bytes */\(total)") == range, "a length reads differently")
    }
  }

  private static func check(_ date: HTTPDate) {
    // A leap second may take the last day of year 9999 past what has a form.
    guard date.seconds <= 253_402_300_799 else { return }
    precondition(HTTPDate(date.text, now: now) == date, "a date reads differently")
    let other = InternetDate.text(milliseconds: date.seconds * 1_000)
    precondition(InternetDate.milliseconds(other) == date.seconds * 1_000, "the two calendars disagree")
    // Sun, 06 Nov 1994 … beside 1994-11-06…
    let words = date.text.split(separator: " ")
    precondition(other.hasPrefix(words[3]) && other.dropFirst(8).hasPrefix(words[1]), "the two calendars disagree")
    let clock = words[4].split(separator: ":").compactMap { Int($0) }
    guard let year = Int(words[3]), let month = months.firstIndex(of: String(words[2])), let day = Int(words[1]),
      clock.count == 3
    else { preconditionFailure("a date without its form") }
    let days = countedDays(year, month, day)
    let seconds = days * 86_400 + clock[0] * 3_600 + clock[1] * 60 + clock[2]
    precondition(Int64(seconds) == date.seconds, "another date than was counted")
    // 1970-01-01 was a Thursday.
    let weekday = weekdays[((days + 3) % 7 + 7) % 7]
    precondition(words[0].dropLast() == weekday, "another day of the week than was counted")
  }

  private static let weekdays = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  /// From 1970-01-01 on; the month from 0.
  private static func countedDays(_ year: Int, _ month: Int, _ day: Int) -> Int {
    func isLeap(_ year: Int) -> Bool { year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) }
    var days = day - 1
    if year > 1970 { for former in 1970..<year { days += isLeap(former) ? 366 : 365 } }
    if year < 1970 { for later in year..<1970 { days -= isLeap(later) ? 366 : 365 } }
    let lengths = [31, isLeap(year) ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return lengths[..<month].reduce(days, +)
  }

  private static func check(internetDate text: String) {
    guard let date = InternetDate.milliseconds(text) else { return }
    let written = InternetDate.text(milliseconds: date)
    // An offset may take the last day of year 9999 past what has a form.
    guard (-62_167_219_200_000...253_402_300_799_999).contains(date) else { return }
    precondition(InternetDate.milliseconds(written) == date, "a date reads differently")
  }

  private static func check(codings text: String) {
    guard let codings = try? ContentCodings.parse([text]) else { return }
    precondition(codings.count <= ContentCodings.maximumCount, "too many codings")
    let written = codings.map(\.name).joined(separator: ",")
    precondition((try? ContentCodings.parse([written])) == codings, "a list of codings reads differently")
  }
}
