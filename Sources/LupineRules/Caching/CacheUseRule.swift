/// What becomes of a request for which a response is stored.
package enum CacheUse: Hashable, Sendable {
  /// The stored response is the answer.
  case serve
  /// The stored response is the answer, although it is stale, and the server is asked behind it (RFC 5861 section 3).
  case serveAndRevalidate
  /// The server is asked whether it still holds.
  case validate
  /// The client does not want the network to be used, and there is nothing for it: 504 (RFC 9111 section 5.2.1.7).
  case refuse
}

/// Whether a stored response answers a request (RFC 9111 section 4).
package enum CacheUseRule {
  package static func decide(
    _ terms: CacheTerms, _ request: CacheRequest, _ mode: CacheMode, at now: Int64
  ) -> CacheUse {
    switch mode {
    case .storedElseLoad, .storedDontLoad: return .serve
    case .ignoringLocal, .ignoringLocalAndRemote, .revalidating: return .validate
    case .protocolRules: break
    }
    let wanted = request.directives
    let otherwise = wanted.onlyIfCached ? CacheUse.refuse : .validate
    guard !wanted.noCache, !terms.noCache else { return otherwise }
    let age = terms.age(at: now)
    let left = terms.lifetime - age
    if let maximum = wanted.maximumAge, age > maximum { return otherwise }
    if let minimum = wanted.minimumFreshness, left < minimum { return otherwise }
    if left > 0 { return .serve }
    guard !terms.mustRevalidate else { return otherwise }
    switch wanted.maximumStaleness {
    case .any: return .serve
    case .seconds(let seconds) where -left <= seconds: return .serve
    case .seconds, nil: break
    }
    if wanted.onlyIfCached { return .refuse }
    // Who says how old or how stale an answer may be takes no staler one (sections 5.2.1.1 and 5.2.1.2).
    guard wanted.maximumAge == nil, wanted.maximumStaleness == nil else { return .validate }
    // What may not be stored cannot be asked for behind the answer: nothing would ever renew it.
    guard request.mayBeStored, terms.staleWhileRevalidate > 0 else { return .validate }
    return -left <= terms.staleWhileRevalidate ? .serveAndRevalidate : .validate
  }

  /// Whether a stored response answers although the server failed: no connection, or status 500, 502, 503 or 504 (RFC 5861 section 4).
  package static func mayServeOnError(_ terms: CacheTerms, _ request: CacheRequest, at now: Int64) -> Bool {
    guard !terms.mustRevalidate, !terms.noCache, !request.directives.noCache else { return false }
    let staleness = max(0, terms.age(at: now) - terms.lifetime)
    let allowed = [terms.staleIfError, request.directives.staleIfError].compactMap { $0 }.max()
    return allowed.map { staleness <= $0 } ?? false
  }

  /// The statuses that count as such a failure.
  package static func isServerFailure(_ status: Int) -> Bool { [500, 502, 503, 504].contains(status) }
}

/// What a successful answer to an unsafe method makes useless (RFC 9111 section 4.4).
package enum InvalidationRule {
  /// The URLs, all of the origin of `url`: a server must not make others forget.
  ///
  /// - Parameter references: the values of `Location` and `Content-Location`.
  package static func targets(_ url: ParsedURL, status: Int, references: [[UInt8]]) -> [ParsedURL] {
    guard (200..<400).contains(status) else { return [] }
    var targets = [url]
    for reference in references {
      guard let other = try? URLReader.resolve(reference.span, against: url), OriginRule.isSame(other, url),
        !targets.contains(other)
      else { continue }
      targets.append(other)
    }
    return targets
  }
}
