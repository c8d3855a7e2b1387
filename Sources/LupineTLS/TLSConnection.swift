internal import CLupineOpenSSL
internal import Glibc
internal import LupineBase

/// Who decides whether the peer is trusted.
package enum TLSTrustEvaluation: Hashable, Sendable {
  /// The policy alone, within the handshake.
  case automatic
  /// The handshake stops at `trustPending` until `resolveTrust` is called; the policy's verdict is only reported.
  case deferred
}

/// What a client says about one connection.
package struct TLSClientOptions: Sendable {
  /// The host as it stands in the URL: an ASCII DNS name or an IP literal.
  package var serverName: ServerName
  /// Part of a session's key only.
  package var port: UInt16
  /// That of a link-local address, which no certificate and no `serverName` has. Part of a session's key only.
  package var zone: String?
  /// What else sessions are kept apart by, such as the way to the server; 0: nothing. Part of a session's key only.
  package var partition: UInt64 = 0
  package var applicationProtocols: [String] = ["http/1.1"]
  /// nil: nothing is resumed or kept.
  package var sessions: TLSSessionCache?
  package var trustDomain = TLSTrustDomain.policy
  package var trustEvaluation = TLSTrustEvaluation.automatic
  /// Where the server asks for a certificate, the handshake stops at `identityPending` until `resolveIdentity` is called; else the
  /// policy's identity is shown.
  package var asksForIdentity = false
  /// Seconds since 1970; nil: the system's clock, read by OpenSSL.
  package var now: Int64?

  package init(serverName: ServerName, port: UInt16 = 443) {
    self.serverName = serverName
    self.port = port
  }
}

/// How far a handshake is.
package enum HandshakeStep: Equatable, Sendable {
  /// Send the output; feed what comes.
  case needsInput
  /// Somebody has to call `resolveTrust`.
  case trustPending
  /// Somebody has to call `resolveIdentity`.
  case identityPending
  case done
}

/// What a connection is after it took in some bytes.
package enum ReceiveResult: Equatable, Sendable {
  /// The handshake wants more.
  case handshaking
  /// As `HandshakeStep.trustPending`.
  case trustPending
  /// As `HandshakeStep.identityPending`.
  case identityPending
  /// Established.
  case open
  /// The peer sent `close_notify`: everything it had to say has arrived. What followed is dropped.
  case closedByPeer
}

/// TLS as bytes in, bytes out. Lives on one thread.
///
/// States and their successors:
/// - `handshaking` → `trustPending`, `identityPending`, `open`, `failed`
/// - `trustPending` → `handshaking` (after `resolveTrust`), `failed`
/// - `identityPending` → `handshaking` (after `resolveIdentity`), `failed`; always after trust was decided
/// - `open` → `failed`
/// - `failed`: for good; the same error is thrown again
///
/// Beside the state, each direction ends on its own: `isClosedByPeer` after the peer's `close_notify`, `isClosed` after ours.
///
/// Invariants: OpenSSL reads only while one of our methods runs; while a decision is pending it is not called at all, so nothing
/// is added to the output; after an error the output still holds the alert that the peer should get.
@safe
package final class TLSConnection {
  enum State: Equatable {
    case handshaking
    case trustPending
    case identityPending
    case open
    case failed(TLSError)
  }

  /// Bytes kept that arrive while a decision about trust is pending. A driver should not read then.
  package static let heldInputLimit = 256 * 1024

  package let context: TLSContext

  /// What is known about the peer's certificates; of a resumed connection, what the first one came to. nil before.
  package internal(set) var trustReport: TrustReport?

  /// Seconds since 1970 from which no other connection takes over `trustReport`: one of the certificates or revocation lists that it rests on ends, or
  /// `TLSSessionCache.verdictSeconds` are over since they were looked at. Of a resumed connection, that of the first one. Set where sessions are kept.
  var verdictEnd: Int64 = 0

  /// Whether the peer sent `close_notify`.
  package var isClosedByPeer: Bool { sawClose }

  /// Whether `close()` was called.
  package var isClosed: Bool { saidClose }

  /// Whether the key log took not all of its secrets.
  package internal(set) var hasLostSecrets = false

  // What is read for every record is not itself read by other modules: then it needs no check of exclusive access.
  var sawClose = false
  var saidClose = false

  /// Ciphertext for the peer.
  let output = Exclusive(ByteQueue())

  let ssl: OpaquePointer
  let options: TLSClientOptions?
  let sessionKey: TLSSessionKey?
  var state = State.handshaking
  var decision: TrustDecision?
  var identityChoice: TLSIdentityChoice?
  var trustProblem: TrustProblem?
  /// What came while a decision was pending.
  let held = Exclusive(ByteQueue())
  /// What OpenSSL has not taken yet of the span of the running `receive`.
  var input: UnsafeRawPointer?
  var inputLeft = 0
  var grant = RecordGrant()
  /// What OpenSSL does not encrypt yet; nil: it does. See `isSendHeld`.
  var unsent: [UInt8]?
  var isReceiving = false
  var sawFirstByte = false
  var postHandshakeMessages = 0
  var receivedPlaintext = 0
  let scratch: TLSScratch

  /// Makes a client. Nothing is sent before `handshake()`.
  ///
  /// - Throws: `.internalFailure` when memory is short, `.invalidPolicy` for protocols that cannot be offered.
  package init(
    client context: TLSContext, options: TLSClientOptions, scratch: TLSScratch = TLSScratch()
  ) throws(TLSError) {
    precondition(!context.isServer, "a client needs a client's context")
    self.context = context
    self.options = options
    self.scratch = scratch
    sessionKey = TLSSessionKey(
      context: context.identifier, host: options.serverName.host, port: options.port, trustDomain: options.trustDomain,
      isDeferred: options.trustEvaluation == .deferred, zone: options.zone, partition: options.partition)
    unsafe ssl = try Self.makeSSL(context)
    try attach()
    try configure(options)
    if options.asksForIdentity { unsafe SSL_set_cert_cb(ssl, Callbacks.chooseIdentity, nil) }
    unsafe SSL_set_connect_state(ssl)
  }

  /// Makes a server.
  package init(server context: TLSContext, scratch: TLSScratch = TLSScratch()) throws(TLSError) {
    precondition(context.isServer, "a server needs a server's context")
    self.context = context
    self.scratch = scratch
    options = nil
    sessionKey = nil
    unsafe ssl = try Self.makeSSL(context)
    try attach()
    unsafe SSL_set_accept_state(ssl)
  }

  deinit {
    unsafe SSL_set_ex_data(ssl, 0, nil)
    unsafe SSL_free(ssl)
  }

  private static func makeSSL(_ context: TLSContext) throws(TLSError) -> OpaquePointer {
    OpenSSLError.clear()
    guard let made = unsafe SSL_new(context.pointer) else {
      throw .internalFailure("SSL_new: \(OpenSSLError.drain())")
    }
    return unsafe made
  }

  private func attach() throws(TLSError) {
    guard let method = unsafe ConnectionBIO.method, let bio = unsafe BIO_new(method) else {
      throw .internalFailure("BIO_new: \(OpenSSLError.drain())")
    }
    let box = unsafe Unmanaged.passUnretained(self).toOpaque()
    unsafe BIO_set_data(bio, box)
    unsafe BIO_set_init(bio, 1)
    // One reference, which the SSL takes over for both directions.
    unsafe SSL_set_bio(ssl, bio, bio)
    unsafe SSL_set_ex_data(ssl, 0, box)
    unsafe SSL_set_msg_callback(ssl, Callbacks.message)
  }

  private func configure(_ options: TLSClientOptions) throws(TLSError) {
    if let name = options.serverName.indication {
      guard unsafe lupine_ssl_set_host_name(ssl, name) == 1 else { throw .invalidServerName(name) }
    }
    if !options.applicationProtocols.isEmpty {
      var list: [UInt8] = []
      for name in options.applicationProtocols {
        guard (1...255).contains(name.utf8.count) else { throw .invalidPolicy(setting: "applicationProtocols") }
        list.append(UInt8(name.utf8.count))
        list += Array(name.utf8)
      }
      // Returns 0 for success.
      guard unsafe SSL_set_alpn_protos(ssl, list, UInt32(list.count)) == 0 else {
        throw .invalidPolicy(setting: "applicationProtocols")
      }
    }
    if let now = options.now { unsafe X509_VERIFY_PARAM_set_time(SSL_get0_param(ssl), Int(now)) }
    if let key = sessionKey, let ticket = options.sessions?.take(for: key, now: now) {
      if unsafe SSL_set_session(ssl, ticket.pointer) == 1 { resumable = ticket }
      OpenSSLError.clear()
    }
  }

  /// The session that is offered; its report, and the end of it, count if the server takes it.
  var resumable: TLSSessionCache.Ticket?

  /// Seconds since 1970.
  var now: Int64 { options?.now ?? Int64(time(nil)) }

  // MARK: Handshake

  /// Starts the handshake, or goes on with it; afterwards send what `drainOutput` shows.
  ///
  /// - Throws: the reason of the failure, again at every later call.
  package func handshake() throws(TLSError) -> HandshakeStep {
    guard !isReceiving else { throw .notNow }
    return try advanceHandshake()
  }

  func advanceHandshake() throws(TLSError) -> HandshakeStep {
    switch state {
    case .failed(let error): throw error
    case .trustPending where decision == nil: return .trustPending
    case .identityPending where identityChoice == nil: return .identityPending
    case .open: return .done
    case .handshaking, .trustPending, .identityPending: break
    }
    state = .handshaking
    OpenSSLError.clear()
    let result = unsafe SSL_do_handshake(ssl)
    if result == 1 {
      try establish()
      return .done
    }
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ:
      OpenSSLError.clear()
      return .needsInput
    case SSL_ERROR_WANT_RETRY_VERIFY:
      OpenSSLError.clear()
      state = .trustPending
      return .trustPending
    case SSL_ERROR_WANT_X509_LOOKUP:
      OpenSSLError.clear()
      state = .identityPending
      return .identityPending
    case SSL_ERROR_ZERO_RETURN: throw fail(.alert(.closeNotify))
    default: throw fail()
    }
  }

  private func establish() throws(TLSError) {
    OpenSSLError.clear()
    if unsafe SSL_session_reused(ssl) == 1, let resumable {
      trustReport = resumable.report
      verdictEnd = resumable.verdictEnd
      if let key = sessionKey { options?.sessions?.noteResumption(key) }
    }
    resumable = nil
    if let name = info.applicationProtocol, let options, !options.applicationProtocols.contains(name) {
      throw fail(.protocolViolation(reason: "application protocol was not offered"))
    }
    state = .open
  }

  /// Records why the connection is dead. Without a reason it is found in the error queue.
  func fail(_ reason: TLSError? = nil) -> TLSError {
    let queued = OpenSSLError.drainConnectionFailure()
    let error: TLSError
    if isFlooded {
      error = .postHandshakeFlood(limit: handshakeMessageAllowance)
    } else if let problem = trustProblem {
      error = .untrusted(problem)
    } else {
      error = reason ?? queued
    }
    forgetSessions(error)
    state = .failed(error)
    return error
  }

  /// RFC 5246, 7.2.2 and RFC 8446, 6.2: what was made with this peer so far is forgotten.
  private func forgetSessions(_ error: TLSError) {
    guard let sessions = options?.sessions, let key = sessionKey else { return }
    if state == .open { return sessions.remove(key) }
    guard resumable != nil else { return }
    // Some servers give out sessions that they abort on, for want of a session id context, say.
    if case .alert(let alert) = error, alert != .closeNotify {
      sessions.refuse(key, now: now)
    } else {
      sessions.remove(key)
    }
  }

  /// The transport ended. Some servers hang up on sessions that they gave out, or what is before them does; whoever has answered anything
  /// ends for another reason.
  func refuseUnansweredSession() {
    guard resumable != nil, !sawFirstByte, let sessions = options?.sessions, let key = sessionKey else { return }
    sessions.refuse(key, now: now, isSilent: true)
  }
}
