internal import CLupineLinux
import Glibc

/// The socket calls of this module, each with its errno policy: EINTR is retried, a reset is `peerReset`, the rest is `system`.
enum SystemCalls {
  /// POLLRDHUP, which Swift's Glibc module lacks.
  private static let hangUp: Int16 = 0x2000

  static func failure(_ call: String, _ code: Int32 = errno) -> LoopbackError {
    switch code {
    case ECONNRESET, EPIPE: .peerReset
    default: .system(call: call, code: code)
    }
  }

  /// Receives into the buffer; 0 is the peer's end of stream.
  static func receive(_ descriptor: Int32, into buffer: UnsafeMutableRawBufferPointer) throws(LoopbackError) -> Int {
    while true {
      let count = unsafe recv(descriptor, buffer.baseAddress, buffer.count, 0)
      if count >= 0 { return count }
      if errno != EINTR { throw failure("recv") }
    }
  }

  /// Sends everything, in as many calls as it takes: one, unless the socket's buffer is full.
  static func sendAll(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer, more: Bool) throws(LoopbackError) {
    let flags = Int32(MSG_NOSIGNAL) | (more ? Int32(MSG_MORE) : 0)
    var sent = 0
    while sent < bytes.count {
      let rest = unsafe UnsafeRawBufferPointer(rebasing: bytes[sent...])
      let count = unsafe send(descriptor, rest.baseAddress, rest.count, flags)
      if count >= 0 {
        sent += count
      } else if errno != EINTR {
        throw failure("send")
      }
    }
  }

  /// Sets an integer socket option; options that a Unix socket lacks are ignored there by the callers.
  @discardableResult
  static func setOption(_ descriptor: Int32, _ level: Int32, _ name: Int32, _ value: Int32) -> Bool {
    var value = value
    return unsafe setsockopt(descriptor, level, name, &value, socklen_t(MemoryLayout<Int32>.size)) == 0
  }

  /// Which of several descriptors can be read, or hung up. Waits without limit unless `milliseconds` is given.
  static func readable(_ descriptors: [Int32], milliseconds: Int32 = -1) -> [Bool] {
    var entries = descriptors.map { pollfd(fd: $0, events: Int16(POLLIN) | hangUp, revents: 0) }
    while unsafe poll(&entries, nfds_t(entries.count), milliseconds) < 0, errno == EINTR {}
    return entries.map { $0.revents != 0 }
  }

  /// Whether the peer of a socket hung up (its FIN or RST arrived), or one of `others` became readable. Waits for either.
  static func waitForHangUp(_ descriptor: Int32, or others: [Int32]) -> (hungUp: Bool, others: [Bool]) {
    var entries = [pollfd(fd: descriptor, events: hangUp, revents: 0)]
    entries += others.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    while unsafe poll(&entries, nfds_t(entries.count), -1) < 0, errno == EINTR {}
    return (entries[0].revents != 0, entries.dropFirst().map { $0.revents != 0 })
  }
}
