internal import LupineBase
internal import LupineIO

/// Sends part of a file as the body of a request, from file threads, so that a slow disk never stalls the loop: with `sendfile` into a
/// plaintext socket, else by reading chunks that are encrypted on the loop. Lives on the loop.
///
/// Invariants: at most one job is under way; the socket stays open while a job uses it, because the job holds it; nothing is read from the
/// socket while a job puts bytes into it, because the answer to them may overtake word of them.
final class FileSender {
  private let body: FileBody
  private weak var connection: Connection?
  private let core: EngineCore
  private var file: File?
  private var reader: InputFile?
  private var sent: Int64 = 0
  private var isBusy = false
  /// A job is putting bytes into the socket.
  private(set) var isSending = false
  private var isAbandoned = false
  /// See `FileSlice.isShort`.
  private var isShort = false
  /// The size has been looked at for the last time.
  private var isChecked = false
  private var chunk: [UInt8] = []
  private var chunkOffset = 0

  init(_ body: FileBody, connection: Connection) {
    self.body = body
    self.connection = connection
    core = connection.pool.core
  }

  /// Nothing more is sent.
  func abandon() {
    isAbandoned = true
    reader?.cancel()
    reader = nil
  }

  /// Sends the next piece. True: a piece was sent, ask again; false: wait for a job or for the socket.
  func advance() -> Bool {
    guard !isBusy, !isAbandoned, let connection else { return false }
    // An empty file is opened for its size alone.
    guard sent < body.length || file == nil && body.fileSize != nil else { return connection.cursorDone() }
    guard let file else {
      open()
      return false
    }
    if connection.tls == nil {
      sendFile(file, connection)
      return false
    }
    return sendChunk(file, connection)
  }

  private func open() {
    let (path, fileSize) = (body.path, body.fileSize)
    run { () throws(IOError) in
      let file = try File.open(path)
      return (file, try fileSize == nil ? nil : file.size() ?? -1)
    } then: { sender, opened in
      sender.file = opened.0
      if let size = opened.1 { sender.check(size) }
    }
  }

  /// Whether the file has the size that it must have; if not, the request fails.
  @discardableResult
  private func check(_ size: Int64) -> Bool {
    guard let expected = body.fileSize, size != expected else { return true }
    connection?.fail(.fileChanged(expected: expected, actual: size), .send)
    return false
  }

  // MARK: Plaintext

  private func sendFile(_ file: File, _ connection: Connection) {
    guard let socket = connection.socket else { return }
    let offset = body.offset + sent
    let count = Int(min(body.length - sent, Int64(Self.turn)))
    let isLast = Int64(count) == body.length - sent
    let slice = FileSlice(offset: offset, count: count, fileSize: isLast ? body.fileSize : nil, isShort: isShort)
    let edges = connection.writableEdges
    isSending = true
    run { () throws(IOError) in
      try slice.send(file, into: socket)
    } then: { sender, outcome in
      guard let connection = sender.connection else { return }
      sender.sent += Int64(outcome.sent)
      sender.isShort = outcome.isShort
      // The socket may have become writable between the refusal and now; that event will not come again.
      connection.fileSent(outcome.sent, wouldBlock: outcome.wouldBlock && connection.writableEdges == edges)
      if let error = outcome.socketError { connection.fileFailed(error) }
      if let size = outcome.otherSize {
        sender.unlessAnswered { _ in sender.check(size) }
      } else if outcome.atEnd {
        sender.unlessAnswered { _ in sender.shrank() }
      }
    }
  }

  /// Bytes of one job at most: long enough to be worth the hop, short enough to leave the thread to others.
  private static let turn = 4 * 1024 * 1024
  /// Bytes of a call: a slow disk may take its time for each.
  fileprivate static let callSize = 512 * 1024
  /// No further call is made by then, so that the loop hears in time that something moves.
  fileprivate static let jobNanoseconds: Int64 = 100_000_000

  // MARK: TLS

  private func sendChunk(_ file: File, _ connection: Connection) -> Bool {
    guard chunkOffset < chunk.count else {
      readChunk(file)
      return false
    }
    // The last chunk of the file waits until its size has been looked at.
    if body.fileSize != nil, !isChecked, Int64(chunk.count - chunkOffset) == body.length - sent {
      run { () throws(IOError) in
        try file.size() ?? -1
      } then: { sender, size in
        sender.isChecked = sender.check(size)
      }
      return false
    }
    let end = min(chunk.count, chunkOffset + Connection.tlsPieceSize)
    let taken = connection.emitPiece(chunk.span.extracting(chunkOffset..<end))
    guard taken > 0 else { return false }
    chunkOffset += taken
    sent += Int64(taken)
    connection.transfer?.sent(bodyBytes: taken)
    return true
  }

  private func readChunk(_ file: File) {
    let range = body.offset..<body.offset + body.length
    let reader = reader ?? InputFile(file, range: range, threads: core.files, loop: core.context.loop)
    self.reader = reader
    isBusy = true
    reader.next { [weak self] result in
      guard let self, !self.isAbandoned else { return }
      self.isBusy = false
      switch result {
      case .failure(let error): self.connection?.fail(.file(error), .send)
      case .success(let bytes):
        guard !bytes.isEmpty else {
          self.shrank()
          return
        }
        self.chunk = bytes
        self.chunkOffset = 0
        // In a later turn, unless this is one already: `next` may answer at once, inside `advance`.
        if let connection = self.connection { self.core.later { connection.pumpWrites() } }
      }
    }
  }

  // MARK: Jobs

  private func shrank() {
    if let expected = body.fileSize {
      connection?.fail(.fileChanged(expected: expected, actual: body.offset + sent), .send)
      return
    }
    connection?.fail(.fileShrank(expected: body.length, actual: sent), .send)
  }

  /// Fails the request, unless it has been answered while the job was under way, and the body is not wanted any more.
  private func unlessAnswered(_ fail: (Connection) -> Void) {
    connection?.read()
    if !isAbandoned, let connection { fail(connection) }
  }

  /// A job is done: what came while it was under way is read, and before more is sent, which it may say is not wanted.
  private func goOn() {
    guard let connection else { return }
    if sent < body.length { connection.read() }
    connection.pumpWrites()
    connection.readOn()
  }

  private func run<Value: Sendable>(
    _ job: @escaping @Sendable () throws(IOError) -> Value, then: @escaping @Sendable (FileSender, Value) -> Void
  ) {
    isBusy = true
    let confined = LoopConfined(self)
    core.files.run(on: core.context.loop, job) { result in
      let sender = confined.onLoop
      sender.isBusy = false
      sender.isSending = false
      guard !sender.isAbandoned else { return }
      switch result {
      // Noted before the socket is read, which does not tell it again; what the peer has said counts all the same.
      case .failure(let error) where error.isOfSocket: sender.connection?.fileFailed(error)
      case .failure(let error): sender.unlessAnswered { $0.fileFailed(error) }
      case .success(let value):
        then(sender, value)
        sender.goOn()
      }
    }
  }
}

/// A run of bytes of a file on its way into a socket.
private struct FileSlice: Sendable {
  let offset: Int64
  let count: Int
  /// What the file must have now; nil: it does not matter.
  let fileSize: Int64?
  /// The call before took less than it was given: it may have met an error of the socket, which it does not tell, and behind which there is a broken pipe.
  let isShort: Bool

  struct Outcome: Sendable {
    var sent = 0
    var isShort = false
    var wouldBlock = false
    var atEnd = false
    /// The file has this size and not the one it must have: nothing was sent.
    var otherSize: Int64?
    /// The socket failed behind what was sent.
    var socketError: IOError?
  }

  /// Sends until the socket is full, the slice is sent, the file ends or the time of a job is over. Blocks on the disk. An error of the disk after some bytes is
  /// left to the next slice, which meets it again, so that those bytes are known of; one of the socket is told once.
  func send(_ file: File, into socket: Socket) throws(IOError) -> Outcome {
    var outcome = Outcome()
    outcome.isShort = isShort
    if let fileSize {
      let size = try file.size() ?? -1
      guard size == fileSize else {
        outcome.otherSize = size
        return outcome
      }
    }
    let start = EventLoop.monotonicNow()
    // Not left behind a short call: the loop would read the end that stands behind an error of which nobody has heard yet.
    var mayStop = false
    while outcome.sent < count {
      if mayStop, EventLoop.monotonicNow().nanoseconds(since: start) > FileSender.jobNanoseconds { break }
      let size = min(FileSender.callSize, count - outcome.sent)
      do throws(IOError) {
        switch try SystemCalls.sendFile(
          socket.descriptor, file.descriptor, offset: offset + Int64(outcome.sent), count: size)
        {
        case .wouldBlock:
          outcome.wouldBlock = true
          outcome.isShort = false
          return outcome
        case .end:
          outcome.atEnd = true
          return outcome
        case .bytes(let sent):
          outcome.sent += sent
          outcome.isShort = sent < size
          mayStop = sent == size
        }
      } catch {
        // Perhaps an end in order, and perhaps not.
        let error = outcome.isShort && error == .brokenPipe ? .reset : error
        guard outcome.sent > 0 else { throw error }
        if error.isOfSocket { outcome.socketError = error }
        return outcome
      }
    }
    return outcome
  }
}

extension Connection {
  /// A file thread has put so many bytes into the socket.
  func fileSent(_ count: Int, wouldBlock: Bool) {
    guard state == .busy else { return }
    if wouldBlock { canWrite = false }
    guard count > 0 else { return }
    wroteAnything = true
    transfer?.clock.lastActivityAt = context.now
    transfer?.sent(bodyBytes: count)
  }

  /// The file cannot be read, or the socket takes no more.
  func fileFailed(_ error: IOError) {
    if error.isOfSocket { writeFailed(error) } else { fail(.file(error), .send) }
  }
}

extension IOError {
  /// Whether what puts a file into a socket has failed at the socket.
  fileprivate var isOfSocket: Bool {
    switch self {
    case .brokenPipe, .reset, .timedOut, .unreachable: true
    default: false
    }
  }
}
