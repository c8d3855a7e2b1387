/// The hash functions of RFC 7616 section 3.3.
package enum DigestHash: Hashable, Sendable, CaseIterable {
  case md5
  case sha256
  case sha512Truncated

  /// Bytes of a result.
  package var length: Int { self == .md5 ? 16 : 32 }

  /// As it stands in a challenge, without `-sess`.
  package var name: String {
    switch self {
    case .md5: "MD5"
    case .sha256: "SHA-256"
    case .sha512Truncated: "SHA-512-256"
    }
  }
}

/// Computes a hash; nil if this machine does not have the function (FIPS mode has no MD5).
package typealias DigestHasher = @Sendable (DigestHash, [UInt8]) -> [UInt8]?

/// What is hashed of the request besides the password (RFC 7616 section 3.3, `qop`).
package enum DigestQuality: Hashable, Sendable {
  /// RFC 2069: neither a client nonce nor a count.
  case legacy
  case authentication
  /// The body too.
  case integrity
}

/// Why a Digest challenge cannot be answered. Never holds a name or password.
package enum DigestRefusal: Error, Hashable, Sendable {
  case notDigest
  case missing(parameter: String)
  /// What goes back to the server must be what came, and fields are sent as UTF-8.
  case notUTF8(parameter: String)
  case unknownAlgorithm
  /// `qop` names nothing that we know.
  case unknownQuality
  /// The server wants the body hashed, and nobody gave its hash.
  case needsBodyHash
  /// The hash function is not there.
  case unavailable(DigestHash)
  case controlInUser
  case controlInPassword
  /// All 2^32 - 1 uses of the nonce are spent.
  case nonceExhausted
}

/// A challenge of the scheme Digest (RFC 7616 section 3.3; RFC 2617 and RFC 2069 without their parameters).
package struct DigestChallenge: Hashable, Sendable {
  package var realm: String
  package var nonce: String
  package var opaque: String?
  package var hash: DigestHash
  /// `-sess`: the secret is derived once for each nonce of a challenge.
  package var isSession: Bool
  /// `algorithm` as the server wrote it, which is repeated; nil if it did not.
  package var algorithm: String?
  /// Whether `qop` names any quality.
  package var hasQuality: Bool
  package var offersAuthentication: Bool
  package var offersIntegrity: Bool
  package var isStale: Bool
  package var hashesUser: Bool
  package var isUTF8: Bool
  /// The URLs that the same credentials are for; empty means the whole origin.
  package var domain: [String]

  /// - Throws: `DigestRefusal` if it is another scheme or cannot be answered.
  package init(_ challenge: Challenge) throws(DigestRefusal) {
    guard challenge.scheme == "digest" else { throw .notDigest }
    guard let realm = try challenge.exact("realm") else { throw .missing(parameter: "realm") }
    guard let nonce = try challenge.exact("nonce") else { throw .missing(parameter: "nonce") }
    self.realm = realm
    self.nonce = nonce
    opaque = try challenge.exact("opaque")
    algorithm = try challenge.exact("algorithm")
    (hash, isSession) = try Self.algorithm(algorithm)
    // One that names nothing is none: servers that know RFC 2069 alone write it so.
    let qualities = Self.words(challenge["qop"] ?? "", separatedBy: ",")
    hasQuality = qualities.contains { !$0.isEmpty }
    offersAuthentication = qualities.contains("auth")
    offersIntegrity = qualities.contains("auth-int")
    guard !hasQuality || offersAuthentication || offersIntegrity else { throw .unknownQuality }
    isStale = challenge["stale"]?.lowercased() == "true"
    hashesUser = challenge["userhash"]?.lowercased() == "true"
    isUTF8 = challenge["charset"]?.lowercased() == "utf-8"
    domain = challenge["domain"].map { $0.split(separator: " ").prefix(Self.maximumDomain).map(String.init) } ?? []
  }

  /// URLs of `domain` that are looked at.
  static let maximumDomain = 32

  private static func algorithm(_ text: String?) throws(DigestRefusal) -> (DigestHash, isSession: Bool) {
    guard let text else { return (.md5, false) }
    switch text.lowercased() {
    case "md5": return (.md5, false)
    case "md5-sess": return (.md5, true)
    case "sha-256": return (.sha256, false)
    case "sha-256-sess": return (.sha256, true)
    case "sha-512-256": return (.sha512Truncated, false)
    case "sha-512-256-sess": return (.sha512Truncated, true)
    default: throw .unknownAlgorithm
    }
  }

  private static func words(_ text: String, separatedBy separator: Character) -> [String] {
    text.lowercased().split(separator: separator).map { String(FieldScanner.trimmed($0.utf8[...])) ?? "" }
  }

  /// What is used of what the server offers: `auth` before `auth-int`, which few servers get right and which costs a pass over the body.
  package var quality: DigestQuality {
    guard hasQuality else { return .legacy }
    return offersAuthentication ? .authentication : .integrity
  }
}
