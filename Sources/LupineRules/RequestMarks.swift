/// What the fields of a request say to whoever carries it.
package struct RequestMarks: OptionSet, Hashable, Sendable {
  package let rawValue: UInt8

  package init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  /// The server will notice a repetition; see `RetryRule.isIdempotencyKey`.
  package static let idempotencyKey = RequestMarks(rawValue: 1)
  /// Nothing more is sent over the connection: `close` among the options of a `Connection` field (RFC 9112 section 9.6).
  package static let closesConnection = RequestMarks(rawValue: 2)

  /// What one field says.
  package static func of(_ name: String, _ value: String) -> RequestMarks {
    // Asked for every field of many requests: most names end here.
    switch name.utf8.count {
    case 10: name.lowercased() == "connection" && hasClose(value) ? .closesConnection : []
    case 15, 17: RetryRule.isIdempotencyKey(name) ? .idempotencyKey : []
    default: []
    }
  }

  private static func hasClose(_ value: String) -> Bool {
    value.utf8.split(separator: UInt8(ascii: ",")).contains { option in
      Substring(FieldScanner.trimmed(option)).lowercased() == "close"
    }
  }
}
