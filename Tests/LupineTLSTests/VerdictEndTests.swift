import Glibc
import LupineTesting
import Testing

@testable import LupineTLS

/// A server that never shows its certificates again gives out new tickets at each connection. RFC 8446, 4.6.1 wants an end to that, by the validity of
/// the certificates and by the time since they were shown.
@Suite("The end of a verdict that is carried over by resumption")
struct VerdictEndTests {
  static let hour = MintedValidity(notBefore: -3600, notAfter: 3600)
  static let season = MintedValidity(notBefore: -3600, notAfter: 90 * 86_400)

  /// Connections of one client to one server, by a clock of our own.
  private struct Visits {
    let policy: TLSPolicy
    let server: TLSContext
    var isDeferred = false
    let cache = TLSSessionCache()
    /// Whatever was minted before ends no later than what it was minted for, from here on.
    let start = Int64(time(nil))

    /// Connects so many seconds after the start. Whoever is asked accepts.
    func visit(after seconds: Int64) throws -> End {
      let pair = try connect(client: policy, server: server) {
        $0.sessions = cache
        $0.now = start + seconds
        $0.trustEvaluation = isDeferred ? .deferred : .automatic
      }
      if pair.client.result == .trustPending {
        try pair.client.connection.resolveTrust(.accept)
        pair.client.feed([])
        pair.settle()
      }
      return pair.client
    }

    /// Connects once in full, and half an hour later by resumption, which leaves tickets.
    func prime() throws {
      let first = try visit(after: 0)
      #expect(first.failure == nil && !first.connection.info.isResumed)
      let second = try visit(after: 1800)
      #expect(second.failure == nil && second.connection.info.isResumed)
      #expect(cache.count > 0)
    }
  }

  enum Member: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case leaf
    case intermediate
    case anchor

    var testDescription: String { rawValue }
  }

  @Test("It is that of the first certificate of the path", arguments: Member.allCases, TLSVersion.allCases)
  func certificates(ending: Member, version: TLSVersion) throws {
    func validity(_ member: Member) -> MintedValidity { member == ending ? Self.hour : Self.season }
    let root = try CertificateAuthority(validity: validity(.anchor))
    let middle = try root.issueAuthority(validity: validity(.intermediate))
    var order = CertificateOrder.loopback
    order.validity = validity(.leaf)
    let visits = Visits(policy: .trusting(root, version), server: try serverContext(try middle.issue(order)))
    try visits.prime()
    for seconds: Int64 in [3600, 7200] {
      #expect(try visits.visit(after: seconds).failure == .untrusted(.expired))
    }
  }

  @Test("It is that of a list by which revocation was looked for", arguments: TLSVersion.allCases)
  func revocationLists(version: TLSVersion) throws {
    let (root, middle) = (Mint.shared.root, Mint.shared.middle)
    let files = try root.writeRoot()
    defer { files.remove() }
    // One that has ended, beside its successor, ends nothing.
    let lists = [
      try root.revocationListPEM(revoking: [], validity: .expired),
      try root.revocationListPEM(revoking: [], validity: Self.hour), try middle.revocationListPEM(revoking: []),
    ]
    var policy = TLSPolicy.trusting(root, version)
    policy.revocationListPath = try files.add(lists.joined(), name: "lists.pem")
    let visits = Visits(policy: policy, server: try serverContext())
    try visits.prime()
    for seconds: Int64 in [3600, 7200] {
      #expect(try visits.visit(after: seconds).failure == .untrusted(.revocationUnknown))
    }
  }

  @Test("What somebody accepted ends with the certificates that it was about", arguments: TLSVersion.allCases)
  func decided(version: TLSVersion) throws {
    var order = CertificateOrder.loopback
    order.validity = Self.season
    let leaf = try Mint.shared.otherRoot.issueAuthority(validity: Self.hour).issue(order)
    let visits = Visits(
      policy: .trusting(Mint.shared.root, version), server: try serverContext(leaf), isDeferred: true)
    try visits.prime()
    for seconds: Int64 in [3600, 3601] {
      let end = try visits.visit(after: seconds)
      #expect(end.failure == nil && !end.connection.info.isResumed)
      #expect(end.connection.trustReport?.time == .expired)
    }
  }

  @Test("Without verification the certificates do not end it", arguments: TLSVersion.allCases)
  func unverified(version: TLSVersion) throws {
    var policy = TLSPolicy.trusting(Mint.shared.root, version)
    policy.verification = .none
    let leaf = try Mint.shared.root.issue(CertificateOrder(dnsNames: ["localhost"], validity: .expired))
    try Visits(policy: policy, server: try serverContext(leaf)).prime()
  }

  /// Each ticket serves for two hours.
  @Test("It is a week after the certificates were shown, however often that was resumed")
  func week() throws {
    let visits = Visits(policy: .trusting(Mint.shared.root, .tls13), server: try serverContext())
    let step: Int64 = 7000
    #expect(try !visits.visit(after: 0).connection.info.isResumed)
    let last = TLSSessionCache.verdictSeconds / step
    for index in 1...last {
      let again = try visits.visit(after: index * step)
      #expect(again.failure == nil && again.connection.info.isResumed, "after \(index * step) seconds")
    }
    // From there on it is another verdict.
    for (index, isResumed) in [(last + 1, false), (last + 2, true)] {
      let next = try visits.visit(after: index * step)
      #expect(next.failure == nil && next.connection.info.isResumed == isResumed)
    }
  }
}
