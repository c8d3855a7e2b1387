internal import LupineBase
public import LupineSession
internal import LupineWire

/// What goes wrong with an exchange.
public enum TransportFault: Sendable, Hashable {
  /// Time passes before the request is passed on.
  case delay(Duration)
  /// Nobody accepts connections: `.cannotConnect`, and the wrapped transport sees nothing of the request.
  case refused
  /// The request is carried out, but the connection is lost before a response: `.connectionLost`.
  case lostBeforeHead
  /// The connection is lost in the midst of the head: `.truncatedResponse`, without a response.
  case lostInHead
  /// The connection is lost after so many bytes of the body: `.connectionLost`.
  case lostInBody(after: Int)
  /// The body ends after so many bytes, before its announced end: `.truncatedResponse`.
  case truncatedBody(after: Int)
  /// Nothing comes after so many bytes of the body, until a deadline passes or somebody cancels.
  case stalledBody(after: Int)
  /// The body comes in pieces of so many bytes, each after a delay.
  case slowBody(pieceBytes: Int, delay: Duration)
  /// The exchange fails with this instead of a response; the request is carried out.
  case error(SessionError.Code, phase: SessionError.Phase)
}

/// A generator of numbers that gives the same ones for the same seed (SplitMix64).
public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  /// Begins a sequence.
  public init(seed: UInt64) {
    state = seed
  }

  /// The next number.
  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ value >> 30) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ value >> 27) &* 0x94D0_49BB_1331_11EB
    return value ^ value >> 31
  }
}

/// Passes exchanges on to another transport, and lets things go wrong: as a seed says, so that a failure can be had again.
///
/// Callbacks come on one thread of the transport's own, whatever the wrapped transport does; a reader that is behind holds that one too. The
/// time that faults take counts for the deadlines of a request, as that of the network does.
public final class FaultTransport: Transport {
  /// Says what goes wrong with a request.
  public typealias Choice =
    @Sendable (_ request: TransportRequest, _ generator: inout SeededGenerator) -> [TransportFault]

  /// An exchange that something was done to.
  public struct Injection: Sendable, Equatable {
    /// Exchanges count from 0 in the order in which they were begun.
    public var number: Int
    /// The method.
    public var method: String
    /// The URL.
    public var urlString: String
    /// What was done.
    public var faults: [TransportFault]

    /// Makes a value, to compare with.
    public init(number: Int, method: String, urlString: String, faults: [TransportFault]) {
      self.number = number
      self.method = method
      self.urlString = urlString
      self.faults = faults
    }
  }

  private let wrapped: any Transport
  private let seed: UInt64
  private let choice: Choice
  private let thread: TransportThread
  private let state = Locked<(count: Int, injections: [Injection])>((0, []))

  /// Wraps a transport.
  ///
  /// - Parameters:
  ///   - seed: decides everything that is left to chance: each exchange has a generator of its own, made of the seed and its number.
  ///   - clock: what delays are measured with.
  ///   - choice: says what goes wrong with a request; called when it begins.
  public init(_ wrapped: any Transport, seed: UInt64 = 0, clock: TransportClock = .real, _ choice: @escaping Choice) {
    self.wrapped = wrapped
    self.seed = seed
    self.choice = choice
    thread = TransportThread(clock: clock)
  }

  /// Wraps a transport; each fault happens with its probability, from 0 to 1, and the first in the list that ends the exchange decides how.
  public convenience init(
    _ wrapped: any Transport, seed: UInt64 = 0, clock: TransportClock = .real,
    faults: [(fault: TransportFault, probability: Double)]
  ) {
    self.init(wrapped, seed: seed, clock: clock) { _, generator in
      faults.compactMap { Double.random(in: 0..<1, using: &generator) < $0.probability ? $0.fault : nil }
    }
  }

  /// What was done so far, or is going to be: the time that a fault takes counts from before it is listed.
  public var injections: [Injection] { state.withLock { $0.injections } }

  // MARK: Transport

  /// Passes the request on, unless it is refused.
  public func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let number = state.withLock { state in
      defer { state.count += 1 }
      return state.count
    }
    var generator = SeededGenerator(seed: seed ^ UInt64(number) &* 0xD129_0D3B_87D4_5F2B)
    let faults = choice(request, &generator)
    let script = FaultScript(faults)
    let begun = thread.now
    // Until the wrapped transport is asked nobody else limits the time.
    let player = ExchangePlayer(
      request, receiver, on: thread, limitsIdleTime: script.delay > .zero, isPassedOn: false)
    if !faults.isEmpty {
      let injection = Injection(number: number, method: request.method, urlString: request.urlString, faults: faults)
      // Its time has begun: whoever sees this may move a clock on at once.
      state.withLock { $0.injections.append(injection) }
    }
    if script.isRefused {
      player.append([.wait(script.delay), .end(FaultScript.refused(request))], isImmediate: true)
      return player
    }
    let wrapped = wrapped
    let begin: @Sendable () -> Void = {
      guard player.passOn() else { return }
      player.attach(wrapped.start(request, FaultReceiver(player, script)))
    }
    if script.delay > .zero {
      let at = begun.addingReportingOverflow(script.delay.nanoseconds)
      let timer = thread.submit(at: at.overflow ? .max : at.partialValue) {
        player.limitIdleTime(false)
        begin()
      }
      // It holds the player, which holds the thread, and a clock that a test has may stand still for ever.
      player.onEnd { [thread] in thread.cancel(timer) }
    } else {
      begin()
    }
    return player
  }

  /// Passes it on.
  public func invalidate(cancelling: Bool) {
    wrapped.invalidate(cancelling: cancelling)
  }
}

/// The faults of one exchange, in the form in which they are carried out.
struct FaultScript: Sendable {
  enum Cut: Sendable {
    case beforeHead(SessionError.Code, SessionError.Phase)
    case body(after: Int, SessionError.Code)
    case stall(after: Int)
  }

  var delay = Duration.zero
  var isRefused = false
  var cut: Cut?
  var slow: (pieceBytes: Int, delay: Duration)?

  init(_ faults: [TransportFault]) {
    for fault in faults {
      switch fault {
      // Two of the longest would be more than a duration holds.
      case .delay(let delay): self.delay += delay.saturated
      // The first that ends the exchange decides how.
      case .refused: isRefused = isRefused || cut == nil
      case .lostBeforeHead: cut = cut ?? .beforeHead(.connectionLost, .firstByte)
      case .lostInHead: cut = cut ?? .beforeHead(.truncatedResponse, .receive)
      case .lostInBody(let count): cut = cut ?? .body(after: max(0, count), .connectionLost)
      case .truncatedBody(let count): cut = cut ?? .body(after: max(0, count), .truncatedResponse)
      case .stalledBody(let count): cut = cut ?? .stall(after: max(0, count))
      case .slowBody(let count, let delay): slow = (max(1, count), delay)
      case .error(let code, let phase): cut = cut ?? .beforeHead(code, phase)
      }
    }
  }

  static func refused(_ request: TransportRequest) -> SessionError {
    ExchangePlayer.error(.cannotConnect, .connect, "an injected fault: nobody accepts connections", request)
  }

  static func lost(_ code: SessionError.Code, _ phase: SessionError.Phase, _ request: TransportRequest) -> SessionError
  {
    var error = ExchangePlayer.error(code, phase, "an injected fault", request)
    error.requestBytesSent = true
    return error
  }
}

/// Takes what the wrapped transport reports, and hands on what the faults leave of it.
private final class FaultReceiver: TransportReceiver {
  private let player: ExchangePlayer
  private let script: FaultScript
  private let state = Locked<(bodyBytes: Int, isCut: Bool)>((0, false))

  init(_ player: ExchangePlayer, _ script: FaultScript) {
    self.player = player
    self.script = script
  }

  private var isCut: Bool { state.withLock { $0.isCut } }

  private func cut(_ exchange: any TransportExchange, _ steps: [ExchangeStep]) {
    state.withLock { $0.isCut = true }
    player.append(steps)
    exchange.cancel()
  }

  /// Cuts before the head, if that is the fault. True: nothing more is handed on.
  private func cutsHead(_ exchange: any TransportExchange) -> Bool {
    guard !isCut else { return true }
    guard case .beforeHead(let code, let phase) = script.cut else { return false }
    cut(exchange, [.end(FaultScript.lost(code, phase, player.request))])
    return true
  }

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    if !cutsHead(exchange) { player.append([.informational(head)]) }
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    if !cutsHead(exchange) { player.append([.head(head, framing)]) }
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    guard !isCut else { return }
    let before = state.withLock { state in
      defer { state.bodyBytes += bytes.count }
      return state.bodyBytes
    }
    var chunk: [UInt8] = []
    chunk.reserveCapacity(bytes.count)
    for index in bytes.indices { chunk.append(bytes[index]) }
    switch script.cut {
    case .body(let after, let code) where before + chunk.count >= after:
      let steps = pieces(Array(chunk.prefix(after - before)))
      cut(exchange, steps + [.end(FaultScript.lost(code, .receive, player.request))])
    case .stall(let after) where before + chunk.count >= after:
      player.limitIdleTime(true)
      cut(exchange, pieces(Array(chunk.prefix(after - before))))
    default: player.append(pieces(chunk))
    }
  }

  private func pieces(_ chunk: [UInt8]) -> [ExchangeStep] {
    guard let slow = script.slow else { return [.body(chunk)] }
    return stride(from: 0, to: chunk.count, by: slow.pieceBytes).flatMap { start -> [ExchangeStep] in
      [.wait(slow.delay), .body(Array(chunk[start..<min(chunk.count, start + slow.pieceBytes)]))]
    }
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    if !isCut { player.append([.trailers(trailers)]) }
  }

  func sent(bodyBytes count: Int, of exchange: any TransportExchange) {
    if !isCut { player.append([.sent(count)]) }
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    if failure == nil, cutsHead(exchange) { return }
    guard !isCut else { return }
    switch script.cut {
    // A body shorter than that was not cut by its bytes: its end is lost all the same.
    case .body(_, let code) where failure == nil:
      cut(exchange, [.end(FaultScript.lost(code, .receive, player.request))])
    case .stall where failure == nil:
      player.limitIdleTime(true)
      cut(exchange, [])
    default: player.append([.endWith(failure, metrics)])
    }
  }
}
