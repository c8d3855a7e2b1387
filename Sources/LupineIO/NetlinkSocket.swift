internal import CLupineLinux

/// What a read from a netlink socket gave.
package enum NetlinkReadResult: Equatable, Sendable {
  /// A datagram of the kernel's.
  case datagram([UInt8])
  /// One that somebody else sent, which is left alone: any process may send to us.
  case foreign
  /// Messages were lost, because the socket's buffer was full (ENOBUFS) or one was longer than ours.
  case lost
  /// Nothing now; readiness will be reported.
  case wouldBlock
}

/// A socket of NETLINK_ROUTE that hears of links, addresses and routes, of the network namespace of the thread that makes it.
package struct NetlinkSocket: ~Copyable {
  package let descriptor: Descriptor
  /// The kernel sends dumps in pieces of 32 KiB at most.
  private static let bufferSize = 128 * 1024

  /// RTMGRP_LINK, RTMGRP_IPV4_IFADDR, RTMGRP_IPV4_ROUTE, RTMGRP_IPV6_IFADDR, RTMGRP_IPV6_ROUTE.
  private static let groups: UInt32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400

  /// Opens the socket and joins the groups: what happens from now on will be told.
  ///
  /// - Parameter listens: whether to join them; without, only answers come. Default true.
  /// - Throws: when the system has no descriptor left, or a sandbox forbids it.
  package init(listens: Bool = true) throws(IOError) {
    let descriptor = try SystemCalls.descriptor(.socket) {
      socket(AF_NETLINK, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), NETLINK_ROUTE)
    }
    var address = sockaddr_nl()
    address.nl_family = sa_family_t(AF_NETLINK)
    address.nl_groups = listens ? Self.groups : 0
    let number = descriptor.number
    _ = try SystemCalls.value(.bind, invalidArgumentTraps: false) {
      unsafe withUnsafePointer(to: &address) { pointer in
        unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
          Int(unsafe CLupineLinux.bind(number, $0, socklen_t(MemoryLayout<sockaddr_nl>.size)))
        }
      }
    }
    // A burst of events should not make us ask for everything again. Less than wanted is fine.
    if listens { try? SystemCalls.setOption(descriptor, SOL_SOCKET, SO_RCVBUF, 1 << 20) }
    self.descriptor = descriptor
  }

  /// Sends a request to the kernel.
  package func send(_ request: [UInt8]) throws(IOError) -> WriteResult {
    try SystemCalls.send(descriptor, request.span)
  }

  /// Takes the next datagram.
  package func receive() throws(IOError) -> NetlinkReadResult {
    var address = sockaddr_nl()
    var length = socklen_t(MemoryLayout<sockaddr_nl>.size)
    let number = descriptor.number
    var size = 0
    var failure: IOError?
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: Self.bufferSize) { buffer, count in
      do throws(IOError) {
        // With MSG_TRUNC the result is the length of the datagram, also if it did not fit.
        size =
          try SystemCalls.value(.receive, invalidArgumentTraps: true) {
            unsafe withUnsafeMutablePointer(to: &address) { pointer in
              unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe recvfrom(number, buffer.baseAddress, buffer.count, Int32(MSG_TRUNC), $0, &length)
              }
            }
          } ?? -1
      } catch {
        failure = error
      }
      count = max(0, min(size, buffer.count))
    }
    if case .outOfMemory(ENOBUFS) = failure { return .lost }
    if let failure { throw failure }
    if size < 0 { return .wouldBlock }
    // The kernel's port is 0.
    guard address.nl_pid == 0 else { return .foreign }
    return size > bytes.count ? .lost : .datagram(bytes)
  }
}

/// What the kernel's file system says of network interfaces.
package enum NetworkInterfaces {
  /// Whether an interface has a radio, and its `DEVTYPE`. An interface that is gone, or a file system that is not there, has neither.
  package static func facts(_ name: String) -> (isWireless: Bool, deviceType: String) {
    // The kernel allows neither; a name must not lead elsewhere.
    guard !name.isEmpty, name != ".", name != "..", !name.utf8.contains(UInt8(ascii: "/")) else { return (false, "") }
    let folder = "/sys/class/net/\(name)/"
    let isWireless = ["wireless", "phy80211"].contains { exists(folder + $0) }
    var type = ""
    if let file = try? File.open(folder + "uevent"), let bytes = try? file.read(at: 0, count: 4096) {
      let lines = bytes.split(separator: UInt8(ascii: "\n"))
      let prefix = Array("DEVTYPE=".utf8)
      if let line = lines.first(where: { $0.starts(with: prefix) }) {
        type = String(decoding: line.dropFirst(prefix.count), as: UTF8.self)
      }
    }
    return (isWireless, type)
  }

  private static func exists(_ path: String) -> Bool {
    (try? SystemCalls.open(path, O_RDONLY | O_DIRECTORY)) != nil
  }
}
