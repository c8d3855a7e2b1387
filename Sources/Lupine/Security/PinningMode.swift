internal import Foundation
internal import LupineSession

/// What of a server's chain has to be among the pins. The numbers are those of archives.
///
/// Source: `AFSSLPinningMode`.
public enum PinningMode: Int, Sendable, Hashable, Codable, CaseIterable {
  /// Nothing: the trusted roots decide. Source: `AFSSLPinningModeNone`.
  case none = 0
  /// The public key of one certificate: it may be renewed as long as its key stays. Source: `AFSSLPinningModePublicKey`.
  case publicKey = 1
  /// One certificate, byte by byte, and the pins are the only anchors. Source: `AFSSLPinningModeCertificate`.
  case certificate = 2
}

/// A public key to pin: the SHA-256 digest of a DER SubjectPublicKeyInfo (RFC 7469 section 2.4).
public struct PublicKeyPin: Sendable, Hashable, Codable, CustomStringConvertible {
  /// 32 bytes.
  public let sha256: [UInt8]

  /// Makes a pin of a digest of 32 bytes; nil: it has another length.
  public init?(sha256: [UInt8]) {
    guard sha256.count == 32 else { return nil }
    self.sha256 = sha256
  }

  /// Reads `sha256/` and 44 characters of Base64; `sha256//`, as curl writes it, is the same.
  ///
  /// - Throws: `SecurityPolicyError` with `.badPin`.
  public init(_ text: String) throws(SecurityPolicyError) {
    let prefix = ["sha256//", "sha256/"].first(where: text.hasPrefix)
    let encoded = prefix.map { String(text.dropFirst($0.count)) }
    // A digest may itself begin with a slash: what is left decides.
    let candidates = [encoded, text.hasPrefix("sha256/") ? String(text.dropFirst("sha256/".count)) : nil]
    for candidate in candidates {
      guard let candidate, let data = Data(base64Encoded: candidate), data.base64EncodedString() == candidate,
        let pin = PublicKeyPin(sha256: [UInt8](data))
      else { continue }
      self = pin
      return
    }
    throw SecurityPolicyError(
      .badPin, message: "a pin is \"sha256/\" and the Base64 of 32 bytes, 44 characters; this is \"\(text)\"")
  }

  /// The pin of a DER certificate's key; nil: these bytes are no certificate.
  public init?(certificate: [UInt8]) {
    guard let digest = ServerTrust.publicKeyHash(ofCertificate: certificate) else { return nil }
    self.init(sha256: digest)
  }

  /// `sha256/` and Base64.
  public var description: String { "sha256/" + Data(sha256).base64EncodedString() }

  /// Reads the text form.
  public init(from decoder: any Decoder) throws {
    try self.init(String(from: decoder))
  }

  /// Writes the text form.
  public func encode(to encoder: any Encoder) throws {
    try description.encode(to: encoder)
  }
}
