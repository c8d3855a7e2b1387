internal import LupineTLS

extension TLSConfiguration {
  /// The most bytes of PEM that `certificates(inPEM:)` reads: 4 MiB, ten times what systems trust.
  static let pemLimit = 4 << 20
  /// The most certificates that `certificates(inPEM:)` reads.
  static let pemCertificateLimit = 1_024

  /// The certificates of a text in PEM, for `additionalRoots`, `Roots.certificates` and pins: any number of them up to 1,024, in at most 4 MiB. What else it
  /// holds is left out, private keys and OpenSSL's `TRUSTED CERTIFICATE` too. The dates and signatures are not looked at.
  ///
  /// - Returns: DER, in the order of the text.
  /// - Throws: `SessionError` `.badRequest` with the number of the certificate, from 1, that cannot be read; also for a text without any, and beyond a limit.
  public static func certificates(inPEM text: [UInt8]) throws(SessionError) -> [[UInt8]] {
    guard text.count <= pemLimit else { throw refusal("it has more than \(pemLimit >> 20) MiB") }
    guard let certificates = PEMReader.certificates(in: text) else { throw refusal("it holds no certificate") }
    guard certificates.count <= pemCertificateLimit else {
      throw refusal("it holds more than \(pemCertificateLimit) certificates")
    }
    for (index, certificate) in certificates.enumerated() where publicKeyDigest(ofCertificate: certificate) == nil {
      throw refusal("certificate \(index + 1) of \(certificates.count) cannot be read")
    }
    return certificates
  }

  private static func refusal(_ reason: String) -> SessionError {
    SessionError(.badRequest, phase: .prepare, message: "the PEM text is no list of certificates: \(reason)")
  }
}

/// The textual encoding of certificates (RFC 7468). By bytes: comparing text takes the longer the more marks it has, with the square of their number.
package enum PEMReader {
  private static let begins = ["-----BEGIN CERTIFICATE-----", "-----BEGIN X509 CERTIFICATE-----"].map { Array($0.utf8) }
  private static let ends = ["-----END CERTIFICATE-----", "-----END X509 CERTIFICATE-----"].map { Array($0.utf8) }

  /// Nil: there is no certificate. One that is damaged is an empty array of bytes, which is no certificate either.
  package static func certificates(in text: [UInt8]) -> [[UInt8]]? {
    var found: [[UInt8]] = []
    var encoded: [UInt8]?
    // Editors put a byte order mark first.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let text = text.starts(with: mark) ? text.dropFirst(mark.count) : text[...]
    for line in text.split(whereSeparator: { $0 == UInt8(ascii: "\n") || $0 == UInt8(ascii: "\r") }) {
      let line = trimmed(line)
      if begins.contains(where: { line.elementsEqual($0) }) {
        if encoded != nil { found.append([]) }
        encoded = []
      } else if ends.contains(where: { line.elementsEqual($0) }) {
        if let lines = encoded { found.append(Base64.decode(lines) ?? []) }
        encoded = nil
      } else {
        encoded?.append(contentsOf: line)
      }
    }
    // An end that is missing.
    if encoded != nil { found.append([]) }
    return found.isEmpty ? nil : found
  }

  private static func trimmed(_ line: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let isSpace = { (byte: UInt8) in byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }
    let rest = line.drop(while: isSpace)
    guard let last = rest.lastIndex(where: { !isSpace($0) }) else { return [] }
    return rest[...last]
  }
}
