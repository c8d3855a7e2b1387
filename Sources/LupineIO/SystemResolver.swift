internal import Synchronization
package import LupineBase

/// Resolves by getaddrinfo, on threads of its own.
///
/// One lookup per name is under way at a time, whoever asks for it joins; answers are kept for a while. getaddrinfo cannot be interrupted: a lookup
/// that nobody waits for any more is left to itself and counted, and its answer, should it come, is kept for the next.
package final class SystemResolver: HostResolver {
  package struct Configuration: Hashable, Sendable {
    /// Lookups at the same time, each on a thread made on demand.
    package var maximumThreads = 16
    /// Lookups that wait for a thread; more are refused as `overloaded`.
    package var maximumWaiting = 1024
    /// Addresses kept of an answer.
    package var maximumAddresses = 16
    /// How long an answer is kept, and how long the fact that there is none; nanoseconds.
    package var lifetimeNanoseconds: Int64 = 30_000_000_000
    package var negativeLifetimeNanoseconds: Int64 = 2_000_000_000
    /// Names whose answers are kept; the one unused for longest goes first.
    package var maximumCachedHosts = 1024
    /// How long a thread waits for another lookup before it ends.
    package var idleMilliseconds: Int32 = 10_000

    package init() {}
  }

  package struct Counters: Hashable, Sendable {
    /// Calls of getaddrinfo.
    package var lookups = 0
    /// Questions answered from the cache, and those that joined a lookup under way.
    package var cached = 0
    package var joined = 0
    /// Lookups that were under way when the last who waited gave up.
    package var abandoned = 0
    /// Questions that were refused because too many lookups wait.
    package var refused = 0
  }

  package typealias Answer = Result<[SocketAddress], ResolveError>

  private struct Waiter {
    var port: UInt16
    var completion: @Sendable (Answer) -> Void
  }

  /// What one lookup answers: those who ask after `flush` are not told what was found before.
  private struct Question: Hashable {
    var name: String
    var epoch: UInt64
  }

  private struct Lookup {
    var waiters: [UInt64: Waiter] = [:]
    var isRunning = false
  }

  private struct State {
    var cache: ResolverCache
    var lookups: [Question: Lookup] = [:]
    /// How many times everything was forgotten.
    var epoch: UInt64 = 0
    var waiting = 0
    var nextWaiter: UInt64 = 0
    var counters = Counters()
  }

  private let configuration: Configuration
  private let state: LockedStorage<State>
  private let threads: WorkerThreads
  private let now: @Sendable () -> Instant
  private let lookUp: @Sendable (String) -> Answer

  /// Makes a resolver. `now` and `lookUp` are for tests; `lookUp` may block.
  package init(
    _ configuration: Configuration = Configuration(),
    now: @escaping @Sendable () -> Instant = { EventLoop.monotonicNow() },
    lookUp: (@Sendable (String) -> Answer)? = nil
  ) throws(IOError) {
    self.configuration = configuration
    self.now = now
    let limit = configuration.maximumAddresses
    let ask = lookUp ?? { SystemCalls.lookUp($0, atMost: Self.maximumEntries) }
    self.lookUp = { ask($0).map { Self.chosen($0, atMost: limit) } }
    threads = try WorkerThreads(
      name: "lupine-dns", maximum: configuration.maximumThreads, idleMilliseconds: configuration.idleMilliseconds)
    state = LockedStorage(
      State(
        cache: ResolverCache(
          capacity: configuration.maximumCachedHosts, lifetime: configuration.lifetimeNanoseconds,
          negativeLifetime: configuration.negativeLifetimeNanoseconds)))
  }

  /// Addresses of the system's answer that are looked at.
  private static let maximumEntries = 1024

  /// The first of each family in turn where there are too many, so that one family does not crowd out the other (RFC 8305 section 4).
  private static func chosen(_ addresses: [SocketAddress], atMost limit: Int) -> [SocketAddress] {
    addresses.count <= limit ? addresses : Array(HappyEyeballs.interleaved(addresses).prefix(limit))
  }

  package var counters: Counters { state.withLock { $0.counters } }

  /// Threads that exist now.
  package var threadCount: Int { threads.threadCount }

  /// Forgets every answer: the network has changed. Lookups under way answer those who wait for them, and nobody else.
  package func flush() {
    state.withLock { state in
      state.cache.removeAll()
      state.epoch += 1
    }
  }

  /// Ends the threads that do nothing and waits for them. Those inside getaddrinfo end when it returns, and nobody waits for that. Who still
  /// waits for an answer is told `stopped`.
  package func stop() {
    tellStopped()
    threads.stop(abandoningBusy: true)
    // Who has asked in between, and be it because he was told, waits for a thread that does not come to it any more.
    tellStopped()
  }

  private func tellStopped() {
    let waiters = state.withLock { state in
      let waiters = state.lookups.values.flatMap(\.waiters.values)
      state.counters.abandoned += state.lookups.values.count { $0.isRunning && !$0.waiters.isEmpty }
      state.lookups = [:]
      state.waiting = 0
      return waiters
    }
    for waiter in waiters { waiter.completion(.failure(.stopped)) }
  }

  package func immediateAnswer(host: String, port: UInt16) -> Answer? {
    immediateAnswer(host: host, port: port, maximumAge: .max)
  }

  fileprivate func immediateAnswer(host: String, port: UInt16, maximumAge: Int64) -> Answer? {
    if let answer = HostLiteral.answer(host: host, port: port) { return answer }
    let now = now()
    let name = host.lowercased()
    return state.withLock { state in
      guard let answer = state.cache.answer(for: name, now: now, maximumAge: maximumAge) else { return nil }
      state.counters.cached += 1
      return Self.answer(answer, port)
    }
  }

  package func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (Answer) -> Void
  ) -> ResolveToken {
    resolve(host: host, port: port, maximumAge: .max, completion: completion)
  }

  package func limited(toAge maximumAge: Int64) -> any HostResolver {
    RecentAnswers(resolver: self, maximumAge: maximumAge)
  }

  fileprivate func resolve(
    host: String, port: UInt16, maximumAge: Int64, completion: @escaping @Sendable (Answer) -> Void
  ) -> ResolveToken {
    if let answer = immediateAnswer(host: host, port: port, maximumAge: maximumAge) {
      completion(answer)
      return ResolveToken()
    }
    let (question, number, step) = enter(host.lowercased(), Waiter(port: port, completion: completion))
    switch step {
    case .joined: break
    case .refused:
      completion(.failure(.overloaded))
      return ResolveToken()
    case .begun:
      do throws(IOError) {
        try threads.submit { self.run(question) }
      } catch {
        finish(question, .failure(error == .stopped ? .stopped : .thread(error)))
      }
    }
    return ResolveToken { self.cancel(question, number) }
  }

  private enum Step { case joined, begun, refused }

  private func enter(_ name: String, _ waiter: Waiter) -> (Question, UInt64, Step) {
    state.withLock { state in
      let question = Question(name: name, epoch: state.epoch)
      let number = state.nextWaiter
      state.nextWaiter += 1
      if state.lookups[question] != nil {
        state.lookups[question]?.waiters[number] = waiter
        state.counters.joined += 1
        return (question, number, .joined)
      }
      guard state.waiting < configuration.maximumWaiting else {
        state.counters.refused += 1
        return (question, number, .refused)
      }
      state.waiting += 1
      state.lookups[question] = Lookup(waiters: [number: waiter])
      return (question, number, .begun)
    }
  }

  private func cancel(_ question: Question, _ number: UInt64) {
    let waiter: Waiter? = state.withLock { state in
      guard let waiter = state.lookups[question]?.waiters.removeValue(forKey: number) else { return nil }
      if let lookup = state.lookups[question], lookup.waiters.isEmpty, lookup.isRunning {
        state.counters.abandoned += 1
      }
      return waiter
    }
    // Whatever the completion holds is let go outside the lock.
    _ = waiter
  }

  /// On a thread of the pool.
  private func run(_ question: Question) {
    let isWanted: Bool = state.withLock { state in
      guard let lookup = state.lookups[question] else { return false }
      state.waiting -= 1
      guard !lookup.waiters.isEmpty else {
        state.lookups[question] = nil
        return false
      }
      state.lookups[question]?.isRunning = true
      state.counters.lookups += 1
      return true
    }
    if isWanted { finish(question, lookUp(question.name)) }
  }

  private func finish(_ question: Question, _ answer: Answer) {
    let now = now()
    let waiters: [Waiter] = state.withLock { state in
      if question.epoch == state.epoch { state.cache.store(answer, for: question.name, now: now) }
      guard let lookup = state.lookups.removeValue(forKey: question) else { return [] }
      if !lookup.isRunning { state.waiting -= 1 }
      return Array(lookup.waiters.values)
    }
    for waiter in waiters { waiter.completion(Self.answer(answer, waiter.port)) }
  }

  private static func answer(_ answer: Answer, _ port: UInt16) -> Answer {
    answer.map { $0.map { $0.withPort(port) } }
  }
}

/// The resolver, as somebody sees it for whom its answers grow old earlier. A lookup that is under way is joined.
private struct RecentAnswers: HostResolver {
  let resolver: SystemResolver
  let maximumAge: Int64

  func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (SystemResolver.Answer) -> Void
  ) -> ResolveToken {
    resolver.resolve(host: host, port: port, maximumAge: maximumAge, completion: completion)
  }

  func immediateAnswer(host: String, port: UInt16) -> SystemResolver.Answer? {
    resolver.immediateAnswer(host: host, port: port, maximumAge: maximumAge)
  }

  func flush() { resolver.flush() }
}
