import LupineEngine
import LupineSimulation
import LupineTLS
import Testing

/// A server whose certificate is refused, and which does not wait to be told so.
@Suite(.timeLimit(.minutes(1))) struct RefusedServerTests {
  /// That it has hung up when the alert is sent is no reason: who reads "connection lost" tries again.
  @Test(arguments: [false, true]) func isRefusedForItsCertificate(hangsUp: Bool) throws {
    let secure = try SecureDrive(isTrusted: false)
    try secure.exchange { secure.server.hasOutput }
    let flight = secure.takeOutput()
    try #require(!flight.isEmpty)
    secure.deliver(flight[...])
    if hangsUp { secure.drive.servers[0].close() }
    secure.drive.settle()
    guard case .tls(.untrusted)? = secure.drive.outcomes.first?.failure?.error else {
      Issue.record("\(secure.drive.outcomes)")
      return
    }
    if !hangsUp {
      // unknown_ca, in the clear or not: something was said.
      #expect(!secure.drive.receive(0).isEmpty)
    }
    secure.drive.end()
  }
}
