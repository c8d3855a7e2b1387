/// What responses are stored under.
///
/// The first key of a request leads to the response, or to the names of the request fields that responses of the URL vary by; with their values
/// it becomes the second key, under which the response is. Keys are compared as a whole, byte by byte.
package enum CacheKey {
  /// - Parameters:
  ///   - partition: what else decides what a URL stands for, as other names for hosts do. Empty for most sessions.
  ///   - isDecoded: whether the codings were offered by us, so that the stored body is decoded.
  package static func first(partition: String, isDecoded: Bool, url: ParsedURL) -> String {
    "\(isDecoded ? "d" : "r")\(partition) \(url.identity)"
  }

  /// - Parameters:
  ///   - first: what `first` made.
  ///   - generation: of the responses of the URL; a new one leaves the former behind.
  package static func second(_ first: String, _ generation: UInt64, _ fields: [VaryField]) -> String {
    var key = "\(first)\n\(generation)"
    for field in fields {
      // Names are tokens, and no value holds a line's end.
      key += field.value.map { "\n\(field.name): \($0)" } ?? "\n\(field.name)"
    }
    return key
  }

  /// Whether what is stored under a key is for requests with a field, and with one value of it.
  ///
  /// - Parameter name: in lower case.
  static func varies(_ key: String, by name: String) -> Bool {
    key.utf8.split(separator: UInt8(ascii: "\n")).dropFirst(2).contains { $0.starts(with: "\(name): ".utf8) }
  }

  /// The names that count. Codings that we offer on our own are always the same.
  package static func names(_ names: [String], isDecoded: Bool) -> [String] {
    isDecoded ? names.filter { $0 != "accept-encoding" } : names
  }
}
