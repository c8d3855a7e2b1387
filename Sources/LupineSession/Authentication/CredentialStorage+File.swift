internal import FoundationEssentials
internal import LupineRules

extension CredentialStorage {
  /// Bytes of a file that is read.
  static let sizeLimit = 1 << 20

  /// Writes the permanent credentials to a file that only its owner may read (mode 0600), in the place of whatever is there: another reader sees
  /// the old file or the new one. Passwords and tokens are in it as they are. Blocks while the disk works.
  ///
  /// - Throws: `SessionError` with `.fileFailed`: the file cannot be written, or would have more than the 1 MiB that `load` reads; what was there stays.
  public func save(to path: String) throws(SessionError) {
    try SmallFile.replace(path, with: json(), limit: Self.sizeLimit)
  }

  /// Adds the credentials of a file that `save` wrote. Blocks while the disk works.
  ///
  /// - Throws: `SessionError` with `.fileFailed`: the file cannot be read, has more than 1 MiB, or is not JSON of a known version. No message
  ///   repeats anything of it.
  public func load(from path: String) throws(SessionError) {
    try load(json: SmallFile.read(path, limit: Self.sizeLimit))
  }

  /// The contents of such a file: all of them, or none if there is a mistake.
  package func load(json: [UInt8]) throws(SessionError) {
    for (space, credential) in try JSONCredentials.read(Data(json)) { set(credential, for: space) }
  }

  /// What `save` writes.
  package func json() throws(SessionError) -> [UInt8] { Array(try JSONCredentials.write(all)) }
}

/// Credentials as JSON: `{"version": 1, "credentials": [{"origin", "proxy", "realm", "method", "user", "password", "token", "schemes"}]}`. Realm and
/// method are missing if the credential is for all of them; so are the schemes, of `basic` and `digest`, if it may answer both.
enum JSONCredentials {
  static let version = 1

  private struct File: Codable {
    var version: Int
    var credentials: [Entry]?
  }

  private struct Entry: Codable {
    var origin: String
    var proxy: Bool?
    var realm: String?
    var method: String?
    var user: String?
    var password: String?
    var token: String?
    var schemes: [String]?
  }

  private static let schemeNames: [(name: String, scheme: Credential.Schemes)] = [
    ("basic", .basic), ("digest", .digest),
  ]

  static func write(_ entries: [CredentialStorage.Entry]) throws(SessionError) -> Data {
    var list: [Entry] = []
    // The same contents make the same file, and each default stays before the others of its space.
    for entry in entries.sorted(by: { isBefore($0.space, $1.space) }) {
      for credential in entry.credentials where credential.persistence == .permanent {
        list.append(
          Entry(
            origin: entry.space.origin.serializedWithZone, proxy: entry.space.isProxy ? true : nil,
            realm: entry.space.realm,
            method: entry.space.method?.rawValue, user: credential.user, password: credential.password,
            token: credential.token, schemes: names(credential.schemes)))
      }
    }
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    do {
      return try encoder.encode(File(version: version, credentials: list))
    } catch {
      throw failure("the credentials cannot be written as JSON")
    }
  }

  private static func isBefore(_ first: ProtectionSpace, _ second: ProtectionSpace) -> Bool {
    // A missing one is not the empty one.
    func key(_ space: ProtectionSpace) -> [String] {
      let optional = [space.realm, space.method?.rawValue].map { $0.map { "=\($0)" } ?? "" }
      return [space.origin.serializedWithZone, space.isProxy ? "proxy" : ""] + optional
    }
    // By bytes, which tell realms apart.
    return key(first).lexicographicallyPrecedes(key(second)) { $0.utf8.lexicographicallyPrecedes($1.utf8) }
  }

  static func read(_ data: Data) throws(SessionError) -> [(ProtectionSpace, Credential)] {
    let file: File
    do {
      file = try JSONDecoder().decode(File.self, from: data)
    } catch {
      // The decoder's own words could hold a password.
      throw failure("this is no JSON object with a version and credentials")
    }
    guard file.version == version else {
      throw failure("credentials of version \(file.version); known is \(version)")
    }
    var result: [(ProtectionSpace, Credential)] = []
    for (index, entry) in (file.credentials ?? []).enumerated() {
      guard
        let space = try? ProtectionSpace(
          entry.origin, realm: entry.realm, method: entry.method.map { AuthenticationMethod(rawValue: $0) },
          isProxy: entry.proxy ?? false)
      else { throw failure("credential \(index + 1) has no origin such as https://example.org") }
      var credential: Credential
      if let user = entry.user, let password = entry.password, entry.token == nil {
        credential = .password(user: user, password: password, persistence: .permanent)
      } else if let token = entry.token, entry.user == nil, entry.password == nil {
        credential = .bearer(token, persistence: .permanent)
      } else {
        throw failure("credential \(index + 1) has neither user and password nor a token")
      }
      // A name that is not known may be a restriction: without it a password could go out as it is.
      guard let schemes = Self.schemes(entry.schemes) else {
        throw failure("credential \(index + 1) has schemes other than basic and digest")
      }
      credential.schemes = schemes
      result.append((space, credential))
    }
    return result
  }

  /// nil stands for all.
  private static func names(_ schemes: Credential.Schemes) -> [String]? {
    schemes.isSuperset(of: .all) ? nil : schemeNames.filter { schemes.contains($0.scheme) }.map(\.name)
  }

  /// - Returns: nil if a name is not known.
  private static func schemes(_ names: [String]?) -> Credential.Schemes? {
    guard let names else { return .all }
    var result: Credential.Schemes = []
    for name in names {
      guard let known = schemeNames.first(where: { $0.name == name }) else { return nil }
      result.insert(known.scheme)
    }
    return result
  }

  private static func failure(_ message: String) -> SessionError {
    SessionError(.fileFailed, phase: .file, message: message)
  }
}
