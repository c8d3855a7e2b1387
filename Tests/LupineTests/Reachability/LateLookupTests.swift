import Dispatch
import Testing

@testable import Lupine
@testable import LupineRules

@Suite(.timeLimit(.minutes(1))) struct LateLookupTests {
  /// An answer that is being worked out when the network changes again does not take the place of the newer one.
  @Test func lateAnswersDoNotReplaceNewerOnes() {
    let (isWorking, mayGoOn, isDone) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchGroup())
    let manager = NetworkReachabilityManager(
      .domain("127.0.0.1"),
      facts: { _ in
        isWorking.signal()
        mayGoOn.wait()
        return LinkFacts()
      })
    var table = NetworkTable()
    _ = table.apply(.link(NetworkLink(index: 1, name: "lo", hardware: 772, flags: 0x10049)))
    let prefix = RoutePrefix(table: .local, destination: InternetAddress(v4: 0x7F00_0000), length: 8)
    let route = NetworkRoute(
      prefix: prefix, service: 0, metric: 0, type: 2, hops: [RouteHop(link: 1, flags: 0)])
    _ = table.apply(.route(route, replaces: false))
    DispatchQueue.global().async(group: isDone) { [table] in manager.networkChanged(table, since: 0) }
    isWorking.wait()
    manager.networkChanged(NetworkTable(), since: 0)
    #expect(manager.networkReachabilityStatus == .notReachable)
    mayGoOn.signal()
    isDone.wait()
    #expect(manager.networkReachabilityStatus == .notReachable)
  }
}
