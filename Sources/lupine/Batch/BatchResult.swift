internal import LupineCommandLine
internal import LupineRules
internal import LupineSession
internal import LupineWire

/// One line of standard output. Every field is always there; what is unknown is null or empty.
struct BatchResult {
  var id: JSONValue
  private var response: Response?
  private var body: [UInt8] = []
  private var metrics: TaskMetrics?
  private var error: (code: String, phase: String, message: String)?
  private var url: String?
  private var file: String?
  private var resumeData: ResumeData?

  init(id: JSONValue, response: Response, body: [UInt8] = [], file: String? = nil) {
    self.id = id
    self.response = response
    self.body = body
    self.file = file
    metrics = response.metrics
    url = response.urlString
  }

  /// What had arrived before the error is part of the result.
  init(id: JSONValue, _ error: SessionError) {
    self.id = id
    response = error.response
    body = error.partialBody ?? []
    resumeData = error.resumeData
    metrics = error.metrics
    url = error.failingURL ?? error.response?.urlString
    self.error = (error.code.rawValue, error.phase.rawValue, error.forTool.message)
  }

  init(id: JSONValue, _ refusal: BatchRefusal) {
    self.id = id
    error = (refusal.code, SessionError.Phase.prepare.rawValue, refusal.message)
  }

  var json: JSONValue {
    typealias Member = JSONValue.Member
    let head = response?.head
    let last = metrics?.transactions.last
    return .object([
      Member("id", id),
      Member("status", head.map { .integer($0.status) } ?? .null),
      Member("reason", head.map { .string($0.reason) } ?? .null),
      Member("version", head.map { .string($0.version.description) } ?? .null),
      Member("headers", .pairs(head?.fields.pairs ?? [])),
      Member("bodyBase64", .string(Base64.encode(body))),
      Member("file", file.map { .string($0) } ?? .null),
      Member("trailers", .pairs(response?.trailers.pairs ?? [])),
      Member(
        "informational",
        .array((response?.informational ?? []).map { .array([.integer($0.status), .pairs($0.fields.pairs)]) })),
      Member("url", url.map { .string($0) } ?? .null),
      Member("redirects", .array((response?.redirects ?? []).map { Self.redirect($0) })),
      Member("reusedConnection", .boolean(last?.isReusedConnection ?? false)),
      Member("metrics", .object(phases)),
      Member("resumeData", resumeData.map { .string(Base64.encode($0.bytes)) } ?? .null),
      Member("error", errorObject),
    ])
  }

  private static func redirect(_ redirect: Response.Redirect) -> JSONValue {
    .object([
      JSONValue.Member("status", .integer(redirect.head.status)),
      JSONValue.Member("url", .string(redirect.urlString)),
      JSONValue.Member("location", redirect.head.fields.first(.location).map { .string($0) } ?? .null),
    ])
  }

  private var errorObject: JSONValue {
    guard let error else { return .null }
    return .object([
      JSONValue.Member("code", .string(error.code)), JSONValue.Member("phase", .string(error.phase)),
      JSONValue.Member("message", .string(error.message)),
    ])
  }

  /// The phases of the last exchange in microseconds; `total` is the whole task, redirects included.
  private var phases: [JSONValue.Member] {
    guard let metrics, let last = metrics.transactions.last else { return [] }
    var members = last.phases.filter { $0.name != "total" }
      .map { JSONValue.Member($0.name, .integer(Self.microseconds($0.duration))) }
    members.append(JSONValue.Member("total", .integer(Self.microseconds(metrics.duration))))
    return members
  }

  private static func microseconds(_ duration: Duration) -> Int64 {
    duration.components.seconds * 1_000_000 + duration.components.attoseconds / 1_000_000_000_000
  }
}
