extension ServerRoute {
  /// Ready-made endpoints for tests, demonstrations and benchmarks.
  ///
  /// | Path | What it answers |
  /// |---|---|
  /// | `/hello` | the 13 bytes `Hello, world!` |
  /// | `/json` | a small JSON object |
  /// | `/bytes?n=` | `n` bytes of `PatternBody`, with `ETag` and ranges; `etag=` names another tag, `cut=k` closes the connection after `k` bytes, `close=1` ends the body by closing |
  /// | `/chunked?n=&size=` | the same bytes in chunks of `size` |
  /// | `/drip?n=` | the same bytes, one byte a send; `chunked=1` in chunks of one byte |
  /// | `/gzip?n=&members=` | the same bytes as gzip, in so many members; `zeros=1` sends zeros instead, which compress a thousandfold |
  /// | `/deflate?n=` | the same bytes as zlib; `raw=1` without the wrapper |
  /// | `/echo` | the request's body, with its media type |
  /// | `/headers` | the request line and fields as they came |
  /// | `/upload` | JSON with the size and SHA-256 of the body and its trailers; `refuse=1` answers 417 (or 413 without `Expect`) unread; `early=1` answers before reading |
  /// | `/redirect?to=&status=` | a redirect, 302 by default; `n=5` makes a chain of five that ends at `/hello` |
  /// | `/status?code=&reason=` | that status; `body=` is its text |
  /// | `/trailers` | a chunked body with trailers |
  /// | `/early-hints` | 103 with a `Link`, then 200 |
  /// | `/slow` | 200 after the latch opened; `after=n` sends the head and `n` bytes before it waits |
  /// | `/cookies`, `/cookies/set?name=value` | the `Cookie` field; a `Set-Cookie` for each parameter |
  /// | `/basic-auth?user=&password=` | 401 with a Basic challenge unless the credentials are right |
  /// | `/close` | 200 and the end of the connection |
  ///
  /// A number that is none, or out of its range, is answered with 400. Bytes (`n`, `cut`) are at most 2⁴⁰, those of `/slow` (`n`, `after`), which are kept in
  /// memory, 2²⁴; `size` is 1 to 2⁴⁰, `members` 1 to 1,000, the `n` of `/redirect` at most 1,000, and a status (`code`, `status`) 200 to 999.
  ///
  /// - Parameter latch: what `/slow` waits for; nil makes it wait until the client gives up.
  public static func standard(latch: Latch? = nil) -> [ServerRoute] {
    (StandardBodies.routes + StandardExchanges.routes(latch)).map(\.refusingNumbers)
  }

  /// The same, with an answer for `NumberRefusal`.
  private var refusingNumbers: ServerRoute {
    ServerRoute(method, path) { [handler] request, connection in
      do {
        try handler(request, connection)
      } catch let refusal as NumberRefusal {
        try connection.respond(400, text: refusal.text)
      }
    }
  }
}

/// A number in a query that a standard route does not take. Thrown before the response is begun.
struct NumberRefusal: Error {
  let name: String
  let range: ClosedRange<Int>

  var text: String { "\(name) must be a number from \(range.lowerBound) to \(range.upperBound)\n" }
}

extension ServerRequest {
  /// How many bytes a route makes as it sends them.
  static let sizes = 0...(1 << 40)

  /// A query parameter as a number of this range; nil when absent.
  func number(_ name: String, in range: ClosedRange<Int>) throws(NumberRefusal) -> Int? {
    guard let text = query(name) else { return nil }
    guard let number = Int(text), range.contains(number) else { throw NumberRefusal(name: name, range: range) }
    return number
  }

  /// A query parameter as the status of a final response; nil when absent.
  func status(_ name: String) throws(NumberRefusal) -> Int? { try number(name, in: 200...999) }
}

/// Endpoints about bodies.
enum StandardBodies {
  private static let text: ServerFields = ["Content-Type": "text/plain"]
  private static let greeting = Array("Hello, world!".utf8)

  static var routes: [ServerRoute] {
    [
      ServerRoute(nil, "/hello") { _, connection in try connection.respond(fields: text, body: greeting) },
      ServerRoute(nil, "/json") { _, connection in
        try connection.respond(
          fields: ["Content-Type": "application/json"], body: Array(#"{"greeting":"Hello, world!","count":13}"#.utf8))
      },
      ServerRoute("GET", "/bytes", handler: bytes),
      ServerRoute("GET", "/chunked") { request, connection in
        let slice = try request.number("size", in: 1...ServerRequest.sizes.upperBound) ?? 8192
        let count = try request.number("n", in: ServerRequest.sizes) ?? 1 << 20
        try connection.begin(framing: .chunked)
        try PatternBody.send(count, from: 0, slice: slice) {
          part throws(LoopbackError) in try connection.write(part)
        }
        try connection.finish()
      },
      ServerRoute("GET", "/drip") { request, connection in
        let count = try request.number("n", in: ServerRequest.sizes) ?? 64
        try connection.begin(framing: request.query("chunked") == nil ? .length(count) : .chunked)
        try connection.flush()
        try PatternBody.send(count, from: 0, slice: 1) { part throws(LoopbackError) in
          try connection.write(part)
          try connection.flush()
        }
        try connection.finish()
      },
      ServerRoute("GET", "/gzip") { request, connection in try compressed(request, connection, .gzip, "gzip") },
      ServerRoute("GET", "/deflate") { request, connection in
        try compressed(request, connection, request.query("raw") == nil ? .zlib : .rawDeflate, "deflate")
      },
      ServerRoute(nil, "/echo") { request, connection in
        let body = try connection.readBody()
        let type = request.fields.first("Content-Type") ?? "application/octet-stream"
        try connection.respond(fields: ["Content-Type": type], body: body)
      },
      ServerRoute(nil, "/headers") { request, connection in
        let lines = request.fields.map { "\($0.name): \($0.value)\n" }
        try connection.respond(
          text: "\(request.method) \(request.target) \(request.version)\n" + lines.joined())
      },
      ServerRoute(nil, "/upload", handler: upload),
    ]
  }

  private static func bytes(_ request: ServerRequest, _ connection: ServerConnection) throws {
    let count = try request.number("n", in: ServerRequest.sizes) ?? 1024
    let cut = try request.number("cut", in: ServerRequest.sizes)
    let tag = "\"\(request.query("etag") ?? "pattern-\(count)")\""
    var fields: ServerFields = ["Content-Type": "application/octet-stream", "ETag": tag, "Accept-Ranges": "bytes"]
    if request.fields.first("If-None-Match") == tag { return try connection.respond(304, fields: fields) }
    var range = 0..<count
    var status = 200
    if let set = rangeSet(request), request.fields.first("If-Range").map({ $0 == tag }) ?? true {
      guard let wanted = byteRange(set, count) else {
        return try connection.respond(416, fields: ["Content-Range": "bytes */\(count)", "ETag": tag])
      }
      range = wanted
      status = 206
      fields.append("Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(count)")
    }
    let untilClose = request.query("close") != nil
    try connection.begin(status, fields: fields, framing: untilClose ? .untilClose : .length(range.count))
    if request.method != "HEAD" {
      let sent = min(range.count, cut ?? range.count)
      try PatternBody.send(sent, from: range.lowerBound) { part throws(LoopbackError) in try connection.write(part) }
    }
    if cut != nil {
      try connection.flush()
      connection.abort()
    } else {
      try connection.finish()
    }
  }

  /// What a request wants of the bytes; nil if it has to be answered as a whole: the field means something with GET alone, and an unknown
  /// unit is to be ignored (RFC 9110 section 14.2).
  private static func rangeSet(_ request: ServerRequest) -> Substring? {
    guard request.method == "GET", let text = request.fields.first("Range"), let equals = text.firstIndex(of: "="),
      text[..<equals].lowercased() == "bytes"
    else { return nil }
    return text[text.index(after: equals)...]
  }

  /// A single range of RFC 9110 section 14.1.2; nil when it cannot be satisfied.
  private static func byteRange(_ text: Substring, _ count: Int) -> Range<Int>? {
    let parts = text.split(separator: "-", omittingEmptySubsequences: false)
    guard parts.count == 2 else { return nil }
    if parts[0].isEmpty {
      guard let suffix = Int(parts[1]), suffix > 0, count > 0 else { return nil }
      return max(0, count - suffix)..<count
    }
    guard let first = Int(parts[0]), first >= 0, first < count else { return nil }
    if parts[1].isEmpty { return first..<count }
    guard let last = Int(parts[1]), last >= first else { return nil }
    return first..<(min(last, count - 1) + 1)
  }

  private static func compressed(
    _ request: ServerRequest, _ connection: ServerConnection, _ format: Compression, _ coding: String
  ) throws {
    let count = try request.number("n", in: ServerRequest.sizes) ?? 1024
    let members = try request.number("members", in: 1...1_000) ?? 1
    let zeros = request.query("zeros") == nil ? nil : [UInt8](repeating: 0, count: 256 * 1024)
    try connection.begin(fields: ["Content-Encoding": coding, "Vary": "Accept-Encoding"], framing: .chunked)
    let size = (count + members - 1) / members
    for member in 0..<members {
      let compressor = try Compressor(format, level: zeros == nil ? 1 : 9)
      let start = min(count, member * size)
      try PatternBody.send(min(count, start + size) - start, from: start) { part throws(LoopbackError) in
        try compressor.add(zeros?[..<part.count] ?? part, isLast: false) { output throws(LoopbackError) in
          try connection.write(output)
        }
      }
      try compressor.add([], isLast: true) { output throws(LoopbackError) in try connection.write(output) }
    }
    try connection.finish()
  }

  private static func upload(_ request: ServerRequest, _ connection: ServerConnection) throws {
    if request.query("refuse") != nil {
      connection.closeAfterResponse()
      return try connection.respond(request.fields.has("Expect", token: "100-continue") ? 417 : 413)
    }
    if request.query("early") != nil { return try connection.respond(text: "early\n") }
    let digest = try Digest()
    while try connection.withBodyPart({ part in
      if let part { digest.add(part) }
      return part != nil
    }) {}
    let trailers = connection.requestTrailers.map { "\(jsonString($0.name)):\(jsonString($0.value))" }
    let isChunked = request.fields.has("Transfer-Encoding", token: "chunked")
    let json = """
      {"bytes":\(connection.bodyLength),"sha256":"\(digest.finish())","chunked":\(isChunked),\
      "trailers":{\(trailers.joined(separator: ","))}}
      """
    try connection.respond(fields: ["Content-Type": "application/json"], body: Array(json.utf8))
  }

  /// A JSON string literal.
  static func jsonString(_ text: String) -> String {
    let escaped = text.unicodeScalars.map { scalar in
      switch scalar {
      case "\"": "\\\""
      case "\\": "\\\\"
      case _ where scalar.value < 0x20:
        "\\u" + String(repeating: "0", count: scalar.value < 16 ? 3 : 2) + String(scalar.value, radix: 16)
      default: String(scalar)
      }
    }
    return "\"" + escaped.joined() + "\""
  }
}
