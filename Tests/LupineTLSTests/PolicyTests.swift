import Foundation
import LupineTLS
import LupineTestSupport
import LupineTesting
import Testing

@Suite("Policies and contexts")
struct PolicyTests {
  @Test("Equal policies share a context, others do not")
  func shared() throws {
    let one = try TLSContext.client(for: .trusting(Mint.shared.root, .tls12))
    #expect(try TLSContext.client(for: .trusting(Mint.shared.root, .tls12)) === one)
    let other = try TLSContext.client(for: .trusting(Mint.shared.root, .tls13))
    #expect(other !== one)
    #expect(other.identifier != one.identifier)
  }

  enum LongValue: CaseIterable { case roots, additionalRoots, chain, text }

  /// A loop looks policies up: of a hundred roots, byte by byte, that takes longer than a handshake.
  @Test("Long values are hashed by their ends and compared whole", arguments: LongValue.allCases)
  func longValues(_ value: LongValue) {
    func policy(_ bytes: [UInt8]) -> TLSPolicy {
      var policy = TLSPolicy()
      switch value {
      case .roots: policy.roots = .certificates([bytes])
      case .additionalRoots: policy.additionalRoots = [bytes]
      case .chain: policy.clientIdentity = TLSIdentity(.der(chain: [bytes], privateKey: [1]))
      case .text: policy.clientIdentity = TLSIdentity(.pem(chain: bytes, privateKey: [1]))
      }
      return policy
    }
    let bytes = [UInt8](repeating: 7, count: 1 << 19)
    let (one, same) = (policy(bytes), policy(bytes.map { $0 }))
    #expect(one == same && one.hashValue == same.hashValue)
    for place in [0, bytes.count - 1] {
      var other = bytes
      other[place] = 8
      #expect(policy(other) != one)
    }
    // The best of several: any one of them may be held up.
    let clock = ContinuousClock()
    let whole = (0..<10).map { _ in clock.measure { _ = bytes.hashValue } }.min() ?? .zero
    let ends = (0..<10).map { _ in clock.measure { _ = one.hashValue } }.min() ?? whole
    #expect(ends < whole / 10)
  }

  @Test("Roots from a file, a directory with and without hashed names, and the system")
  func roots() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    var policy = TLSPolicy()
    policy.roots = .file(files.certificatePath)
    #expect(try connect(client: policy).client.failure == nil)
    policy.roots = .directory(files.directory)
    #expect(try connect(client: policy).client.failure == nil)
    try CertificateFolder.rehash(files.directory)
    let context = try TLSContext(client: policy)
    let pair = Pair(
      client: try TLSConnection(client: context, options: TLSClientOptions(serverName: try ServerName("localhost"))),
      server: try TLSConnection(server: try serverContext()))
    pair.run()
    #expect(pair.client.failure == nil)
    policy.roots = .system
    #expect(try connect(client: policy).client.failure == .untrusted(.unknownIssuer))
  }

  /// A handshake reads no file: what a hashed directory held when the context was made is all there is.
  @Test("A hashed directory is read at once, and again once it has changed")
  func hashedDirectory() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    try CertificateFolder.rehash(files.directory)
    var policy = TLSPolicy()
    policy.roots = .directory(files.directory)
    let context = try TLSContext.client(for: policy)
    try removeAll(in: files.directory)
    let pair = Pair(
      client: try TLSConnection(client: context, options: TLSClientOptions(serverName: try ServerName("localhost"))),
      server: try TLSConnection(server: try serverContext()))
    pair.run()
    #expect(pair.client.failure == nil)
    #expect(throws: TLSError.rootsUnreadable(path: files.directory, reason: "holds no certificates")) {
      try TLSContext.client(for: policy)
    }
  }

  /// A server that names a large finite field would keep the loop busy: none is offered.
  @Test func noFiniteFields() throws {
    var policy = TLSPolicy()
    policy.maximumVersion = .tls12
    let context = try TLSContext(client: policy)
    let client = End(
      try TLSConnection(client: context, options: TLSClientOptions(serverName: try ServerName("localhost"))))
    _ = try client.connection.handshake()
    // Headers of record and message, version and random, then the session's identifier.
    let hello = client.takeOutput()
    let list = 44 + Int(hello[43])
    let length = Int(hello[list]) << 8 | Int(hello[list + 1])
    var suites: Set<Int> = []
    for place in stride(from: list + 2, to: list + 2 + length, by: 2) {
      suites.insert(Int(hello[place]) << 8 | Int(hello[place + 1]))
    }
    #expect(suites.contains(0xC02F))
    let finite: Set<Int> = [0x33, 0x39, 0x67, 0x6B, 0x9E, 0x9F, 0xCCAA, 0xC09E, 0xC09F, 0xC0A2, 0xC0A3]
    #expect(finite.isDisjoint(with: suites))
  }

  /// A root whose file has another size than that of the shared one: two writes may bear the same time.
  private static func otherRoot() throws -> CertificateAuthority {
    try CertificateAuthority(commonName: "Lupine test root with a longer name than the others")
  }

  @Test("A file in a directory that is overwritten in place is read again, others are not looked at")
  func overwrittenInDirectory() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    let notes = try files.add("No certificate.", name: "notes.txt")
    var policy = TLSPolicy()
    policy.roots = .directory(files.directory)
    let context = try TLSContext.client(for: policy)
    try overwriteFile(notes, with: "Still no certificate.")
    #expect(try TLSContext.client(for: policy) === context)
    let other = try Self.otherRoot()
    let server = try serverContext(try other.issue())
    #expect(try connect(client: policy, server: server).client.failure == .untrusted(.unknownIssuer))
    try overwriteFile(files.certificatePath, with: other.rootPEM)
    let fresh = try TLSContext.client(for: policy)
    #expect(fresh !== context)
    #expect(try Self.isKnown(fresh, for: policy) == Self.kernelTells)
    #expect(try TLSContext.client(for: policy) === fresh)
    #expect(try connect(client: policy, server: server).client.failure == nil)
  }

  @Test("So is one that a hashed name in a directory leads to")
  func overwrittenBehindALink() throws {
    let (files, target) = (try Mint.shared.root.writeRoot(), try Mint.shared.root.writeRoot())
    defer {
      files.remove()
      target.remove()
    }
    try removeAll(in: files.directory)
    try link(files.directory + "/0123abcd.0", to: target.certificatePath)
    var policy = TLSPolicy()
    policy.roots = .directory(files.directory)
    let context = try TLSContext.client(for: policy)
    #expect(try TLSContext.client(for: policy) === context)
    let other = try Self.otherRoot()
    try overwriteFile(target.certificatePath, with: other.rootPEM)
    #expect(try TLSContext.client(for: policy) !== context)
    #expect(try connect(client: policy, server: serverContext(try other.issue())).client.failure == nil)
    #expect(try connect(client: policy).client.failure == .untrusted(.unknownIssuer))
  }

  /// Whether the kernel opens files by what it remembers alone (RESOLVE_CACHED): since Linux 5.12.
  private static let kernelTells = {
    let release = (try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)) ?? ""
    let numbers = release.split { !$0.isNumber }.prefix(2).compactMap { Int($0) }
    return numbers.count == 2 && (numbers[0], numbers[1]) >= (5, 12)
  }()

  /// Whether a loop knows it. What was looked at counts for a second or two, which a busy machine may take between two lines.
  private static func isKnown(_ context: TLSContext, for policy: TLSPolicy) throws -> Bool {
    for _ in 0..<50 {
      guard try TLSContext.client(for: policy) === context else { return false }
      if TLSContext.known(for: policy) === context { return true }
    }
    return false
  }

  @Test("A loop knows a context until one of its files has changed")
  func knownUntilAFileChanges() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    let two = try withRevocationLists { try text(of: $0) }
    var policy = TLSPolicy()
    policy.roots = .file(files.certificatePath)
    #expect(TLSContext.known(for: policy) == nil)
    let context = try TLSContext.client(for: policy)
    #expect(try Self.isKnown(context, for: policy) == Self.kernelTells)
    try (text(of: files.certificatePath) + two).write(toFile: files.certificatePath, atomically: true, encoding: .utf8)
    #expect(TLSContext.known(for: policy) == nil)
    #expect(try TLSContext.client(for: policy) !== context)
    try FileManager.default.removeItem(atPath: files.certificatePath)
    #expect(TLSContext.known(for: policy) == nil)
  }

  @Test("A file that is written in place, as long as before and with its former time, is another one")
  func aFormerTimeHidesNothing() throws {
    let files = try Mint.shared.root.writeRoot()
    defer { files.remove() }
    let path = files.certificatePath
    let roots = try text(of: path)
    try overwriteFile(path, with: roots + "# one\n")
    var before = stat()
    try #require(unsafe stat(path, &before) == 0)
    var policy = TLSPolicy()
    policy.roots = .file(path)
    let context = try TLSContext.client(for: policy)
    var after = before
    let times = [before.st_atim, before.st_mtim]
    // The system's own time of changes goes on in steps of milliseconds.
    while after.st_ctim.tv_sec == before.st_ctim.tv_sec, after.st_ctim.tv_nsec == before.st_ctim.tv_nsec {
      try overwriteFile(path, with: roots + "# two\n")
      try #require(unsafe utimensat(AT_FDCWD, path, times, 0) == 0)
      try #require(unsafe stat(path, &after) == 0)
    }
    #expect(after.st_ino == before.st_ino && after.st_size == before.st_size)
    #expect(after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec)
    #expect(try TLSContext.client(for: policy) !== context)
  }

  @Test("Roots that cannot be read are told when the context is made")
  func unreadableRoots() throws {
    var policy = TLSPolicy()
    policy.roots = .file("/nonexistent/roots.pem")
    #expect(throws: TLSError.rootsUnreadable(path: "/nonexistent/roots.pem", reason: "No such file or directory")) {
      try TLSContext(client: policy)
    }
    policy.roots = .directory("/nonexistent")
    #expect(throws: TLSError.rootsUnreadable(path: "/nonexistent", reason: "not a readable directory")) {
      try TLSContext(client: policy)
    }
    let empty = try Mint.shared.root.writeRoot()
    defer { empty.remove() }
    let keys = try Mint.shared.leaf.write()
    defer { keys.remove() }
    try replaceFile(empty.certificatePath, with: keys.privateKeyPath)
    try replaceFile(empty.chainPath, with: keys.privateKeyPath)
    policy.roots = .directory(empty.directory)
    #expect(throws: TLSError.rootsUnreadable(path: empty.directory, reason: "holds no certificates")) {
      try TLSContext(client: policy)
    }
    policy.roots = .certificates([[1, 2, 3]])
    #expect(throws: TLSError.invalidPolicy(setting: "roots[0]")) { try TLSContext(client: policy) }
    policy.roots = .certificates([])
    policy.additionalRoots = [Mint.shared.root.rootDER, [1, 2, 3]]
    #expect(throws: TLSError.invalidPolicy(setting: "additionalRoots[1]")) { try TLSContext(client: policy) }
    // Nor where nothing is verified, and the system's roots are not even read.
    policy.roots = .system
    policy.verification = .none
    #expect(throws: TLSError.invalidPolicy(setting: "additionalRoots[1]")) { try TLSContext(client: policy) }
    policy = .trusting()
    policy.revocationListPath = "/nonexistent/lists.pem"
    #expect {
      try TLSContext(client: policy)
    } throws: { error in
      if case TLSError.revocationListUnreadable = error { true } else { false }
    }
  }

  static let invalidSettings: [(String, @Sendable (inout TLSPolicy) -> Void)] = [
    ("cipherList", { $0.cipherList = "nonsense" }),
    ("cipherSuites", { $0.cipherSuites = "nonsense" }),
    ("groups", { $0.groups = "nonsense" }),
    ("pins", { $0.pins = [[1, 2, 3]] }),
    (
      "minimumVersion, maximumVersion",
      {
        $0.minimumVersion = .tls13
        $0.maximumVersion = .tls12
      }
    ),
  ]

  @Test("Settings that mean nothing are refused", arguments: invalidSettings)
  func invalid(setting: String, change: @Sendable (inout TLSPolicy) -> Void) {
    var policy = TLSPolicy.trusting()
    change(&policy)
    #expect(throws: TLSError.invalidPolicy(setting: setting)) { try TLSContext(client: policy) }
  }

  @Test("The key log has lines of NSS's format and mode 0600", arguments: TLSVersion.allCases)
  func keyLog(version: TLSVersion) throws {
    try withTemporaryPath("keys.log") { path in
      var policy = TLSPolicy.trusting(Mint.shared.root, version)
      policy.keyLogPath = path
      let first = try connect(client: policy)
      #expect(first.client.failure == nil)
      let lines = try text(of: path).split(separator: "\n")
      let labels = Set(lines.compactMap { $0.split(separator: " ").first.map(String.init) })
      let expected: Set<String> =
        version == .tls12
        ? ["CLIENT_RANDOM"]
        : [
          "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "EXPORTER_SECRET",
          "SERVER_TRAFFIC_SECRET_0", "CLIENT_TRAFFIC_SECRET_0",
        ]
      #expect(labels == expected)
      #expect(lines.allSatisfy { $0.split(separator: " ").count == 3 })
      #expect(try permissions(of: path) == 0o600)
      _ = try connect(client: policy)
      #expect(try text(of: path).split(separator: "\n").count == 2 * lines.count)
    }
  }

  @Test("A key log is never written through a link")
  func keyLogLink() throws {
    try withTemporaryPath("keys.log") { path in
      try link(path, to: path + ".target")
      var policy = TLSPolicy.trusting()
      policy.keyLogPath = path
      // ELOOP.
      #expect(throws: TLSError.keyLogUnwritable(path: path, code: 40)) { try TLSContext(client: policy) }
    }
  }
}
