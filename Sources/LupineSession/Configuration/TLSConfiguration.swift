internal import LupineTLS

/// Trust, versions and client identity of TLS connections. Compared by value: connections and TLS sessions are shared only under equal
/// configurations.
public struct TLSConfiguration: Hashable, Sendable {
  /// Certificates that are trusted.
  public enum Roots: Hashable, Sendable {
    /// The system's bundle (Debian: package `ca-certificates`). The environment is not read.
    case system
    /// A file of PEM certificates.
    case file(String)
    /// A directory of PEM certificates: those with OpenSSL's hashed names (`openssl rehash`), else its `.pem`, `.crt` and `.cer` files.
    /// Read again for a later connection when the directory or one of these files has changed.
    case directory(String)
    /// DER certificates.
    case certificates([[UInt8]])
  }

  /// A protocol version.
  public enum Version: Hashable, Sendable {
    /// RFC 5246.
    case tls12
    /// RFC 8446.
    case tls13
  }

  /// Certificates that are trusted. Default the system's. Any of them ends the path, a server's own too, whatever it sends beside it.
  public var roots = Roots.system
  /// Check chain, time, purpose and host. Default true. Without it anybody on the path can read and change everything.
  public var verifiesServer = true
  /// DER certificates that are trusted beside `roots`, as a company's own authority beside the system's. Any of them ends the path as well. Default
  /// none. Whoever holds a key of theirs can answer for every host; for a single server there are `publicKeyPins`. `certificates(inPEM:)` reads PEM.
  /// One that cannot be read fails the connection with `.secureConnectionFailed`. Source: AsyncHTTPClient's `additionalTrustRoots`.
  public var additionalRoots: [[UInt8]] = []
  /// The lowest version. Default 1.2.
  public var minimumVersion = Version.tls12
  /// The highest version. Default 1.3.
  public var maximumVersion = Version.tls13
  /// What is shown to a server that asks. Default nil.
  public var clientIdentity: ClientIdentity?
  /// SHA-256 digests of SubjectPublicKeyInfo, 32 bytes each: if any, a certificate of the chain must match. Default none. `PublicKeyPin` of `Lupine` reads
  /// pins as they are written: `[try PublicKeyPin("sha256/…").sha256]`.
  public var publicKeyPins: Set<[UInt8]> = []
  /// A PEM file of revocation lists that every certificate is checked against. Default nil: revocation is not checked.
  public var revocationListPath: String?
  /// A file that secrets are appended to in NSS format, for packet analysers. Default nil; never read from the environment.
  ///
  /// A file thread writes it, a whole line at a time. A connection is used when the secrets of its handshake are there, so that who has a response finds
  /// them, or after a second: a disk that hangs holds nobody up for longer, and those that come while it hangs not at all. That second counts for the total
  /// limit of a request and for `SessionConfiguration.poolWaitTimeout`, and not for the others, as the server is not to blame. What cannot be written is
  /// lost, and so is what comes while 1 MiB waits; a comment in the file says with the next line how many are missing. Those of a proxy's own TLS, and of
  /// handshakes that fail, may come a moment later.
  /// A file that cannot be opened, or a pipe that nobody reads, fails the connection.
  public var keyLogPath: String?
  /// Accept a body without a length that ends without `close_notify`. Default false: it may have been cut short by anybody.
  public var allowsTruncation = false

  /// Resume sessions of earlier connections: no certificates are sent or checked then. Default true. Whoever watches the
  /// network can link connections that do so with TLS 1.2; tickets of TLS 1.3 are used once (RFC 8446 appendix C.4).
  /// A server knows a client again by them: sessions are resumed on the way on which they were made alone, be it direct, by a proxy with the same credentials,
  /// from a `localAddress` or to an address of `nameOverrides`, and those of an ephemeral session by no other one.
  /// A server that refuses what it is offered is offered none for an hour; one that hangs up or does not answer for a minute, and for longer if it does so
  /// again. What was found out about a server's certificates holds for seven days at most, and no longer than they and the lists of revoked ones do (RFC 8446
  /// section 4.6.1).
  public var allowsResumption = true

  /// The defaults.
  public init() {}

  func policy() throws(SessionError) -> TLSPolicy {
    guard minimumVersion == .tls12 || maximumVersion == .tls13 else {
      throw SessionError(
        .badRequest, phase: .prepare, message: "the lowest TLS version is above the highest; exchange or equal them")
    }
    guard publicKeyPins.allSatisfy({ $0.count == 32 }) else {
      throw SessionError(.badRequest, phase: .prepare, message: "a public key pin is a SHA-256 digest of 32 bytes")
    }
    var policy = TLSPolicy()
    policy.roots = TLSPolicy.Roots(roots)
    policy.additionalRoots = additionalRoots
    policy.verification = verifiesServer ? .full : .none
    policy.minimumVersion = minimumVersion == .tls12 ? .tls12 : .tls13
    policy.maximumVersion = maximumVersion == .tls12 ? .tls12 : .tls13
    policy.clientIdentity = clientIdentity.map { TLSIdentity($0) }
    policy.pins = publicKeyPins
    policy.revocationListPath = revocationListPath
    policy.keyLogPath = keyLogPath
    return policy
  }
}
