import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// Takes a body by a pipe, while it has one, and writes it into a file when it is told to.
final class PipeWriter: TransferHandler {
  private let pipe: BodyPipe?
  let file: File
  private(set) var piped: [Int] = []
  private(set) var shown = 0
  private(set) var isOver = false
  private(set) var failure: TransferFailure?
  private var waiting = 0
  private var offset: Int64 = 0
  /// Whether it pauses until it has written.
  var pauses = true
  var discards = false

  init(hasPipe: Bool = true) throws {
    pipe = hasPipe ? BodyPipe.make() : nil
    try #require((pipe != nil) == hasPipe)
    let path = "/tmp/lupine-piped-\(getpid())-\(UInt64.random(in: 0...UInt64.max))"
    file = try File.create(path)
    unsafe unlink(path)
  }

  var received: Int { shown + piped.reduce(0, +) }

  /// What is in the pipe goes into the file; false if nothing is.
  @discardableResult
  func write(_ transfer: Transfer? = nil) throws -> Bool {
    defer {
      waiting = 0
      transfer?.resume()
    }
    guard waiting > 0 else { return false }
    try pipe?.empty(waiting, into: file, at: offset)
    offset += Int64(waiting)
    return true
  }

  func isWhole(_ count: Int) throws -> Bool {
    let bytes = try file.read(at: 0, count: count + 1)
    return bytes.count == count && PatternBody.matches(bytes, from: 0)
  }

  func pipe(for transfer: Transfer) -> BodyPipe? { pipe }

  func transfer(_ transfer: Transfer, didFillPipe count: Int) {
    piped.append(count)
    waiting += count
    if discards { return transfer.discard() }
    if pauses { transfer.pause() }
  }

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    shown += bytes.count
    do {
      try write()
      try file.write(bytes, at: offset)
    } catch { Issue.record(error) }
    offset += Int64(bytes.count)
  }

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}
  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {}
  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {}
  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {}

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    isOver = true
    self.failure = failure
  }
}
