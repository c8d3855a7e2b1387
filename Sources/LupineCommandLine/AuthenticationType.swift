package import LupineSession

/// How credentials are shown to a server.
package enum AuthenticationType: String, CaseIterable, Sendable {
  case any
  case basic
  case digest
  case bearer

  /// A user and a password, for the one request.
  package func credential(user: String, password: String) -> Credential {
    var credential = Credential.password(user: user, password: password, persistence: .none)
    switch self {
    case .any, .bearer: break
    case .basic:
      credential.schemes = .basic
      // Whoever names the scheme knows the server: it need not ask.
      credential.isPreemptive = true
    case .digest: credential.schemes = .digest
    }
    return credential
  }
}
