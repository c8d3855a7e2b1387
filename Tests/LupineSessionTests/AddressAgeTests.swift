import LupineEngine
import Testing

@testable import LupineSession

/// What the age of addresses does is tested with name servers that can be asked (`NameAgeTests`, `ResolverTests`): this is how the setting gets there.
@Suite struct AddressAgeTests {
  struct Row: Sendable {
    var timeout: Duration?
    var nanoseconds: Int64?
  }

  static let rows = [
    Row(timeout: nil, nanoseconds: nil), Row(timeout: .seconds(30), nanoseconds: nil),
    Row(timeout: .seconds(Int64.max), nanoseconds: nil),
    Row(timeout: .milliseconds(29_999), nanoseconds: 29_999_000_000),
    Row(timeout: .zero, nanoseconds: 0), Row(timeout: .seconds(-1), nanoseconds: 0),
  ]

  @Test(arguments: rows) func itIsTheProcessesOrLess(_ row: Row) {
    var configuration = SessionConfiguration()
    if let timeout = row.timeout { configuration.dnsCacheTimeout = timeout }
    let age = EngineTransport.poolConfiguration(configuration).maximumNameAge
    #expect(age == row.nanoseconds)
  }

  @Test func howLongALookupMayTake() {
    var configuration = SessionConfiguration()
    configuration.resolveTimeout = .milliseconds(7)
    let time = EngineTransport.poolConfiguration(configuration).resolveNanoseconds
    #expect(time == 7_000_000)
  }
}
