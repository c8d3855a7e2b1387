import CLupineLinux
import Testing

@testable import LupineIO

/// What a socket is made with for its packets to be marked.
@Suite struct TrafficClassTests {
  private func option(_ socket: borrowing Descriptor, _ level: Int32, _ name: Int32) throws -> Int32 {
    var value: Int32 = -1
    var size = socklen_t(MemoryLayout<Int32>.size)
    let code = unsafe getsockopt(socket.number, level, name, &value, &size)
    try #require(code == 0)
    return value
  }

  /// The code point is the upper six bits of the octet, in both families.
  @Test(arguments: [(0, 0), (1, 4), (18, 72), (46, 184), (63, 252)] as [(UInt8, Int32)])
  func codePoints(_ point: UInt8, _ octet: Int32) throws {
    let options = SocketOptions(codePoint: point)
    let old = try options.makeSocket(for: .v4(.loopback, port: 9))
    #expect(try option(old, Int32(IPPROTO_IP), IP_TOS) == octet)
    let new = try options.makeSocket(for: .v6(.loopback, port: 9))
    #expect(try option(new, Int32(IPPROTO_IPV6), IPV6_TCLASS) == octet)
  }

  /// A Unix-domain socket has nothing to mark.
  @Test func unixSocketsAreMade() throws {
    _ = try SocketOptions(codePoint: 46).makeSocket(for: .abstract(name: [1]))
  }
}
