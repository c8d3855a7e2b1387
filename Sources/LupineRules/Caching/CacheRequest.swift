/// How a request uses a cache: the values of `URLRequest.CachePolicy`.
package enum CacheMode: Hashable, Sendable {
  /// As RFC 9111 says.
  case protocolRules
  /// Nothing stored is used; what comes is stored.
  case ignoringLocal
  /// The same, and caches on the way are told so.
  case ignoringLocalAndRemote
  /// What is stored, whatever its age, else the network.
  case storedElseLoad
  /// What is stored, whatever its age, else nothing.
  case storedDontLoad
  /// The server is asked whether what is stored still holds.
  case revalidating
}

/// What a cache has to know of a request besides its URL.
package struct CacheRequest: Hashable, Sendable {
  package var method: String
  package var hasBody: Bool
  package var directives = CacheDirectives()
  /// `Range`, a precondition of the caller's own (RFC 9110 section 13.1), or another host than the URL's: the answer is the caller's business.
  package var isConditional = false
  /// The value of `Authorization`.
  package var authorization: String?
  /// The value of the caller's own `Host`: with another than the URL's, the request is for another resource than its URL says (RFC 9110 section 7.1).
  package var host: String?
  /// The names of its fields that hold keys by custom, or secrets by the caller's word, in lower case: like `Authorization` they say who is asking.
  package var keys: [String] = []

  /// A request without fields that matter.
  package init(method: String, hasBody: Bool = false) {
    self.method = method
    self.hasBody = hasBody
  }

  /// - Parameter isMarkedSensitive: whether the caller says that a field, in lower case, holds a secret.
  package init(
    method: String, hasBody: Bool, fields: [(name: String, value: String)],
    isMarkedSensitive: (String) -> Bool = { _ in false }
  ) {
    self.init(method: method, hasBody: hasBody)
    var values: [String] = []
    var isPragmaNoCache = false
    for (name, value) in fields {
      let lower = name.lowercased()
      switch lower {
      case "cache-control": values.append(value)
      case "pragma": if value.lowercased().contains("no-cache") { isPragmaNoCache = true }
      case "range", "if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range":
        isConditional = true
      case "host": host = value
      case "authorization": authorization = authorization.map { "\($0), \(value)" } ?? value
      default: if APIKeyField.isOne(lowercased: lower) || isMarkedSensitive(lower) { keys.append(lower) }
      }
    }
    directives = CacheDirectives(values)
    // RFC 9111 section 5.4: for servers and clients of HTTP/1.0 only.
    if values.isEmpty, isPragmaNoCache { directives.noCache = true }
  }

  /// Compares the host that is asked: who asks another one than the URL's, at the URL's address, has nothing to do with what is stored of the URL.
  ///
  /// - Parameter authority: of the URL, which has no capitals.
  package mutating func compareHost(with authority: String) {
    if let host, !host.isSame(ignoringCase: authority) { isConditional = true }
  }

  /// Whether a stored response may be an answer (RFC 9111 section 4).
  package var mayUseStored: Bool { (method == "GET" || method == "HEAD") && !hasBody && !isConditional }

  /// Whether the answer may be stored at all (RFC 9111 section 3).
  package var mayBeStored: Bool { method == "GET" && !hasBody && !isConditional && !directives.noStore }

  /// Whether a successful answer makes what is stored of the URL useless (RFC 9111 section 4.4).
  package var invalidates: Bool {
    switch method {
    case "GET", "HEAD", "OPTIONS", "TRACE", "CONNECT": false
    default: true
    }
  }
}
