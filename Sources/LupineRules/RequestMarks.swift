/// What the fields of a request say to whoever carries it. Not an option set: the algebra of one of another module is not specialised, which cost every
/// request 800 instructions.
package struct RequestMarks: Hashable, Sendable {
  /// The server will notice a repetition; see `RetryRule.isIdempotencyKey`.
  package var hasIdempotencyKey = false
  /// Nothing more is sent over the connection: `close` among the options of a `Connection` field (RFC 9112 section 9.6).
  package var closesConnection = false

  package init(hasIdempotencyKey: Bool = false, closesConnection: Bool = false) {
    self.hasIdempotencyKey = hasIdempotencyKey
    self.closesConnection = closesConnection
  }

  /// Takes what one more field says.
  package mutating func note(_ name: String, _ value: String) {
    // Asked for every field of many requests: most names end here.
    switch name.utf8.count {
    case 10: if name.lowercased() == "connection", Self.hasClose(value) { closesConnection = true }
    case 15, 17: if RetryRule.isIdempotencyKey(name) { hasIdempotencyKey = true }
    default: break
    }
  }

  private static func hasClose(_ value: String) -> Bool {
    value.utf8.split(separator: UInt8(ascii: ",")).contains { option in
      Substring(FieldScanner.trimmed(option)).lowercased() == "close"
    }
  }
}
