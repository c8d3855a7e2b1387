/// Why Basic or Bearer credentials cannot be sent. Never holds what was refused.
package enum CredentialsRefusal: Error, Hashable, Sendable {
  /// RFC 7617 section 2: the first colon ends the user name.
  case colonInUser
  case controlInUser
  case controlInPassword
  /// RFC 6750 section 2.1.
  case invalidToken
}

/// The scheme Basic (RFC 7617).
package enum BasicRule {
  /// The value of `Authorization`. Encoded as UTF-8 whatever the challenge says: that is what RFC 7617 allows it to ask for.
  package static func credentials(user: String, password: String) throws(CredentialsRefusal) -> String {
    guard !user.utf8.contains(UInt8(ascii: ":")) else { throw .colonInUser }
    guard !AuthenticationText.hasControl(user) else { throw .controlInUser }
    guard !AuthenticationText.hasControl(password) else { throw .controlInPassword }
    return "Basic " + AuthenticationText.base64(Array("\(user):\(password)".utf8))
  }
}

/// The scheme Bearer (RFC 6750).
package enum BearerRule {
  /// The value of `Authorization`.
  package static func credentials(token: String) throws(CredentialsRefusal) -> String {
    guard isToken68(token) else { throw .invalidToken }
    return "Bearer " + token
  }

  /// `1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="`.
  package static func isToken68(_ text: String) -> Bool {
    let rest = text.utf8.drop(while: AuthenticationText.isToken68)
    return rest.count < text.utf8.count && rest.allSatisfy { $0 == UInt8(ascii: "=") }
  }
}
