internal import CLupineOpenSSL

/// A chain and its private key, read and checked: what a connection can show without touching a file. Making one reads files and
/// parses; do it away from a loop.
package final class TLSPreparedIdentity: Sendable {
  /// Holds the objects; no connection is made from it.
  let holder: TLSContext

  /// - Throws: `.identityUnreadable`, also where chain and key do not belong together.
  package init(_ identity: TLSIdentity) throws(TLSError) {
    var policy = TLSPolicy()
    policy.verification = .none
    policy.clientIdentity = identity
    holder = try TLSContext(client: policy)
  }
}

/// What is shown to a server that asks for a certificate.
package enum TLSIdentityChoice: Sendable {
  /// The policy's identity, if it has one.
  case policy
  /// Nothing, even if the policy has an identity.
  case none
  case identity(TLSPreparedIdentity)
}

extension TLSConnection {
  /// Authorities told to an identity question at most.
  package static let authorityLimit = 256

  /// DER names of the authorities that the server says it accepts, in its order, at most `authorityLimit`; empty: it said nothing.
  package var acceptableAuthorities: [[UInt8]] {
    let list = unsafe SSL_get0_peer_CA_list(ssl)
    let count = min(Int(unsafe lupine_distinguished_names_count(list)), Self.authorityLimit)
    return (0..<max(0, count)).map { index in
      guard let name = unsafe lupine_distinguished_names_at(list, Int32(index)) else { return [] }
      let length = unsafe i2d_X509_NAME(name, nil)
      guard length > 0 else { return [] }
      return unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, written in
        var cursor = buffer.baseAddress
        written = Int(unsafe i2d_X509_NAME(name, &cursor))
      }
    }
  }

  /// Ends a pending choice; then call `handshake()` or `receive` to go on.
  ///
  /// - Throws: `.notNow` unless the choice is pending, or the reason of an earlier failure.
  package func resolveIdentity(_ choice: TLSIdentityChoice) throws(TLSError) {
    if case .failed(let error) = state { throw error }
    guard state == .identityPending, identityChoice == nil else { throw .notNow }
    identityChoice = choice
  }

  /// Called by OpenSSL within the handshake. Returns 1 to go on, 0 to fail, -1 to wait.
  func chooseIdentity() -> Int32 {
    switch identityChoice {
    case nil: return -1
    case .policy: return 1
    case .some(.none):
      unsafe SSL_certs_clear(ssl)
      return 1
    case .identity(let identity):
      // The policy's has a place of its own if its key is of another kind, and would be shown where the server prefers that.
      unsafe SSL_certs_clear(ssl)
      let holder = unsafe identity.holder.pointer
      var chain: OpaquePointer?
      unsafe lupine_ctx_chain_certs(holder, &chain)
      return unsafe SSL_use_cert_and_key(
        ssl, SSL_CTX_get0_certificate(holder), SSL_CTX_get0_privatekey(holder), chain, 1)
    }
  }
}
