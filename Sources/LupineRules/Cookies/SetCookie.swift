/// Across sites a cookie is sent or not (RFC 6265bis section 5.6.7).
package enum SameSite: String, Hashable, Sendable, CaseIterable {
  /// The server said nothing, or nothing that is known: treated as `lax`.
  case unspecified
  /// Also across sites; such a cookie must be `Secure`.
  case none
  /// Across sites only with navigations, which an HTTP client does not make.
  case lax
  /// Never across sites.
  case strict
}

/// What a `Set-Cookie` field says, before anybody has asked whether the sender may say it.
package struct SetCookie: Hashable, Sendable {
  /// May be empty; then only the value is sent.
  package var name: String
  package var value: String
  /// The last `Domain` without one leading dot, in lower case; nil if it is missing or empty.
  package var domain: String?
  /// The last `Path`; nil if it is missing or does not begin with a slash: the default path of the URL is meant.
  package var path: String?
  package var isSecure = false
  package var isHTTPOnly = false
  package var sameSite = SameSite.unspecified
  /// When it ends, at most 400 days from now; nil: with the session. In the past: the cookie is to be deleted.
  package var expiry: HTTPDate?

  package init(name: String, value: String) {
    self.name = name
    self.value = value
  }
}

/// Why a cookie was not taken. Never holds the value of a cookie, which is a secret.
package enum CookieRefusal: Error, Hashable, Sendable {
  /// A control byte other than a tab (CVE-2022-35252).
  case controlByte(UInt8)
  /// Name, value or path are no UTF-8, so that they could not be kept as text and sent back as they came.
  case notUTF8
  /// Name and value are longer together.
  case tooLong(count: Int, limit: Int)
  /// The path, or the default path of the URL, is longer.
  case pathTooLong(count: Int, limit: Int)
  /// Neither name nor value.
  case empty
  /// A name or a value that would read back as another cookie: `;`, `=` in a name, white space at an end. Only in what a caller or file gives.
  case ambiguous
  /// A path that does not begin with a slash. Only in what a caller or file gives.
  case invalidPath
  /// A domain that is no host name.
  case invalidDomain
  /// The domain is that of many parties, or a public suffix lies between it and the host.
  case publicSuffix(String)
  /// The host is not within the domain.
  case foreignDomain
  /// `Secure` over http.
  case secureOverHTTP
  /// A cookie set over http must not replace or hide one that is `Secure`.
  case overwritesSecure
  /// `__Secure-` without `Secure`.
  case securePrefix
  /// `__Host-` without `Secure`, for the names below the host too, or with another path than `/`. A `Domain` that names the host is no harm
  /// where it is for that host only all the same: where that is an address or a public suffix.
  case hostPrefix
  /// A prefix in the value of a cookie without a name, which would be sent like a name.
  case hiddenPrefix
  /// `SameSite=None` without `Secure`.
  case insecureSameSiteNone
  /// `SameSite` other than `None` in a response to another site.
  case crossSite
  /// The accept policy refuses it.
  case policy
  /// One response sets more cookies.
  case tooMany(limit: Int)
}

extension CookieRefusal: CustomStringConvertible {
  package var description: String {
    switch self {
    case .controlByte(let byte): "a control byte (\(byte))"
    case .notUTF8: "bytes that are no UTF-8"
    case .tooLong(let count, let limit): "name and value of \(count) bytes, where \(limit) are allowed"
    case .pathTooLong(let count, let limit): "a path of \(count) bytes, where \(limit) are allowed"
    case .empty: "neither name nor value"
    case .ambiguous: "a name or value that would read back as another cookie"
    case .invalidPath: "a path that does not begin with a slash"
    case .invalidDomain: "a domain that is no host name"
    case .publicSuffix(let domain): "a domain of many parties (\(domain))"
    case .foreignDomain: "a domain that the host is not within"
    case .secureOverHTTP: "Secure over http"
    case .overwritesSecure: "set over http in place of a Secure cookie"
    case .securePrefix: "__Secure- without Secure"
    case .hostPrefix: "__Host- without Secure, with Domain, or with a path other than /"
    case .hiddenPrefix: "a cookie without a name whose value begins like a prefix"
    case .insecureSameSiteNone: "SameSite=None without Secure"
    case .crossSite: "SameSite in a response to another site"
    case .policy: "refused by the accept policy"
    case .tooMany(let limit): "more than \(limit) cookies in one response"
    }
  }
}
