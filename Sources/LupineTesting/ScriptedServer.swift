/// Bytes of a script, written as a string literal or made from bytes.
public struct ScriptBytes: Sendable, Equatable, ExpressibleByStringInterpolation {
  /// What goes over the wire.
  public var bytes: [UInt8]

  /// Makes script bytes from bytes.
  public init(_ bytes: [UInt8]) { self.bytes = bytes }

  /// Makes script bytes from text, as UTF-8.
  public init(_ text: String) { bytes = Array(text.utf8) }

  /// Makes script bytes from a literal, as UTF-8. Line ends are not translated: write `\r\n`.
  public init(stringLiteral value: String) { self.init(value) }

  /// One after the other.
  public static func + (left: ScriptBytes, right: ScriptBytes) -> ScriptBytes {
    ScriptBytes(left.bytes + right.bytes)
  }
}

/// One thing that a scripted connection does. Every step blocks until it is done; none waits for a time.
public enum ScriptStep: Sendable {
  /// Reads a request's head and records the request. A problem if the stream ends or the head is malformed.
  case readHead
  /// Reads the body of the request whose head was read last.
  case readBody
  /// Reads that many bytes, whatever they are.
  case read(Int)
  /// Sends bytes in one call.
  case send(ScriptBytes)
  /// Sends bytes one by one, each in a segment of its own (TCP_NODELAY), or in a TLS record of its own.
  case drip(ScriptBytes)
  /// Sends `count` bytes of `PatternBody` from its start.
  case sendPattern(Int)
  /// Sends bytes and ends our side, so that data, close_notify and FIN leave together.
  case sendAndFinish(ScriptBytes)
  /// Sends bytes and ends our side without TLS's close_notify: truncation; on plaintext the same as `sendAndFinish`.
  case sendAndFinishWithoutNotify(ScriptBytes)
  /// Ends our side in order (close_notify, FIN), and goes on reading.
  case finishSending
  /// Reads no more, for good. On a Unix socket the peer's writes fail from now on, while it can still be answered; TCP does not tell it.
  case finishReading
  /// Waits until the latch opens, the peer hangs up or the server is shut down; nil waits for the latter two.
  case stall(Latch?)
  /// Opens a latch: tells the test that the script has come this far.
  case release(Latch)
  /// Runs a closure on the connection's thread.
  case perform(@Sendable () -> Void)
  /// Closes with a reset (RST).
  case reset
  /// Closes in order. If bytes of the peer are unread, the kernel makes it a reset: read them first, or `finishSending` and `waitForClose`.
  case close
  /// Closes with a FIN but without TLS's close_notify.
  case closeWithoutNotify
  /// Reads and drops until the peer ends its side.
  case waitForClose
  /// Waits until the peer ends its side; a byte before that is a problem.
  case expectNothing
  /// Does the server's side of a TLS handshake, for example after the answer to a CONNECT.
  case startTLS(ServerTLS)
  /// Sends a further TLS 1.3 ticket with what is sent next. A problem on plaintext and with TLS 1.2.
  case sendTicket
}

/// A server that plays a script on each connection: exact bytes and faults, in order.
///
/// The first connection plays the first script, and so on. After its last step a connection is closed as by `close`.
///
/// ```swift
/// // The first connection answers once and closes upon the second request without a byte; the next one answers.
/// let server = try ScriptedServer([
///   [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), .readHead, .close],
///   [.readHead, .send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nho"), .waitForClose],
/// ])
/// ```
public final class ScriptedServer: Sendable {
  /// What a connection after the last script does.
  public enum Surplus: Sendable {
    /// It is closed at once, and is a problem.
    case problem
    /// It plays the last script again.
    case repeatLast
  }

  private let listener: Listener
  private let record: ServerRecord
  private let received: Monitor<[Int: [UInt8]]>
  private let isSecure: Bool

  /// Starts a server with a script for each connection, with TLS from the first byte if `tls` is given.
  ///
  /// Throws as `LoopbackServer.init` does.
  public init(
    _ scripts: [[ScriptStep]], surplus: Surplus = .problem, tls: ServerTLS? = nil, address: LoopbackAddress = .ipv4
  ) throws(LoopbackError) {
    var context: TLSServerContext?
    if let tls { context = try TLSServerContext(tls) }
    let record = ServerRecord(RequestRecording())
    let received = Monitor<[Int: [UInt8]]>([:])
    listener = try Listener(address) { [context] connection in
      let index = connection.number - 1
      guard let script = index < scripts.count ? scripts[index] : surplus == .repeatLast ? scripts.last : nil else {
        record.add(problem: "connection \(connection.number): there is no script for it")
        return
      }
      ScriptRunner(connection, context, record, received).play(script)
    }
    self.record = record
    self.received = received
    isSecure = tls != nil
  }

  deinit {
    listener.shutdown()
  }

  /// The port, 0 for a Unix socket.
  public var port: Int { Int(listener.port) }

  /// The address it listens on.
  public var address: LoopbackAddress { listener.address }

  /// The URL of a path on this server, as `LoopbackServer.url`.
  public func url(_ path: String = "/", host: String? = nil) -> String {
    ServerURL.make(isSecure: isSecure, listener, path, host)
  }

  /// The requests that `readHead` and `readBody` read, in order.
  public var recordedRequests: [ServerRequest] { record.requests }

  /// Waits until `count` requests were read in all; throws `misuse` after `seconds` without them.
  public func waitForRequests(_ count: Int, seconds: Double = 10) throws(LoopbackError) -> [ServerRequest] {
    try record.wait(count, seconds)
  }

  /// What the steps of a connection read, raw, up to 1 MiB; connections count from 1.
  public func bytesReceived(connection: Int) -> [UInt8] { received.withLock { $0[connection] ?? [] } }

  /// Connections accepted so far.
  public var connectionCount: Int { listener.connectionCount }

  /// What TLS negotiated, by connection number.
  public var tlsSummaries: [Int: TLSSummary] { record.tlsSummaries }

  /// What did not go as the scripts say, in order.
  public var problems: [String] { record.problems }

  /// Waits until `count` connections were accepted and all that were have come to their script's end; says whether they did.
  public func waitUntilPlayed(_ count: Int, seconds: Double = 10) -> Bool {
    listener.wait(accepted: count, openAtMost: 0, seconds: seconds)
  }

  /// Stops accepting, ends every connection, and returns when every thread has ended. Calling it again does nothing.
  ///
  /// Reads, writes and stalls end at once; a closure that waits for something else delays it.
  public func shutdown() { listener.shutdown() }
}

/// Plays one script on its connection's thread.
private final class ScriptRunner {
  private static let recordLimit = 1 << 20

  private let stream: ConnectionStream
  private let number: Int
  private let context: TLSServerContext?
  private let record: ServerRecord
  private let received: Monitor<[Int: [UInt8]]>
  private var reader = RequestReader()
  private var request: (index: Int, value: ServerRequest)?
  private var requestCount = 0

  init(
    _ connection: AcceptedConnection, _ context: TLSServerContext?, _ record: ServerRecord,
    _ received: Monitor<[Int: [UInt8]]>
  ) {
    stream = ConnectionStream(connection)
    number = connection.number
    self.context = context
    self.record = record
    self.received = received
  }

  func play(_ script: [ScriptStep]) {
    var position = 0
    do throws(LoopbackError) {
      if let context { try startTLS(context) }
      for step in script {
        position += 1
        guard try perform(step) else { return }
      }
      stream.finishSending()
    } catch {
      // Shutting the server down ends steps early; that says nothing about the peer.
      if !stream.stop.isReleased {
        let step = position == 0 ? "handshake" : "step \(position) (\(Self.name(script[position - 1])))"
        record.add(problem: "connection \(number), \(step): \(error)")
      }
    }
  }

  /// Does one step; false if it closed the connection.
  private func perform(_ step: ScriptStep) throws(LoopbackError) -> Bool {
    switch step {
    case .readHead, .readBody, .read, .waitForClose, .expectNothing: try read(step)
    case .send(let script): try stream.send(script.bytes)
    case .drip(let script): for byte in script.bytes { try stream.send([byte]) }
    case .sendPattern(let count):
      try PatternBody.send(count, from: 0) { part throws(LoopbackError) in try stream.send(part) }
    case .sendAndFinish(let script): try stream.sendAndFinish(script.bytes)
    case .sendAndFinishWithoutNotify(let script): try stream.sendAndFinish(script.bytes, notify: false)
    case .finishSending: stream.finishSending()
    case .finishReading: stream.finishReading()
    case .stall(let latch): _ = stream.stall(latch)
    case .release(let latch): latch.release()
    case .perform(let body): body()
    case .startTLS(let configuration): try startTLS(TLSServerContext(configuration))
    case .sendTicket: try stream.queueTicket()
    case .reset:
      stream.armReset()
      stream.close()
      return false
    case .close, .closeWithoutNotify:
      if case .close = step { stream.finishSending() }
      stream.close()
      return false
    }
    return true
  }

  private func read(_ step: ScriptStep) throws(LoopbackError) {
    switch step {
    case .readHead:
      reader = RequestReader()
      requestCount += 1
      guard let head = try reader.readHead(stream, connection: number, request: requestCount, note: note) else {
        throw .peerClosed
      }
      request = (record.add(head), head)
    case .readBody:
      guard case (let index, var value)? = request else { throw .misuse("readBody without readHead") }
      while let part = try reader.nextPart(stream, trailers: &value.trailers) {
        value.body += part
        note(part)
        reader.consumed(part.count, stream)
      }
      value.bodyLength = value.body.count
      value.bodyIsComplete = true
      record.update(index, value)
    case .read(let count):
      var remaining = count
      while remaining > 0 {
        guard try stream.ensureBuffered() else { throw .peerClosed }
        let part = stream.buffered.prefix(remaining)
        note(part)
        remaining -= part.count
        stream.consume(part.count)
      }
    case .waitForClose:
      do throws(LoopbackError) {
        while try stream.ensureBuffered() {
          note(stream.buffered)
          stream.consume(stream.buffered.count)
        }
      } catch  where error == .peerReset {}
    default:
      do throws(LoopbackError) {
        guard try stream.ensureBuffered() else { return }
      } catch  where error == .peerReset { return }
      throw .misuse("bytes came: \(String(decoding: stream.buffered.prefix(100), as: UTF8.self))")
    }
  }

  private func note(_ bytes: ArraySlice<UInt8>) {
    received.withLock { received in
      let room = Self.recordLimit - (received[number]?.count ?? 0)
      if room > 0 { received[number, default: []] += bytes.prefix(room) }
    }
  }

  private func startTLS(_ context: TLSServerContext) throws(LoopbackError) {
    try stream.startTLS(context)
    if let summary = stream.tlsSummary { record.add(summary, connection: number) }
  }

  private static func name(_ step: ScriptStep) -> String {
    String(String(describing: step).prefix { $0 != "(" })
  }
}
