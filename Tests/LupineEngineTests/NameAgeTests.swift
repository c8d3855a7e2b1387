import LupineEngine
import LupineIO
import LupineTesting
import Testing

@Suite(.timeLimit(.minutes(1))) struct NameAgeTests {
  struct Row: Sendable {
    var age: Int64?
    var lookups: Int
  }

  static let rows = [Row(age: nil, lookups: 1), Row(age: 600_000_000_000, lookups: 1), Row(age: 0, lookups: 2)]

  /// Two connections to one host, one behind the other.
  @Test(arguments: rows) func howOldAddressesMayBeIsASetting(_ row: Row) async throws {
    let script: [ScriptStep] = [
      .readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"), .waitForClose,
    ]
    let server = try ScriptedServer([script, script])
    defer { server.shutdown() }
    let resolver = try SystemResolver(lookUp: { _ in .success([.v4(.loopback, port: 0)]) })
    defer { resolver.stop() }
    var configuration = PoolConfiguration()
    configuration.resolver = resolver
    configuration.maximumNameAge = row.age
    try await withPool(configuration) { pool in
      for _ in 0..<2 {
        let outcome = await pool.run(try request(host: "a.test", port: server.port))
        #expect(outcome.failure == nil && outcome.status == 200)
      }
    }
    #expect(server.connectionCount == 2)
    #expect(resolver.counters.lookups == row.lookups)
  }
}
