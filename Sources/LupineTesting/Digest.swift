internal import CLupineOpenSSL

/// A running SHA-256.
@safe
final class Digest {
  private let context: OpaquePointer

  init() throws(LoopbackError) {
    guard let context = unsafe EVP_MD_CTX_new() else { throw .tls("EVP_MD_CTX_new") }
    unsafe self.context = context
    unsafe EVP_DigestInit_ex(context, EVP_sha256(), nil)
  }

  deinit { unsafe EVP_MD_CTX_free(context) }

  func add(_ bytes: ArraySlice<UInt8>) {
    unsafe bytes.withUnsafeBytes { _ = unsafe EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
  }

  /// The digest in lower-case hexadecimal. Call once.
  func finish() -> String {
    var value = [UInt8](repeating: 0, count: 32)
    unsafe EVP_DigestFinal_ex(context, &value, nil)
    let digits = Array("0123456789abcdef".utf8)
    return String(decoding: value.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
