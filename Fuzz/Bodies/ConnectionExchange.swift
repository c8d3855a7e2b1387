internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineSimulation
internal import LupineWire

/// One request of a `ConnectionRun`, and what came of it.
final class ConnectionExchange: TransferHandler {
  let number: Int
  let waitsItsTurn: Bool
  let isHead: Bool
  let isIdempotent: Bool
  let discards: Bool
  let decodes: Bool
  private let pauses: Bool
  private let cancelsAtHead: Bool
  private var run: ConnectionRun?
  private var made: Transfer?

  var hasStarted = false
  private(set) var hasEnded = false
  /// Bytes of the body; what a dead attempt has sent is taken back.
  private var sent = 0
  private(set) var status: Int?
  private(set) var body: [UInt8] = []
  private(set) var failure: TransferFailure?

  var transfer: Transfer {
    guard let made else { preconditionFailure("an exchange without its transfer") }
    return made
  }

  init(
    _ run: ConnectionRun, number: Int, shape: UInt8, key: PoolKey, deadlines: Deadlines, decodes: Bool
  ) {
    self.run = run
    self.number = number
    self.decodes = decodes
    discards = shape & 0x08 != 0
    pauses = shape & 0x10 != 0
    waitsItsTurn = shape & 0x20 != 0
    cancelsAtHead = shape & 0x80 != 0
    let hasKey = shape & 0x40 != 0
    let kind = shape & 7
    isHead = kind == 1
    let method = ["GET", "HEAD", "POST", "POST", "POST", "PUT", "POST", "POST"][Int(kind)]
    isIdempotent = hasKey || kind < 2 || kind == 5
    let (body, framing) = Self.body(number, kind)
    var fields: [(name: String, value: String)] = [("Host", "h")]
    if hasKey { fields.append(("Idempotency-Key", "\(number)")) }
    let plain = Self.head(method, number, fields, framing)
    let expecting = kind == 6 ? Self.head(method, number, fields + [("Expect", "100-continue")], framing) : nil
    let request = TransferRequest(
      key: key, method: method, head: expecting ?? plain, headWithoutExpectation: expecting == nil ? nil : plain,
      context: RequestContext(isHead: isHead), body: body, hasIdempotencyKey: hasKey, deadlines: deadlines,
      decodesContent: decodes)
    made = Transfer(request, handler: self, createdAt: run.engine.context.now)
  }

  private static func head(
    _ method: String, _ number: Int, _ fields: [(name: String, value: String)], _ framing: RequestFraming
  ) -> [UInt8] {
    var head: [UInt8] = []
    do throws(WireError) {
      try RequestEncoder.head(method: method, target: "/\(number)", fields: fields, framing: framing, into: &head)
    } catch {
      preconditionFailure("no request: \(error)")
    }
    return head
  }

  private static func body(_ number: Int, _ kind: UInt8) -> (RequestBody, RequestFraming) {
    func bytes(_ range: Range<Int>) -> [UInt8] { Material.bytes(number, range, .request) }
    func stream(_ ranges: [Range<Int>], length: Int64?, isReplayable: Bool) -> StreamBody {
      StreamBody(length: length, isReplayable: isReplayable) { channel in
        for range in ranges { channel.write(Material.bytes(number, range, .request)) { _ in } }
        channel.finish()
      }
    }
    switch kind {
    case 2, 6: return (.bytes(bytes(0..<10)), .length(10))
    case 3: return (.bytes(bytes(0..<40_000)), .length(40_000))
    case 4: return (.stream(stream([0..<5, 5..<4000, 4000..<20_000], length: nil, isReplayable: false)), .chunked)
    case 5: return (.stream(stream([0..<7, 7..<900], length: 900, isReplayable: true)), .length(900))
    case 7:
      let rest = stream([30..<12_000], length: 11_970, isReplayable: false)
      return (.segments([.bytes(bytes(0..<30)), .stream(rest)], length: 12_000), .length(12_000))
    default: return (.none, .none)
    }
  }

  /// Lets go of the run, which holds this.
  func leave() {
    run = nil
    made = nil
  }

  // MARK: What the engine reports

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {
    precondition(!hasEnded && status == nil, "an interim response after the final one")
  }

  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {
    precondition(!hasEnded && status == nil, "request \(number) has two heads")
    status = head.status
    if discards { transfer.discard() }
    if cancelsAtHead { run?.engine.cancel(transfer) }
  }

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    precondition(!hasEnded && status != nil && !discards, "bytes of request \(number) that nobody may see")
    if pauses, body.isEmpty { transfer.pause() }
    body.append(bytes)
  }

  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {
    precondition(!hasEnded && status != nil, "trailers of request \(number) out of place")
  }

  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {
    sent += count
    precondition(!hasEnded && sent >= 0, "request \(number) is sent after its end")
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    precondition(!hasEnded, "request \(number) completed twice")
    hasEnded = true
    self.failure = failure
    run?.ended()
  }
}
