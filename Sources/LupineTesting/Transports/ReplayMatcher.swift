internal import LupineBase
internal import LupineSession

/// In what a request is not the one that was recorded.
enum ReplayDifference: Equatable {
  /// The method or the URL.
  case line
  /// Something else, for people; without values, which may be secret.
  case rest(String)
}

/// Method and URL of a request, taken apart.
struct ReplayLine: Sendable {
  /// What has to be equal in any case.
  struct Place: Hashable, Sendable {
    let method: String
    /// The URL up to its query.
    let location: String
  }

  let place: Place
  /// The parameters; sorted where their order means nothing.
  let query: [String]
}

/// An exchange on record, as requests are compared with it.
struct RecordedRequest: Sendable {
  let request: HTTPArchive.Request
  /// Those of HTTP/1.1.
  let fields: [(name: String, value: String)]
  let line: ReplayLine
}

/// A request that wants an exchange.
struct AskedRequest: Sendable {
  let request: TransportRequest
  let line: ReplayLine
  /// Empty where bodies are not compared.
  var body: [UInt8] = []
  /// What followed the body.
  var trailers: [(name: String, value: String)] = []
}

/// Says whether a request is one that was recorded.
struct ReplayMatcher: Sendable {
  let isStrict: Bool

  /// What a redacted archive has in the place of secrets.
  private static let marks: [String] = ["[redacted]", "REDACTED"]
  private static let volatile: Set<String> = [
    "user-agent", "date", "content-length", "transfer-encoding", "expect", "connection",
  ]
  /// Whether fields that a session adds from its storages have to be there, or not, as they were.
  private var isExact = false

  init(isStrict: Bool) { self.isStrict = isStrict }

  var exact: ReplayMatcher {
    var exact = self
    exact.isExact = true
    return exact
  }

  /// What a session adds from its storages, which need not hold what they held when the request was recorded.
  private static let stored: Set<String> = ["cookie", "authorization", "if-none-match", "if-modified-since"]

  func recorded(_ request: HTTPArchive.Request) -> RecordedRequest {
    RecordedRequest(
      request: request, fields: Self.fields(of: request), line: line(request.method, request.url))
  }

  /// Browsers list the pseudo fields of HTTP/2: one of them is what `Host` is, and the others are method and URL.
  private static func fields(of request: HTTPArchive.Request) -> [(name: String, value: String)] {
    let hasHost = request.first(named: "host") != nil
    return request.fields.compactMap { field in
      guard field.name.hasPrefix(":") else { return (name: field.name, value: field.value) }
      return field.name == ":authority" && !hasHost ? (name: "Host", value: field.value) : nil
    }
  }

  func asked(_ request: TransportRequest) -> AskedRequest {
    AskedRequest(request: request, line: line(request.method, request.urlString))
  }

  private func line(_ method: String, _ url: String) -> ReplayLine {
    let text = url.prefix { $0 != "#" }
    let mark = text.firstIndex(of: "?") ?? text.endIndex
    let query = text[mark...].dropFirst().split(separator: "&").map(String.init)
    return ReplayLine(
      place: ReplayLine.Place(method: method, location: String(text[..<mark])),
      query: isStrict ? query : query.sorted())
  }

  /// Nil: it is the one that was recorded.
  func difference(_ recorded: RecordedRequest, _ asked: AskedRequest) -> ReplayDifference? {
    guard recorded.line.place == asked.line.place, matches(query: recorded.line.query, asked.line.query) else {
      return .line
    }
    guard isStrict else { return nil }
    return difference(ofBody: recorded.request, asked.body)
      ?? difference(of: recorded.fields, asked.request.fields)
      ?? difference(ofTrailers: recorded.request, asked.trailers)
  }

  private func difference(
    ofTrailers recorded: HTTPArchive.Request, _ trailers: [(name: String, value: String)]
  ) -> ReplayDifference? {
    // Of a body that was not kept nobody may know what followed it.
    guard recorded.body != nil || !recorded.trailers.isEmpty else { return nil }
    let difference = difference(of: recorded.trailers.map { (name: $0.name, value: $0.value) }, trailers)
    guard case .rest(let what)? = difference else { return difference }
    return .rest("behind its body \(what)")
  }

  private func difference(ofBody recorded: HTTPArchive.Request, _ body: [UInt8]) -> ReplayDifference? {
    guard let expected = recorded.body else {
      // What is not known may have been anything, also what was announced and had not left when the exchange ended.
      return recorded.bodyBytes == 0 && !Self.announcesBody(recorded) && !body.isEmpty
        ? .rest("it has a body of \(body.count) bytes, and the recorded one has none") : nil
    }
    guard expected != body else { return nil }
    let same = zip(expected, body).prefix { $0 == $1 }.count
    return .rest("its body of \(body.count) bytes is not the recorded one of \(expected.count), from byte \(same) on")
  }

  private static func announcesBody(_ recorded: HTTPArchive.Request) -> Bool {
    if recorded.first(named: "transfer-encoding") != nil { return true }
    return recorded.first(named: "content-length").map { $0 != "0" } ?? false
  }

  private func matches(query recorded: [String], _ actual: [String]) -> Bool {
    guard recorded.count == actual.count else { return false }
    return zip(recorded, actual).allSatisfy { recorded, actual in
      if recorded == actual { return true }
      // Other pairs may stand before the one that was a secret, with semicolons between.
      guard let equals = recorded.lastIndex(of: "="),
        Self.marks.contains(String(recorded[recorded.index(after: equals)...]))
      else { return false }
      return actual.hasPrefix(recorded[...equals])
    }
  }

  private func difference(
    of recorded: [(name: String, value: String)], _ actual: [(name: String, value: String)]
  ) -> ReplayDifference? {
    let (recorded, actual) = (Self.values(recorded), Self.values(actual))
    for name in Set(recorded.keys).union(actual.keys).sorted() {
      switch (recorded[name], actual[name]) {
      case (let left?, let right?):
        guard matches(left, right) else { return .rest("the field \(name) has another value") }
      case (nil, _) where isExact || !Self.stored.contains(name):
        return .rest("it has a field \(name), which was not recorded")
      case (_, nil) where isExact || !Self.stored.contains(name): return .rest("it has no field \(name)")
      default: break
      }
    }
    return nil
  }

  private func matches(_ recorded: [String], _ actual: [String]) -> Bool {
    recorded.count == actual.count
      && zip(recorded, actual).allSatisfy { recorded, actual in
        recorded.hasBytes(of: actual) || Self.marks.contains { recorded.contains($0) }
      }
  }

  /// The values by name, sorted by their bytes: fields of several names have no order that means anything.
  private static func values(_ fields: [(name: String, value: String)]) -> [String: [String]] {
    let known = fields.map { (name: $0.name.lowercased(), value: $0.value) }.filter { !volatile.contains($0.name) }
    return Dictionary(grouping: known, by: \.name).mapValues { fields in
      fields.map(\.value).sorted { $0.utf8.lexicographicallyPrecedes($1.utf8) }
    }
  }
}
