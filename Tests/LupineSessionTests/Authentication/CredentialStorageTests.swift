import FoundationEssentials
import Glibc
import LupineSession
import LupineTesting
import Testing

@Suite struct CredentialStorageTests {
  private static func user(_ name: String, _ persistence: Credential.Persistence = .permanent) -> Credential {
    .password(user: name, password: "p-\(name)", persistence: persistence)
  }

  @Test func findsTheClosest() throws {
    let storage = CredentialStorage()
    func space(_ realm: String?, _ method: AuthenticationMethod?) throws -> ProtectionSpace {
      try ProtectionSpace("https://a.example/", realm: realm, method: method)
    }
    storage.set(Self.user("any"), for: try space(nil, nil))
    #expect(storage.defaultCredential(for: try space("r", .basic))?.user == "any")
    storage.set(Self.user("method"), for: try space(nil, .basic))
    #expect(storage.defaultCredential(for: try space("r", .basic))?.user == "method")
    #expect(storage.defaultCredential(for: try space("r", .digest))?.user == "any")
    storage.set(Self.user("realm"), for: try space("r", nil))
    storage.set(Self.user("exact"), for: try space("r", .basic))
    #expect(storage.defaultCredential(for: try space("r", .basic))?.user == "exact")
    #expect(storage.defaultCredential(for: try space("r", .digest))?.user == "realm")
    #expect(storage.defaultCredential(for: try space("s", .digest))?.user == "any")
    #expect(Set(storage.credentials(for: try space("r", .basic)).keys) == ["exact", "realm", "method", "any"])
    storage.remove(Self.user("exact"), for: try space("r", .basic))
    #expect(storage.defaultCredential(for: try space("r", .basic))?.user == "realm")
    #expect(storage.protectionSpaces.count == 3)
    storage.removeAll()
    #expect(storage.protectionSpaces.isEmpty)
  }

  @Test func theFirstIsTheDefault() throws {
    let storage = CredentialStorage()
    let space = try ProtectionSpace("http://a/")
    storage.set(Self.user("a"), for: space)
    storage.set(Self.user("b"), for: space)
    storage.set(Self.user("c", .none), for: space)
    #expect(storage.defaultCredential(for: space)?.user == "a")
    storage.setDefault(Self.user("b"), for: space)
    #expect(storage.defaultCredential(for: space)?.user == "b")
    #expect(storage.credentials(for: space).count == 2)
    storage.set(.password(user: "b", password: "new"), for: space)
    #expect(storage.defaultCredential(for: space)?.password == "new")
  }

  /// By their bytes, which are what is sent.
  @Test func usersWithTwoSpellingsOfALetterAreTwo() throws {
    let storage = CredentialStorage()
    let space = try ProtectionSpace("http://a/")
    let (one, other) = (Self.user("\u{E9}"), Self.user("e\u{301}"))
    storage.set(one, for: space)
    storage.set(other, for: space)
    #expect(storage.defaultCredential(for: space) == one)
    storage.setDefault(other, for: space)
    #expect(storage.defaultCredential(for: space) == other)
    storage.remove(other, for: space)
    #expect(storage.defaultCredential(for: space) == one)
  }

  /// A realm is what a server says, byte by byte: the credential of another one is not its own.
  @Test func realmsWithTwoSpellingsOfALetterAreTwo() throws {
    let storage = CredentialStorage()
    let one = try ProtectionSpace("http://a/", realm: "\u{E9}")
    let other = try ProtectionSpace("http://a/", realm: "e\u{301}")
    #expect(one != other)
    storage.set(Self.user("one"), for: one)
    #expect(storage.defaultCredential(for: other) == nil)
    storage.set(Self.user("other"), for: other)
    #expect(storage.defaultCredential(for: one)?.user == "one")
    #expect(storage.protectionSpaces.count == 2)
    // In one order, whatever that of the dictionary is.
    let json = try storage.json()
    let again = CredentialStorage()
    try again.load(json: json)
    #expect(again.defaultCredential(for: other)?.user == "other")
    #expect(try again.json() == json)
  }

  @Test func keepsThePermanentOnesInAFile() throws {
    let folder = try ScratchDirectory()
    let path = folder.path + "/credentials.json"
    let storage = CredentialStorage()
    let server = try ProtectionSpace("https://[::1]:8443/", realm: "ein \"Gerät\"", method: .digest)
    let proxy = try ProtectionSpace("http://bücher.example/", isProxy: true)
    let neighbour = try ProtectionSpace("http://[fe80::1%25eth0]:81/")
    storage.set(Self.user("neighbour"), for: neighbour)
    storage.set(Self.user("Jäsøn:x"), for: server)
    storage.set(Self.user("second"), for: server)
    storage.set(Self.user("session", .forSession), for: server)
    storage.set(.bearer("token", persistence: .permanent), for: proxy)
    try storage.save(to: path)
    var status = stat()
    try #require(unsafe stat(path, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    #expect(folder.names == ["credentials.json"])
    let again = CredentialStorage()
    try again.load(from: path)
    #expect(again.protectionSpaces.count == 3)
    #expect(again.defaultCredential(for: neighbour) == Self.user("neighbour"))
    #expect(try again.defaultCredential(for: ProtectionSpace("http://[fe80::1]:81/")) == nil)
    #expect(again.defaultCredential(for: server) == Self.user("Jäsøn:x"))
    #expect(again.credentials(for: server).count == 2)
    #expect(again.defaultCredential(for: proxy)?.token == "token")
    try again.save(to: path + "2")
    #expect(TextFile.read(path) == TextFile.read(path + "2"))
  }

  /// A password for Digest alone is not sent as it is because a program was started again.
  @Test func keepsTheSchemesOfAPassword() throws {
    let folder = try ScratchDirectory()
    let path = folder.path + "/credentials.json"
    let storage = CredentialStorage()
    let space = try ProtectionSpace("http://a.example/")
    let every: [Credential.Schemes] = [.all, .basic, .digest, []]
    for (number, schemes) in every.enumerated() {
      var credential = Self.user("\(number)")
      credential.schemes = schemes
      storage.set(credential, for: space)
    }
    try storage.save(to: path)
    let again = CredentialStorage()
    try again.load(from: path)
    #expect(again.credentials(for: space) == storage.credentials(for: space))
    #expect(again.credentials(for: space)["2"]?.schemes == .digest)
    try again.save(to: path + "2")
    #expect(TextFile.read(path) == TextFile.read(path + "2"))
  }

  @Test func aFileWithoutSchemesMeansAll() throws {
    let folder = try ScratchDirectory()
    let text = #"{"version":1,"credentials":[{"origin":"http://a/","user":"u","password":"p"}]}"#
    let storage = CredentialStorage()
    try storage.load(from: try folder.write(Array(text.utf8), to: "file"))
    #expect(try storage.defaultCredential(for: ProtectionSpace("http://a/"))?.schemes == .all)
  }

  @Test(arguments: [
    "", "[]", "{}", #"{"version":2}"#, #"{"version":1,"credentials":[{"origin":"secret"}]}"#,
    #"{"version":1,"credentials":[{"origin":"http://a/","user":"secret"}]}"#,
    #"{"version":1,"credentials":[{"origin":"http://a/","token":"secret","user":"secret","password":"secret"}]}"#,
    #"{"version":1,"credentials":[{"origin":"file:///secret","token":"secret"}]}"#,
    #"{"version":1,"credentials":[{"origin":["secret"]}]}"#,
    #"{"version":1,"credentials":[{"origin":"http://a/","user":"u","password":"p","schemes":["digest","secret"]}]}"#,
    #"{"version":1,"credentials":[{"origin":"http://a/","user":"u","password":"p","schemes":"digest"}]}"#,
  ]) func refusesOtherFiles(_ text: String) throws {
    let folder = try ScratchDirectory()
    let path = try folder.write(Array(text.utf8), to: "file")
    let storage = CredentialStorage()
    let error = #expect(throws: SessionError.self) { try storage.load(from: path) }
    #expect(error?.code == .fileFailed)
    #expect(error.map { !"\($0)".contains("secret") } ?? false)
    #expect(storage.protectionSpaces.isEmpty)
  }

  @Test func refusesWhatIsTooLarge() throws {
    let folder = try ScratchDirectory()
    let path = try folder.write([UInt8](repeating: 32, count: (1 << 20) + 1), to: "file")
    #expect(throws: SessionError.self) { try CredentialStorage().load(from: path) }
    #expect(throws: SessionError.self) { try CredentialStorage().load(from: folder.path + "/missing") }
  }

  /// What could not be read again is not written, and what was there stays.
  @Test func savesNothingThatIsTooLarge() throws {
    let folder = try ScratchDirectory()
    let path = folder.path + "/credentials.json"
    let storage = CredentialStorage()
    let space = try ProtectionSpace("https://a.example/")
    storage.set(Self.user("a"), for: space)
    try storage.save(to: path)
    let former = TextFile.read(path)
    let long = String(repeating: "x", count: 1 << 20)
    storage.set(.password(user: "b", password: long, persistence: .permanent), for: space)
    let error = #expect(throws: SessionError.self) { try storage.save(to: path) }
    #expect(error?.code == .fileFailed)
    let isSame = TextFile.read(path) == former
    #expect(isSame && folder.names == ["credentials.json"])
    let again = CredentialStorage()
    try again.load(from: path)
    #expect(again.defaultCredential(for: space) == Self.user("a"))
  }
}
