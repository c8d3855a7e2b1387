internal import CLupineOpenSSL

/// A running hash.
@safe
final class Digest {
  private let context: OpaquePointer

  private let length: Int

  enum Function {
    case md5
    case sha256
    case sha512Truncated
  }

  init(_ kind: Function = .sha256) throws(LoopbackError) {
    lupine_initialise()
    let function =
      switch kind {
      case .md5: unsafe EVP_md5()
      case .sha256: unsafe EVP_sha256()
      case .sha512Truncated: unsafe EVP_sha512_256()
      }
    guard let context = unsafe EVP_MD_CTX_new() else { throw .tls("EVP_MD_CTX_new") }
    unsafe self.context = context
    length = unsafe Int(EVP_MD_get_size(function))
    guard unsafe EVP_DigestInit_ex(context, function, nil) == 1 else { throw .tls("EVP_DigestInit_ex") }
  }

  deinit { unsafe EVP_MD_CTX_free(context) }

  func add(_ bytes: ArraySlice<UInt8>) {
    unsafe bytes.withUnsafeBytes { _ = unsafe EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
  }

  /// The digest in lower-case hexadecimal. Call once.
  func finish() -> String {
    var value = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    unsafe EVP_DigestFinal_ex(context, &value, nil)
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: value.prefix(length).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
