internal import CLupineOpenSSL

/// An OpenSSL object that is freed with its owner.
@safe
private struct Handle: ~Copyable {
  let pointer: OpaquePointer
  private let free: @convention(c) (OpaquePointer?) -> Void

  init(
    _ pointer: OpaquePointer?, _ operation: String, free: @convention(c) (OpaquePointer?) -> Void
  ) throws(MintError) {
    guard let pointer = unsafe pointer else { throw Mint.failure(operation) }
    unsafe self.pointer = pointer
    unsafe self.free = free
  }

  deinit {
    unsafe free(pointer)
  }
}

/// Certificates through OpenSSL's X509 API: the only file of this module's mint that touches C.
enum Mint {
  static func issue(_ order: CertificateOrder, signer: MintedCertificate?) throws(MintError) -> MintedCertificate {
    lupine_initialise()
    ERR_clear_error()
    let key = try makeKey(order.key)
    let certificate = try unsafe Handle(X509_new(), "X509_new", free: X509_free)
    let pointer = unsafe certificate.pointer
    try check(unsafe X509_set_version(pointer, 2), "set version")
    try unsafe setSerial(of: pointer)
    try unsafe setName(order.commonName, on: X509_get_subject_name(pointer))
    try unsafe setValidity(
      order.validity, notBefore: X509_getm_notBefore(pointer), notAfter: X509_getm_notAfter(pointer))
    try check(unsafe X509_set_pubkey(pointer, key.pointer), "set public key")
    if let signer {
      let issuer = try readCertificate(signer.certificateDER)
      let signingKey = try readKey(signer.privateKeyDER)
      try check(unsafe X509_set_issuer_name(pointer, X509_get_subject_name(issuer.pointer)), "set issuer")
      try unsafe addExtensions(order, to: pointer, issuer: unsafe issuer.pointer)
      guard unsafe X509_sign(pointer, signingKey.pointer, digest(signingKey)) > 0 else {
        throw failure("sign certificate")
      }
    } else {
      try check(unsafe X509_set_issuer_name(pointer, X509_get_subject_name(pointer)), "set issuer")
      try unsafe addExtensions(order, to: pointer, issuer: pointer)
      guard unsafe X509_sign(pointer, key.pointer, digest(key)) > 0 else { throw failure("sign certificate") }
    }
    return unsafe MintedCertificate(
      certificateDER: try encode("encode certificate") { unsafe i2d_X509(pointer, $0) },
      privateKeyDER: try encodeKey(key), intermediatesDER: [])
  }

  static func revocationList(
    signer: MintedCertificate, revoking certificates: [[UInt8]], validity: MintedValidity
  ) throws(MintError) -> [UInt8] {
    lupine_initialise()
    ERR_clear_error()
    let issuer = try readCertificate(signer.certificateDER)
    let key = try readKey(signer.privateKeyDER)
    let list = try unsafe Handle(X509_CRL_new(), "X509_CRL_new", free: X509_CRL_free)
    try check(unsafe X509_CRL_set_version(list.pointer, 1), "set CRL version")
    try check(unsafe X509_CRL_set_issuer_name(list.pointer, X509_get_subject_name(issuer.pointer)), "set CRL issuer")
    let thisUpdate = unsafe ASN1_TIME_new()
    let nextUpdate = unsafe ASN1_TIME_new()
    defer {
      unsafe ASN1_TIME_free(thisUpdate)
      unsafe ASN1_TIME_free(nextUpdate)
    }
    try unsafe setValidity(validity, notBefore: thisUpdate, notAfter: nextUpdate)
    try check(unsafe X509_CRL_set1_lastUpdate(list.pointer, thisUpdate), "set thisUpdate")
    try check(unsafe X509_CRL_set1_nextUpdate(list.pointer, nextUpdate), "set nextUpdate")
    for der in certificates {
      let certificate = try readCertificate(der)
      guard let entry = unsafe X509_REVOKED_new() else { throw failure("X509_REVOKED_new") }
      try check(
        unsafe X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate.pointer)), "set revoked serial")
      try check(unsafe X509_REVOKED_set_revocationDate(entry, thisUpdate), "set revocation date")
      try check(unsafe X509_CRL_add0_revoked(list.pointer, entry), "add revoked")
    }
    try check(unsafe X509_CRL_sort(list.pointer), "sort CRL")
    guard unsafe X509_CRL_sign(list.pointer, key.pointer, digest(key)) > 0 else { throw failure("sign CRL") }
    let pointer = unsafe list.pointer
    return try unsafe encode("encode CRL") { unsafe i2d_X509_CRL(pointer, $0) }
  }

  static func publicKeySHA256(ofCertificate der: [UInt8]) throws(MintError) -> [UInt8] {
    lupine_initialise()
    ERR_clear_error()
    let certificate = try readCertificate(der)
    let key = unsafe X509_get_X509_PUBKEY(certificate.pointer)
    let spki = try unsafe encode("encode public key") { unsafe i2d_X509_PUBKEY(key, $0) }
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    unsafe SHA256(spki, spki.count, &digest)
    return digest
  }

  static func failure(_ operation: String) -> MintError {
    let code = ERR_get_error()
    ERR_clear_error()
    guard code != 0, let text = unsafe ERR_reason_error_string(code) else {
      return MintError(operation: operation, reason: "OpenSSL gave no reason")
    }
    return MintError(operation: operation, reason: unsafe String(cString: text))
  }

  private static func check(_ result: Int32, _ operation: String) throws(MintError) {
    guard result == 1 else { throw failure(operation) }
  }

  /// The hash that a signature of this key is made over: none of our choosing for Ed25519 (RFC 8410, 3).
  private static func digest(_ key: borrowing Handle) -> OpaquePointer? {
    unsafe EVP_PKEY_get_id(key.pointer) == EVP_PKEY_ED25519 ? nil : EVP_sha256()
  }

  private static func makeKey(_ kind: MintedKeyKind) throws(MintError) -> Handle {
    switch kind {
    case .p256: try unsafe Handle(unsafe lupine_key_ec("P-256"), "make EC key", free: EVP_PKEY_free)
    case .rsa2048: try unsafe Handle(unsafe lupine_key_rsa(2048), "make RSA key", free: EVP_PKEY_free)
    case .ed25519: try unsafe Handle(unsafe lupine_key_ed25519(), "make Ed25519 key", free: EVP_PKEY_free)
    case .rsa1024: try unsafe Handle(unsafe lupine_key_rsa(1024), "make RSA key", free: EVP_PKEY_free)
    }
  }

  private static func readCertificate(_ der: [UInt8]) throws(MintError) -> Handle {
    let pointer = unsafe der.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_X509(nil, &cursor, buffer.count)
    }
    return try unsafe Handle(unsafe pointer, "read certificate", free: X509_free)
  }

  private static func readKey(_ der: [UInt8]) throws(MintError) -> Handle {
    let pointer = unsafe der.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      return unsafe d2i_AutoPrivateKey(nil, &cursor, buffer.count)
    }
    return try unsafe Handle(unsafe pointer, "read private key", free: EVP_PKEY_free)
  }

  private static func encodeKey(_ key: borrowing Handle) throws(MintError) -> [UInt8] {
    let info = try unsafe Handle(unsafe EVP_PKEY2PKCS8(key.pointer), "EVP_PKEY2PKCS8", free: PKCS8_PRIV_KEY_INFO_free)
    let pointer = unsafe info.pointer
    return try unsafe encode("encode private key") { unsafe i2d_PKCS8_PRIV_KEY_INFO(pointer, $0) }
  }

  /// Calls an `i2d` function twice: for the length, then for the bytes.
  private static func encode(
    _ operation: String, _ body: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?) -> Int32
  ) throws(MintError) -> [UInt8] {
    let length = body(nil)
    guard length > 0 else { throw failure(operation) }
    return unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
      var cursor = buffer.baseAddress
      count = Int(unsafe body(&cursor))
    }
  }

  /// A random positive serial number of 127 bits at most (RFC 5280, 4.1.2.2).
  private static func setSerial(of certificate: OpaquePointer) throws(MintError) {
    var generator = SystemRandomNumberGenerator()
    let value = generator.next() >> 1 | 1
    try check(unsafe ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), value), "set serial")
  }

  private static func setName(_ commonName: String, on name: OpaquePointer?) throws(MintError) {
    let bytes = Array(commonName.utf8)
    try check(
      unsafe X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8, bytes, Int32(bytes.count), -1, 0),
      "set common name")
  }

  private static func setValidity(
    _ validity: MintedValidity, notBefore: UnsafeMutablePointer<ASN1_TIME>?, notAfter: UnsafeMutablePointer<ASN1_TIME>?
  ) throws(MintError) {
    guard unsafe X509_gmtime_adj(notBefore, validity.notBefore) != nil,
      unsafe X509_gmtime_adj(notAfter, validity.notAfter) != nil
    else { throw failure("set validity") }
  }

  private static func addExtensions(
    _ order: CertificateOrder, to certificate: OpaquePointer, issuer: OpaquePointer
  ) throws(MintError) {
    var extensions: [(Int32, String)] = []
    if order.isAuthority {
      let limit = order.pathLength.map { ",pathlen:\($0)" } ?? ""
      extensions.append((NID_basic_constraints, "critical,CA:TRUE" + limit))
      extensions.append((NID_key_usage, "critical,keyCertSign,cRLSign"))
    } else {
      extensions.append((NID_basic_constraints, "critical,CA:FALSE"))
      extensions.append((NID_key_usage, "critical,digitalSignature,keyEncipherment"))
    }
    extensions.append((NID_subject_key_identifier, "hash"))
    if unsafe issuer != certificate, !order.omitsAuthorityKeyIdentifier {
      extensions.append((NID_authority_key_identifier, "keyid"))
    }
    if let usage = order.usage.configuration { extensions.append((NID_ext_key_usage, usage)) }
    let names = order.dnsNames.map { "DNS:" + $0 } + order.ipAddresses.map { "IP:" + $0 }
    if !names.isEmpty { extensions.append((NID_subject_alt_name, names.joined(separator: ","))) }
    let constraints =
      order.permittedDNSNames.map { "permitted;DNS:" + $0 } + order.excludedDNSNames.map { "excluded;DNS:" + $0 }
    if !constraints.isEmpty {
      extensions.append((NID_name_constraints, "critical," + constraints.joined(separator: ",")))
    }
    for (identifier, value) in extensions {
      var context = unsafe X509V3_CTX()
      unsafe lupine_x509v3_context(&context, issuer, certificate, nil)
      let made = unsafe X509V3_EXT_conf_nid(nil, &context, identifier, value)
      let handle = try unsafe Handle(unsafe made, "make extension \(value)", free: unsafe X509_EXTENSION_free)
      try check(unsafe X509_add_ext(certificate, handle.pointer, -1), "add extension \(value)")
    }
  }
}
