import LupineBase
import LupineIO
import LupineTestSupport
import Testing

@testable import Lupine
@testable import LupineRules

/// Name servers that do not answer say nothing about a host.
@Suite(.timeLimit(.minutes(1))) struct UnansweredLookupTests {
  private let answer = Locked<SystemResolver.Answer>(.failure(.temporary))
  private let timer = ManualTimer()
  private let lookUps = Locked(0)

  private func manager() throws -> NetworkReachabilityManager {
    let resolver = try SystemResolver(lookUp: { [answer, lookUps] _ in
      lookUps.withLock { $0 += 1 }
      return answer.withLock { $0 }
    })
    return NetworkReachabilityManager(
      .domain("host.example"), resolver: { () throws(IOError) in resolver }, timer: timer, facts: { _ in LinkFacts() })
  }

  private func answers(_ new: SystemResolver.Answer) { answer.withLock { $0 = new } }

  /// Waits for a lookup that should not come: it would be on a thread of the resolver.
  private func looksUp(moreThan count: Int) async -> Bool {
    await eventually(seconds: 1) { lookUps.withLock { $0 } > count }
  }

  private static let found = SystemResolver.Answer.success([.v4(IPv4Address(192, 0, 2, 1), port: 0)])

  /// The status stays unknown, and they are asked again without any change of the network; what is known stays known likewise.
  @Test(arguments: [ResolveError.temporary, .timedOut, .overloaded, .system(code: -11, errno: 5)])
  func theyAreAskedAgain(_ error: ResolveError) async throws {
    let manager = try manager()
    var told = manager.statuses.makeAsyncIterator()
    answers(.failure(error))
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await eventually { timer.started == 1 })
    #expect(await told.next() == .unknown)
    answers(Self.found)
    timer.advance(by: .seconds(1))
    #expect(await told.next() == .reachableViaEthernet)
    answers(.failure(error))
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await eventually { timer.started == 2 })
    #expect(manager.isReachable)
    answers(.failure(.notFound))
    timer.advance(by: .seconds(1))
    #expect(await told.next() == .notReachable)
    #expect(timer.started == 2)
  }

  /// They are asked less and less often, up to once a minute.
  @Test func delaysGrow() async throws {
    let manager = try manager()
    manager.networkChanged(.withDefaultRoute, since: 0)
    let delays: [Duration] = [1, 2, 4, 8, 16, 32, 60, 60, 60].map { .seconds($0) }
    for (count, delay) in delays.enumerated() {
      #expect(await eventually { timer.started == count + 1 })
      if count + 1 < delays.count { timer.advance(by: delay) }
    }
    #expect(timer.delays == delays)
  }

  /// Without a way out nothing is reachable; after another change, or a stop, the lookup of before is not repeated.
  @Test func changesTakeThePlaceOfRepetitions() async throws {
    let manager = try manager()
    manager.networkChanged(.withDefaultRoute, since: 0)
    #expect(await eventually { timer.started == 1 })
    timer.advance(by: .milliseconds(500))
    manager.networkChanged(NetworkTable(), since: 0)
    #expect(await eventually { timer.started == 2 })
    #expect(manager.networkReachabilityStatus == .notReachable)
    // The delay of the first lookup alone is over.
    timer.advance(by: .milliseconds(500))
    #expect(await !looksUp(moreThan: 2))
    timer.advance(by: .milliseconds(500))
    #expect(await eventually { timer.started == 3 })
    manager.stopMonitoring()
    answers(Self.found)
    timer.advance(by: .seconds(60))
    #expect(await !looksUp(moreThan: 3))
    #expect(timer.started == 3 && manager.networkReachabilityStatus == .notReachable)
  }
}
