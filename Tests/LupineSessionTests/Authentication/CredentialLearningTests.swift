import Testing

@testable import LupineSession

/// What servers make a storage keep has its limits; what the program stores has none.
@Suite struct CredentialLearningTests {
  private static let accepted = Credential.password(user: "a", password: "b")

  private func space(_ realm: String, _ host: String = "a.example") throws -> ProtectionSpace {
    try ProtectionSpace("https://\(host)/", realm: realm, method: .basic)
  }

  /// Counted in bytes, which are two for each of these letters.
  @Test func longRealmsAreNotLearned() throws {
    let storage = CredentialStorage()
    let long = try space(String(repeating: "ü", count: 513))
    storage.learn(Self.accepted, for: long)
    #expect(storage.protectionSpaces.isEmpty)
    storage.learn(Self.accepted, for: try space(String(repeating: "ü", count: 512)))
    #expect(storage.protectionSpaces.count == 1)
    storage.set(Self.accepted, for: long)
    #expect(storage.defaultCredential(for: long) == Self.accepted)
    #expect(storage.protectionSpaces.count == 2)
  }

  @Test func anOriginMayTeachSome() throws {
    let storage = CredentialStorage()
    for realm in 0..<40 { storage.learn(Self.accepted, for: try space("\(realm)")) }
    #expect(storage.protectionSpaces.count == 32)
    // What is known may change.
    storage.learn(.password(user: "a", password: "new"), for: try space("0"))
    #expect(storage.defaultCredential(for: try space("0"))?.password == "new")
    #expect(storage.protectionSpaces.count == 32)
    storage.learn(Self.accepted, for: try space("0", "b.example"))
    #expect(storage.protectionSpaces.count == 33)
    storage.set(Self.accepted, for: try space("40"))
    #expect(storage.protectionSpaces.count == 34)
  }

  @Test func allTogetherMayTeachSome() throws {
    let storage = CredentialStorage()
    for host in 0..<33 {
      for realm in 0..<32 { storage.learn(Self.accepted, for: try space("\(realm)", "h\(host).example")) }
    }
    #expect(storage.protectionSpaces.count == 1024)
    storage.learn(.password(user: "a", password: "new"), for: try space("0", "h0.example"))
    #expect(storage.defaultCredential(for: try space("0", "h0.example"))?.password == "new")
    storage.set(Self.accepted, for: try space("0", "h33.example"))
    #expect(storage.protectionSpaces.count == 1025)
  }
}
