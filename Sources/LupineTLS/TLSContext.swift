internal import CLupineOpenSSL
internal import LupineBase

enum OpenSSLLibrary {
  private static let started: Void = lupine_initialise()

  /// Starts OpenSSL once, without a handler at exit: other threads may still be in it then.
  static func start() { started }
}

/// One `SSL_CTX`: what a policy means to OpenSSL. Making one loads roots and keys (milliseconds), so they are shared through
/// `client(for:fileWork:)`; make them away from a loop.
@safe
package final class TLSContext: Sendable {
  package enum ClientAuthentication: Sendable, Hashable {
    case none
    case optional
    case required
  }

  /// 112 bits: no RSA below 2048, no SHA-1 signatures (`SSL_CTX_set_security_level`).
  static let securityLevel: Int32 = 2

  /// Forward secrecy only, authenticated encryption first. No finite fields (RFC 9325 section 4.1): the server names one, and OpenSSL works for a second in one of
  /// 10,000 bits, in which a loop does nothing else.
  package static let defaultCipherList = "ECDHE+AESGCM:ECDHE+CHACHA20:ECDHE+AES"
  package static let defaultGroups = "X25519:P-256:P-384"
  /// In FIPS mode OpenSSL has no X25519, and takes a list as a whole or not at all.
  static let approvedGroups = "P-256:P-384"

  /// The longest handshake message, and so the longest chain, that is accepted.
  package static let maximumChainBytes = 64 * 1024

  /// Unique in this process. Two contexts are never mixed up, even if one took the other's place in memory.
  package let identifier: UInt64
  package let policy: TLSPolicy
  package let isServer: Bool

  nonisolated(unsafe) let pointer: OpaquePointer
  /// Where the secrets of its handshakes go.
  package let keyLog: KeyLog?

  private static let identifiers = Locked<UInt64>(0)

  /// Makes a context for a client. Prefer `client(for:fileWork:)`.
  ///
  /// - Parameter fileWork: writes the key log, if nobody else has the file open.
  /// - Throws: the environment's and the caller's faults of `TLSError`.
  package init(client policy: TLSPolicy, fileWork: @escaping TLSFileWork = KeyLog.atOnce) throws(TLSError) {
    isServer = false
    self.policy = policy
    identifier = Self.nextIdentifier()
    keyLog = try policy.keyLogPath.map { path throws(TLSError) in try KeyLog.shared(path: path, fileWork: fileWork) }
    unsafe pointer = try Self.newContext(server: false)
    try configure()
    if let identity = policy.clientIdentity { try install(identity) }
    // A client that verifies nothing needs no roots; but wrong ones are told.
    if policy.verification == .full || policy.roots != .system {
      try installRoots()
    } else if !policy.additionalRoots.isEmpty {
      _ = try RootStore.make(.certificates([]), additional: policy.additionalRoots)
    }
    unsafe lupine_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL))
    unsafe SSL_CTX_sess_set_new_cb(pointer, Callbacks.newSession)
    unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    unsafe SSL_CTX_set_cert_verify_callback(pointer, Callbacks.verify, nil)
  }

  /// Makes a context for a server, for tests and in-memory peers. `policy.roots` are those of the clients.
  package init(
    server identity: TLSIdentity, policy: TLSPolicy, clientAuthentication: ClientAuthentication = .none
  ) throws(TLSError) {
    isServer = true
    self.policy = policy
    identifier = Self.nextIdentifier()
    keyLog = try policy.keyLogPath.map { path throws(TLSError) in try KeyLog(path: path, fileWork: KeyLog.atOnce) }
    unsafe pointer = try Self.newContext(server: true)
    try configure()
    try install(identity)
    if clientAuthentication != .none { try installRoots() }
    unsafe lupine_ctx_set_session_cache_mode(pointer, Int(SSL_SESS_CACHE_OFF))
    let name = Array("lupine".utf8)
    unsafe SSL_CTX_set_session_id_context(pointer, name, UInt32(name.count))
    unsafe SSL_CTX_set_alpn_select_cb(pointer, Callbacks.selectProtocol, nil)
    switch clientAuthentication {
    case .none: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_NONE, nil)
    case .optional: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER, nil)
    case .required: unsafe SSL_CTX_set_verify(pointer, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
    }
    unsafe SSL_CTX_set_cert_verify_callback(pointer, Callbacks.verify, nil)
  }

  deinit {
    unsafe SSL_CTX_free(pointer)
  }

  private static func newContext(server: Bool) throws(TLSError) -> OpaquePointer {
    OpenSSLLibrary.start()
    OpenSSLError.clear()
    let method = server ? unsafe TLS_server_method() : unsafe TLS_client_method()
    guard let made = unsafe SSL_CTX_new(method) else { throw .internalFailure("SSL_CTX_new: \(OpenSSLError.drain())") }
    return unsafe made
  }

  private static func nextIdentifier() -> UInt64 {
    identifiers.withLock { value in
      value += 1
      return value
    }
  }

  private func configure() throws(TLSError) {
    unsafe SSL_CTX_set_security_level(pointer, Self.securityLevel)
    unsafe lupine_ctx_set_hygiene(pointer)
    // One question for each record: see `RecordGrant`, which keeps what OpenSSL gets to the one.
    unsafe lupine_ctx_set_read_ahead(pointer)
    // Not SSL_MODE_RELEASE_BUFFERS, which frees and allocates 17 KB at every record: see `TLSConnection.releaseBuffers`.
    unsafe lupine_ctx_set_mode(pointer, Int(SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_NO_AUTO_CHAIN))
    unsafe lupine_ctx_set_max_cert_list(pointer, Self.maximumChainBytes)
    guard policy.minimumVersion <= policy.maximumVersion,
      unsafe lupine_ctx_set_min_version(pointer, Int32(policy.minimumVersion.rawValue)) == 1,
      unsafe lupine_ctx_set_max_version(pointer, Int32(policy.maximumVersion.rawValue)) == 1
    else { throw .invalidPolicy(setting: "minimumVersion, maximumVersion") }
    guard unsafe SSL_CTX_set_cipher_list(pointer, policy.cipherList ?? Self.defaultCipherList) == 1 else {
      throw refused("cipherList")
    }
    if let suites = policy.cipherSuites {
      guard unsafe SSL_CTX_set_ciphersuites(pointer, suites) == 1 else { throw refused("cipherSuites") }
    }
    guard setGroups() else { throw refused("groups") }
    guard policy.pins.allSatisfy({ $0.count == Int(SHA256_DIGEST_LENGTH) }) else {
      throw .invalidPolicy(setting: "pins")
    }
    if keyLog != nil { unsafe SSL_CTX_set_keylog_callback(pointer, Callbacks.keyLog) }
    OpenSSLError.clear()
  }

  private func setGroups() -> Bool {
    let lists = policy.groups.map { [$0] } ?? [Self.defaultGroups, Self.approvedGroups]
    return lists.contains { list in unsafe lupine_ctx_set_groups(pointer, list) == 1 }
  }

  private func installRoots() throws(TLSError) {
    let store = try RootStore.make(
      policy.roots, additional: policy.additionalRoots, revocationListPath: policy.revocationListPath)
    unsafe SSL_CTX_set1_cert_store(pointer, store.pointer)
    var flags = UInt(X509_V_FLAG_PARTIAL_CHAIN)
    if policy.revocationListPath != nil { flags |= UInt(X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) }
    unsafe X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(pointer), flags)
  }

  private func refused(_ setting: String) -> TLSError {
    OpenSSLError.clear()
    return .invalidPolicy(setting: setting)
  }
}

extension TLSContext {
  private struct Shared: Sendable {
    var context: TLSContext
    /// What the files of a directory of roots were before they were read. Not of the key, which a loop makes as well.
    var entries: [FileIdentity]
    var stamp: UInt64
    /// Seconds of the system's uptime when its files were last looked at in earnest.
    var lookedAt: Int
  }

  private struct SharedKey: Hashable, Sendable {
    var policy: TLSPolicy
    /// So that a file that was replaced is read again.
    var files: [FileIdentity]
  }

  private static let sharedLimit = 64
  private static let shared = Locked<(table: [SharedKey: Shared], clock: UInt64)>((table: [:], clock: 0))

  /// The context of a policy: made the first time, or when one of its files has changed; then shared. At most 64 are kept, the
  /// least recently asked for go first.
  ///
  /// - Parameter fileWork: writes the key log, if the context is made now and nobody else has the file open.
  package static func client(
    for policy: TLSPolicy, fileWork: @escaping TLSFileWork = KeyLog.atOnce
  ) throws(TLSError) -> TLSContext {
    // Before the files are looked at, which may take long.
    let now = FileIdentity.uptime
    let key = SharedKey(policy: policy, files: FileIdentity.all(of: policy))
    let entries = FileIdentity.entries(of: policy)
    if let known = find(key, looked: (at: now, entries: entries)) { return known }
    // Outside the lock: this reads files. Two threads may both do it; the first to finish wins.
    let made = try TLSContext(client: policy, fileWork: fileWork)
    return shared.withLock { state in
      if let known = state.table[key], known.entries == entries { return known.context }
      state.clock += 1
      state.table[key] = Shared(context: made, entries: entries, stamp: state.clock, lookedAt: now)
      if state.table.count > sharedLimit, let oldest = state.table.min(by: { $0.value.stamp < $1.value.stamp }) {
        state.table[oldest.key] = nil
      }
      return made
    }
  }

  /// The same, if it can be told without waiting: it was made, and the policy names no file that could have changed, or the kernel
  /// remembers all of them as they were. Of files on a server that is what it last heard, and those within a directory are not asked for, and so this
  /// counts for a second or two. For a loop, which must not wait for a disk.
  package static func known(for policy: TLSPolicy) -> TLSContext? {
    let paths = FileIdentity.paths(of: policy)
    guard let files = FileIdentity.cached(paths) else { return nil }
    return find(SharedKey(policy: policy, files: files), notBefore: paths.isEmpty ? .min : FileIdentity.uptime - 1)
  }

  /// With `looked`, the key's files and those of its directory have just been looked at in earnest; else that must not have been before `notBefore`.
  private static func find(
    _ key: SharedKey, looked: (at: Int, entries: [FileIdentity])? = nil, notBefore: Int = .min
  ) -> TLSContext? {
    shared.withLock { state in
      guard let index = state.table.index(forKey: key), state.table.values[index].lookedAt >= notBefore else {
        return nil
      }
      if let looked {
        guard state.table.values[index].entries == looked.entries else { return nil }
        state.table.values[index].lookedAt = looked.at
      }
      state.clock += 1
      state.table.values[index].stamp = state.clock
      return state.table.values[index].context
    }
  }
}
