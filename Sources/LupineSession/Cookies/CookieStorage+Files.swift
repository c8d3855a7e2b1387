public import FoundationEssentials
package import LupineRules

/// How cookies are written to a file.
public enum CookieFileFormat: Sendable, Hashable {
  /// `cookies.txt`, which curl, wget and Python read too. The expiry of a session's cookie is 0, as of curl: Python takes it for one that has expired, and
  /// sends it only where the program sets `expires` to `None` behind `load(ignore_expires=True)`. It has no place for `SameSite`, nor for names and paths with a tab in them.
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
  /// - Throws: `SessionError` with `.fileFailed`: the file cannot be written, or would have more than `load` reads, which what a storage may hold does not reach; what
  ///   was there stays.
  @discardableResult
  public func save(
    to path: String, format: CookieFileFormat, includesSessionCookies: Bool = true
  ) throws(SessionError) -> Int {
    let records = records.filter { includesSessionCookies || $0.expiry != nil }
    switch format {
    case .netscape:
      let (text, omitted) = NetscapeCookieFile.write(records)
      try SmallFile.replace(path, with: Array(text.utf8), limit: NetscapeCookieFile.sizeLimit)
      return omitted
    case .json:
      try SmallFile.replace(path, with: Self.json(records), limit: Self.jsonSizeLimit)
      return 0
    }
  }

  /// Bytes of a JSON file: a storage may hold 3,000 cookies with 4,096 bytes of name and value and 1,024 of path, each of which may take two.
  package static let jsonSizeLimit = 64 << 20

  private var records: [CookieRecord] { cookies.map(\.record) }

  /// Adds the cookies of a file. What may not be kept is left out and reported. Blocks while the disk works.
  ///
  /// - Throws: `SessionError` with `.fileFailed`: the file cannot be read, has more than 16 MiB, or 64 as JSON, or is not JSON of a known version.
  @discardableResult
  public func load(from path: String, format: CookieFileFormat) throws(SessionError) -> CookieFileReport {
    let bytes = try SmallFile.read(
      path, limit: format == .json ? Self.jsonSizeLimit : NetscapeCookieFile.sizeLimit)
    switch format {
    case .netscape: return load(netscape: bytes)
    case .json: return try load(json: bytes)
    }
  }

  /// The cookies as JSON; see `CookieFileFormat.json`.
  public func json() -> Data { Data(Self.json(records)) }

  /// Adds the cookies of a JSON text. What may not be kept is left out and reported.
  ///
  /// - Throws: `SessionError` with `.fileFailed`: it is not JSON of a known version.
  @discardableResult
  public func load(json: Data) throws(SessionError) -> CookieFileReport { try load(json: [UInt8](json)) }

  /// A cookie a line, to be found by people and by `diff`.
  private static func json(_ records: [CookieRecord]) -> [UInt8] {
    var text = Array("{\"version\": \(CookieJSON.version), \"cookies\": [".utf8)
    for (index, record) in records.enumerated() {
      text += (index == 0 ? "\n  " : ",\n  ").utf8
      text += JSONWriter.line(CookieJSON.value(of: record))
    }
    return text + (records.isEmpty ? "]}\n" : "\n]}\n").utf8
  }

  private func load(json: [UInt8]) throws(SessionError) -> CookieFileReport {
    let value: JSONValue
    do throws(JSONError) {
      value = try JSONReader.read(json, depthLimit: 16, valueLimit: 20 * NetscapeCookieFile.recordLimit)
    } catch {
      throw SessionError(.fileFailed, phase: .file, message: "the cookies are no JSON: \(error)", underlying: error)
    }
    return try load(value)
  }

  /// Adds the cookies of an object with `version` and `cookies`.
  package func load(_ value: JSONValue) throws(SessionError) -> CookieFileReport {
    guard value["version"]?.number == Double(CookieJSON.version) else {
      throw SessionError(
        .fileFailed, phase: .file, message: "no object with \"version\": \(CookieJSON.version), the one that is known")
    }
    guard let elements = (value["cookies"] ?? .array([])).array else {
      throw SessionError(.fileFailed, phase: .file, message: "\"cookies\" is no array")
    }
    var report = CookieFileReport()
    var found: [(place: Int, record: CookieRecord)] = []
    for (index, element) in elements.enumerated() {
      if index == NetscapeCookieFile.recordLimit {
        report.note(index + 1, "more than \(index) cookies; the rest is not read")
        break
      }
      if let record = CookieJSON.record(element, now: .current) {
        found.append((index + 1, record))
      } else {
        report.note(index + 1, "a member is missing, or of another kind")
      }
    }
    add(found, to: &report)
    return report
  }

  /// The cookies as the array of such an object.
  package var jsonValue: JSONValue { .array(records.map { CookieJSON.value(of: $0) }) }

  private func load(netscape bytes: [UInt8]) -> CookieFileReport {
    var report = CookieFileReport()
    let content = NetscapeCookieFile.read(bytes.span, now: .current)
    for problem in content.problems { report.note(problem.line, problem.message) }
    report.problemCount = content.problemCount
    add(content.records.map { ($0.line, $0.record) }, to: &report)
    return report
  }

  private func add(_ found: [(place: Int, record: CookieRecord)], to report: inout CookieFileReport) {
    // What has expired is left out, and does not delete what is there, as `insert` would: a file of yesterday says nothing of today.
    let now = HTTPDate.current
    let found = found.filter { !$0.record.isExpired(now) }
    report.read = found.count
    insert(found.map(\.record)) { index, refusal in
      report.read -= 1
      report.note(found[index].place, "\(refusal)")
    }
    report.problems.sort { $0.place < $1.place }
  }
}
