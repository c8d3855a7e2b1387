/// Endpoints about statuses, redirects, credentials and waiting.
enum StandardExchanges {
  static func routes(_ latch: Latch?) -> [ServerRoute] {
    [
      ServerRoute(nil, "/redirect", handler: redirect),
      ServerRoute(nil, "/status") { request, connection in
        try connection.respond(
          try request.status("code") ?? 200, reason: request.query("reason"), text: request.query("body") ?? "")
      },
      ServerRoute("GET", "/trailers") { _, connection in
        try connection.begin(fields: ["Trailer": "X-Checksum, X-Note"], framing: .chunked)
        try connection.write(Array("trailers follow".utf8))
        try connection.finish(trailers: ["X-Checksum": "15", "X-Note": "after the body"])
      },
      ServerRoute("GET", "/early-hints") { _, connection in
        try connection.sendInformational(103, fields: ["Link": "</style.css>; rel=preload; as=style"])
        try connection.respond(text: "hinted")
      },
      ServerRoute("GET", "/slow") { request, connection in try slow(request, connection, latch) },
      ServerRoute("GET", "/cookies") { request, connection in
        try connection.respond(text: request.fields.values("Cookie").joined(separator: "\n"))
      },
      ServerRoute("GET", "/cookies/set") { request, connection in
        var fields = ServerFields()
        for (name, value) in request.queryItems { fields.append("Set-Cookie", "\(name)=\(value); Path=/") }
        try connection.respond(fields: fields, text: "")
      },
      ServerRoute(nil, "/basic-auth", handler: basicAuthentication),
      ServerRoute(nil, "/close") { _, connection in
        connection.closeAfterResponse()
        try connection.respond(text: "Good bye.")
      },
    ]
  }

  private static func redirect(_ request: ServerRequest, _ connection: ServerConnection) throws {
    let status = try request.status("status") ?? 302
    let hops = try request.number("n", in: 0...1_000)
    let target =
      if let count = hops {
        count > 1 ? "/redirect?n=\(count - 1)&status=\(status)" : "/hello"
      } else {
        request.query("to") ?? "/hello"
      }
    try connection.respond(status, fields: ["Location": target], text: "Moved to \(target)\n")
  }

  private static func slow(_ request: ServerRequest, _ connection: ServerConnection, _ latch: Latch?) throws {
    // The body is kept in memory.
    let range = 0...(1 << 24)
    let body = PatternBody.bytes(try request.number("n", in: range) ?? 13)
    let before = try request.number("after", in: range)
    if let before {
      try connection.begin(framing: .length(body.count))
      try connection.write(body.prefix(before))
    }
    guard try connection.stall(until: latch) == .released else { throw LoopbackError.peerClosed }
    if let before {
      try connection.write(body.dropFirst(before))
      try connection.finish()
    } else {
      try connection.respond(body: body)
    }
  }

  private static func basicAuthentication(_ request: ServerRequest, _ connection: ServerConnection) throws {
    let user = request.query("user") ?? "user"
    let expected = "Basic " + base64("\(user):\(request.query("password") ?? "password")")
    if request.fields.first("Authorization") == expected {
      try connection.respond(text: "Welcome, \(user).")
    } else {
      try connection.respond(401, fields: ["WWW-Authenticate": "Basic realm=\"lupine\""], text: "Who are you?\n")
    }
  }

  /// RFC 4648 section 4.
  static func base64(_ text: String) -> String {
    let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    let bytes = Array(text.utf8)
    var result: [UInt8] = []
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      let value = (0..<3).reduce(0) { $0 << 8 | ($1 < group.count ? Int(group[start + $1]) : 0) }
      for index in 0..<4 {
        result.append(index <= group.count ? digits[value >> (18 - 6 * index) & 63] : UInt8(ascii: "="))
      }
    }
    return String(decoding: result, as: UTF8.self)
  }
}
