internal import CLupineLinux
internal import CLupineOpenSSL
import Glibc

/// A blocking byte stream on an accepted socket, plaintext or TLS, with a read buffer.
///
/// It lives on its connection's thread; only its `control` is shared.
final class ConnectionStream {
  /// What a read may take at once, and what an unread request line may grow to.
  static let bufferSize = 64 * 1024

  let descriptor: Int32
  let stop: Latch
  private let control: ConnectionControl
  private var tls: TLSEndpoint?
  private var buffer = [UInt8](repeating: 0, count: ConnectionStream.bufferSize)
  private var start = 0
  private var end = 0

  init(_ connection: AcceptedConnection) {
    descriptor = connection.descriptor
    control = connection.control
    stop = connection.stop
  }

  /// What TLS negotiated; nil on plaintext.
  var tlsSummary: TLSSummary? { tls?.summary }

  /// Does the server's side of a TLS handshake on the socket. Nothing may be buffered.
  func startTLS(_ configuration: TLSServerContext) throws(LoopbackError) {
    guard start == end else { throw .misuse("TLS begins while plaintext is still buffered") }
    tls = try TLSEndpoint(configuration, descriptor)
  }

  /// A TLS 1.3 ticket goes out with what is sent next.
  func queueTicket() throws(LoopbackError) {
    guard let tls else { throw .misuse("a ticket without TLS") }
    try tls.queueTicket()
  }

  // MARK: Reading

  /// Bytes that were received and not yet consumed.
  var buffered: ArraySlice<UInt8> { buffer[start..<end] }

  /// Marks `count` of the buffered bytes as used.
  func consume(_ count: Int) {
    start += count
    if start == end { (start, end) = (0, 0) }
  }

  /// Receives more bytes behind those buffered; false at the peer's end of stream.
  func fill() throws(LoopbackError) -> Bool {
    if end == buffer.count {
      if start > 0 {
        buffer.replaceSubrange(0..<(end - start), with: Array(buffer[start..<end]))
        (start, end) = (0, end - start)
      } else {
        buffer.append(contentsOf: repeatElement(0, count: buffer.count))
      }
    }
    let count: Int
    do {
      count = try unsafe buffer.withUnsafeMutableBytes { bytes in
        let room = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[end...])
        if let tls { return try unsafe tls.receive(into: room) }
        return try unsafe SystemCalls.receive(descriptor, into: room)
      }
    } catch let error as LoopbackError {
      throw error
    } catch {
      throw .misuse("\(error)")
    }
    end += count
    return count > 0
  }

  /// Makes sure that something is buffered; false at the peer's end of stream.
  func ensureBuffered() throws(LoopbackError) -> Bool {
    if start < end { return true }
    return try fill()
  }

  // MARK: Writing

  /// Sends all bytes. With `more`, the kernel may hold a partial segment back until the next send.
  func send(_ bytes: UnsafeRawBufferPointer, more: Bool = false) throws(LoopbackError) {
    guard unsafe !bytes.isEmpty else { return }
    if let tls {
      try unsafe tls.send(bytes)
    } else {
      try unsafe SystemCalls.sendAll(descriptor, bytes, more: more)
    }
  }

  /// Sends all bytes.
  func send(_ bytes: some Collection<UInt8>, more: Bool = false) throws(LoopbackError) {
    do {
      let sent: Void? = try bytes.withContiguousStorageIfAvailable { storage in
        try unsafe send(UnsafeRawBufferPointer(storage), more: more)
      }
      if sent == nil { try send(Array(bytes), more: more) }
    } catch let error as LoopbackError {
      throw error
    } catch {
      throw .misuse("\(error)")
    }
  }

  /// Sends the last bytes so that they and the end of the stream leave in one segment, with TLS's close_notify if wanted.
  func sendAndFinish(_ bytes: [UInt8], notify: Bool = true) throws(LoopbackError) {
    SystemCalls.setOption(descriptor, Int32(IPPROTO_TCP), TCP_CORK, 1)
    try send(bytes)
    finishSending(notify: notify)
    SystemCalls.setOption(descriptor, Int32(IPPROTO_TCP), TCP_CORK, 0)
  }

  /// Ends our side of the stream; the other side stays open.
  func finishSending(notify: Bool = true) {
    if notify { tls?.notifyClose() }
    shutdown(descriptor, Int32(SHUT_WR))
  }

  /// Ends the peer's side of the stream, as far as we can tell it.
  func finishReading() {
    shutdown(descriptor, Int32(SHUT_RD))
  }

  // MARK: The end

  /// Reads and drops what the peer still sends, until its end of stream or `limit` bytes, so that closing does not become a reset.
  func drain(limit: Int) {
    var dropped = 0
    while dropped < limit, let more = try? ensureBuffered(), more {
      dropped += end - start
      consume(end - start)
    }
  }

  /// Waits until the peer hangs up, the latch opens or the server is shut down.
  func stall(_ latch: Latch?) -> StallEnd {
    let watched = [stop.descriptor] + (latch.map { [$0.descriptor] } ?? [])
    let (_, others) = SystemCalls.waitForHangUp(descriptor, or: watched)
    if let latch, latch.isReleased { return .released }
    return others[0] ? .stopped : .peerGone
  }

  /// Arms the socket so that closing it sends a reset instead of a FIN.
  func armReset() {
    var option = linger(l_onoff: 1, l_linger: 0)
    _ = unsafe setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
  }

  /// Closes the socket.
  func close() {
    control.finish()
  }
}

/// Why a stall ended.
public enum StallEnd: Equatable, Sendable {
  /// Its latch was opened.
  case released
  /// The peer ended its side or reset the connection.
  case peerGone
  /// The server is being shut down.
  case stopped
}
