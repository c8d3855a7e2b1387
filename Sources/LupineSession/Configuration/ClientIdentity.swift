internal import LupineTLS

extension TLSConfiguration {
  /// What is shown to a server that asks for a client certificate: PEM files, which may be the same, or PEM text. Compared by value. Its
  /// descriptions never show the passphrase, nor anything of the text.
  public struct ClientIdentity: Hashable, Sendable, CustomStringConvertible, CustomReflectable {
    let source: TLSIdentity.Source
    /// For an encrypted key. Default nil: an encrypted key is unreadable then; nobody is ever prompted.
    public var passphrase: String?

    /// Names the files. They are read for the first connection, and again for a later one once they have changed; what cannot be read fails it
    /// with `SessionError` `.secureConnectionFailed`.
    ///
    /// - Parameters:
    ///   - certificatePath: the certificate and its chain, the client's own first.
    ///   - privateKeyPath: the private key.
    public init(certificatePath: String, privateKeyPath: String, passphrase: String? = nil) {
      source = .files(chain: certificatePath, privateKey: privateKeyPath)
      self.passphrase = passphrase
    }

    /// Takes the text itself, for identities that lie in no file: they come from a vault, or from the environment. What cannot be read fails the
    /// connection with `SessionError` `.secureConnectionFailed`.
    ///
    /// - Parameters:
    ///   - certificatePEM: the certificate and its chain, the client's own first.
    ///   - privateKeyPEM: the private key: PKCS #8, SEC 1 or PKCS #1.
    public init(certificatePEM: [UInt8], privateKeyPEM: [UInt8], passphrase: String? = nil) {
      source = .pem(chain: certificatePEM, privateKey: privateKeyPEM)
      self.passphrase = passphrase
    }

    /// The file of the certificate and its chain; nil: it was given as text.
    public var certificatePath: String? { if case .files(let path, _) = source { path } else { nil } }
    /// The file of the private key; nil: it was given as text.
    public var privateKeyPath: String? { if case .files(_, let path) = source { path } else { nil } }

    /// The paths.
    public var description: String {
      if case .files(let certificate, let key) = source {
        "ClientIdentity(\(certificate), \(key))"
      } else {
        "ClientIdentity(PEM)"
      }
    }
    /// The paths.
    public var customMirror: Mirror {
      guard case .files(let certificate, let key) = source else { return Mirror(self, children: [:]) }
      return Mirror(self, children: ["certificatePath": certificate, "privateKeyPath": key])
    }

    /// What tells identities apart in what is kept on a disk: of text a digest of the certificate, which is no secret, and belongs to one key.
    var fingerprint: String {
      guard case .pem(let certificate, _) = source else { return description }
      return "\(MessageDigest.hash(.sha256, certificate) ?? certificate)"
    }
  }
}

extension TLSIdentity {
  init(_ identity: TLSConfiguration.ClientIdentity) {
    self.init(identity.source, passphrase: identity.passphrase)
  }
}
