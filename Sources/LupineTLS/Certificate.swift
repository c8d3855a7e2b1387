internal import CLupineOpenSSL

/// An X.509 certificate: one reference to an immutable OpenSSL object, so it may be read from any thread.
@safe
final class Certificate: Sendable {
  nonisolated(unsafe) let pointer: OpaquePointer

  init?(der: [UInt8]) {
    OpenSSLError.clear()
    let parsed = unsafe der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
      var cursor = buffer.baseAddress
      guard let parsed = unsafe d2i_X509(nil, &cursor, buffer.count) else { return nil }
      // Bytes after the certificate would be read by nobody here and by somebody elsewhere.
      guard unsafe cursor == buffer.baseAddress.map({ unsafe $0 + buffer.count }) else {
        unsafe X509_free(parsed)
        return nil
      }
      return unsafe parsed
    }
    OpenSSLError.clear()
    guard let parsed = unsafe parsed else { return nil }
    unsafe pointer = parsed
  }

  deinit {
    unsafe X509_free(pointer)
  }
}

/// What can be read from a certificate that OpenSSL owns. None of these functions keeps the pointer.
enum CertificateReader {
  static func der(_ certificate: OpaquePointer) -> [UInt8] {
    let length = unsafe i2d_X509(certificate, nil)
    guard length > 0 else { return [] }
    return unsafe [UInt8](unsafeUninitializedCapacity: Int(length)) { buffer, count in
      var cursor = buffer.baseAddress
      count = Int(unsafe i2d_X509(certificate, &cursor))
    }
  }

  static func der(of stack: OpaquePointer?) -> [[UInt8]] {
    guard let stack = unsafe stack else { return [] }
    return (0..<(unsafe lupine_certificates_count(stack))).compactMap { index in
      unsafe lupine_certificates_at(stack, index).map { unsafe der($0) }
    }
  }

  /// SHA-256 of the DER SubjectPublicKeyInfo.
  static func publicKeyDigest(_ certificate: OpaquePointer) -> [UInt8] {
    var encoded: UnsafeMutablePointer<UInt8>?
    let length = unsafe i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &encoded)
    guard length > 0, let encoded = unsafe encoded else { return [] }
    defer { unsafe CRYPTO_free(encoded, #file, #line) }
    var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_LENGTH))
    unsafe SHA256(encoded, Int(length), &digest)
    return digest
  }

  /// The DNS names and addresses of the subject alternative name extension; nothing else of the certificate names a host.
  static func names(_ certificate: OpaquePointer) -> [PresentedName] {
    guard let raw = unsafe X509_get_ext_d2i(certificate, NID_subject_alt_name, nil, nil) else { return [] }
    let names = OpaquePointer(raw)
    defer { unsafe GENERAL_NAMES_free(names) }
    return (0..<(unsafe lupine_names_count(names))).compactMap { index -> PresentedName? in
      guard let name = unsafe lupine_names_at(names, index) else { return nil }
      switch unsafe name.pointee.type {
      case GEN_DNS: return .dns(unsafe bytes(of: name.pointee.d.dNSName))
      case GEN_IPADD: return .address(unsafe bytes(of: name.pointee.d.iPAddress))
      default: return nil
      }
    }
  }

  /// What the certificate of an authority says of DNS names that it may vouch for; nil: nothing.
  static func nameConstraints(_ certificate: OpaquePointer) -> NameConstraints? {
    var criticality: Int32 = -1
    guard let raw = unsafe X509_get_ext_d2i(certificate, NID_name_constraints, &criticality, nil) else {
      // -1: there is no such extension. Else it cannot be read, or is there twice.
      return criticality == -1 ? nil : NameConstraints.excludingAll
    }
    let constraints = unsafe raw.assumingMemoryBound(to: NAME_CONSTRAINTS.self)
    defer { unsafe NAME_CONSTRAINTS_free(constraints) }
    let permitted = unsafe constraints.pointee.permittedSubtrees
    let excluded = unsafe constraints.pointee.excludedSubtrees
    let count = unsafe Int(lupine_subtrees_count(permitted)) + Int(lupine_subtrees_count(excluded))
    guard count <= NameConstraints.limit else { return NameConstraints.excludingAll }
    return unsafe NameConstraints(permitted: dnsNames(of: permitted), excluded: dnsNames(of: excluded))
  }

  private static func dnsNames(of subtrees: OpaquePointer?) -> [[UInt8]] {
    (0..<(unsafe lupine_subtrees_count(subtrees))).compactMap { index -> [UInt8]? in
      guard let subtree = unsafe lupine_subtrees_at(subtrees, index), let base = unsafe subtree.pointee.base,
        unsafe base.pointee.type == GEN_DNS
      else { return nil }
      return unsafe bytes(of: base.pointee.d.dNSName)
    }
  }

  /// Seconds since 1970 at which the certificate expires; 0 if it cannot be told.
  static func end(_ certificate: OpaquePointer) -> Int64 {
    unsafe seconds(X509_get0_notAfter(certificate))
  }

  /// Seconds since 1970 of a time in a certificate or a revocation list; 0 if it cannot be told.
  static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
    var days: Int32 = 0
    var seconds: Int32 = 0
    // Without one of the two OpenSSL would take the time that it is now.
    guard let epoch = unsafe Self.epoch, let time = unsafe time,
      unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1
    else { return 0 }
    return Int64(days) * 86_400 + Int64(seconds)
  }

  /// 1970: the difference to it is arithmetic, which asks no clock and no time zone.
  nonisolated(unsafe) private static let epoch: UnsafeMutablePointer<ASN1_TIME>? = unsafe ASN1_TIME_set(nil, 0)

  private static func bytes(of string: UnsafeMutablePointer<ASN1_STRING>?) -> [UInt8] {
    guard let start = unsafe ASN1_STRING_get0_data(string) else { return [] }
    return unsafe Array(UnsafeBufferPointer(start: start, count: Int(ASN1_STRING_length(string))))
  }
}

/// SHA-256 of the DER SubjectPublicKeyInfo of a DER certificate; nil: these bytes are no certificate.
package func publicKeyDigest(ofCertificate der: [UInt8]) -> [UInt8]? {
  OpenSSLLibrary.start()
  guard let certificate = Certificate(der: der) else { return nil }
  let digest = unsafe CertificateReader.publicKeyDigest(certificate.pointer)
  OpenSSLError.clear()
  return digest.isEmpty ? nil : digest
}
