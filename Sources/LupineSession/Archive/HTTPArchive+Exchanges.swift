public import FoundationEssentials
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
public import LupineWire

extension HTTPArchive.Entry {
  /// What a transport knows of an exchange.
  ///
  /// - Parameters:
  ///   - requestHead: the head as it was sent; empty: it is made of the request's fields.
  ///   - requestBody: nil: taken from the request if it is in memory.
  ///   - requestTrailers: what followed the request's body.
  ///   - sensitiveFields: names of fields that are secrets besides the known ones, and those that the request or its session marks.
  public init(
    _ request: TransportRequest, requestHead: [UInt8] = [], requestBody: [UInt8]? = nil,
    requestTrailers: [(name: String, value: String)] = [], response: ResponseHead?,
    informational: [ResponseHead] = [], trailers: FieldSection = FieldSection(), body: [UInt8]? = nil,
    failure: SessionError? = nil, metrics: TransactionMetrics, sensitiveFields: Set<String> = []
  ) {
    var archived = HTTPArchive.Request(method: request.method, url: request.urlString)
    let head = SentHead(requestHead)
    archived.fields =
      (head?.fields ?? request.fields).map { HTTPArchive.Field($0.name, $0.value) }
    archived.body = requestBody
    archived.trailers = requestTrailers.map { HTTPArchive.Field($0.name, $0.value) }
    if requestBody == nil, case .bytes(let bytes) = request.body { archived.body = bytes }
    self.init(
      archived, response, informational, trailers, body, failure, metrics,
      sensitiveFields.union(request.composition.sensitiveFields.map(\.rawName)))
  }

  /// What all ways to an entry have in common.
  init(
    _ request: HTTPArchive.Request, _ response: ResponseHead?, _ informational: [ResponseHead],
    _ trailers: FieldSection, _ body: [UInt8]?, _ failure: SessionError?, _ metrics: TransactionMetrics,
    _ sensitiveFields: Set<String>
  ) {
    var request = request
    let secrets = Set(sensitiveFields.map { $0.lowercased() })
    for index in request.fields.indices {
      request.fields[index].isSensitive = secrets.contains(request.fields[index].name.lowercased())
    }
    for index in request.trailers.indices {
      request.trailers[index].isSensitive = secrets.contains(request.trailers[index].name.lowercased())
    }
    request.headerBytes = Int64(metrics.requestHeaderBytes)
    request.bodyBytes = metrics.requestBodyBytes
    var archived: HTTPArchive.Response?
    if let response {
      archived = HTTPArchive.Response(response, secrets)
    } else if let status = metrics.statusCode {
      // The attempt was answered, but nobody kept what.
      archived = HTTPArchive.Response(status: status)
    }
    archived?.informational = informational.map {
      HTTPArchive.Interim(status: $0.status, fields: HTTPArchive.fields($0.fields, secrets))
    }
    archived?.trailers = HTTPArchive.fields(trailers, secrets)
    archived?.body = body
    archived?.headerBytes = metrics.responseHeaderBytes
    // What the server sent, where it was asked, was another body.
    archived?.bodyBytes = metrics.fetchType == .networkLoad ? metrics.responseBodyBytes : 0
    archived?.decodedBytes = metrics.responseDecodedBytes
    self.init(startedAt: metrics.date(of: metrics.fetchStart), request: request, response: archived)
    // A cache that had nothing to answer with is not where anything came from.
    if archived != nil { fetchType = metrics.fetchType }
    timings = HTTPArchive.Timings(metrics)
    serverAddress = metrics.remoteAddress.flatMap { Self.split($0)?.host }
    connection = metrics.localAddress.flatMap { Self.split($0)?.port }
    isReusedConnection = metrics.isReusedConnection
    if let version = metrics.tlsVersion {
      tls = HTTPArchive.TLS(version: version, cipher: metrics.tlsCipher, isResumed: metrics.isTLSResumed)
    }
    self.failure = failure.map { HTTPArchive.Failure($0) }
  }

  /// Host and port of "1.2.3.4:5" or "[::1]:5"; what has no port is both. Nil of a Unix-domain socket ("unix:/path"), which has neither.
  private static func split(_ address: String) -> (host: String, port: String)? {
    guard !address.utf8.starts(with: "unix:".utf8) else { return nil }
    guard let colon = address.lastIndex(of: ":") else { return (address, address) }
    var host = address[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") { host = host.dropFirst().dropLast() }
    return (String(host), String(address[address.index(after: colon)...]))
  }
}

extension HTTPArchive {
  /// Adds the exchanges of a task: one entry for each request that was sent, as its metrics have them. Of redirects the heads are known,
  /// of retries only that they were; the body is the last response's. What a transport does not say is taken from the request and the task.
  ///
  /// - Parameters:
  ///   - request: as the task was given it; of its body only bytes in memory are kept.
  ///   - body: the body of the response; nil leaves it out.
  ///   - requestTrailers: what followed the body of the request, which metrics do not say (see `LupineSession.Request.trailerNames`); of an attempt that
  ///     was made again, the last values. Kept with the last exchange that sent a body in full, as far as heads and times tell, and left out if there is
  ///     none. Redacted like fields. Default none.
  ///   - configuration: of the session, for the fields that it marks sensitive, besides those that the request marks, and those that others which were sent
  ///     in its place do. Default: one that marks none.
  public mutating func append(
    _ request: LupineSession.Request, response: LupineSession.Response, body: Data? = nil,
    requestTrailers: [(name: String, value: String)] = [],
    configuration: SessionConfiguration = SessionConfiguration()
  ) {
    append(
      request,
      Ending(
        response: response, body: body.map { [UInt8]($0) }, metrics: response.metrics,
        requestHead: response.requestHead, requestTrailers: requestTrailers, redirects: response.redirects),
      request.sensitiveFields.union(configuration.sensitiveFields).union(response.sensitiveFields))
  }

  /// Adds the exchanges of a task that failed, the last of them with the error; see
  /// `append(_:response:body:requestTrailers:configuration:)`. Trailers that were refused (`.badTrailers`) were not sent, and are left out: an exchange
  /// before, such as one that was redirected, had others.
  public mutating func append(
    _ request: LupineSession.Request, error: SessionError, requestTrailers: [(name: String, value: String)] = [],
    configuration: SessionConfiguration = SessionConfiguration()
  ) {
    append(
      request,
      Ending(
        response: error.response, body: error.partialBody, error: error, metrics: error.metrics ?? TaskMetrics(),
        requestHead: error.requestHead, requestTrailers: error.code == .badTrailers ? [] : requestTrailers,
        redirects: error.redirects.isEmpty ? error.response?.redirects ?? [] : error.redirects),
      request.sensitiveFields.union(configuration.sensitiveFields).union(error.sensitiveFields)
        .union(error.response?.sensitiveFields ?? []))
  }

  private mutating func append(
    _ request: LupineSession.Request, _ ending: Ending, _ sensitiveFields: Set<HTTPField.Name>
  ) {
    let secrets = Set(sensitiveFields.map { $0.rawName })
    let transactions = ending.metrics.transactions
    let redirects = ending.redirects(of: transactions)
    let heads = transactions.indices.map { index in
      SentHead(index == transactions.count - 1 ? ending.requestHead : redirects[index]?.requestHead ?? [])
    }
    let indexOfTrailers =
      ending.requestTrailers.isEmpty
      ? nil : transactions.indices.last(where: { Self.hasSentChunks(transactions[$0], heads[$0]) })
    for (index, transaction) in transactions.enumerated() {
      let isLast = index == transactions.count - 1
      let response = isLast ? ending.response : nil
      let redirect = redirects[index]
      let head = heads[index]
      let url = redirect?.urlString ?? (isLast ? ending.url : nil) ?? request.urlString
      var archived = Request(
        method: transaction.method.isEmpty ? request.method.rawValue : transaction.method,
        url: transaction.urlString.isEmpty ? url : transaction.urlString)
      archived.fields = (head?.fields ?? []).map { Field($0.name, $0.value) }
      if case .bytes(let bytes) = request.body, transaction.requestBodyBytes > 0 { archived.body = bytes }
      if index == indexOfTrailers { archived.trailers = ending.requestTrailers.map { Field($0.name, $0.value) } }
      var entry = Entry(
        archived, response?.head ?? redirect?.head, response?.informational ?? [],
        response?.trailers ?? FieldSection(), isLast ? ending.body : nil, isLast ? ending.error : nil, transaction,
        secrets)
      if transaction.fetchStart == 0 { entry.startedAt = ending.metrics.startDate }
      entries.append(entry)
    }
  }

  /// Whether the body of an exchange, as far as it is known one in chunks, was sent with what follows it. Of a transport that tells no times it was.
  private static func hasSentChunks(_ transaction: TransactionMetrics, _ head: SentHead?) -> Bool {
    guard transaction.requestEnd != nil || transaction.fetchStart == 0 else { return false }
    return head?.isChunked ?? (transaction.requestBodyBytes > 0)
  }

  /// What a task ended with.
  private struct Ending {
    var response: LupineSession.Response?
    var body: [UInt8]?
    var error: SessionError?
    var metrics: TaskMetrics
    /// Of the last request.
    var requestHead: [UInt8]
    var requestTrailers: [(name: String, value: String)]
    var redirects: [LupineSession.Response.Redirect]

    /// Of the last exchange, as far as it is known.
    var url: String? { response?.urlString ?? error?.failingURL }

    /// The redirect that each transaction was answered with. From the last one on: of a task that was sent again only those of its last attempt
    /// are known.
    func redirects(of transactions: [TransactionMetrics]) -> [LupineSession.Response.Redirect?] {
      var rest = redirects[...]
      var found = [LupineSession.Response.Redirect?](repeating: nil, count: transactions.count)
      let last = transactions.count - 1
      for index in transactions.indices.reversed() where index < last || response == nil {
        guard let redirect = rest.last, Self.isAnswer(redirect, to: transactions[index], isLast: index == last) else {
          continue
        }
        found[index] = rest.removeLast()
      }
      return found
    }

    /// What a cache holds has a status of its own, whatever that of the exchange was, and some transports say nothing.
    private static func isAnswer(
      _ redirect: LupineSession.Response.Redirect, to transaction: TransactionMetrics, isLast: Bool
    ) -> Bool {
      let isSamePlace = redirect.urlString == transaction.urlString
      let isSame = isSamePlace && redirect.head.status == transaction.statusCode
      if isLast { return isSame }
      return isSame || isSamePlace && transaction.fetchType != .networkLoad || transaction.urlString.isEmpty
    }
  }

  static func fields(_ section: FieldSection, _ secrets: Set<String>) -> [Field] {
    section.pairs.map { Field($0.name, $0.value, isSensitive: secrets.contains($0.name.lowercased())) }
  }
}

extension HTTPArchive.Response {
  init(_ head: ResponseHead, _ secrets: Set<String>) {
    self.init(status: head.status)
    reason = head.reason
    httpVersion = head.version.description
    fields = HTTPArchive.fields(head.fields, secrets)
  }
}

extension HTTPArchive.Timings {
  /// The phases of an exchange.
  public init(_ metrics: TransactionMetrics) {
    self.init()
    for phase in metrics.phases {
      switch phase.name {
      case "wait": blocked = phase.duration
      case "resolve": resolve = phase.duration
      case "connect": connect = phase.duration
      // The format has no phase of its own for it.
      case "proxy": connect = (connect ?? .zero) + phase.duration
      case "tls": tls = phase.duration
      case "send": send = phase.duration
      case "firstByte": wait = phase.duration
      case "receive": receive = phase.duration
      default: break
      }
    }
  }
}

/// A request head as it was sent, taken apart again.
struct SentHead {
  var fields: [(name: String, value: String)] = []

  /// Nil for an empty one.
  init?(_ bytes: [UInt8]) {
    guard !bytes.isEmpty else { return nil }
    var lines = bytes.split(separator: UInt8(ascii: "\n")).map { $0.last == UInt8(ascii: "\r") ? $0.dropLast() : $0 }[
      ...]
    _ = lines.popFirst()
    for line in lines {
      guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else { continue }
      let value = line[(colon + 1)...].drop { $0 == UInt8(ascii: " ") }
      fields.append((String(decoding: line[..<colon], as: UTF8.self), String(decoding: value, as: UTF8.self)))
    }
  }

  var isChunked: Bool { fields.contains { $0.name.lowercased() == "transfer-encoding" } }

  var contentLength: Int64? {
    fields.first { $0.name.lowercased() == "content-length" }.flatMap { Int64($0.value) }
  }
}
