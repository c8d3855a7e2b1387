internal import Synchronization
internal import LupineBase
internal import LupineRules

/// Keeps credentials by protection space. Every method may be called from any thread. Its contents are never printed.
///
/// A credential is found for a challenge if it was stored for its realm and method, or for every realm, or for every method of the server. The
/// server is always exactly the one it was stored for: scheme, host and port.
///
/// Of a proxy (`ProtectionSpace.isProxy`) only `Proxy.credential` is looked at where there is one, else its spaces here: before the proxy has named
/// its realm the default for every realm is chosen, else that of the only realm that something is stored for. It is sent when the proxy asks, and to
/// that realm alone. SOCKS proxies and those behind Unix-domain sockets have no space.
public final class CredentialStorage: Sendable {
  struct Entry: Sendable {
    var space: ProtectionSpace
    /// The first is the default.
    var credentials: [Credential]
  }

  private let entries = LockedStorage<[ProtectionSpace: Entry]>([:])
  private let counter = Atomic<Int>(0)
  /// Spaces of proxies.
  private let proxyCounter = Atomic<Int>(0)

  /// The storage of every configuration that names no other. It is empty until somebody puts something into it.
  public static let shared = CredentialStorage()

  /// Whether it follows what servers make of credentials, for programs that keep it between runs: those that requests name, if they are `.permanent`, are
  /// stored once they are accepted, and what is refused is removed.
  let followsServers: Bool

  /// An empty storage.
  public init() { followsServers = false }

  /// An empty storage; see `followsServers`.
  package init(followingServers: Bool) { followsServers = followingServers }

  /// Whether there is nothing in it; costs no lock.
  var isEmpty: Bool { counter.load(ordering: .relaxed) == 0 }

  /// Stores a credential, in the place of one of the same user. The first one of a space is its default. One with the persistence `.none` is not
  /// stored.
  public func set(_ credential: Credential, for space: ProtectionSpace) {
    guard credential.persistence != .none else { return }
    change(space) { list in
      if let index = list.firstIndex(where: { $0.user.hasBytes(of: credential.user) }) {
        list[index] = credential
      } else {
        list.append(credential)
      }
    }
  }

  /// Stores what a server has accepted, under a realm of its choice: as much of it as anybody needs.
  func learn(_ credential: Credential, for space: ProtectionSpace) {
    guard space.realm?.utf8.count ?? 0 <= Self.learnedRealmLimit else { return }
    let hasRoom = entries.withLock { $0[space] != nil || Self.hasRoom(in: $0, for: space) }
    if hasRoom { set(credential, for: space) }
  }

  private static func hasRoom(in entries: [ProtectionSpace: Entry], for space: ProtectionSpace) -> Bool {
    entries.count < learnedLimit && entries.count { $0.key.origin == space.origin } < learnedLimitOfOrigin
  }

  /// A server has accepted what a request names: it takes the place of whatever was stored in just this space. Without a realm, for what nobody had asked for,
  /// it is looked at behind what is stored for single realms, which the server has asked for.
  func accepted(_ credential: Credential, for space: ProtectionSpace) {
    guard followsServers, credential.persistence == .permanent, space.realm?.utf8.count ?? 0 <= Self.learnedRealmLimit
    else { return }
    entries.withLock { entries in
      guard entries[space] != nil || Self.hasRoom(in: entries, for: space) else { return }
      entries[space] = Entry(space: space, credentials: [credential])
      counter.store(entries.count, ordering: .relaxed)
    }
  }

  /// A server has refused something in a space of its own: it is not stored for it any longer.
  func refused(_ secret: CredentialSecret, for space: ProtectionSpace) {
    guard followsServers, !isEmpty else { return }
    for space in space.generalisations {
      change(space) { list in list.removeAll { $0.secret == secret } }
    }
  }

  /// Spaces from which on nothing is learned any more; what the program stores itself has no limit.
  package static let learnedLimit = 1024
  static let learnedLimitOfOrigin = 32
  /// Bytes of a realm.
  static let learnedRealmLimit = 1024

  /// Stores a credential, and makes it the default of its space.
  public func setDefault(_ credential: Credential, for space: ProtectionSpace) {
    guard credential.persistence != .none else { return }
    change(space) { list in
      list.removeAll { $0.user.hasBytes(of: credential.user) }
      list.insert(credential, at: 0)
    }
  }

  /// Removes a credential from exactly this space.
  public func remove(_ credential: Credential, for space: ProtectionSpace) {
    change(space) { list in list.removeAll { $0 == credential } }
  }

  /// Removes everything.
  public func removeAll() {
    entries.withLock { entries in
      entries = [:]
      counter.store(0, ordering: .relaxed)
      proxyCounter.store(0, ordering: .relaxed)
    }
  }

  /// The credential that is sent by default.
  public func defaultCredential(for space: ProtectionSpace) -> Credential? {
    candidates(for: space).first
  }

  /// The credentials of a space by user, those included that were stored for every realm or method. A token has the empty name. Of two users whose names
  /// are the same text with other bytes, as a letter with an accent can be spelt, the first is there.
  public func credentials(for space: ProtectionSpace) -> [String: Credential] {
    Dictionary(candidates(for: space).map { ($0.user ?? "", $0) }) { first, _ in first }
  }

  /// The spaces that have a credential, in no order.
  public var protectionSpaces: [ProtectionSpace] { entries.withLock { Array($0.keys) } }

  /// All that are known, the closest space first, its default first.
  func candidates(for space: ProtectionSpace) -> [Credential] { lists(for: space).flatMap { $0 } }

  /// What is sent unless somebody chooses: of each space, the closest first, its default of a kind. Those of other users are for a delegate to choose.
  func proposals(for space: ProtectionSpace, where isOfKind: (Credential) -> Bool) -> [Credential] {
    lists(for: space).compactMap { $0.first(where: isOfKind) }
  }

  private func lists(for space: ProtectionSpace) -> [[Credential]] {
    guard !isEmpty else { return [] }
    return entries.withLock { entries in space.generalisations.compactMap { entries[$0]?.credentials } }
  }

  /// The spaces of a proxy, in no order. Costs no lock where nothing is stored for any proxy.
  func proxyEntries(at origin: Origin) -> [Entry] {
    guard proxyCounter.load(ordering: .relaxed) > 0 else { return [] }
    return entries.withLock { entries in
      entries.values.filter { $0.space.isProxy && $0.space.origin == origin }
    }
  }

  var all: [Entry] { entries.withLock { Array($0.values) } }

  private func change(_ space: ProtectionSpace, _ body: (inout [Credential]) -> Void) {
    entries.withLock { entries in
      // Taken out: a list that the dictionary has too would be copied.
      let found = entries.removeValue(forKey: space)
      var entry = found ?? Entry(space: space, credentials: [])
      body(&entry.credentials)
      if !entry.credentials.isEmpty { entries[space] = entry }
      counter.store(entries.count, ordering: .relaxed)
      guard space.isProxy else { return }
      proxyCounter.add((entries[space] == nil ? 0 : 1) - (found == nil ? 0 : 1), ordering: .relaxed)
    }
  }
}
