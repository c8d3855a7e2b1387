import LupineIO
import Testing

@testable import LupineEngine

@Suite struct OpeningStepTests {
  /// A leading `@` names a socket of the abstract namespace, never a file of that name.
  @Test func unixSockets() {
    var identity = ConnectionIdentity(host: "h", serverName: "h", port: 80, tls: nil)
    identity.route = .unixSocket(path: "@name")
    #expect(OpeningStep.chain(for: identity) == [.connect([.abstract(name: Array("name".utf8))])])
    identity.route = .unixSocket(path: "/run/@name")
    #expect(OpeningStep.chain(for: identity) == [.connect([.unix(path: "/run/@name")])])
  }
}
