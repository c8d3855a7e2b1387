/// What a status means, in words for messages.
enum StatusText {
  /// The reason phrase of RFC 9110 section 15 and the registry, in lower case as Apple's systems have it; for others the class of the status.
  static func of(_ code: Int) -> String {
    known[code] ?? (100..<600 ~= code ? classes[code / 100 - 1] : "unknown status")
  }

  private static let classes = ["informational", "success", "redirected", "client error", "server error"]

  private static let known: [Int: String] = [
    100: "continue", 101: "switching protocols", 200: "no error", 201: "created", 202: "accepted",
    203: "non authoritative information", 204: "no content", 205: "reset content", 206: "partial content",
    300: "multiple choices", 301: "moved permanently", 302: "found", 303: "see other", 304: "not modified",
    305: "needs proxy", 307: "temporarily redirected", 308: "permanently redirected", 400: "bad request",
    401: "unauthorized", 402: "payment required", 403: "forbidden", 404: "not found", 405: "method not allowed",
    406: "unacceptable", 407: "proxy authentication required", 408: "request timed out", 409: "conflict",
    410: "no longer exists", 411: "length required", 412: "precondition failed", 413: "request too large",
    414: "requested URL too long", 415: "unsupported media type", 416: "requested range not satisfiable",
    417: "expectation failed", 421: "misdirected request", 422: "unprocessable content", 423: "locked",
    424: "failed dependency", 425: "too early", 426: "upgrade required", 428: "precondition required",
    429: "too many requests", 431: "request header fields too large", 451: "unavailable for legal reasons",
    500: "internal server error", 501: "unimplemented", 502: "bad gateway", 503: "service unavailable",
    504: "gateway timed out", 505: "unsupported version", 507: "insufficient storage", 508: "loop detected",
    511: "network authentication required",
  ]
}
