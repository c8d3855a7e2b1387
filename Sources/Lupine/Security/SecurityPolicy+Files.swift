public import Foundation
internal import LupineSession

extension SecurityPolicy {
  /// The certificates of a file: PEM, any number of them and what else it holds left out, or one in DER.
  ///
  /// - Parameter path: of a regular file, as the system takes it: `~` is a name like any other.
  /// - Returns: DER, in the order of the file.
  /// - Throws: `SecurityPolicyError`: `.unreadable`, `.badCertificate` for a file without a certificate or with one that cannot be read.
  public static func certificates(inFile path: String) throws(SecurityPolicyError) -> [[UInt8]] {
    let bytes: [UInt8]
    do throws(SessionError) {
      // Not by way of a URL, to which `~` is somebody's home, and `..` not where a link before it leads.
      bytes = try SmallFile.read(path, limit: .max)
    } catch {
      throw SecurityPolicyError(.unreadable, message: error.message)
    }
    guard let certificates = PEMReader.certificates(in: bytes) ?? certificate(der: bytes) else {
      throw SecurityPolicyError(.badCertificate, message: "\(path) holds no certificate in PEM or DER")
    }
    for certificate in certificates where PublicKeyPin(certificate: certificate) == nil {
      throw SecurityPolicyError(.badCertificate, message: "\(path) holds a certificate that cannot be read")
    }
    return certificates
  }

  /// The certificates of the files of a directory that end in `.cer`, `.crt`, `.der` or `.pem`; directories in it are left alone.
  ///
  /// - Parameter path: as of `certificates(inFile:)`.
  /// - Throws: as `certificates(inFile:)`, also if no file ends so: a policy without pins would be the result of a misspelt path.
  public static func certificates(inDirectory path: String) throws(SecurityPolicyError) -> [[UInt8]] {
    let names: [String]
    do {
      names = try FileManager.default.contentsOfDirectory(atPath: path)
    } catch {
      throw SecurityPolicyError(.unreadable, message: "cannot read \(path): \(error.localizedDescription)")
    }
    var certificates: [[UInt8]] = []
    for name in names.sorted() where [".cer", ".crt", ".der", ".pem"].contains(where: name.lowercased().hasSuffix) {
      let file = path + "/" + name
      if !isDirectory(file) { certificates += try self.certificates(inFile: file) }
    }
    guard !certificates.isEmpty else {
      throw SecurityPolicyError(.badCertificate, message: "\(path) holds no .cer, .crt, .der or .pem file")
    }
    return certificates
  }

  /// Whether there is a directory, or a link to one.
  private static func isDirectory(_ path: String) -> Bool {
    // A link has attributes of its own; with something behind its name the system follows it.
    [path, path + "/."].contains { path in
      (try? FileManager.default.attributesOfItem(atPath: path))?[.type] as? FileAttributeType == .typeDirectory
    }
  }

  /// The certificates at the root of a bundle's resources. Source: `+certificatesInBundle:`.
  ///
  /// - Throws: as `certificates(inDirectory:)`.
  public static func certificates(in bundle: Bundle) throws(SecurityPolicyError) -> [[UInt8]] {
    try certificates(inDirectory: bundle.resourcePath ?? bundle.bundlePath)
  }

  private static func certificate(der bytes: [UInt8]) -> [[UInt8]]? {
    PublicKeyPin(certificate: bytes) == nil ? nil : [bytes]
  }
}

extension SecurityPolicy: Codable {
  private enum CodingKeys: String, CodingKey {
    case pinningMode, pinnedCertificates, publicKeyPins, backupPins, allowInvalidCertificates, validatesDomainName,
      hostPolicies
  }

  /// Reads an archive; bad settings are refused as when they are set. Nobody is reported to. Source: `NSSecureCoding`.
  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    try self.init(
      pinningMode: container.decode(PinningMode.self, forKey: .pinningMode),
      pinnedCertificates: container.decode([Data].self, forKey: .pinnedCertificates).map { [UInt8]($0) },
      publicKeyPins: container.decode([String].self, forKey: .publicKeyPins),
      backupPins: container.decode([String].self, forKey: .backupPins),
      allowInvalidCertificates: container.decode(Bool.self, forKey: .allowInvalidCertificates),
      validatesDomainName: container.decode(Bool.self, forKey: .validatesDomainName))
    for (pattern, policy) in try container.decodeIfPresent([String: SecurityPolicy].self, forKey: .hostPolicies) ?? [:]
    {
      try setPolicy(policy, forHost: pattern)
    }
  }

  /// Writes an archive, without whom to report to. Source: `NSSecureCoding`.
  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(pinningMode, forKey: .pinningMode)
    try container.encode(pinnedCertificates.map { Data($0) }, forKey: .pinnedCertificates)
    try container.encode(publicKeyPins.map(\.description).sorted(), forKey: .publicKeyPins)
    try container.encode(backupPins.map(\.description).sorted(), forKey: .backupPins)
    try container.encode(allowInvalidCertificates, forKey: .allowInvalidCertificates)
    try container.encode(validatesDomainName, forKey: .validatesDomainName)
    if !hostPolicies.isEmpty { try container.encode(hostPolicies, forKey: .hostPolicies) }
  }
}
