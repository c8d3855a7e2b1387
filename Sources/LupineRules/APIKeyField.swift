/// Request fields that carry a key or a token by custom, though no standard says so: one list for what is shown, kept, and sent to another origin.
package enum APIKeyField {
  /// Whether a field is one. `X-CSRF-Token` is not: without the cookie that it goes with it proves nothing.
  package static func isOne(lowercased name: String) -> Bool {
    switch name {
    case "x-api-key", "api-key", "x-auth-token", "x-access-token", "x-amz-security-token", "x-goog-api-key",
      "private-token":
      true
    default: false
    }
  }
}
