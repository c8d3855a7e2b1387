import LupineBase
import LupineEngine
import LupineIO
import LupineSimulation
import LupineWire
import Testing

/// What happens where the process has no descriptor left.
@Suite(.timeLimit(.minutes(1))) struct DescriptorLimitTests {
  private static let empty = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

  /// Idle connections are closed for it, of other sessions too, and the request goes out.
  @Test(arguments: [false, true]) func idleConnectionsMakeRoom(_ isOfAnother: Bool) throws {
    let drive = try Drive()
    let other = drive.engine.makePool(PoolConfiguration())
    drive.start(try request(host: "h", port: 80), in: isOfAnother ? other : nil)
    drive.settle()
    _ = drive.receive(0)
    drive.send(0, Self.empty)
    drive.settle()
    #expect(drive.outcomes.map(\.status) == [200] && !drive.servers[0].isHungUp)

    drive.descriptorLimit = 1
    drive.start(try request(host: "h", port: 81))
    drive.settle()
    #expect(drive.servers.count == 2 && drive.servers[0].isHungUp)
    _ = drive.receive(1)
    drive.send(1, Self.empty)
    drive.settle()
    #expect(drive.outcomes.map(\.status) == [200, 200])
    drive.engine.forget(other)
    drive.end()
  }

  /// Many that begin at once take the room from each other, and all get some in the end.
  @Test func manyOpeningsAtOnce() throws {
    var configuration = PoolConfiguration()
    configuration.limits.perHost = 20
    let drive = try Drive(configuration)
    for _ in 0..<20 { drive.start(try request(host: "h", port: 80)) }
    drive.settle()
    for server in 0..<20 {
      _ = drive.receive(server)
      drive.send(server, Self.empty)
    }
    drive.settle()
    #expect(drive.outcomes.count == 20 && drive.servers.count == 20)
    drive.descriptorLimit = 20
    for port in 81..<90 { drive.start(try request(host: "h", port: port)) }
    drive.settle()
    #expect(drive.servers.count == 29)
    for server in 20..<drive.servers.count {
      _ = drive.receive(server)
      drive.send(server, Self.empty)
    }
    drive.settle()
    #expect(drive.outcomes.map(\.status) == [Int?](repeating: 200, count: 29))
    drive.end()
  }

  /// Where none is idle the request fails for that, and nothing of the others.
  @Test func nothingIsTakenFromOthers() throws {
    let drive = try Drive()
    drive.start(try request(host: "h", port: 80))
    drive.settle()
    drive.descriptorLimit = 1
    drive.start(try request(host: "h", port: 81))
    drive.settle()
    #expect(drive.servers.count == 1 && !drive.servers[0].isHungUp)
    guard case .connect(let failure)? = drive.outcomes.first?.failure?.error, failure.lacksDescriptors else {
      Issue.record("\(drive.outcomes)")
      return
    }
    _ = drive.receive(0)
    drive.send(0, Self.empty)
    drive.settle()
    #expect(drive.outcomes.last?.status == 200)
    drive.end()
  }
}
