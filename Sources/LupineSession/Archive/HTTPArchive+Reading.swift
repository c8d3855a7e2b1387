internal import FoundationEssentials
internal import LupineBase
internal import LupineRules

/// Why bytes are no archive. `path` names the place, as `log.entries[3].request.url`.
public enum HTTPArchiveError: Error, Equatable, Sendable, CustomStringConvertible {
  /// More bytes than `HTTPArchive.ReadingLimits.bytes`.
  case tooLarge(limit: Int)
  /// More entries than `HTTPArchive.ReadingLimits.entries`.
  case tooManyEntries(limit: Int)
  /// More fields in one message than `HTTPArchive.ReadingLimits.fields`.
  case tooManyFields(limit: Int, path: String)
  /// No JSON, or more of it than the limits on nesting and values allow; the offset is in bytes.
  case notJSON(reason: String, offset: Int)
  /// A member that HAR requires is not there.
  case missing(path: String)
  /// A member is of another type than HAR says.
  case wrongType(path: String, expected: String)
  /// A member is of the right type, but what it says cannot be.
  case invalidValue(path: String, reason: String)

  /// In words.
  public var description: String {
    switch self {
    case .tooLarge(let limit): "the archive is larger than \(limit) bytes"
    case .tooManyEntries(let limit): "the archive has more than \(limit) entries"
    case .tooManyFields(let limit, let path): "\(path) has more than \(limit) fields"
    case .notJSON(let reason, let offset): "the archive is no JSON: \(reason), at byte \(offset)"
    case .missing(let path): "\(path) is missing"
    case .wrongType(let path, let expected): "\(path) must be \(expected)"
    case .invalidValue(let path, let reason): "\(path) \(reason)"
    }
  }
}

extension HTTPArchive {
  /// How much an archive may hold: it is untrusted input, and takes several times its size in memory.
  public struct ReadingLimits: Sendable, Equatable {
    /// Bytes of the text. Default 256 MiB.
    public var bytes = 256 << 20
    /// Levels of nesting. Default 32; never more than 256.
    public var nesting = 32
    /// JSON values in all. Default 4,000,000.
    public var values = 4_000_000
    /// Entries. Default 100,000.
    public var entries = 100_000
    /// Fields of one message. Default 1,000.
    public var fields = 1_000

    /// The defaults.
    public init() {}
  }

  /// Reads HAR 1.2, or 1.1. Members that are not known are passed over; cookies and query strings are, because fields and URLs hold them. A method, URL or
  /// name of a field with more than 256 combining marks in a row is refused: it would take very long to look for.
  ///
  /// - Throws: `HTTPArchiveError`. No input traps, and none takes more than the limits say.
  public init(json: [UInt8], limits: ReadingLimits = ReadingLimits()) throws(HTTPArchiveError) {
    guard json.count <= limits.bytes else { throw .tooLarge(limit: limits.bytes) }
    // Some tools begin with a byte order mark, which JSON has no place for.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let bytes = json.starts(with: mark) ? Array(json.dropFirst(mark.count)) : json
    let value: JSONValue
    do throws(JSONError) {
      value = try JSONReader.read(bytes, depthLimit: max(1, limits.nesting), valueLimit: max(1, limits.values))
    } catch {
      throw .notJSON(reason: error.reason, offset: error.offset)
    }
    let root = ArchiveNode(value: value, place: .archive)
    let log = try root.required("log")
    let entries = try log.required("entries").elements()
    guard entries.count <= limits.entries else { throw .tooManyEntries(limit: limits.entries) }
    self.init()
    if let creator = try log.optional("creator") {
      self.creator = Creator(
        name: try creator.optional("name")?.string() ?? "", version: try creator.optional("version")?.string() ?? "")
    }
    comment = try log.optional("comment")?.string()
    self.entries.reserveCapacity(entries.count)
    for entry in entries { self.entries.append(try ArchiveReader(fieldLimit: limits.fields).entry(entry)) }
  }
}

/// A value with its place, so that an error can name it.
private struct ArchiveNode {
  /// Where a value is; a text where an error names it, and not before.
  indirect enum Place {
    case archive
    case member(name: String, of: Place)
    case element(index: Int, of: Place)

    var path: String {
      switch self {
      case .archive: ""
      case .member(name: let name, of: .archive): name
      case .member(name: let name, of: let place): "\(place.path).\(name)"
      case .element(index: let index, of: let place): "\(place.path)[\(index)]"
      }
    }
  }

  let value: JSONValue
  let place: Place

  var path: String { place.path }

  func optional(_ name: String) throws(HTTPArchiveError) -> ArchiveNode? {
    guard case .object = value else {
      let path = path
      throw .wrongType(path: path.isEmpty ? "the archive" : path, expected: "an object")
    }
    guard let member = value[name], member != .null else { return nil }
    return ArchiveNode(value: member, place: .member(name: name, of: place))
  }

  func required(_ name: String) throws(HTTPArchiveError) -> ArchiveNode {
    guard let node = try optional(name) else { throw .missing(path: Place.member(name: name, of: place).path) }
    return node
  }

  /// Each is made when it is asked for: there may be millions, of which a limit lets none pass.
  func elements() throws(HTTPArchiveError) -> LazyMapCollection<Range<Int>, ArchiveNode> {
    guard let values = value.array else { throw .wrongType(path: path, expected: "an array") }
    let place = place
    return values.indices.lazy.map { ArchiveNode(value: values[$0], place: .element(index: $0, of: place)) }
  }

  func string() throws(HTTPArchiveError) -> String {
    guard let text = value.string else { throw .wrongType(path: path, expected: "a string") }
    return text
  }

  /// A text that is looked for and compared, by whoever plays or shows the archive; see `CombiningMarks`.
  func key() throws(HTTPArchiveError) -> String {
    let text = try string()
    guard !CombiningMarks.areTooMany(in: text) else {
      throw .invalidValue(path: path, reason: "has more than \(CombiningMarks.limit) combining marks in a row")
    }
    return text
  }

  func boolean() throws(HTTPArchiveError) -> Bool {
    guard let flag = value.boolean else { throw .wrongType(path: path, expected: "a boolean") }
    return flag
  }

  func number() throws(HTTPArchiveError) -> Double {
    guard let number = value.number, number.isFinite else { throw .wrongType(path: path, expected: "a number") }
    return number
  }

  /// Nil for -1, which is "not known", and for other negative numbers, which are nonsense.
  func count() throws(HTTPArchiveError) -> Int64? {
    let number = try number()
    guard number < 9e18 else { throw .invalidValue(path: path, reason: "is too large") }
    return number < 0 ? nil : Int64(number)
  }
}

/// Reads entries.
private struct ArchiveReader {
  let fieldLimit: Int

  func entry(_ node: ArchiveNode) throws(HTTPArchiveError) -> HTTPArchive.Entry {
    let date = try node.required("startedDateTime")
    guard let milliseconds = InternetDate.milliseconds(try date.string()) else {
      throw .invalidValue(path: date.path, reason: "is no date")
    }
    var entry = HTTPArchive.Entry(
      startedAt: Date(timeIntervalSince1970: Double(milliseconds) / 1_000),
      request: try request(try node.required("request")), response: try response(try node.optional("response")))
    if let timings = try node.optional("timings") { entry.timings = try self.timings(timings) }
    entry.serverAddress = try node.optional("serverIPAddress")?.string()
    entry.connection = try node.optional("connection")?.string()
    entry.comment = try node.optional("comment")?.string()
    entry.isReusedConnection = try node.optional("_reusedConnection")?.boolean()
    try readCache(node, &entry)
    if let tls = try node.optional("_tls") {
      entry.tls = HTTPArchive.TLS(
        version: try tls.required("version").string(), cipher: try tls.optional("cipher")?.string(),
        isResumed: try tls.optional("resumed")?.boolean() ?? false)
    }
    entry.failure = try failure(node)
    return entry
  }

  /// As Chrome has it; with other values other tools may mean anything.
  private func readCache(_ node: ArchiveNode, _ entry: inout HTTPArchive.Entry) throws(HTTPArchiveError) {
    guard let storage = try node.optional("_fromCache")?.value.string,
      storage.hasBytes(of: "memory") || storage.hasBytes(of: "disk")
    else { return }
    let isValidated = try node.optional("_cacheValidated")?.value.boolean ?? false
    entry.fetchType = isValidated ? .validatedCache : .localCache
    entry.isFromDisk = storage.hasBytes(of: "disk")
  }

  /// Ours is an object; other tools use the name for a text.
  private func failure(_ node: ArchiveNode) throws(HTTPArchiveError) -> HTTPArchive.Failure? {
    guard let error = try node.optional("_error") else { return nil }
    if let text = error.value.string {
      return HTTPArchive.Failure(code: SessionError.Code.unknown.rawValue, phase: "", message: text)
    }
    return HTTPArchive.Failure(
      code: try error.required("code").key(), phase: try error.optional("phase")?.key() ?? "",
      message: try error.optional("message")?.string() ?? "",
      requestBytesSent: try error.optional("requestBytesSent")?.boolean())
  }

  private func request(_ node: ArchiveNode) throws(HTTPArchiveError) -> HTTPArchive.Request {
    var request = HTTPArchive.Request(
      method: try node.required("method").key(), url: try node.required("url").key())
    request.httpVersion = try node.optional("httpVersion")?.key() ?? ""
    request.fields = try fields(node, "headers")
    if let data = try node.optional("postData") {
      var encoding = try data.optional("_encoding")
      if encoding == nil { encoding = try data.optional("encoding") }
      request.body = try body(data, encoding)
    }
    request.trailers = try fields(node, "_trailers")
    request.headerBytes = try node.optional("headersSize")?.count()
    request.bodyBytes = try node.optional("bodySize")?.count()
    return request
  }

  private func response(_ node: ArchiveNode?) throws(HTTPArchiveError) -> HTTPArchive.Response? {
    guard let node else { return nil }
    let status = try self.status(try node.required("status"))
    guard status != 0 else { return nil }
    var response = HTTPArchive.Response(status: status)
    response.reason = try node.optional("statusText")?.string() ?? ""
    response.httpVersion = try node.optional("httpVersion")?.key() ?? ""
    response.fields = try fields(node, "headers")
    if let content = try node.optional("content") {
      response.body = try body(content, content.optional("encoding"))
      response.decodedBytes = try content.optional("size")?.count()
    }
    response.trailers = try fields(node, "_trailers")
    if let list = try node.optional("_informational") {
      for interim in try list.elements() {
        response.informational.append(
          HTTPArchive.Interim(
            status: try self.status(try interim.required("status")), fields: try fields(interim, "headers")))
      }
    }
    response.headerBytes = try node.optional("headersSize")?.count()
    response.bodyBytes = try node.optional("bodySize")?.count()
    return response
  }

  private func status(_ node: ArchiveNode) throws(HTTPArchiveError) -> Int {
    let number = try node.number()
    guard let status = Int(exactly: number), (0...999).contains(status) else {
      throw .invalidValue(path: node.path, reason: "is no status")
    }
    return status
  }

  private func fields(_ node: ArchiveNode, _ name: String) throws(HTTPArchiveError) -> [HTTPArchive.Field] {
    guard let list = try node.optional(name) else { return [] }
    let elements = try list.elements()
    guard elements.count <= fieldLimit else { throw .tooManyFields(limit: fieldLimit, path: list.path) }
    var fields: [HTTPArchive.Field] = []
    fields.reserveCapacity(elements.count)
    for element in elements {
      fields.append(
        HTTPArchive.Field(try element.required("name").key(), try element.optional("value")?.string() ?? ""))
    }
    return fields
  }

  private func body(_ node: ArchiveNode, _ encoding: ArchiveNode?) throws(HTTPArchiveError) -> [UInt8]? {
    guard let text = try node.optional("text")?.string() else { return nil }
    guard let encoding, try encoding.string().isSame(ignoringCase: "base64") else { return Array(text.utf8) }
    guard let bytes = Base64.decode(text) else {
      throw .invalidValue(path: "\(node.path).text", reason: "is not Base64")
    }
    return bytes
  }

  private func timings(_ node: ArchiveNode) throws(HTTPArchiveError) -> HTTPArchive.Timings {
    var timings = HTTPArchive.Timings()
    timings.blocked = try duration(node, "blocked")
    timings.resolve = try duration(node, "dns")
    timings.tls = try duration(node, "ssl")
    timings.connect = try duration(node, "connect").map { max(.zero, $0 - (timings.tls ?? .zero)) }
    timings.send = try duration(node, "send")
    timings.wait = try duration(node, "wait")
    timings.receive = try duration(node, "receive")
    return timings
  }

  /// From milliseconds, to the microsecond.
  private func duration(_ node: ArchiveNode, _ name: String) throws(HTTPArchiveError) -> Duration? {
    guard let node = try node.optional(name) else { return nil }
    let milliseconds = try node.number()
    guard milliseconds < 1e12 else { throw .invalidValue(path: node.path, reason: "is too large") }
    return milliseconds < 0 ? nil : .microseconds(Int64((milliseconds * 1_000).rounded()))
  }
}
