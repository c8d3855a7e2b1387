internal import LupineBase
internal import LupineSession

/// The sessions of a batch: one for each combination of settings, so that connections are shared where they may be.
final class BatchSessions: Sendable {
  private typealias Key = BatchRequest.SessionKey

  /// Of a cache that the sessions which use it hold, and it itself while it writes: its files stay open no longer.
  private struct CacheReference {
    weak var cache: ResponseCache?
  }

  private struct State {
    var sessions: [Key: Session] = [:]
    var order: [Key] = []
    /// By directory.
    var caches: [ByteExact<String>: CacheReference] = [:]

    /// The one of a directory, for all of its sessions.
    mutating func cache(_ directory: String) throws(SessionError) -> ResponseCache {
      let key = ByteExact(wrappedValue: directory)
      if let cache = caches[key]?.cache { return cache }
      let cache = try ResponseCache(directory: directory)
      caches = caches.filter { $0.value.cache != nil }
      caches[key] = CacheReference(cache: cache)
      return cache
    }
  }

  /// More combinations than this: the oldest session goes when its requests are done.
  static let limit = 64

  private let concurrency: Int
  private let archive: ArchiveFile?
  private let state = Locked(State())
  private let jars = BatchJars()

  init(concurrency: Int, archive: ArchiveFile? = nil) {
    self.concurrency = concurrency
    self.archive = archive
  }

  func session(for key: BatchRequest.SessionKey) throws -> Session {
    let jar = try jars.storage(for: key.jar)
    return try state.withLock { state throws(SessionError) in
      if let session = state.sessions[key] { return session }
      var configuration = configuration(for: key, jar)
      if let directory = key.cache { configuration.responseCache = try state.cache(directory) }
      configuration.transport = try archive?.transport(configuration)
      let session = try Session(configuration)
      if state.order.count >= Self.limit { state.sessions[state.order.removeFirst()] = nil }
      state.sessions[key] = session
      state.order.append(key)
      return session
    }
  }

  /// Waits until the directories have what was stored.
  func flushCaches() async {
    for cache in state.withLock({ $0.caches.values.compactMap { $0.cache } }) { await cache.flush() }
  }

  /// Writes the files of cookies.
  func saveCookies() throws(SessionError) {
    try jars.save()
  }

  private func configuration(for key: BatchRequest.SessionKey, _ jar: CookieStorage?) -> SessionConfiguration {
    var configuration = SessionConfiguration()
    configuration.cookieStorage = jar
    configuration.userAgent = "lupine/0.1"
    configuration.maximumConnectionsPerHost = concurrency
    configuration.maximumConnections = max(configuration.maximumConnections, concurrency)
    configuration.maximumWaitingRequests = max(configuration.maximumWaitingRequests, concurrency)
    configuration.nameOverrides = key.resolve
    configuration.unixSocketPath = key.unixSocket
    if let file = key.caFile { configuration.tls.roots = .file(file) }
    configuration.tls.verifiesServer = !key.insecure
    configuration.tls.publicKeyPins = key.pins
    if let certificate = key.clientCertificate {
      configuration.tls.clientIdentity = TLSConfiguration.ClientIdentity(
        certificatePath: certificate, privateKeyPath: key.clientKey ?? certificate)
    }
    return configuration
  }
}
