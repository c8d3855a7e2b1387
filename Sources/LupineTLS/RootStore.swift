internal import CLupineOpenSSL
internal import Glibc
internal import LupineBase

/// A set of trust anchors, read whole when it is made: a handshake reads no file. Immutable, so contexts share it.
@safe
final class RootStore: Sendable {
  nonisolated(unsafe) let pointer: OpaquePointer

  /// Where distributions keep their bundle, in the order they are tried. A program linked statically finds them here too.
  static let systemFiles = [
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  // SUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and later
    "/etc/ssl/cert.pem",  // Alpine, OpenSSL's default on many
    "/usr/lib/ssl/cert.pem",  // OpenSSL's default on Debian
    "/usr/local/ssl/cert.pem",  // OpenSSL's default when built by hand
  ]

  /// Hashed directories, tried when there is no bundle.
  static let systemDirectories = ["/etc/ssl/certs", "/etc/pki/tls/certs", "/usr/lib/ssl/certs"]

  private static let system = Locked<RootStore?>(nil)
  private static let recent = Locked(RootMemo())

  private init() throws(TLSError) {
    guard let made = unsafe X509_STORE_new() else { throw .internalFailure("X509_STORE_new") }
    unsafe pointer = made
  }

  deinit {
    unsafe X509_STORE_free(pointer)
  }

  /// The anchors of `roots` and the `additional` ones. Those of the system alone are loaded once per process, which takes milliseconds; a few lists of
  /// certificates are kept as well, as policies ask for theirs at every connection.
  static func make(
    _ roots: TLSPolicy.Roots, additional: [[UInt8]] = [], revocationListPath: String? = nil
  ) throws(TLSError) -> RootStore {
    // A store that also holds revocation lists or somebody's own anchors belongs to one policy.
    if case .system = roots, additional.isEmpty, revocationListPath == nil {
      // Under the lock: file threads alone come here, and one load is enough for all of them.
      return try system.withLock { shared throws(TLSError) in
        if let shared { return shared }
        let loaded = try load(roots)
        shared = loaded
        return loaded
      }
    }
    // One alone is parsed in little time, and may be of a server's choosing: it is to push no list out.
    if case .certificates(let list) = roots, list.count > 1, additional.isEmpty, revocationListPath == nil {
      return try sharedStore(of: list)
    }
    let store = try load(roots)
    try store.add(additional, setting: "additionalRoots")
    if let path = revocationListPath {
      OpenSSLError.clear()
      // Lists only: a certificate in this file must not become an anchor.
      guard let lookup = unsafe X509_STORE_add_lookup(store.pointer, X509_LOOKUP_file()),
        unsafe X509_load_crl_file(lookup, path, X509_FILETYPE_PEM) > 0
      else { throw .revocationListUnreadable(path: path, reason: OpenSSLError.drain()) }
      OpenSSLError.clear()
    }
    return store
  }

  private static func sharedStore(of list: [[UInt8]]) throws(TLSError) -> RootStore {
    if let known = recent.withLock({ $0.store(of: list) }) { return known }
    // Outside the lock: two threads may both parse a list, and either store will do.
    let loaded = try load(.certificates(list))
    let former = recent.withLock { $0.keep(loaded, of: list) }
    // Freed here, not under the lock.
    withExtendedLifetime(former) {}
    return loaded
  }

  private static func load(_ roots: TLSPolicy.Roots) throws(TLSError) -> RootStore {
    let store = try RootStore()
    OpenSSLError.clear()
    switch roots {
    case .system: try store.loadSystem()
    case .file(let path):
      guard unsafe X509_STORE_load_file(store.pointer, path) == 1 else {
        throw .rootsUnreadable(path: path, reason: OpenSSLError.drain())
      }
    case .directory(let path):
      switch try store.loadDirectory(path) {
      case nil: throw .rootsUnreadable(path: path, reason: "not a readable directory")
      case false?: throw .rootsUnreadable(path: path, reason: "holds no certificates")
      case true?: break
      }
    case .certificates(let list):
      try store.add(list, setting: "roots")
    }
    OpenSSLError.clear()
    return store
  }

  /// - Parameter setting: whose certificates they are, for the error.
  private func add(_ certificates: [[UInt8]], setting: String) throws(TLSError) {
    for (index, der) in certificates.enumerated() {
      guard let certificate = Certificate(der: der) else { throw .invalidPolicy(setting: "\(setting)[\(index)]") }
      // One that is there already is no error.
      guard unsafe X509_STORE_add_cert(pointer, certificate.pointer) == 1 else {
        throw .invalidPolicy(setting: "\(setting)[\(index)]: \(OpenSSLError.drain())")
      }
    }
  }

  /// Those of a directory's names that are read, in order: with hashed names those files, certificates and revocation lists; without any, all that look
  /// like certificates.
  static func wanted(of names: [String]) -> [String] {
    let hashed = names.filter(isHashed)
    let wanted = hashed.isEmpty ? names.filter { [".pem", ".crt", ".cer"].contains(where: $0.hasSuffix) } : hashed
    return wanted.sorted()
  }

  /// - Returns: whether it holds any certificate that can be read; nil: it cannot be read itself.
  /// - Throws: as `loadFile`.
  private func loadDirectory(_ path: String) throws(TLSError) -> Bool? {
    let names: [String]
    do throws(DirectoryListing.Failure) {
      names = try DirectoryListing.names(in: path)
    } catch {
      guard error.isShortage else { return nil }
      throw .rootsUnreadable(path: path, reason: error.reason)
    }
    var found = false
    for name in Self.wanted(of: names) where try loadFile(path + "/" + name) { found = true }
    return found
  }

  /// - Returns: whether it can be read, and holds certificates.
  /// - Throws: `rootsUnreadable` where the system lacks descriptors or memory. That passes, and a store is kept: it must not go without what is there.
  private func loadFile(_ path: String) throws(TLSError) -> Bool {
    defer { OpenSSLError.clear() }
    if unsafe X509_STORE_load_file(pointer, path) == 1 { return true }
    guard !OpenSSLError.isShortage else { throw .rootsUnreadable(path: path, reason: OpenSSLError.drain()) }
    return false
  }

  /// `5ed36f99.0`: eight hexadecimal digits of the subject's hash and a number; `.r0` for a revocation list.
  private static func isHashed(_ name: String) -> Bool {
    let parts = name.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 2, parts[0].count == 8, parts[0].allSatisfy(\.isHexDigit) else { return false }
    return UInt8(parts[1].hasPrefix("r") ? parts[1].dropFirst() : parts[1]) != nil
  }

  private func loadSystem() throws(TLSError) {
    for path in Self.systemFiles where unsafe access(path, R_OK) == 0 {
      if try loadFile(path) { return }
    }
    for path in Self.systemDirectories {
      if try loadDirectory(path) == true { return }
    }
    throw .noSystemRoots
  }
}

/// The stores of the lists of certificates that were asked for last, each by its whole list. Nothing may be added to a store that is in here. Not locked.
struct RootMemo {
  struct Entry {
    var list: [[UInt8]]
    var store: RootStore
  }

  static let limit = 4

  /// The one asked for last comes last.
  private var entries: [Entry] = []

  /// The store of an equal list, which counts as asked for now. Lists that share their bytes are compared without reading them.
  mutating func store(of list: [[UInt8]]) -> RootStore? {
    guard let index = entries.firstIndex(where: { $0.list == list }) else { return nil }
    let found = entries.remove(at: index)
    entries.append(found)
    return found.store
  }

  /// Keeps a store, unless its list has one, and returns what had to go for it.
  mutating func keep(_ store: RootStore, of list: [[UInt8]]) -> Entry? {
    guard self.store(of: list) == nil else { return nil }
    entries.append(Entry(list: list, store: store))
    return entries.count > Self.limit ? entries.removeFirst() : nil
  }
}
