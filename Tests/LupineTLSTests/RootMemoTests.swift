import LupineTesting
import Testing

@testable import LupineTLS

/// Of lists of certificates alone: the stores of files are their policies'.
@Suite("Stores of roots that are kept for whoever asks next")
struct RootMemoTests {
  private static let list = [Mint.shared.root.rootDER, Mint.shared.otherRoot.rootDER]

  init() { OpenSSLLibrary.start() }

  /// Whether who asks twice gets one store. Other tests' lists may push it out in between, but not every time.
  private func expect(
    isShared expected: Bool, _ ask: () throws -> RootStore, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    var isShared = false
    for _ in 0..<100 {
      let (first, second) = (try ask(), try ask())
      isShared = isShared || first === second
    }
    #expect(isShared == expected, sourceLocation: sourceLocation)
  }

  @Test("A list is parsed once, also where it was put together anew")
  func shared() throws {
    try expect(isShared: true) { try RootStore.make(.certificates(Self.list)) }
    try expect(isShared: true) { try RootStore.make(.certificates(Self.list.map { bytes in bytes.map { $0 } })) }
  }

  @Test("What else is asked for has a store of its own")
  func apart() throws {
    let one = Array(Self.list.prefix(1))
    try expect(isShared: false) { try RootStore.make(.certificates(one)) }
    try expect(isShared: false) { try RootStore.make(.certificates([])) }
    try expect(isShared: false) { try RootStore.make(.certificates(Self.list), additional: one) }
    try withRevocationLists { path in
      try expect(isShared: false) { try RootStore.make(.certificates(Self.list), revocationListPath: path) }
    }
    let known = try RootStore.make(.certificates(Self.list))
    let other = try RootStore.make(.certificates([Mint.shared.root.rootDER, Mint.shared.middle.certificateDER]))
    #expect(known !== other)
    #expect(throws: TLSError.invalidPolicy(setting: "roots[1]")) {
      try RootStore.make(.certificates([Mint.shared.root.rootDER, [1, 2, 3]]))
    }
  }

  @Test("The list that nobody has asked for the longest goes first")
  func bounded() throws {
    var memo = RootMemo()
    let lists = (0...UInt8(RootMemo.limit)).map { [[$0], [$0]] }
    let stores = try lists.map { _ in try RootStore.make(.certificates([])) }
    for index in 0..<RootMemo.limit {
      let former = memo.keep(stores[index], of: lists[index])
      #expect(former == nil)
    }
    let first = memo.store(of: lists[0])
    #expect(first === stores[0])
    let former = memo.keep(stores[RootMemo.limit], of: lists[RootMemo.limit])
    #expect(former?.store === stores[1])
    for (index, list) in lists.enumerated() {
      let found = memo.store(of: list)
      let expected: RootStore? = index == 1 ? nil : stores[index]
      #expect(found === expected)
    }
    // Another thread was first.
    let second = memo.keep(stores[1], of: lists[0])
    let kept = memo.store(of: lists[0])
    #expect(second == nil && kept === stores[0])
  }

  @Test("What was verified leaves nothing in the store")
  func leavesNothing() throws {
    let anchors = TLSPolicy.Roots.certificates(Self.list)
    let (leaf, stranger) = (Mint.shared.leaf, try CertificateAuthority.selfSigned())
    var policy = TLSPolicy()
    policy.roots = anchors
    for _ in 0..<3 {
      let report = try verify(chain: leaf.chainDER, anchors: anchors, host: ServerName("localhost"))
      #expect(report.verdict == nil)
      #expect(try connect(client: policy).client.failure == nil)
      // Neither the intermediate of another chain, nor a host, nor a time, nor a leaf.
      #expect(try verify(chain: [leaf.certificateDER], anchors: anchors, host: nil).path == .unknownIssuer)
      #expect(try verify(chain: leaf.chainDER, anchors: anchors, host: ServerName("a.test")).host != nil)
      #expect(try verify(chain: leaf.chainDER, anchors: anchors, host: nil, now: 4_102_444_800).time == .expired)
      #expect(try verify(chain: stranger.chainDER, anchors: anchors, host: nil).path == .selfSigned)
    }
  }
}
