internal import LupineBase

/// Credentials that somebody stored for a realm of a proxy and a scheme of it, or for all of them.
package struct StoredProxyCredentials: Hashable, Sendable {
  /// Nil: for every realm.
  package var realm: String?
  /// Nil: for every scheme.
  package var scheme: AnswerableChallenge.Scheme?
  package var credentials: ProxyCredentials

  package init(realm: String?, scheme: AnswerableChallenge.Scheme?, credentials: ProxyCredentials) {
    self.realm = realm
    self.scheme = scheme
    self.credentials = credentials
  }

  /// Whether they may answer this scheme.
  private func fit(_ scheme: AnswerableChallenge.Scheme) -> Bool {
    (self.scheme ?? scheme) == scheme
      && credentials.secret.fits(
        scheme, allowsBasic: credentials.allowsBasic, allowsDigest: credentials.allowsDigest)
  }

  /// What is looked at first: less is first.
  private var rank: Int {
    switch scheme {
    case nil: 0
    case .digest: 1
    case .basic: 2
    case .bearer: 3
    }
  }

  /// What a proxy is answered with. That is a part of the identity of its connections, and chosen before the proxy has named a realm: what is stored
  /// for every realm comes first, else what is stored for the only realm that is known, which is said to that realm alone. Of several realms none
  /// is chosen. Within that, what is stored for every scheme comes first, then Digest, Basic and Bearer; the same secret may answer whatever it is
  /// stored for.
  package static func choose(among entries: [StoredProxyCredentials]) -> ProxyCredentials? {
    let useful = entries.filter { $0.fit(.basic) || $0.fit(.digest) || $0.fit(.bearer) }
    let general = useful.filter { $0.realm == nil }
    let candidates = general.isEmpty ? useful : general
    guard let first = candidates.min(by: { $0.rank < $1.rank }),
      candidates.allSatisfy({ $0.realm.hasBytes(of: first.realm) })
    else { return nil }
    let same = candidates.filter { $0.credentials.secret == first.credentials.secret }
    var credentials = first.credentials
    credentials.realm = first.realm
    credentials.allowsBasic = same.contains { $0.fit(.basic) }
    credentials.allowsDigest = same.contains { $0.fit(.digest) }
    return credentials
  }
}
