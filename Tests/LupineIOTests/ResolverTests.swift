import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

private typealias Answer = Result<[SocketAddress], ResolveError>

/// A lookup that waits until it is told what to answer.
private final class Service: Sendable {
  let entered = Signal()
  private let leave = Signal()
  private let state = Locked<(answer: Answer, names: [String])>((.failure(.notFound), []))

  var names: [String] { state.withLock { $0.names } }

  func lookUp(_ name: String) -> Answer {
    state.withLock { $0.names.append(name) }
    entered.raise()
    guard leave.wait() else { return .failure(.timedOut) }
    return state.withLock { $0.answer }
  }

  func answer(_ answer: Answer, times: Int = 1) {
    state.withLock { $0.answer = answer }
    for _ in 0..<times { leave.raise() }
  }
}

/// Collects answers.
private final class Answers: Sendable {
  private let list = Locked<[Answer]>([])
  private let arrived = Signal()

  var all: [Answer] { list.withLock { $0 } }

  @Sendable func add(_ answer: Answer) {
    list.withLock { $0.append(answer) }
    arrived.raise()
  }

  func wait() -> Bool { arrived.wait() }
}

private let address = SocketAddress.v4(IPv4Address(192, 0, 2, 1), port: 0)

@Suite struct ResolverTests {
  @Test func literalsAndLocalhostNeedNoLookup() throws {
    let resolver = try SystemResolver(lookUp: { _ in
      Issue.record("asked")
      return .failure(.notFound)
    })
    let answers = Answers()
    for host in ["192.0.2.1", "[2001:db8::1]", "localhost", "LOCALHOST.", "a.localhost"] {
      _ = resolver.resolve(host: host, port: 8, completion: answers.add)
    }
    let loopback: Answer = .success([.v6(.loopback, port: 8), .v4(.loopback, port: 8)])
    #expect(
      answers.all == [
        .success([address.withPort(8)]),
        .success([.v6(IPv6Address(high: 0x2001_0DB8_0000_0000, low: 1), port: 8)]), loopback, loopback, loopback,
      ])
    #expect(resolver.threadCount == 0)
  }

  @Test(arguments: [
    "", ".", "a..", "a\0b", String(repeating: "a", count: 254), "127.1", "2130706433", "0x7f.1", "0x7f000001",
    "1.2.3.4.5",
    "a.256", "a.0x", "256.256.256.256", "a:b", "fe80::1%nosuchinterface",
  ])
  func whatIsNoNameIsRefused(_ host: String) {
    #expect(HostLiteral.answer(host: host, port: 1) == .failure(.invalidName))
  }

  @Test func oneLookupServesAllWhoAskMeanwhileAndLaterOnesTheCache() throws {
    let service = Service()
    let clock = Locked(Instant(nanoseconds: 0))
    let resolver = try SystemResolver(now: { clock.withLock { $0 } }, lookUp: service.lookUp)
    let answers = Answers()
    _ = resolver.resolve(host: "A.example", port: 1, completion: answers.add)
    try #require(service.entered.wait())
    for port in 2...5 { _ = resolver.resolve(host: "a.EXAMPLE", port: UInt16(port), completion: answers.add) }
    #expect(resolver.immediateAnswer(host: "a.example", port: 1) == nil)
    service.answer(.success([address]))
    for _ in 0..<5 { try #require(answers.wait()) }
    #expect(Set(answers.all.compactMap { try? $0.get().first?.port }) == [1, 2, 3, 4, 5])
    // 30 seconds, and not a nanosecond more.
    clock.withLock { $0 = Instant(nanoseconds: 29_999_999_999) }
    #expect(resolver.immediateAnswer(host: "a.example", port: 9) == .success([address.withPort(9)]))
    clock.withLock { $0 = Instant(nanoseconds: 30_000_000_000) }
    #expect(resolver.immediateAnswer(host: "a.example", port: 9) == nil)
    #expect(service.names == ["a.example"])
    #expect(resolver.counters.lookups == 1)
    #expect(resolver.counters.joined == 4)
    #expect(resolver.counters.cached == 1)
    resolver.stop()
  }

  /// What is too old for one who asks is not for another.
  @Test func whoWantsRecentAnswersHasNamesLookedUpAnew() throws {
    let service = Service()
    let clock = Locked(Instant(nanoseconds: 0))
    let resolver = try SystemResolver(now: { clock.withLock { $0 } }, lookUp: service.lookUp)
    let recent = resolver.limited(toAge: 5_000_000_000)
    let never = resolver.limited(toAge: 0)
    let answers = Answers()
    func look(by resolver: any HostResolver) throws {
      _ = resolver.resolve(host: "a.example", port: 1, completion: answers.add)
      try #require(service.entered.wait())
      service.answer(.success([address]))
      try #require(answers.wait())
    }
    try look(by: resolver)
    #expect(recent.immediateAnswer(host: "a.example", port: 9) == .success([address.withPort(9)]))
    #expect(never.immediateAnswer(host: "a.example", port: 9) == nil)
    clock.withLock { $0 = Instant(nanoseconds: 4_999_999_999) }
    #expect(recent.immediateAnswer(host: "a.example", port: 9) != nil)
    clock.withLock { $0 = Instant(nanoseconds: 5_000_000_000) }
    #expect(recent.immediateAnswer(host: "a.example", port: 9) == nil)
    #expect(resolver.immediateAnswer(host: "a.example", port: 9) != nil)
    try look(by: recent)
    #expect(recent.immediateAnswer(host: "a.example", port: 9) != nil)
    try look(by: never)
    #expect(resolver.counters.lookups == 3)
    // Names that need no lookup have no age.
    #expect(never.immediateAnswer(host: "localhost", port: 1) != nil)
    recent.flush()
    #expect(resolver.immediateAnswer(host: "a.example", port: 9) == nil)
    resolver.stop()
  }

  /// A name service tries the domains of its search list for a name without the dot, and may find another host.
  /// RFC 8305 section 4: where one family does not work, the other is near.
  @Test func aLongListKeepsBothFamilies() throws {
    let six = (1...30).map { SocketAddress.v6(IPv6Address(high: 0x2001_0DB8_0000_0000, low: $0), port: 80) }
    let four = (1...2).map { SocketAddress.v4(IPv4Address(192, 0, 2, $0), port: 80) }
    let resolver = try SystemResolver(lookUp: { _ in .success((six + four).map { $0.withPort(0) }) })
    let answers = Answers()
    _ = resolver.resolve(host: "many.example", port: 80, completion: answers.add)
    #expect(answers.wait())
    #expect(answers.all == [.success([six[0], four[0], six[1], four[1]] + six[2..<14])])
    resolver.stop()
  }

  @Test func whyThereIsNoThreadIsTold() throws {
    let threads = try WorkerThreads(name: "lupine-none", maximum: 1) { (_, _) throws(IOError) in
      throw IOError(.threadCreate, code: EAGAIN)
    }
    #expect(throws: IOError.other(.threadCreate, code: EAGAIN)) { try threads.submit {} }
    threads.stop()
    #expect(throws: IOError.stopped) { try threads.submit {} }
  }

  @Test func theFinalDotOfANameIsPartOfIt() throws {
    let service = Service()
    let resolver = try SystemResolver(lookUp: service.lookUp)
    let answers = Answers()
    for host in ["a.example.", "A.example"] {
      _ = resolver.resolve(host: host, port: 1, completion: answers.add)
      try #require(service.entered.wait())
      service.answer(.success([address]))
      try #require(answers.wait())
    }
    #expect(service.names == ["a.example.", "a.example"])
    #expect(HostLiteral.answer(host: "LOCALHOST.", port: 1) == HostLiteral.answer(host: "localhost", port: 1))
    resolver.stop()
  }

  @Test func thatThereIsNoHostIsRememberedBrieflyAndTroubleNotAtAll() throws {
    let service = Service()
    let clock = Locked(Instant(nanoseconds: 0))
    let resolver = try SystemResolver(now: { clock.withLock { $0 } }, lookUp: service.lookUp)
    let answers = Answers()
    for (name, error) in [("none.example", ResolveError.notFound), ("down.example", .temporary)] {
      service.answer(.failure(error))
      _ = resolver.resolve(host: name, port: 1, completion: answers.add)
      try #require(answers.wait())
    }
    #expect(answers.all == [.failure(.notFound), .failure(.temporary)])
    clock.withLock { $0 = Instant(nanoseconds: 1_999_999_999) }
    #expect(resolver.immediateAnswer(host: "none.example", port: 1) == .failure(.notFound))
    #expect(resolver.immediateAnswer(host: "down.example", port: 1) == nil)
    clock.withLock { $0 = Instant(nanoseconds: 2_000_000_000) }
    #expect(resolver.immediateAnswer(host: "none.example", port: 1) == nil)
    resolver.stop()
  }

  @Test func anAbandonedLookupIsCountedAndNotAwaited() throws {
    let service = Service()
    let resolver = try SystemResolver(lookUp: service.lookUp)
    let answers = Answers()
    let first = resolver.resolve(host: "slow.example", port: 1, completion: answers.add)
    let second = resolver.resolve(host: "slow.example", port: 1, completion: answers.add)
    try #require(service.entered.wait())
    first.cancel()
    first.cancel()
    #expect(resolver.counters.abandoned == 0)
    second.cancel()
    #expect(resolver.counters.abandoned == 1)
    // Others are not kept waiting.
    _ = resolver.resolve(host: "other.example", port: 1, completion: answers.add)
    try #require(service.entered.wait())
    service.answer(.success([address]), times: 2)
    try #require(answers.wait())
    #expect(answers.all == [.success([address.withPort(1)])])
    resolver.stop()
  }

  @Test func whatWasAskedBeforeAFlushIsNoAnswerForLater() throws {
    let (entered, leave) = (Signal(), Signal())
    let asked = Locked(0)
    let newer = SocketAddress.v4(IPv4Address(192, 0, 2, 2), port: 0)
    let resolver = try SystemResolver(lookUp: { _ in
      let count = asked.withLock { count in
        count += 1
        return count
      }
      guard count == 1 else { return .success([newer]) }
      entered.raise()
      return leave.wait() ? .success([address]) : .failure(.timedOut)
    })
    let (before, after) = (Answers(), Answers())
    _ = resolver.resolve(host: "a.example", port: 1, completion: before.add)
    try #require(entered.wait())
    resolver.flush()
    let token = resolver.resolve(host: "a.example", port: 1, completion: after.add)
    try #require(after.wait())
    #expect(after.all == [.success([newer.withPort(1)])])
    // Of the one that has ended.
    token.cancel()
    leave.raise()
    try #require(before.wait())
    #expect(before.all == [.success([address.withPort(1)])])
    #expect(resolver.immediateAnswer(host: "a.example", port: 1) == .success([newer.withPort(1)]))
    #expect(resolver.counters.lookups == 2 && resolver.counters.joined == 0 && resolver.counters.abandoned == 0)
    resolver.stop()
  }

  @Test func stoppingDoesNotWaitForALookup() throws {
    let service = Service()
    let resolver = try SystemResolver(lookUp: service.lookUp)
    let answers = Answers()
    _ = resolver.resolve(host: "slow.example", port: 1, completion: answers.add)
    try #require(service.entered.wait())
    resolver.stop()
    #expect(answers.all == [.failure(.stopped)])
    #expect(resolver.counters.abandoned == 1)
    _ = resolver.resolve(host: "late.example", port: 1, completion: answers.add)
    #expect(answers.all == [.failure(.stopped), .failure(.stopped)])
    service.answer(.success([address]))
  }

  /// What is asked behind the answers, and before the threads are stopped, comes to no thread.
  @Test func whoAsksWhileItIsStoppedIsTold() throws {
    let service = Service()
    var configuration = SystemResolver.Configuration()
    configuration.maximumThreads = 1
    let resolver = try SystemResolver(configuration, lookUp: service.lookUp)
    let (first, second) = (Answers(), Answers())
    _ = resolver.resolve(host: "a.example", port: 1) { answer in
      first.add(answer)
      _ = resolver.resolve(host: "b.example", port: 1, completion: second.add)
    }
    try #require(service.entered.wait())
    resolver.stop()
    #expect(first.all == [.failure(.stopped)])
    #expect(second.all == [.failure(.stopped)])
    #expect(resolver.counters.abandoned == 1)
    service.answer(.success([address]))
  }

  @Test func threadsAndQueueAreBounded() throws {
    let service = Service()
    var configuration = SystemResolver.Configuration()
    configuration.maximumThreads = 2
    configuration.maximumWaiting = 3
    let resolver = try SystemResolver(configuration, lookUp: service.lookUp)
    let answers = Answers()
    for number in 0..<2 {
      _ = resolver.resolve(host: "h\(number).example", port: 1, completion: answers.add)
      try #require(service.entered.wait())
    }
    for number in 2..<5 { _ = resolver.resolve(host: "h\(number).example", port: 1, completion: answers.add) }
    #expect(resolver.threadCount == 2)
    #expect(answers.all.isEmpty)
    let refused = resolver.resolve(host: "h5.example", port: 1, completion: answers.add)
    #expect(answers.all == [.failure(.overloaded)])
    refused.cancel()
    // A question that is taken back before its turn is never asked.
    service.answer(.success([address]), times: 5)
    for _ in 0..<6 { try #require(answers.wait()) }
    #expect(service.names.count == 5)
    #expect(resolver.counters.refused == 1)
    resolver.stop()
    #expect(resolver.threadCount == 0)
  }

  @Test func aQuestionTakenBackBeforeItsTurnIsNeverAsked() throws {
    let service = Service()
    var configuration = SystemResolver.Configuration()
    configuration.maximumThreads = 1
    let resolver = try SystemResolver(configuration, lookUp: service.lookUp)
    let answers = Answers()
    _ = resolver.resolve(host: "a.example", port: 1, completion: answers.add)
    try #require(service.entered.wait())
    resolver.resolve(host: "b.example", port: 1, completion: answers.add).cancel()
    _ = resolver.resolve(host: "c.example", port: 1, completion: answers.add)
    service.answer(.success([address]), times: 2)
    for _ in 0..<2 { try #require(answers.wait()) }
    #expect(service.names == ["a.example", "c.example"])
    #expect(resolver.counters.abandoned == 0)
    resolver.stop()
  }

  @Test func idleThreadsEnd() throws {
    var configuration = SystemResolver.Configuration()
    configuration.idleMilliseconds = 0
    let resolver = try SystemResolver(configuration, lookUp: { _ in .failure(.temporary) })
    for round in 0..<200 {
      let answers = Answers()
      _ = resolver.resolve(host: "h\(round).example", port: 1, completion: answers.add)
      try #require(answers.wait())
    }
    while resolver.threadCount > 0 { sched_yield() }
    resolver.stop()
  }

  @Test func theCacheForgetsWhatWasUnusedForLongest() {
    var cache = ResolverCache(capacity: 2, lifetime: 100, negativeLifetime: 10)
    let now = Instant(nanoseconds: 0)
    cache.store(.success([address]), for: "a", now: now)
    cache.store(.success([address]), for: "b", now: now)
    _ = cache.answer(for: "a", now: now)
    cache.store(.success([address]), for: "c", now: now)
    #expect(cache.count == 2)
    #expect(cache.answer(for: "b", now: now) == nil)
    #expect(cache.answer(for: "a", now: now) != nil)
    cache.store(.failure(.temporary), for: "a", now: now)
    #expect(cache.answer(for: "a", now: now) == nil)
    cache.removeAll()
    #expect(cache.count == 0)
  }

  @Test func codesOfTheSystemAreTyped() {
    let cases: [(Int32, ResolveError, ResolveError)] = [
      (EAI_NONAME, .notFound, .unavailable), (-5, .notFound, .unavailable), (EAI_AGAIN, .temporary, .unavailable),
      (EAI_FAIL, .system(code: EAI_FAIL, errno: 0), .unavailable),
      (EAI_SYSTEM, .system(code: EAI_SYSTEM, errno: 5), .unavailable),
      (EAI_MEMORY, .system(code: EAI_MEMORY, errno: 0), .system(code: EAI_MEMORY, errno: 0)),
    ]
    for (code, dynamic, isolated) in cases {
      #expect(SystemCalls.resolveError(code, 5, isStatic: false) == dynamic)
      #expect(SystemCalls.resolveError(code, 5, isStatic: true) == isolated)
    }
    #expect(!ResolveError.system(code: EAI_FAIL, errno: 0).description.isEmpty)
  }

  @Test func theSystemKnowsThisMachine() throws {
    // /etc/hosts or the resolver's own rule, without a name server.
    #expect(
      try SystemCalls.lookUp("localhost", atMost: 16).get().contains {
        $0 == .v4(.loopback, port: 0) || $0 == .v6(.loopback, port: 0)
      })
    #expect(try SystemCalls.lookUp("localhost", atMost: 1).get().count == 1)
  }

  /// The C library, which can open no file then, says that there is no such host.
  @Test func noDescriptorIsNoMissingHost() async {
    await #expect(processExitsWith: .success) {
      var before = rlimit()
      guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before) == 0 else { fatalError() }
      var none = rlimit(rlim_cur: 0, rlim_max: before.rlim_max)
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &none) == 0 else { fatalError() }
      let without = SystemCalls.lookUp("no-such-host.invalid", atMost: 4)
      guard unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before) == 0 else { fatalError() }
      let with = SystemCalls.lookUp("no-such-host.invalid", atMost: 4)
      guard without == .failure(.descriptors), with != .failure(.descriptors) else { fatalError("\(without) \(with)") }
    }
  }
}
