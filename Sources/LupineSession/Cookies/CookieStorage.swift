internal import Synchronization
internal import FoundationEssentials
internal import LupineBase
package import LupineRules

/// Whose cookies are accepted.
public enum CookieAcceptPolicy: Sendable, Hashable {
  /// Everybody's.
  case always
  /// Nobody's. Cookies that are there are still sent; see `SessionConfiguration.setsCookies`.
  case never
  /// Those of the registrable domain of the request's main document (`Request.setMainDocument(_:)`); everybody's for requests without one.
  case onlyFromMainDocumentDomain
}

/// Keeps cookies, and says which of them a request gets (RFC 6265bis). Every method may be called from any thread.
///
/// It keeps at most 180 cookies of one registrable domain and 3,000 in all (of more, 2,900 stay); the least recently used go first. A response may set 50
/// (`maximumCookiesPerResponse`), a request gets at most 150, in a field of at most 8,190 bytes. Name and value have at most 4,096 bytes together, a path 1,024. No cookie lives longer than 400
/// days. Ports do not matter to cookies; schemes matter only through `Secure`, which http never satisfies, on the loopback interface neither.
///
/// In memory, unlike `HTTPCookieStorage.shared`: what is to outlive the process is written down by `save`, as a `cookies.txt` or as JSON, and read again by `load`.
///
/// No cookie is accepted for a public suffix such as `co.uk`. The list of those is Debian's (`/usr/share/publicsuffix/public_suffix_list.dat`,
/// package `publicsuffix`), read when the first cookie comes, or later where the process has no descriptor or memory for it then, or a file that is named. Without a
/// list, a rule does: names of one label, the usual second labels under a country's (`co.uk`, `com.au`) and a few well-known hosts of strangers (`github.io`) are
/// public.
public final class CookieStorage: Sendable {
  private struct State {
    /// Made when it is first needed: the list of public suffixes takes a moment to read.
    var store: CookieStore?
    /// It was made by the rule that does without a list, as the list could not be had.
    var isProvisional = false
    var acceptPolicy: CookieAcceptPolicy
    var responseLimit = CookieStore.responseLimit

    /// Takes the store out, to be changed in place.
    ///
    /// - Parameter suffixes: nil: the list cannot be had, and the rule that does without holds until it can.
    mutating func takeStore(by suffixes: PublicSuffixList?) -> CookieStore {
      guard let known = store.take() else {
        isProvisional = suffixes == nil
        return CookieStore(suffixes: suffixes ?? .builtIn)
      }
      guard isProvisional, let suffixes else { return known }
      isProvisional = false
      return CookieStore(known, by: suffixes, now: .current)
    }
  }

  private let suffixes: SuffixSource
  private let state: LockedStorage<State>
  /// How many cookies there are, to be read without the lock: a request without cookies shall not pay for them.
  private let counter = Atomic<Int>(0)

  /// The storage of every configuration that names no other.
  public static let shared = CookieStorage()

  /// An empty storage with the system's list of public suffixes, or the rule that does without.
  public init(acceptPolicy: CookieAcceptPolicy = .onlyFromMainDocumentDomain) {
    suffixes = .system
    state = LockedStorage(State(acceptPolicy: acceptPolicy))
  }

  /// An empty storage with a list of public suffixes in the format of publicsuffix.org; blocks while the file is read.
  ///
  /// - Throws: `SessionError` with `.fileFailed`, also for a file without any rule, or of more than 4 MiB.
  public init(
    publicSuffixListPath path: String, acceptPolicy: CookieAcceptPolicy = .onlyFromMainDocumentDomain
  ) throws(SessionError) {
    suffixes = SuffixSource(try SuffixSource.read(path))
    state = LockedStorage(State(acceptPolicy: acceptPolicy))
  }

  /// An empty storage with a list that is there already.
  package init(suffixes: PublicSuffixList, acceptPolicy: CookieAcceptPolicy = .onlyFromMainDocumentDomain) {
    self.suffixes = SuffixSource(suffixes)
    state = LockedStorage(State(acceptPolicy: acceptPolicy))
  }

  /// An empty storage with a list that `read` makes, once, when it is first needed; again while that is nil.
  package init(
    reading read: @escaping @Sendable () -> PublicSuffixList?,
    acceptPolicy: CookieAcceptPolicy = .onlyFromMainDocumentDomain
  ) {
    suffixes = SuffixSource(read)
    state = LockedStorage(State(acceptPolicy: acceptPolicy))
  }

  /// Whose cookies are accepted, unless `SessionConfiguration.cookieAcceptPolicy` says otherwise. Default `.onlyFromMainDocumentDomain`.
  public var acceptPolicy: CookieAcceptPolicy {
    get { state.withLock { $0.acceptPolicy } }
    set { state.withLock { $0.acceptPolicy = newValue } }
  }

  /// How many cookies one response may set; the rest is refused. Default 50. More is for servers that set more; each costs time, and the places of others'
  /// cookies. Below 0 counts as 0, and of one registrable domain no more than 180 are kept.
  public var maximumCookiesPerResponse: Int {
    get { state.withLock { $0.responseLimit } }
    set { state.withLock { $0.responseLimit = max(0, newValue) } }
  }

  /// How many cookies there are, expired ones that nobody has looked at included.
  public var count: Int { counter.load(ordering: .acquiring) }

  /// Whether there is none.
  public var isEmpty: Bool { count == 0 }

  /// Every cookie that has not expired, oldest first.
  public var cookies: [Cookie] {
    state.withLock { $0.store?.records(.current) ?? [] }.map { Cookie($0) }
  }

  /// The cookies that a request to `url` gets, in the order in which they are sent.
  ///
  /// - Parameter mainDocument: the document that the request is made for; see `Request.setMainDocument(_:)`.
  /// - Throws: `SessionError` with `.badURL`.
  public func cookies(for url: String, mainDocument: String? = nil) throws(SessionError) -> [Cookie] {
    var context = CookieContext(url: try Request(url).parsedURL)
    if let mainDocument { context.mainDocument = try Request(mainDocument).parsedURL }
    guard !isEmpty else { return [] }
    return change { $0.select(for: context, now: .current) }.map { Cookie($0) }
  }

  /// Takes a cookie; it replaces the one of the same name, domain and path. One that has expired deletes it.
  ///
  /// - Throws: `SessionError` with `.cookieRefused`, whose message says why: it breaks a rule of RFC 6265bis for names, values, sizes, prefixes or
  ///   public suffixes.
  public func setCookie(_ cookie: Cookie) throws(SessionError) {
    do throws(CookieRefusal) {
      try change { store throws(CookieRefusal) in try store.insert(cookie.record, now: .current) }
    } catch {
      throw SessionError(
        .cookieRefused, phase: .prepare, message: "the cookie is refused: \(error)", underlying: error)
    }
  }

  /// Takes `Set-Cookie` values as if a response from `url` had brought them; what it may not set is left out.
  ///
  /// - Returns: how many were taken.
  /// - Throws: `SessionError` with `.badURL`.
  @discardableResult
  public func setCookies(
    _ values: [String], from url: String, mainDocument: String? = nil
  ) throws(SessionError) -> Int {
    var context = CookieContext(url: try Request(url).parsedURL)
    if let mainDocument { context.mainDocument = try Request(mainDocument).parsedURL }
    var taken = values.count
    for refusal in receive(values.map { Array($0.utf8) }, from: context, policy: nil) {
      switch refusal {
      case .policy: return 0
      case .tooMany(let limit): taken -= values.count - limit
      default: taken -= 1
      }
    }
    return taken
  }

  /// Removes a cookie, whatever its value; nothing happens if it is not there.
  public func delete(_ cookie: Cookie) {
    guard !isEmpty else { return }
    change { _ = $0.remove(cookie.record) }
  }

  /// Removes every cookie.
  public func removeAll() {
    removeAll { _ in true }
  }

  /// Removes the cookies that end with the session.
  public func removeSessionCookies() {
    removeAll { $0.expiry == nil }
  }

  private func removeAll(where condition: (CookieRecord) -> Bool) {
    guard !isEmpty else { return }
    change { $0.removeAll(where: condition) }
  }

  // MARK: For tasks

  /// The value of the `Cookie` field; nil if there is none. Costs one load where there are no cookies.
  func field(for context: @autoclosure () -> CookieContext) -> String? {
    guard counter.load(ordering: .acquiring) > 0 else { return nil }
    let context = context()
    return change { $0.field(for: context, now: .current) }
  }

  /// Whether the list of public suffixes is at hand.
  var hasSuffixes: Bool { suffixes.isRead }

  /// Reads that list, if it was not read yet; blocks meanwhile.
  func readSuffixes() { _ = suffixes.list }

  /// Takes what a response sets.
  @discardableResult
  func receive(_ values: [[UInt8]], from context: CookieContext, policy: CookieAcceptPolicy?) -> [CookieRefusal] {
    let (own, limit) = state.withLock { ($0.acceptPolicy, $0.responseLimit) }
    let acceptance = CookieAcceptance(policy ?? own)
    guard acceptance != .never else { return [.policy] }
    return change { $0.receive(values, from: context, acceptance: acceptance, atMost: limit, now: .current) }
  }

  /// Takes cookies of a file; the reasons for those that are refused are given to `problem` with their places in `records`.
  func insert(_ records: [CookieRecord], problem: (Int, CookieRefusal) -> Void) {
    let refusals = change { store -> [(Int, CookieRefusal)] in
      var refusals: [(Int, CookieRefusal)] = []
      for (index, record) in records.enumerated() {
        do throws(CookieRefusal) {
          try store.insert(record, now: .current)
        } catch {
          refusals.append((index, error))
        }
      }
      return refusals
    }
    for (index, refusal) in refusals { problem(index, refusal) }
  }

  private func change<Result, Failure: Error>(
    _ body: (inout CookieStore) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    // Read before the lock is taken.
    let suffixes = suffixes.list
    return try state.withLock { state throws(Failure) -> Result in
      var store = state.takeStore(by: suffixes)
      defer {
        counter.store(store.count, ordering: .releasing)
        state.store = store
      }
      return try body(&store)
    }
  }
}

extension CookieAcceptance {
  init(_ policy: CookieAcceptPolicy) {
    switch policy {
    case .always: self = .always
    case .never: self = .never
    case .onlyFromMainDocumentDomain: self = .onlyFromMainDocumentDomain
    }
  }
}

extension SessionError.Code {
  /// A cookie breaks a rule of RFC 6265bis.
  public static let cookieRefused = SessionError.Code(rawValue: "cookieRefused")
}
