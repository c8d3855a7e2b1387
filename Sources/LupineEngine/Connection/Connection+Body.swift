internal import LupineIO
internal import LupineWire

/// How far the body of the request under way has been sent.
enum BodyCursor {
  case none
  case bytes([UInt8], offset: Int)
  case file(FileSender)
  case stream(BodyChannel, remaining: Int64?, length: Int64?)
  /// Nothing is left of it, and the socket has not taken the end yet.
  case written

  /// The body is not wanted any more: whoever produces it is told.
  func abandon() {
    switch self {
    case .none, .bytes, .written: break
    case .file(let sender): sender.abandon()
    case .stream(let channel, _, _): channel.close()
    }
  }
}

extension RequestBody {
  /// What can go with the head in one piece.
  var leadingBytes: [UInt8]? {
    switch self {
    case .bytes(let bytes): return bytes
    case .segments(let segments, _):
      if case .bytes(let bytes) = segments.first { return bytes }
      return nil
    case .none, .file, .stream: return nil
    }
  }
}

extension Connection {
  /// The body may go now.
  func startBody() {
    // Where the head could not be written, whoever produces the body need not begin.
    guard let transfer, state == .busy, writeError == nil else { return }
    switch transfer.request.body {
    case .none: sendDone()
    case .bytes(let bytes): body = .bytes(bytes, offset: 0)
    case .file(let file): body = .file(FileSender(file, connection: self))
    case .stream(let stream): start(stream)
    case .segments: if !startSegment(of: transfer) { sendDone() }
    }
    pumpWrites()
  }

  private func start(_ stream: StreamBody) {
    if !stream.isReplayable { transfer?.isBodySpent = true }
    let channel = BodyChannel(
      lowWatermark: pool.configuration.lowWatermark, highWatermark: pool.configuration.highWatermark)
    body = .stream(channel, remaining: stream.length, length: stream.length)
    let wake = pool.core.wake(for: self)
    channel.listen { wake() }
    stream.start(channel)
  }

  /// Goes on to the next piece of the body. False: there is none.
  private func startSegment(of transfer: Transfer) -> Bool {
    guard case .segments(let segments, _) = transfer.request.body, nextSegment < segments.count else { return false }
    let segment = segments[nextSegment]
    nextSegment += 1
    switch segment {
    case .bytes(let bytes): body = .bytes(bytes, offset: 0)
    case .file(let file): body = .file(FileSender(file, connection: self))
    case .stream(let stream): start(stream)
    }
    return true
  }

  /// The cursor has come to its end. True: another piece follows, ask again; false: the body has been sent.
  func cursorDone() -> Bool {
    if let transfer, startSegment(of: transfer) { return true }
    sendDone()
    return false
  }

  /// All that the producer of the body gave has been sent, and the server, which waits for the rest, has not answered.
  var isWaitingForBody: Bool {
    guard exchange.receiving == .head, case .stream(let channel, let remaining, _) = body, remaining != 0 else {
      return false
    }
    return channel.isAwaited
  }

  /// The rest of the body will not be sent.
  func stopBody() {
    body.abandon()
    body = .none
  }

  func sendDone() {
    body = .none
    noteSent()
  }

  /// A body of known length has been sent with its last byte, whenever its producer says that it is done; it is heard until then, as it may have given
  /// too much.
  func noteSentInFull(_ remaining: Int64?) {
    guard remaining == 0, exchange.sending == .body, let transfer else { return }
    if case .segments(let segments, _) = transfer.request.body, nextSegment < segments.count { return }
    noteSent()
  }

  @inline(__always)
  private func noteSent() {
    exchange.bodySent()
    // Of a body of known length it was noted with its last byte; the end of its producer is none.
    guard let transfer, transfer.record.sendEnd == nil else { return }
    let now = context.now
    transfer.clock.sendEndedAt = now
    transfer.record.sendEnd = now
    if transfer.clock.limits.firstByte != nil { armForTransfer() }
  }
}
