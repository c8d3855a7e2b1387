internal import LupineRules

/// How a request uses the cache of its session: the values of `URLRequest.CachePolicy`.
public enum RequestCachePolicy: String, Sendable, Hashable, CaseIterable, Codable {
  /// As RFC 9111 says: what is fresh is used, what is stale is asked about.
  case useProtocolCachePolicy
  /// Nothing stored is used; what comes is stored.
  case reloadIgnoringLocalCacheData
  /// The same, and caches on the way are told so: `Cache-Control: no-cache` and `Pragma: no-cache`.
  case reloadIgnoringLocalAndRemoteCacheData
  /// What is stored, whatever its age; else the network.
  case returnCacheDataElseLoad
  /// What is stored, whatever its age; else, and where there is no cache, the request fails with `.notInCache`. Nothing is ever sent.
  case returnCacheDataDontLoad
  /// The server is asked whether what is stored still holds, fresh or not.
  case reloadRevalidatingCacheData

  var mode: CacheMode {
    switch self {
    case .useProtocolCachePolicy: .protocolRules
    case .reloadIgnoringLocalCacheData: .ignoringLocal
    case .reloadIgnoringLocalAndRemoteCacheData: .ignoringLocalAndRemote
    case .returnCacheDataElseLoad: .storedElseLoad
    case .returnCacheDataDontLoad: .storedDontLoad
    case .reloadRevalidatingCacheData: .revalidating
    }
  }
}
