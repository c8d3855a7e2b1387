internal import LupineBase
package import LupineRules

/// How a server wants to be shown who is asking.
public struct AuthenticationMethod: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
  /// A stable name, that of the scheme.
  public var rawValue: String

  /// Makes a method; the known ones are static members.
  public init(rawValue: String) {
    self.rawValue = rawValue
  }

  /// The stable name.
  public var description: String { rawValue }

  /// RFC 7617.
  public static let basic = AuthenticationMethod(rawValue: "basic")
  /// RFC 7616.
  public static let digest = AuthenticationMethod(rawValue: "digest")
  /// RFC 6750.
  public static let bearer = AuthenticationMethod(rawValue: "bearer")
}

/// What a credential is good for: a server or proxy, and a realm of it (RFC 9110 section 11.5).
///
/// Scheme, host and port decide which server it is: a credential for one of them is never sent to another. Realms are told apart by their bytes, also where
/// Swift's strings are equal: two spellings of a letter are two realms.
public struct ProtectionSpace: Hashable, Sendable {
  package let origin: Origin
  /// A proxy, or a server.
  public let isProxy: Bool
  /// The realm as the server names it; nil stands for every realm when a credential is stored.
  public let realm: String?
  /// What the server asks for; nil stands for every method when a credential is stored.
  public let method: AuthenticationMethod?

  package init(party: AuthenticationParty, realm: String?, method: AuthenticationMethod?) {
    origin = party.origin
    isProxy = party.isProxy
    self.realm = realm
    self.method = method
  }

  /// Names a space of the server that a URL leads to; its path does not matter.
  ///
  /// - Parameters:
  ///   - url: of a server or proxy, `http` or `https`: of the latter how the proxy itself is spoken to.
  ///   - realm: default nil, every realm.
  ///   - method: default nil, every method.
  ///   - isProxy: the URL is that of a proxy. Default false.
  /// - Throws: `SessionError` with `.badURL`.
  public init(
    _ url: String, realm: String? = nil, method: AuthenticationMethod? = nil, isProxy: Bool = false
  ) throws(SessionError) {
    let origin = try Request(url).parsedURL.origin
    self.init(party: AuthenticationParty(origin: origin, isProxy: isProxy), realm: realm, method: method)
  }

  /// Whether both are the same space.
  public static func == (left: ProtectionSpace, right: ProtectionSpace) -> Bool {
    left.origin == right.origin && left.isProxy == right.isProxy && left.realm.hasBytes(of: right.realm)
      && left.method == right.method
  }

  /// `http` or `https`.
  public var scheme: String { origin.scheme.text }
  /// The host, an IPv6 address without brackets.
  public var host: String { origin.host.serverName }
  /// The port, also if it is the scheme's default.
  public var port: Int { Int(origin.port) }
  /// Whether what is sent cannot be read on the way: over TLS anything, else what is no password or token itself.
  public var receivesCredentialSecurely: Bool {
    origin.scheme == .https || method == .digest
  }

  /// The space of all realms that the server asks for by this method.
  var ofEveryRealm: ProtectionSpace {
    ProtectionSpace(party: AuthenticationParty(origin: origin, isProxy: isProxy), realm: nil, method: method)
  }

  /// The spaces in which a credential for this one may be stored, the closest first.
  var generalisations: [ProtectionSpace] {
    let party = AuthenticationParty(origin: origin, isProxy: isProxy)
    var spaces = [self]
    if method != nil { spaces.append(ProtectionSpace(party: party, realm: realm, method: nil)) }
    if realm != nil { spaces.append(ProtectionSpace(party: party, realm: nil, method: method)) }
    if realm != nil, method != nil { spaces.append(ProtectionSpace(party: party, realm: nil, method: nil)) }
    return spaces
  }
}
