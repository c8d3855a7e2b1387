/// What a session wants of redirects.
package struct RedirectPolicy: Hashable, Sendable {
  /// Whether redirects are followed at all: this switch and no other (urllib3 CVE-2025-50181).
  package var isEnabled: Bool
  /// How many are followed in one chain.
  package var limit: Int
  /// Whether a chain may lead from https to http.
  package var allowsDowngrade: Bool

  package init(isEnabled: Bool = true, limit: Int = 20, allowsDowngrade: Bool = false) {
    self.isEnabled = isEnabled
    self.limit = limit
    self.allowsDowngrade = allowsDowngrade
  }
}

/// What the redirects of one task so far have taken away.
///
/// Every step may build its fields from the original request: whatever `strip` names must then be left out again. It only grows, so that
/// a chain that comes back to its first origin gets no secret back (Go CVE-2023-45289, CVE-2024-45336, CVE-2025-4673).
package struct RedirectChain: Hashable, Sendable {
  /// Redirects followed.
  package private(set) var count: Int
  package private(set) var strip: OriginRule.Strip

  /// The chain of a task that has not been redirected.
  package init() {
    count = 0
    strip = []
  }

  /// The task begins again where it began, with all that it had then: what has been followed counts all the same.
  package var restarted: RedirectChain {
    var chain = RedirectChain()
    chain.count = count
    return chain
  }

  /// Somebody led the chain elsewhere than its redirect did: what must not go along.
  package mutating func forbid(_ strip: OriginRule.Strip) {
    self.strip.formUnion(strip)
  }

  fileprivate func extended(by strip: OriginRule.Strip) -> RedirectChain {
    var next = self
    next.count += 1
    next.strip.formUnion(strip)
    return next
  }
}

/// What to do with a response.
package enum RedirectDecision: Hashable, Sendable {
  case follow(RedirectStep)
  /// The response is the answer.
  case deliver(DeliverReason)
  /// The chain may not go on: an error, which carries the response.
  case refuse(RedirectRefusal)

  package enum DeliverReason: Hashable, Sendable {
    /// Not 301, 302, 303, 307 or 308, or the answer to CONNECT.
    case notRedirect
    /// No `Location`, or none but empty ones.
    case noLocation
    /// The policy follows none.
    case disabled
    /// The method stays, so that the body would have to be sent again, and it cannot.
    case bodyNotReplayable
  }
}

/// The next request of a chain.
package struct RedirectStep: Hashable, Sendable {
  package let url: ParsedURL
  package let method: String
  /// Whether the next request has no body although this one may have had one.
  package let dropsBody: Bool
  /// Whether this hop changes the origin.
  package let crossesOrigin: Bool
  /// The state for the request that follows; `chain.strip` says which fields it goes without.
  package let chain: RedirectChain
}

/// Why a redirect is an error.
package enum RedirectRefusal: Error, Hashable, Sendable {
  case tooManyRedirects(limit: Int)
  /// From https to http, and the policy does not allow it.
  case downgrade
  /// There are several `Location` fields that differ: whichever we took, somebody else would take the other.
  case ambiguousLocation
  /// The `Location` is no URL that can be fetched; `.unsupportedScheme` for `file:`, `ftp:` and the like.
  case invalidLocation(URLRefusal)
}

/// RFC 9110 section 15.4 as one pure decision.
package enum RedirectRule {
  /// Decides what follows a response.
  ///
  /// - Parameters:
  ///   - locations: the values of every `Location` field, in wire order.
  ///   - isBodyReplayable: whether the body, if there is one, can be sent again; true without a body.
  package static func decide(
    status: Int, method: String, locations: [[UInt8]], current: ParsedURL, chain: RedirectChain,
    isBodyReplayable: Bool, policy: RedirectPolicy = RedirectPolicy()
  ) -> RedirectDecision {
    guard isRedirect(status), method != "CONNECT" else { return .deliver(.notRedirect) }
    // Beside a place an empty one is another: whoever sends both is not to be guessed at, in whatever order.
    guard locations.contains(where: { !$0.isEmpty }), let location = locations.first else {
      return .deliver(.noLocation)
    }
    guard policy.isEnabled else { return .deliver(.disabled) }
    guard locations.allSatisfy({ $0 == location }) else { return .refuse(.ambiguousLocation) }
    let url: ParsedURL
    do {
      url = try target(location, from: current)
    } catch {
      return .refuse(.invalidLocation(error))
    }
    guard policy.allowsDowngrade || current.scheme == .http || url.scheme == .https else { return .refuse(.downgrade) }
    let next = self.method(after: status, method)
    let dropsBody = next != method
    guard dropsBody || isBodyReplayable else { return .deliver(.bodyNotReplayable) }
    guard chain.count < policy.limit else { return .refuse(.tooManyRedirects(limit: policy.limit)) }

    let crossesOrigin = !OriginRule.isSame(current, url)
    var strip: OriginRule.Strip = crossesOrigin ? [.sensitive, .target] : []
    if dropsBody { strip.insert(.content) }
    return .follow(
      RedirectStep(
        url: url, method: next, dropsBody: dropsBody, crossesOrigin: crossesOrigin, chain: chain.extended(by: strip)))
  }

  /// The statuses that redirect. 300 offers a choice, 304 answers a condition, 305 and 306 are dead.
  package static func isRedirect(_ status: Int) -> Bool {
    switch status {
    case 301, 302, 303, 307, 308: true
    default: false
    }
  }

  /// Sections 15.4.2 to 15.4.9: POST becomes GET on 301 and 302; everything but HEAD becomes GET on 303; else the method stays.
  package static func method(after status: Int, _ method: String) -> String {
    switch status {
    case 301, 302: method == "POST" ? "GET" : method
    case 303: method == "HEAD" ? method : "GET"
    default: method
    }
  }

  /// Resolves `Location`; without a fragment of its own it takes the current URL's (RFC 9110 section 10.2.2). A user whom the server names, and
  /// not the request, is nobody's credential (section 4.2.4).
  private static func target(_ location: [UInt8], from current: ParsedURL) throws(URLRefusal) -> ParsedURL {
    var url = try URLReader.resolve(location.span, against: current)
    if url.userinfo != current.userinfo { url = url.withoutUserinfo }
    guard url.fragment == nil, let inherited = current.fragment else { return url }
    return url.replacingFragment(inherited)
  }
}
