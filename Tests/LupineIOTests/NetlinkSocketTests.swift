import LupineIO
import Testing

/// The socket, in the namespace that the tests run in.
@Suite(.timeLimit(.minutes(1))) struct NetlinkSocketTests {
  /// RTM_GETLINK for everything; the kernel answers with at least the loopback interface, and an end.
  @Test func asksAndIsAnswered() async throws {
    let socket = try NetlinkSocket()
    let request: [UInt8] = [32, 0, 0, 0, 18, 0, 1, 3, 1, 0, 0, 0] + [UInt8](repeating: 0, count: 20)
    #expect(try socket.send(request) == .bytes(32))
    var types: [UInt8] = []
    while types.last != 3 {
      switch try socket.receive() {
      case .datagram(let bytes):
        var offset = 0
        while offset + 16 <= bytes.count {
          types.append(bytes[offset + 4])
          offset += (Int(bytes[offset]) | Int(bytes[offset + 1]) << 8 + 3) & ~3
        }
      case .wouldBlock: await Task.yield()
      case .foreign, .lost: continue
      }
    }
    #expect(types.first == 16 && types.dropLast().allSatisfy { $0 == 16 })
  }

  @Test func namesOfInterfacesLeadNowhereElse() {
    for name in ["", ".", "..", "../../..", "lo/../lo", "no such interface"] {
      let facts = NetworkInterfaces.facts(name)
      #expect(!facts.isWireless && facts.deviceType == "")
    }
    #expect(!NetworkInterfaces.facts("lo").isWireless)
  }
}
