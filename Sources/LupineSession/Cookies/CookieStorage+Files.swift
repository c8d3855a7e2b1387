public import FoundationEssentials
internal import LupineRules

/// How cookies are written to a file.
public enum CookieFileFormat: Sendable, Hashable {
  /// `cookies.txt`, which curl, wget and Python read too. It has no place for `SameSite`, nor for names and paths with a tab in them.
  case netscape
  /// A JSON object with `"version": 1` and `"cookies"`, in which nothing is lost. Other members are left alone by `load`.
  case json
}

/// What became of a file of cookies.
public struct CookieFileReport: Sendable, Hashable {
  /// Why a cookie was not taken.
  public struct Problem: Sendable, Hashable, CustomStringConvertible {
    /// The line of a `cookies.txt`, or the place in the array of a JSON file; both are counted from 1.
    public var place: Int
    /// The reason, without anything that the file says.
    public var message: String
    /// Place and reason.
    public var description: String { "\(place): \(message)" }
  }

  /// Cookies read, expired ones left out.
  public var read = 0
  /// The first 100 problems, in the order of the file.
  public var problems: [Problem] = []
  /// How many problems there were.
  public var problemCount = 0

  mutating func note(_ place: Int, _ message: String) {
    problemCount += 1
    if problems.count < NetscapeCookieFile.problemLimit { problems.append(Problem(place: place, message: message)) }
  }
}

extension CookieStorage {
  /// Writes the cookies to a file that only its owner may read (mode 0600), in the place of whatever is there: another reader sees the old file
  /// or the new one. Blocks while the disk works.
  ///
  /// - Parameter includesSessionCookies: also those without an expiry. Default true.
  /// - Returns: how many cookies have no place in the format.
  /// - Throws: `SessionError` with `.fileFailed`.
  @discardableResult
  public func save(
    to path: String, format: CookieFileFormat, includesSessionCookies: Bool = true
  ) throws(SessionError) -> Int {
    let records = cookies.map(\.record).filter { includesSessionCookies || $0.expiry != nil }
    switch format {
    case .netscape:
      let (text, omitted) = NetscapeCookieFile.write(records)
      try SmallFile.replace(path, with: Array(text.utf8))
      return omitted
    case .json:
      try SmallFile.replace(path, with: Array(JSONCookies.write(records)))
      return 0
    }
  }

  /// Adds the cookies of a file. What may not be kept is left out and reported. Blocks while the disk works.
  ///
  /// - Throws: `SessionError` with `.fileFailed`: the file cannot be read, has more than 16 MiB, or is not JSON of a known version.
  @discardableResult
  public func load(from path: String, format: CookieFileFormat) throws(SessionError) -> CookieFileReport {
    let bytes = try SmallFile.read(path, limit: NetscapeCookieFile.sizeLimit)
    switch format {
    case .netscape: return load(netscape: bytes)
    case .json: return try load(json: Data(bytes))
    }
  }

  /// The cookies as JSON; see `CookieFileFormat.json`.
  public func json() throws(SessionError) -> Data {
    try JSONCookies.write(cookies.map(\.record))
  }

  /// Adds the cookies of a JSON text.
  ///
  /// - Throws: `SessionError` with `.fileFailed`.
  @discardableResult
  public func load(json: Data) throws(SessionError) -> CookieFileReport {
    var report = CookieFileReport()
    var records = try JSONCookies.read(json)
    if records.count > NetscapeCookieFile.recordLimit {
      report.note(NetscapeCookieFile.recordLimit + 1, "more than \(NetscapeCookieFile.recordLimit) cookies")
      records.removeSubrange(NetscapeCookieFile.recordLimit...)
    }
    add(records, places: Array(1...max(1, records.count)), to: &report)
    return report
  }

  private func load(netscape bytes: [UInt8]) -> CookieFileReport {
    var report = CookieFileReport()
    let content = NetscapeCookieFile.read(bytes.span, now: .current)
    for problem in content.problems { report.note(problem.line, problem.message) }
    report.problemCount = content.problemCount
    add(content.records.map(\.record), places: content.records.map(\.line), to: &report)
    report.problems.sort { $0.place < $1.place }
    return report
  }

  private func add(_ records: [CookieRecord], places: [Int], to report: inout CookieFileReport) {
    let now = HTTPDate.current
    report.read += records.count { !$0.isExpired(now) }
    insert(records) { index, refusal in
      if !records[index].isExpired(now) { report.read -= 1 }
      report.note(places[index], "\(refusal)")
    }
  }
}

/// Cookies as JSON: `{"version": 1, "cookies": [{"name", "value", "domain", "hostOnly", "path", "secure", "httpOnly", "sameSite", "expires",
/// "created"}]}`; times in seconds since 1970, `expires` missing for a session cookie, `sameSite` missing if unspecified.
enum JSONCookies {
  static let version = 1

  private struct File: Codable {
    var version: Int
    var cookies: [Entry]?
  }

  private struct Entry: Codable {
    var name: String
    var value: String
    var domain: String
    var hostOnly: Bool
    var path: String
    var secure: Bool?
    var httpOnly: Bool?
    var sameSite: String?
    var expires: Int64?
    var created: Int64?
  }

  static func write(_ records: [CookieRecord]) throws(SessionError) -> Data {
    let entries = records.map { record in
      Entry(
        name: record.name, value: record.value, domain: record.domain, hostOnly: record.isHostOnly, path: record.path,
        secure: record.isSecure, httpOnly: record.isHTTPOnly,
        sameSite: record.sameSite == .unspecified ? nil : record.sameSite.rawValue, expires: record.expiry?.seconds,
        created: record.created.seconds)
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    do {
      return try encoder.encode(File(version: version, cookies: entries))
    } catch {
      throw SessionError(.fileFailed, phase: .file, message: "the cookies cannot be written as JSON")
    }
  }

  static func read(_ data: Data) throws(SessionError) -> [CookieRecord] {
    let file: File
    do {
      file = try JSONDecoder().decode(File.self, from: data)
    } catch {
      // The decoder's own words could hold a cookie's value.
      throw SessionError(
        .fileFailed, phase: .file, message: "this is no JSON object with a version and cookies\(place(error))")
    }
    guard file.version == version else {
      throw SessionError(.fileFailed, phase: .file, message: "cookies of version \(file.version); known is \(version)")
    }
    let now = HTTPDate.current
    return (file.cookies ?? []).map { entry in
      CookieRecord(
        name: entry.name, value: entry.value, domain: entry.domain.lowercased(), isHostOnly: entry.hostOnly,
        path: entry.path, isSecure: entry.secure ?? false, isHTTPOnly: entry.httpOnly ?? false,
        sameSite: entry.sameSite.flatMap { SameSite(rawValue: $0) } ?? .unspecified,
        expiry: entry.expires.map { HTTPDate(seconds: $0) },
        created: min(now, entry.created.map { HTTPDate(seconds: $0) } ?? now))
    }
  }

  private static func place(_ error: any Error) -> String {
    let path: [any CodingKey] =
      switch error as? DecodingError {
      case .keyNotFound(let key, let context): context.codingPath + [key]
      case .typeMismatch(_, let context), .valueNotFound(_, let context): context.codingPath
      default: []
      }
    return path.isEmpty
      ? "" : ": see " + path.map { $0.intValue.map { "[\($0)]" } ?? $0.stringValue }.joined(separator: ".")
  }
}
