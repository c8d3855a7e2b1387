internal import HTTPTypes
internal import LupineRules

extension Request {
  /// The credential that this request names for its own origin, in itself or in its URL. The URL's userinfo goes nowhere else.
  var namedCredential: Credential? {
    if let credential { return credential }
    guard let (user, password) = parsedURL.credentials else { return nil }
    return .password(user: user, password: password ?? "", persistence: .none)
  }
}
