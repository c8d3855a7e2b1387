internal import CLupineOpenSSL

/// The hash functions that HTTP authentication needs.
package enum MessageDigestKind: Hashable, Sendable {
  case md5
  case sha256
  /// SHA-512/256 of FIPS 180-4, which has initial values of its own.
  case sha512Truncated
}

/// A hash computed in steps.
@safe
package struct MessageDigest: ~Copyable {
  private let context: OpaquePointer
  private var isFailed = false

  /// - Returns: nil if OpenSSL does not offer the function, as in FIPS mode MD5.
  package init?(_ kind: MessageDigestKind) {
    lupine_initialise()
    guard let context = unsafe EVP_MD_CTX_new() else { return nil }
    let function =
      switch kind {
      case .md5: unsafe EVP_md5()
      case .sha256: unsafe EVP_sha256()
      case .sha512Truncated: unsafe EVP_sha512_256()
      }
    guard unsafe EVP_DigestInit_ex(context, function, nil) == 1 else {
      ERR_clear_error()
      unsafe EVP_MD_CTX_free(context)
      return nil
    }
    unsafe self.context = context
  }

  deinit {
    unsafe EVP_MD_CTX_free(context)
  }

  /// Adds bytes.
  package mutating func add(_ bytes: Span<UInt8>) {
    let status = unsafe bytes.withUnsafeBufferPointer { unsafe EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
    if status != 1 { isFailed = true }
  }

  /// The hash of what was added; nil if OpenSSL failed.
  package consuming func finish() -> [UInt8]? {
    guard !isFailed else { return nil }
    var result = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    guard unsafe EVP_DigestFinal_ex(context, &result, &count) == 1 else {
      ERR_clear_error()
      return nil
    }
    return Array(result.prefix(Int(count)))
  }

  /// The hash of some bytes; nil if OpenSSL does not offer the function.
  package static func hash(_ kind: MessageDigestKind, _ bytes: [UInt8]) -> [UInt8]? {
    guard var digest = MessageDigest(kind) else { return nil }
    digest.add(bytes.span)
    return digest.finish()
  }
}

/// Unpredictable bytes.
package enum SecureRandom {
  /// - Returns: nil if OpenSSL's generator has no entropy.
  package static func bytes(_ count: Int) -> [UInt8]? {
    lupine_initialise()
    var result = [UInt8](repeating: 0, count: count)
    guard unsafe RAND_bytes(&result, Int32(clamping: count)) == 1 else {
      ERR_clear_error()
      return nil
    }
    return result
  }
}
