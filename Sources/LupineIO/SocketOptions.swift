internal import CLupineLinux

/// What is set on a socket before it connects.
package struct SocketOptions: Hashable, Sendable {
  /// Probes an idle connection whose peer may be gone.
  package struct KeepAlive: Hashable, Sendable {
    /// Seconds without traffic until the first probe, and between probes. At least 1.
    package var idleSeconds: Int32
    package var intervalSeconds: Int32
    /// Probes without an answer until the connection counts as dead.
    package var probes: Int32

    package init(idleSeconds: Int32 = 60, intervalSeconds: Int32 = 15, probes: Int32 = 4) {
      self.idleSeconds = idleSeconds
      self.intervalSeconds = intervalSeconds
      self.probes = probes
    }
  }

  /// Sends small segments at once (TCP_NODELAY). On unless turned off: heads and bodies are gathered already.
  package var noDelay = true
  /// nil leaves TCP keep-alive off, as the system does.
  package var keepAlive: KeepAlive?
  /// The address to connect from; used for remote addresses of its family only. Port 0 lets the system choose.
  package var localAddress: SocketAddress?
  /// The DSCP that packets are marked with (RFC 2474), 0 to 63. 0 leaves it as the system does.
  package var codePoint: UInt8 = 0

  package init(
    noDelay: Bool = true, keepAlive: KeepAlive? = nil, localAddress: SocketAddress? = nil, codePoint: UInt8 = 0
  ) {
    self.noDelay = noDelay
    self.keepAlive = keepAlive
    self.localAddress = localAddress
    self.codePoint = codePoint
  }

  /// Makes a nonblocking, close-on-exec stream socket that can connect to `remote`.
  package func makeSocket(for remote: SocketAddress) throws(IOError) -> Descriptor {
    let socket = try SystemCalls.makeSocket(remote.systemFamily)
    guard remote.family != .unix else { return socket }
    // Without this an urgent byte is missing from the stream. A read stops short before it all the same: see `Readiness.urgent`.
    try SystemCalls.setOption(socket, SOL_SOCKET, SO_OOBINLINE, 1)
    if noDelay { try SystemCalls.setOption(socket, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
    if codePoint != 0 {
      // The upper six bits of the octet; the lower two are for ECN, and the system's.
      let octet = Int32(codePoint & 0x3F) << 2
      if remote.family == .v4 {
        try SystemCalls.setOption(socket, Int32(IPPROTO_IP), IP_TOS, octet)
      } else {
        try SystemCalls.setOption(socket, Int32(IPPROTO_IPV6), IPV6_TCLASS, octet)
      }
    }
    if let keepAlive {
      try SystemCalls.setOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1)
      try SystemCalls.setOption(socket, Int32(IPPROTO_TCP), TCP_KEEPIDLE, max(keepAlive.idleSeconds, 1))
      try SystemCalls.setOption(socket, Int32(IPPROTO_TCP), TCP_KEEPINTVL, max(keepAlive.intervalSeconds, 1))
      try SystemCalls.setOption(socket, Int32(IPPROTO_TCP), TCP_KEEPCNT, max(keepAlive.probes, 1))
    }
    if let localAddress, localAddress.family == remote.family {
      // With port 0 the port is chosen when the destination is known, so that many connections can share one; where that is not to be had `bind` chooses it.
      if localAddress.port == 0 { try? SystemCalls.setOption(socket, Int32(IPPROTO_IP), IP_BIND_ADDRESS_NO_PORT, 1) }
      try SystemCalls.bind(socket, to: localAddress)
    }
    return socket
  }
}
