import Glibc
import LupineBase
import LupineEngine
import LupineIO
import LupineTesting
import LupineWire
import Testing

/// Collects what a transfer reports, and tells its end once.
final class Recorder: TransferHandler, Sendable {
  struct Outcome: Sendable {
    var status: Int?
    var body: [UInt8] = []
    var trailers: [String] = []
    var sent = 0
    var ends = 0
    var failure: TransferFailure?
  }

  private let state = Locked(Outcome())
  private let completion: @Sendable (Outcome) -> Void

  init(_ completion: @escaping @Sendable (Outcome) -> Void) {
    self.completion = completion
  }

  var outcome: Outcome { state.withLock { $0 } }

  func transfer(_ transfer: Transfer, didReceiveInformational head: ResponseHead) {}

  func transfer(_ transfer: Transfer, didReceive head: ResponseHead, framing: BodyFraming) {
    state.withLock { $0.status = head.status }
  }

  func transfer(_ transfer: Transfer, didReceiveBody bytes: Span<UInt8>) {
    let bytes = [UInt8](bytes)
    state.withLock { $0.body += bytes }
  }

  func transfer(_ transfer: Transfer, didReceiveTrailers trailers: FieldSection) {
    let names = (0..<trailers.count).map { trailers.name(at: $0) }
    state.withLock { $0.trailers = names }
  }

  func transfer(_ transfer: Transfer, didSendBodyBytes count: Int) {
    state.withLock { $0.sent += count }
  }

  func transfer(_ transfer: Transfer, didEndWith failure: TransferFailure?) {
    let outcome = state.withLock { state in
      state.ends += 1
      state.failure = failure
      return state
    }
    completion(outcome)
  }
}

/// An engine and a pool of its own, shut down at the end.
func withPool(
  _ configuration: PoolConfiguration = PoolConfiguration(), _ body: (PoolHandle) async throws -> Void
) async throws {
  let engine = try Engine.start(name: "lupine-test")
  defer { engine.shutdownSoon() }
  try await body(PoolHandle(engine: engine, configuration: configuration))
}

/// A plaintext request to a host.
func request(
  host: String = "127.0.0.1", port: Int, method: String = "GET", framing: RequestFraming = .none,
  body: RequestBody = .none, total: Int64? = Deadlines().total, firstByte: Int64? = nil, target: String = "/",
  priority: TransferPriority = .default
) throws -> TransferRequest {
  var head: [UInt8] = []
  try RequestEncoder.head(
    method: method, target: target, fields: [("Host", "\(host):\(port)")], framing: framing, into: &head)
  let key = PoolKey(ConnectionIdentity(host: host, serverName: host, port: UInt16(port), tls: nil))
  var deadlines = Deadlines()
  deadlines.total = total
  deadlines.firstByte = firstByte
  return TransferRequest(
    key: key, method: method, head: head, context: RequestContext(), body: body, deadlines: deadlines,
    priority: priority)
}

extension PoolHandle {
  /// Runs a request to its end; `started` is given the transfer.
  func run(
    _ request: TransferRequest, started: (TransferHandle) -> Void = { _ in }
  ) async -> Recorder.Outcome {
    let end = Locked<Recorder.Outcome?>(nil)
    await withCheckedContinuation { continuation in
      let recorder = Recorder { outcome in
        // By way of the lock: ThreadSanitizer does not see the order that a continuation makes where it is resumed before it is awaited.
        end.withLock { $0 = outcome }
        continuation.resume()
      }
      let handle = TransferHandle(Transfer(request, handler: recorder, createdAt: EventLoop.monotonicNow()))
      start(handle)
      started(handle)
    }
    guard let outcome = end.withLock({ $0 }) else { preconditionFailure("a recorder tells its outcome") }
    return outcome
  }
}

/// Answers from a table; names that are not in it do not exist.
struct TableResolver: HostResolver {
  private let table: [String: [SocketAddress]]
  /// How many times it was told that the network may be another one.
  let flushes = Locked(0)

  init(_ table: [String: [SocketAddress]]) { self.table = table }

  func flush() { flushes.withLock { $0 += 1 } }

  func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
    table[host].map { .success($0) } ?? .failure(.notFound)
  }

  func resolve(
    host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
  ) -> ResolveToken {
    completion(immediateAnswer(host: host, port: port) ?? .failure(.notFound))
    return ResolveToken()
  }
}

/// Takes all descriptors that the process may have, but for a few.
final class Hoard {
  private var numbers: [Int32] = []
  private var limit = rlimit()

  init(leaving free: Int) {
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    var low = limit
    low.rlim_cur = 128
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &low)
    while true {
      let number = dup(2)
      guard number >= 0 else { break }
      numbers.append(number)
    }
    for _ in 0..<free { if let number = numbers.popLast() { close(number) } }
  }

  func release() {
    for number in numbers { close(number) }
    numbers = []
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  }
}
