package import LupineWire

/// Why a response is not stored.
package enum StorageRefusal: String, Hashable, Sendable {
  /// A method other than GET, a body in the request, a range, a precondition, or `no-store` in the request.
  case request
  /// An interim, partial or unmodified response, or one that asks for credentials.
  case status
  /// `no-store`.
  case noStore
  /// `must-understand` with a status that means nothing to us.
  case notUnderstood
  /// `Vary: *`: no other request is ever like this one.
  case variesByAnything
  /// Nothing says that it may be stored, and its status does not either.
  case notAllowed
}

/// Whether a response may be stored, and where.
package enum StorageDecision: Hashable, Sendable {
  case store
  /// Not where it outlives the process: it was made for a secret of the request, which must not be written down and has to be compared.
  case storeInMemory
  case refuse(StorageRefusal)
}

/// Whether a private cache may store a response (RFC 9111 section 3).
package enum StorageRule {
  /// Request fields that hold secrets: what varies by one stays in memory.
  package static func isSecret(_ name: String) -> Bool {
    ["authorization", "cookie", "proxy-authorization"].contains(name) || APIKeyField.isOne(lowercased: name)
  }

  /// - Parameters:
  ///   - fields: of the request, all of them; see `varyingNames`.
  ///   - isMarkedSensitive: whether the caller says that a request field, in lower case, holds a secret.
  package static func decide(
    _ request: CacheRequest, _ head: ResponseHead, fields: () -> [(name: String, value: String)] = { [] },
    isMarkedSensitive: (String) -> Bool = { _ in false }
  ) -> StorageDecision {
    guard request.mayBeStored else { return .refuse(.request) }
    switch head.status {
    case 206, 304, 401, 407, ..<200: return .refuse(.status)
    default: break
    }
    let directives = CacheDirectives(head.fields.values(named: "cache-control"))
    if directives.mustUnderstand {
      guard isUnderstood(head.status) else { return .refuse(.notUnderstood) }
    } else if directives.noStore {
      return .refuse(.noStore)
    }
    guard isAllowed(head, directives) else { return .refuse(.notAllowed) }
    guard let names = VaryRule.names(head.fields) else { return .refuse(.variesByAnything) }
    if names.contains(where: { isSecret($0) || isMarkedSensitive($0) }) { return .storeInMemory }
    if directives.isPrivate, !telling(fields(), isMarkedSensitive).isEmpty { return .storeInMemory }
    if !isOpen(directives), !keys(fields(), isMarkedSensitive).isEmpty { return .storeInMemory }
    return isBound(request, directives) ? .storeInMemory : .store
  }

  /// The names of the request fields that a response varies by, as `VaryRule.names` has them. What is `private` is for a single user (RFC 9111
  /// section 5.2.2.7), and one process may speak for several: it varies by whatever of the request tells users apart, also where no `Vary` says so,
  /// and by cookies also where the request has none, as that tells somebody apart too. Keys count as `Authorization` does, which needs none: what came for one
  /// is for that alone, unless the response says that it is for all; see `isBound`.
  ///
  /// - Parameters:
  ///   - fields: of the request, all of them; asked for only if the response does not say that it is for all.
  ///   - isMarkedSensitive: whether the caller says that a request field, in lower case, holds a secret.
  package static func varyingNames(
    _ head: ResponseHead, of fields: () -> [(name: String, value: String)], isMarkedSensitive: (String) -> Bool
  ) -> [String]? {
    guard let names = VaryRule.names(head.fields) else { return nil }
    let directives = CacheDirectives(head.fields.values(named: "cache-control"))
    if directives.isPrivate { return Set(names).union(telling(fields(), isMarkedSensitive)).union(["cookie"]).sorted() }
    let keys = isOpen(directives) ? [] : keys(fields(), isMarkedSensitive)
    return keys.isEmpty ? names : Set(names).union(keys).sorted()
  }

  /// The names of fields that tell users apart, in lower case.
  private static func telling(
    _ fields: [(name: String, value: String)], _ isMarkedSensitive: (String) -> Bool
  ) -> [String] {
    keys(fields, isMarkedSensitive) + (fields.contains { $0.name.lowercased() == "cookie" } ? ["cookie"] : [])
  }

  /// The names of fields that hold keys by custom, or secrets by the caller's word, in lower case.
  private static func keys(
    _ fields: [(name: String, value: String)], _ isMarkedSensitive: (String) -> Bool
  ) -> [String] {
    fields.map { $0.name.lowercased() }.filter { APIKeyField.isOne(lowercased: $0) || isMarkedSensitive($0) }
  }

  private static func isAllowed(_ head: ResponseHead, _ directives: CacheDirectives) -> Bool {
    isHeuristicallyCacheable(head.status) || directives.isPublic || directives.isPrivate
      || directives.maximumAge != nil || head.fields.firstIndex(named: "expires") != nil
  }

  /// Whether a response is for the one who asked, as `Authorization` names him. RFC 9111 section 3.5 asks that of shared caches only; but one
  /// process may speak for several users. Stricter than there: `must-revalidate` alone opens nothing, and `private` closes.
  package static func isBound(_ request: CacheRequest, _ directives: CacheDirectives) -> Bool {
    request.authorization != nil && !isOpen(directives)
  }

  /// Whether a response says that it is for whoever asks.
  private static func isOpen(_ directives: CacheDirectives) -> Bool {
    !directives.isPrivate && (directives.isPublic || directives.hasSharedAge)
  }

  /// RFC 9110 section 15.1.
  package static func isHeuristicallyCacheable(_ status: Int) -> Bool {
    [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501].contains(status)
  }

  /// The final statuses of RFC 9110 section 15.
  private static func isUnderstood(_ status: Int) -> Bool {
    switch status {
    case 200...205, 300...305, 307, 308, 400...417, 421, 422, 426, 500...505: true
    default: false
    }
  }
}
