internal import CLupineOpenSSL

extension TLSContext {
  /// Makes `identity` the one that is shown. A chain and a key that do not belong together are refused.
  func install(_ identity: TLSIdentity) throws(TLSError) {
    OpenSSLError.clear()
    let passphrase = PassphraseBox(identity.passphrase)
    unsafe SSL_CTX_set_default_passwd_cb(pointer, Callbacks.passphrase)
    unsafe SSL_CTX_set_default_passwd_cb_userdata(pointer, Unmanaged.passUnretained(passphrase).toOpaque())
    defer {
      // The callback stays: without one OpenSSL would ask on the terminal.
      unsafe SSL_CTX_set_default_passwd_cb_userdata(pointer, nil)
      withExtendedLifetime(passphrase) {}
    }
    switch identity.source {
    case .files(let chain, let privateKey):
      try check(unsafe SSL_CTX_use_certificate_chain_file(pointer, chain), chain)
      try check(unsafe SSL_CTX_use_PrivateKey_file(pointer, privateKey, SSL_FILETYPE_PEM), privateKey)
    case .pem(let chain, let privateKey):
      try installChain(pem: chain)
      try installKey(pem: privateKey, passphrase: passphrase)
    case .der(let chain, let privateKey):
      try installChain(der: chain)
      try installKey(der: privateKey)
    }
    try check(unsafe SSL_CTX_check_private_key(pointer), "private key")
    OpenSSLError.clear()
  }

  private func check(_ result: Int32, _ what: String) throws(TLSError) {
    guard result == 1 else { throw .identityUnreadable(reason: "\(what): \(OpenSSLError.drain())") }
  }

  private func installChain(pem: [UInt8]) throws(TLSError) {
    guard let bio = unsafe BIO_new_mem_buf(pem, Int32(clamping: pem.count)) else {
      throw .internalFailure("BIO_new_mem_buf")
    }
    defer {
      unsafe BIO_free(bio)
      // It reads from there.
      withExtendedLifetime(pem) {}
    }
    var isLeaf = true
    while let certificate = unsafe PEM_read_bio_X509(bio, nil, Callbacks.passphrase, nil) {
      defer { unsafe X509_free(certificate) }
      try unsafe add(certificate, isLeaf: isLeaf)
      isLeaf = false
    }
    // The end of the text is an error to OpenSSL. Any other one is a certificate that is left out, and a chain that servers refuse without saying why.
    let code = ERR_peek_last_error()
    guard !isLeaf, lupine_err_library(code) == ERR_LIB_PEM, lupine_err_reason(code) == PEM_R_NO_START_LINE else {
      throw .identityUnreadable(reason: "certificate chain: \(OpenSSLError.drain())")
    }
    OpenSSLError.clear()
  }

  private func installChain(der: [[UInt8]]) throws(TLSError) {
    guard !der.isEmpty else { throw .identityUnreadable(reason: "certificate chain: empty") }
    for (index, bytes) in der.enumerated() {
      guard let certificate = Certificate(der: bytes) else {
        throw .identityUnreadable(reason: "certificate chain: certificate \(index) is malformed")
      }
      try unsafe add(certificate.pointer, isLeaf: index == 0)
    }
  }

  private func add(_ certificate: OpaquePointer, isLeaf: Bool) throws(TLSError) {
    if isLeaf {
      try check(unsafe SSL_CTX_use_certificate(pointer, certificate), "certificate")
    } else {
      try check(Int32(unsafe lupine_ctx_add_chain_cert(pointer, certificate)), "certificate chain")
    }
  }

  private func installKey(pem: [UInt8], passphrase: PassphraseBox) throws(TLSError) {
    guard let bio = unsafe BIO_new_mem_buf(pem, Int32(clamping: pem.count)) else {
      throw .internalFailure("BIO_new_mem_buf")
    }
    defer {
      unsafe BIO_free(bio)
      // It reads from there.
      withExtendedLifetime(pem) {}
    }
    let box = unsafe Unmanaged.passUnretained(passphrase).toOpaque()
    guard let key = unsafe PEM_read_bio_PrivateKey(bio, nil, Callbacks.passphrase, box) else {
      throw .identityUnreadable(reason: "private key: \(OpenSSLError.drain())")
    }
    defer { unsafe EVP_PKEY_free(key) }
    try check(unsafe SSL_CTX_use_PrivateKey(pointer, key), "private key")
  }

  private func installKey(der: [UInt8]) throws(TLSError) {
    let parsed = unsafe der.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_AutoPrivateKey(nil, &cursor, buffer.count)
    }
    guard let key = unsafe parsed else {
      throw .identityUnreadable(reason: "private key: \(OpenSSLError.drain())")
    }
    defer { unsafe EVP_PKEY_free(key) }
    try check(unsafe SSL_CTX_use_PrivateKey(pointer, key), "private key")
  }
}

/// Carries a passphrase through OpenSSL's callback, for the duration of one call.
final class PassphraseBox {
  let bytes: [UInt8]?

  init(_ passphrase: String?) {
    bytes = passphrase.map { Array($0.utf8) }
  }
}
