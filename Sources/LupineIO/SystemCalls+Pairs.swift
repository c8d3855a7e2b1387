internal import CLupineLinux

/// Pairs of sockets inside the process, for loops that are driven by hand.
extension SystemCalls {
  /// Two connected Unix-domain sockets, both nonblocking.
  ///
  /// - Parameter keepsMessages: each read gives what one call has sent; else they are streams.
  package static func makeSocketPair(keepsMessages: Bool = false) throws(IOError) -> (Int32, Int32) {
    var ends: (Int32, Int32) = (-1, -1)
    _ = try value(.socket, invalidArgumentTraps: true) {
      unsafe withUnsafeMutablePointer(to: &ends) { pointer in
        unsafe pointer.withMemoryRebound(to: Int32.self, capacity: 2) { pair in
          let type = keepsMessages ? SOCK_SEQPACKET : SOCK_STREAM
          let kind = Int32(type.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
          return Int(unsafe socketpair(AF_UNIX, kind, 0, pair))
        }
      }
    }
    return ends
  }

  /// Bytes that a socket keeps for its peer before it would block; the kernel doubles the number and has a least.
  package static func setSendBuffer(_ socket: borrowing Descriptor, _ bytes: Int) throws(IOError) {
    try setOption(socket, SOL_SOCKET, SO_SNDBUF, Int32(clamping: bytes))
  }

  /// Whether the peer has closed its end altogether, even if bytes still wait to be read.
  package static func isHungUp(_ socket: borrowing Descriptor) -> Bool {
    var entry = pollfd(fd: socket.number, events: 0, revents: 0)
    while unsafe poll(&entry, 1, 0) < 0 { precondition(clupine_errno() == EINTR, "poll: errno \(clupine_errno())") }
    return Int32(entry.revents) & POLLHUP != 0
  }
}
