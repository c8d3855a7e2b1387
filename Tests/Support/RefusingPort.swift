import Glibc

/// A port of 127.0.0.1 at which connections are refused, as long as this is held: nobody else can have it meanwhile.
package final class RefusingPort: Sendable {
  /// The system did not give it, or somebody else has it.
  package struct NotHeld: Error {
    package var call: String
    package var code: Int32
  }

  package let number: Int
  /// Nil: the kernel itself keeps the port.
  private let descriptor: Int32?

  package var url: String { "http://127.0.0.1:\(number)" }

  /// Takes a port.
  ///
  /// - Parameter wanted: that of a server that has been shut down; 0 for any. Of connections that the server ended first the kernel remembers for a minute
  ///   that they were, and gives their port to nobody, us included; that does as well.
  package init(_ wanted: Int = 0) throws {
    let made = try Self.makeSocket()
    var address = Self.address(of: wanted)
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    // Bound, and not listened at. Without SO_REUSEADDR, with which somebody else might bind to it as well, and listen.
    let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        let code = unsafe bind(made, name, length)
        return unsafe code == 0 ? getsockname(made, name, &length) : code
      }
    }
    guard code != 0 else {
      descriptor = made
      number = Int(UInt16(bigEndian: address.sin_port))
      return
    }
    let reason = errno
    _ = close(made)
    guard wanted != 0, reason == EADDRINUSE, try Self.isRefusing(wanted) else {
      throw NotHeld(call: "bind", code: reason)
    }
    descriptor = nil
    number = wanted
  }

  deinit {
    if let descriptor { _ = close(descriptor) }
  }

  /// Whether nobody listens at a port.
  private static func isRefusing(_ port: Int) throws -> Bool {
    let descriptor = try makeSocket()
    defer { _ = close(descriptor) }
    var address = Self.address(of: port)
    let code = unsafe withUnsafeMutablePointer(to: &address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { name in
        unsafe connect(descriptor, name, socklen_t(MemoryLayout<sockaddr_in>.size))
      }
    }
    return code != 0 && errno == ECONNREFUSED
  }

  private static func makeSocket() throws -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    guard descriptor >= 0 else { throw NotHeld(call: "socket", code: errno) }
    return descriptor
  }

  private static func address(of port: Int) -> sockaddr_in {
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = UInt16(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    return address
  }
}
