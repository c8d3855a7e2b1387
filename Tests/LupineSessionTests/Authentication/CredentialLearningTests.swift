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

  // MARK: What requests name

  private func named(_ password: String, _ user: String = "a") -> Credential {
    .password(user: user, password: password, persistence: .permanent)
  }

  private func passwords(_ storage: CredentialStorage, _ realm: String) throws -> [String] {
    storage.candidates(for: try space(realm)).compactMap(\.password)
  }

  @Test func whatIsAcceptedTakesThePlaceOfWhatWasThere() throws {
    let storage = CredentialStorage(followingServers: true)
    storage.accepted(named("1"), for: try space("r"))
    storage.accepted(named("2", "b"), for: try space("r"))
    storage.accepted(named("3"), for: try space("s"))
    storage.accepted(named("4"), for: try space("s", "b.example"))
    #expect(try passwords(storage, "r") == ["2"])
    #expect(try passwords(storage, "s") == ["3"])
    storage.accepted(named("5"), for: try space("t").ofEveryRealm)
    // Behind what is for one realm.
    for (realm, known) in [("r", ["2", "5"]), ("s", ["3", "5"]), ("any", ["5"])] {
      #expect(try passwords(storage, realm) == known, "\(realm)")
    }
    #expect(storage.defaultCredential(for: try space("s", "b.example"))?.password == "4")
    storage.accepted(named("6"), for: try space("r"))
    #expect(try passwords(storage, "r") == ["6", "5"])
    storage.accepted(.password(user: "c", password: "7", persistence: .none), for: try space("r"))
    #expect(try passwords(storage, "r") == ["6", "5"])
  }

  /// What finds no room leaves what is there, and what gives way makes room.
  @Test func nothingIsLostForWantOfRoom() throws {
    let storage = CredentialStorage(followingServers: true)
    for realm in 0..<32 { storage.set(named("1"), for: try space("\(realm)")) }
    storage.accepted(named("2"), for: try space("new"))
    #expect(try storage.protectionSpaces.count == 32 && passwords(storage, "new") == [])
    storage.accepted(named("2"), for: try space("7"))
    #expect(try storage.protectionSpaces.count == 32 && passwords(storage, "7") == ["2"])
    for realm in 32..<40 { storage.set(named("1"), for: try space("\(realm)")) }
    storage.accepted(named("3"), for: try space("8"))
    #expect(try storage.protectionSpaces.count == 40 && passwords(storage, "8") == ["3"])
    storage.accepted(named("4"), for: try space("any").ofEveryRealm)
    #expect(try storage.protectionSpaces.count == 40 && passwords(storage, "8") == ["3"])
  }

  @Test func whatIsRefusedGoesFromItsSpaceAlone() throws {
    let storage = CredentialStorage(followingServers: true)
    storage.set(named("1"), for: try space("r"))
    storage.set(named("2", "b"), for: try space("r"))
    storage.set(named("1"), for: try space("r").ofEveryRealm)
    storage.set(named("1"), for: try space("s"))
    storage.set(named("1"), for: try space("r", "b.example"))
    storage.refused(named("1").secret, for: try space("r"))
    #expect(try passwords(storage, "r") == ["2"])
    #expect(try passwords(storage, "s") == ["1"])
    #expect(storage.defaultCredential(for: try space("r", "b.example")) != nil)
    #expect(storage.protectionSpaces.count == 3)
  }

  /// A storage that does not follow servers is the program's own.
  @Test func otherStoragesStayAsTheyAre() throws {
    let storage = CredentialStorage()
    storage.accepted(named("1"), for: try space("r"))
    #expect(storage.protectionSpaces.isEmpty)
    storage.set(named("1"), for: try space("r"))
    storage.refused(named("1").secret, for: try space("r"))
    #expect(try passwords(storage, "r") == ["1"])
  }
}
