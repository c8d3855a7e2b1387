internal import CLupineLinux

extension SocketAddress {
  /// The family as the system numbers it.
  var systemFamily: Int32 {
    switch self {
    case .v4: AF_INET
    case .v6: AF_INET6
    case .unix, .abstract: AF_UNIX
    }
  }

  /// Lends the address in the system's form.
  ///
  /// - Throws: `badPath` for a Unix path that is empty, longer than 107 bytes or holds a NUL.
  func withSystemAddress(
    _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) throws(IOError) -> Int32 {
    switch self {
    case .v4(let address, let port):
      var system = sockaddr_in()
      system.sin_family = sa_family_t(AF_INET)
      system.sin_port = port.bigEndian
      system.sin_addr.s_addr = address.bits.bigEndian
      return unsafe Self.lend(system, MemoryLayout<sockaddr_in>.size, body)
    case .v6(let address, let port, let scope):
      var system = sockaddr_in6()
      system.sin6_family = sa_family_t(AF_INET6)
      system.sin6_port = port.bigEndian
      system.sin6_scope_id = scope
      unsafe withUnsafeMutableBytes(of: &system.sin6_addr) { bytes in
        unsafe bytes.storeBytes(of: address.high.bigEndian, toByteOffset: 0, as: UInt64.self)
        unsafe bytes.storeBytes(of: address.low.bigEndian, toByteOffset: 8, as: UInt64.self)
      }
      return unsafe Self.lend(system, MemoryLayout<sockaddr_in6>.size, body)
    case .unix(let path):
      // The kernel adds the final NUL itself when there is room for none, but other programs expect one.
      guard !path.isEmpty, !path.utf8.contains(0), path.utf8.count <= Self.unixPathCapacity - 1 else { throw .badPath }
      return unsafe Self.lendUnix(Array(path.utf8) + [0], body)
    case .abstract(let name):
      guard !name.isEmpty, name.count <= Self.unixPathCapacity - 1 else { throw .badPath }
      return unsafe Self.lendUnix([0] + name, body)
    }
  }

  private static let unixPathOffset = MemoryLayout<sa_family_t>.size
  private static let unixPathCapacity = MemoryLayout<sockaddr_un>.size - MemoryLayout<sa_family_t>.size

  private static func lend<Address>(
    _ address: Address, _ length: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
  ) -> Int32 {
    unsafe withUnsafePointer(to: address) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, socklen_t(length)) }
    }
  }

  private static func lendUnix(_ path: [UInt8], _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
    var system = sockaddr_un()
    system.sun_family = sa_family_t(AF_UNIX)
    unsafe withUnsafeMutableBytes(of: &system) { bytes in
      unsafe bytes[unixPathOffset...].copyBytes(from: path)
    }
    return unsafe lend(system, unixPathOffset + path.count, body)
  }

  /// Reads the address that `fill` wrote; nil if it wrote none, or one of a family that is none of ours.
  static func reading(
    _ fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool
  ) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      let filled = unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe fill($0, &length) }
      return filled ? unsafe SocketAddress(UnsafeRawBufferPointer(start: pointer, count: Int(length))) : nil
    }
  }

  /// Reads the system's form.
  package init?(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count >= MemoryLayout<sa_family_t>.size else { return nil }
    switch Int32(unsafe bytes.loadUnaligned(as: sa_family_t.self)) {
    case AF_INET where bytes.count >= MemoryLayout<sockaddr_in>.size:
      let system = unsafe bytes.loadUnaligned(as: sockaddr_in.self)
      self = .v4(IPv4Address(bits: UInt32(bigEndian: system.sin_addr.s_addr)), port: UInt16(bigEndian: system.sin_port))
    case AF_INET6 where bytes.count >= MemoryLayout<sockaddr_in6>.size:
      let system = unsafe bytes.loadUnaligned(as: sockaddr_in6.self)
      let address = unsafe withUnsafeBytes(of: system.sin6_addr) { bytes in
        unsafe IPv6Address(
          high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
          low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)))
      }
      self = .v6(address, port: UInt16(bigEndian: system.sin6_port), scope: system.sin6_scope_id)
    case AF_UNIX:
      let path = unsafe bytes.dropFirst(Self.unixPathOffset)
      if let first = unsafe path.first, first == 0, unsafe path.count > 1 {
        self = unsafe .abstract(name: Array(path.dropFirst()))
      } else {
        self = unsafe .unix(path: String(decoding: path.prefix { $0 != 0 }, as: UTF8.self))
      }
    default: return nil
    }
  }
}

extension SystemCalls {
  /// The address of a socket's peer; nil if it has none, or none any more, or the family is none of ours, or nobody may ask.
  static func peerAddress(_ socket: borrowing Descriptor) -> SocketAddress? {
    let number = socket.number
    return unsafe SocketAddress.reading { pointer, length in unsafe getpeername(number, pointer, length) == 0 }
  }
}
