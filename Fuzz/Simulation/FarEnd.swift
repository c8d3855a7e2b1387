package import LupineIO

/// The server's end of a connection inside the process: one of a pair of Unix-domain sockets, used between two turns of the client's loop.
///
/// What the kernel makes of it: to close with bytes unread resets the connection, as TCP does; to close otherwise, or to half-close,
/// ends it; what was sent before arrives first in both cases.
package final class FarEnd {
  private final class Holder {
    let descriptor: Descriptor

    init(_ descriptor: consuming Descriptor) { self.descriptor = descriptor }
  }

  private let context: LoopContext
  private var holder: Holder?
  private var filler = 0
  /// The client has closed its end.
  package private(set) var clientIsGone = false
  package private(set) var isHalfClosed = false

  private init(_ context: LoopContext, _ descriptor: consuming Descriptor) {
    self.context = context
    holder = Holder(descriptor)
  }

  package var isClosed: Bool { holder == nil }

  // MARK: Connecting

  /// Connects a client at once, or leaves its attempt open until `accept` or `close`: its socket is not writable so long, and that is
  /// how a client waits for a connection. `started` gets the client's end.
  ///
  /// - Parameters:
  ///   - clientBuffer: what the client may send before the server reads; nil for what the system has.
  ///   - serverBuffer: what the server may send before the client reads; nil for what the system has.
  ///   - keepsMessages: each read gives what one call has sent, as no stream does.
  package static func connect(
    _ context: LoopContext, clientBuffer: Int? = nil, serverBuffer: Int? = nil, isDecided: Bool,
    keepsMessages: Bool = false, _ started: (consuming StartedSocket) -> Void
  ) throws(IOError) -> FarEnd {
    let (near, far) = try SystemCalls.makeSocketPair(keepsMessages: keepsMessages)
    let client = Descriptor(adopting: near)
    let server = Descriptor(adopting: far)
    if let serverBuffer { try SystemCalls.setSendBuffer(server, serverBuffer) }
    let end = FarEnd(context, server)
    if let bytes = clientBuffer ?? (isDecided ? nil : 1) { try SystemCalls.setSendBuffer(client, bytes) }
    if !isDecided {
      let piece = [UInt8](repeating: 0, count: 4096)
      while case .bytes(let count) = try SystemCalls.send(client, piece.span) { end.filler += count }
    }
    started(StartedSocket(client, isDecided ? .connected : .inProgress))
    return end
  }

  /// Decides an attempt that was left open: the client is connected.
  package func accept() {
    guard let holder else { return }
    while filler > 0, case .bytes(let count)? = try? context.read(holder.descriptor, atMost: filler) { filler -= count }
    precondition(filler == 0 || isHungUp, "a client sent before it was connected")
  }

  // MARK: Bytes

  /// Reads what the client has sent. Sets `clientIsGone` at the end of it.
  package func receive(_ sink: (Span<UInt8>) -> Void) {
    let context = context
    while let holder, !clientIsGone {
      do throws(IOError) {
        switch try context.read(holder.descriptor) {
        case .bytes: sink(context.bytes)
        case .wouldBlock: return
        case .end: clientIsGone = true
        }
      } catch {
        clientIsGone = true
      }
    }
  }

  /// Sends as much as the connection takes; how much that was.
  package func send(_ bytes: Span<UInt8>) -> Int {
    guard let holder, !isHalfClosed, !bytes.isEmpty else { return 0 }
    guard case .bytes(let count)? = try? SystemCalls.send(holder.descriptor, bytes) else { return 0 }
    return count
  }

  /// Whether the client has closed its end, whatever of it is still unread.
  package var isHungUp: Bool {
    guard let holder else { return true }
    return clientIsGone || SystemCalls.isHungUp(holder.descriptor)
  }

  // MARK: Ending

  /// Sends no more, and goes on reading.
  package func halfClose() {
    guard let holder, !isHalfClosed else { return }
    isHalfClosed = true
    try? SystemCalls.shutdownWriting(holder.descriptor)
  }

  package func close() {
    holder = nil
  }
}
