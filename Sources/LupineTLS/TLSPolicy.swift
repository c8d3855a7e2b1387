package import LupineBase

/// A protocol version that LupineTLS speaks.
package enum TLSVersion: UInt16, Hashable, Sendable, Comparable, CaseIterable {
  /// RFC 5246.
  case tls12 = 0x0303
  /// RFC 8446.
  case tls13 = 0x0304

  package static func < (left: TLSVersion, right: TLSVersion) -> Bool {
    left.rawValue < right.rawValue
  }
}

/// A certificate chain with its private key, by value or by path. Its descriptions never show the key.
package struct TLSIdentity: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
  package enum Source: Hashable, Sendable {
    /// The chain, leaf first, and the key, as PEM text.
    case pem(chain: [UInt8], privateKey: [UInt8])
    /// The chain, leaf first, and the key (PKCS #8, SEC 1 or PKCS #1), as DER.
    case der(chain: [[UInt8]], privateKey: [UInt8])
    /// Paths of PEM files; both may be the same file.
    case files(chain: String, privateKey: String)

    package static func == (left: Source, right: Source) -> Bool {
      switch (left, right) {
      case (.pem(let chain, let key), .pem(let otherChain, let otherKey)): chain == otherChain && key == otherKey
      case (.der(let chain, let key), .der(let otherChain, let otherKey)): chain == otherChain && key == otherKey
      case (.files(let chain, let key), .files(let otherChain, let otherKey)):
        chain.hasBytes(of: otherChain) && key.hasBytes(of: otherKey)
      case (.pem, _), (.der, _), (.files, _): false
      }
    }
  }

  package var source: Source

  /// For an encrypted private key. Nobody is ever prompted for one.
  @ByteExact package var passphrase: String?

  package init(_ source: Source, passphrase: String? = nil) {
    self.source = source
    self.passphrase = passphrase
  }

  package var description: String {
    switch source {
    case .pem: "TLSIdentity(PEM)"
    case .der: "TLSIdentity(DER)"
    case .files(let chain, _): "TLSIdentity(\(chain))"
    }
  }

  package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// Everything that decides whom a connection trusts, what it offers and who it says it is.
///
/// A value compared by equality: connections and TLS sessions are shared only under equal policies, so an option added here
/// cannot be forgotten in a key.
package struct TLSPolicy: Hashable, Sendable {
  /// Where the trust anchors come from. Never the environment: `SSL_CERT_FILE` and `SSL_CERT_DIR` are not read.
  package enum Roots: Hashable, Sendable {
    /// The system's: the first well-known bundle that exists (`RootStore.systemFiles`), else the well-known directories.
    case system
    /// A file of PEM certificates.
    case file(String)
    /// A directory: its files with OpenSSL's hashed names (`openssl rehash`), or without any its `.pem`, `.crt` and `.cer` files, in
    /// PEM. Read at once, and again for a later connection once the directory or, of 10,000 at most, one of these files has changed.
    case directory(String)
    /// DER certificates.
    case certificates([[UInt8]])

    package static func == (left: Roots, right: Roots) -> Bool {
      switch (left, right) {
      case (.system, .system): true
      case (.file(let path), .file(let other)), (.directory(let path), .directory(let other)):
        path.hasBytes(of: other)
      case (.certificates(let list), .certificates(let other)): list == other
      case (.system, _), (.file, _), (.directory, _), (.certificates, _): false
      }
    }
  }

  package enum Verification: Hashable, Sendable {
    /// Path, time, purpose and host name are all checked.
    case full
    /// Nothing but the pins is checked: anybody can read and change the traffic.
    case none
  }

  package var roots: Roots = .system
  /// DER certificates that are trusted beside `roots`; any of them ends the path.
  @HashedByEnds package var additionalRoots: [[UInt8]] = []
  package var verification: Verification = .full
  package var minimumVersion: TLSVersion = .tls12
  package var maximumVersion: TLSVersion = .tls13

  /// What is shown to a server that asks for a client certificate.
  package var clientIdentity: TLSIdentity?

  /// SHA-256 digests of SubjectPublicKeyInfo, 32 bytes each. If any are given, one certificate of the verified chain must match
  /// (with `verification == .none`, the leaf).
  package var pins: Set<[UInt8]> = []

  /// A PEM file of revocation lists. Every certificate of the chain must then be covered by a current list: fail closed.
  @ByteExact package var revocationListPath: String? = nil

  /// Where secrets are appended in NSS key-log format, for packet analysers. Whoever reads this file reads the traffic.
  @ByteExact package var keyLogPath: String? = nil

  /// OpenSSL's cipher list for TLS 1.2; nil: `TLSContext.defaultCipherList`.
  @ByteExact package var cipherList: String? = nil

  /// OpenSSL's cipher suites for TLS 1.3; nil: OpenSSL's order.
  @ByteExact package var cipherSuites: String? = nil

  /// OpenSSL's groups for key exchange; nil: `TLSContext.defaultGroups`.
  @ByteExact package var groups: String? = nil

  package init() {}
}
