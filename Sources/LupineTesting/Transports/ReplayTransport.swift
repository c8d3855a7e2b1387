internal import LupineBase
public import LupineSession
internal import LupineWire

/// Answers requests from an archive: what was recorded once, with `RecordingTransport` or by a browser, is played again without a network.
///
/// Callbacks come on one thread of the transport's own; deadlines, pauses and cancellation are honoured as the network honours them.
public final class ReplayTransport: Transport {
  /// When a request is one that was recorded.
  public enum Matching: Sendable {
    /// Equal method, URL, body, and fields but those that vary from run to run (`User-Agent`, `Date`, and what frames the body). What a
    /// session adds from its storages (`Cookie`, `Authorization`, `If-None-Match`, `If-Modified-Since`) is compared where both requests have
    /// it: what the storages hold when a recording begins is no part of it.
    case strict
    /// Equal method and URL, query parameters in any order. A request takes its exchange when it begins, whatever becomes of its body.
    case loose
  }

  /// In which order recorded exchanges are played, to requests in the order in which those begin.
  ///
  /// Strict matching compares bodies, so that a request waits there until those that began before it were read: all of them in the recorded
  /// order, those with its method and its URL up to the query in any. Queries need not be equal for two to want the same exchange: values that
  /// were redacted match any.
  public enum Order: Sendable {
    /// As they were recorded: a request that is not the next one fails.
    case recorded
    /// The first that matches and was not played yet.
    case any
  }

  private struct State {
    var index: ReplayIndex
    /// Requests that are matched by their bodies as well.
    var turns = ReplayTurns<Arrival>()
  }

  /// A request whose body was read.
  private struct Arrival {
    let player: ExchangePlayer
    let asked: AskedRequest
  }

  private let entries: [HTTPArchive.Entry]
  private let recorded: [RecordedRequest]
  private let matcher: ReplayMatcher
  private let order: Order
  private let repeats: Bool
  private let playsTimings: Bool
  private let thread: TransportThread
  private let state: Locked<State>

  /// Makes a transport that plays an archive.
  ///
  /// - Parameters:
  ///   - matching: default loose. Values that were redacted match any.
  ///   - order: default any.
  ///   - repeats: whether an exchange may be played again when all that match were. Default false: the request fails with `.noAnswer`.
  ///   - playsTimings: whether responses take their time as recorded. Default false.
  ///   - clock: what delays and deadlines are measured with.
  public init(
    _ archive: HTTPArchive, matching: Matching = .loose, order: Order = .any, repeats: Bool = false,
    playsTimings: Bool = false, clock: TransportClock = .real
  ) {
    // The session asked once for what the network tried twice.
    entries = archive.entries.filter { !$0.comment.hasBytes(of: HTTPArchive.Entry.repeatedAttemptComment) }
    let matcher = ReplayMatcher(isStrict: matching == .strict)
    let recorded = entries.map { matcher.recorded($0.request) }
    self.matcher = matcher
    self.recorded = recorded
    self.order = order
    self.repeats = repeats
    self.playsTimings = playsTimings
    thread = TransportThread(clock: clock)
    state = Locked(State(index: ReplayIndex(recorded.map(\.line.place))))
  }

  /// "METHOD URL" of what was not played yet.
  public var remaining: [String] {
    let isPlayed = state.withLock { $0.index.isPlayed }
    return zip(entries, isPlayed).filter { !$1 }.map { "\($0.0.request.method) \($0.0.request.url)" }
  }

  // MARK: Transport

  /// Answers a request.
  public func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let player = ExchangePlayer(request, receiver, on: thread)
    if matcher.isStrict { matchByBody(player) } else { matchByLine(player) }
    return player
  }

  /// What is played is known before the body is read.
  private func matchByLine(_ player: ExchangePlayer) {
    let request = player.request
    let asked = matcher.asked(request)
    let found = state.withLock { find(asked, &$0.index) }
    if case .none = request.body { return play(found, player) }
    let task = Task.detached { [self] in
      if await read(player) != nil { play(found, player) }
    }
    player.onEnd { task.cancel() }
  }

  /// What is played is known when the body is read, and those are matched that were begun before.
  private func matchByBody(_ player: ExchangePlayer) {
    let request = player.request
    let asked = matcher.asked(request)
    let place = asked.line.place
    let line = order == .recorded ? "" : "\(place.method) \(place.location)"
    let turn = state.withLock { $0.turns.enter(line) }
    func arrive(_ body: [UInt8], _ trailers: [(name: String, value: String)]) {
      // From now on it waits for others, which have limits of their own; if such a one is paused, its total time still counts.
      player.limitIdleTime(false)
      var whole = asked
      whole.body = body
      whole.trailers = trailers
      let arrival = Arrival(player: player, asked: whole)
      changeTurns { $0.arrive(turn, arrival) }
    }
    if case .none = request.body {
      player.onEnd { [self] in changeTurns { $0.leave(turn) } }
      return arrive([], [])
    }
    let task = Task.detached { [self] in
      if let (body, trailers) = await read(player) {
        arrive(body, trailers)
      } else {
        changeTurns { $0.leave(turn) }
      }
    }
    player.onEnd { [self] in
      // First of all: a body that is cut then is not matched.
      changeTurns { $0.leave(turn) }
      task.cancel()
    }
  }

  /// The body of the request, if it is compared, else nothing, and what follows it; nil if it fails, which ends the exchange.
  private func read(
    _ player: ExchangePlayer
  ) async -> (body: [UInt8], trailers: [(name: String, value: String)])? {
    let body = Locked<[UInt8]>([])
    let isKept = matcher.isStrict
    do throws(SessionError) {
      let trailers = try await player.request.readBody { chunk in
        if isKept { body.withLock { $0 += chunk } }
        player.append([.sent(chunk.count)])
        return !Task.isCancelled
      }
      return (body.withLock { $0 }, trailers)
    } catch {
      player.append([ExchangePlayer.failed(error)])
      return nil
    }
  }

  private func changeTurns(_ change: (inout ReplayTurns<Arrival>) -> Void) {
    let (found, now) = state.withLock { state -> ([(ExchangePlayer, Result<Int, NoAnswer>)], Int64) in
      change(&state.turns)
      var found: [(ExchangePlayer, Result<Int, NoAnswer>)] = []
      while let arrival = state.turns.next() {
        found.append((arrival.player, find(arrival.asked, &state.index)))
      }
      // Before anybody can see in `remaining` what is played.
      return (found, thread.now)
    }
    for (player, found) in found {
      player.limitIdleTime(true, since: now)
      play(found, player, since: now)
    }
  }

  /// - Parameter instant: from when the recorded times count, where a body was read first; nil: now.
  private func play(_ found: Result<Int, NoAnswer>, _ player: ExchangePlayer, since instant: Int64? = nil) {
    let request = player.request
    let answer: [ExchangeStep] =
      switch found {
      case .success(let index): steps(entries[index], request)
      case .failure(let error): [.end(Self.refusal(error, request))]
      }
    // Without a body to be read first, the recorded times count from the start of the exchange.
    var isImmediate = false
    if case .none = request.body { isImmediate = true }
    player.append([.requestSent] + answer, isImmediate: isImmediate, since: instant)
  }

  // MARK: Matching

  /// The entry that answers a request; it counts as played.
  private func find(_ asked: AskedRequest, _ index: inout ReplayIndex) -> Result<Int, NoAnswer> {
    let request = asked.request
    switch order {
    case .recorded:
      // All were played: as in any order, if they may be again.
      guard let next = index.next() else { return findAny(asked, &index) }
      if let difference = matcher.difference(recorded[next], asked) {
        return .failure(Self.answer(to: difference, entries[next].request, request))
      }
      index.play(next)
      return .success(next)
    case .any: return findAny(asked, &index)
    }
  }

  private func findAny(_ asked: AskedRequest, _ index: inout ReplayIndex) -> Result<Int, NoAnswer> {
    let request = asked.request
    var nearest: String?
    // One that had what the session's storages add goes before one that only may have.
    for matcher in matcher.isStrict ? [matcher.exact, matcher] : [matcher] {
      guard let entry = first(asked, by: matcher, &index, &nearest) else { continue }
      index.play(entry)
      return .success(entry)
    }
    guard let nearest else { return .failure(.notRecorded(method: request.method, url: request.urlString)) }
    return .failure(.differs(method: request.method, url: request.urlString, difference: nearest))
  }

  /// The first entry that matches and was not played; else, if it may be played again, the last one.
  ///
  /// - Parameter nearest: in what one differs that has the same method and URL.
  private func first(
    _ asked: AskedRequest, by matcher: ReplayMatcher, _ index: inout ReplayIndex, _ nearest: inout String?
  ) -> Int? {
    func matches(_ entry: Int) -> Bool {
      switch matcher.difference(recorded[entry], asked) {
      case nil: return true
      case .rest(let what): nearest = what
      case .line: break
      }
      return false
    }
    let (place, isPlayed) = (asked.line.place, index.isPlayed)
    if let entry = index.remaining(of: place).first(where: { !isPlayed[$0] && matches($0) }) { return entry }
    return repeats ? index.entries(of: place).last { isPlayed[$0] && matches($0) } : nil
  }

  private static func answer(
    to difference: ReplayDifference, _ recorded: HTTPArchive.Request, _ request: TransportRequest
  ) -> NoAnswer {
    switch difference {
    case .line:
      .outOfOrder(expected: "\(recorded.method) \(recorded.url)", actual: "\(request.method) \(request.urlString)")
    case .rest(let what): .differs(method: request.method, url: request.urlString, difference: what)
    }
  }

  private static func refusal(_ error: NoAnswer, _ request: TransportRequest) -> SessionError {
    let message =
      switch error {
      case .differs(_, _, let difference):
        "the request is not the one that was recorded with its method and URL: \(difference)"
      case .outOfOrder(let expected, let actual):
        "the next recorded request is \(SessionError.shown(url: expected)), not \(SessionError.shown(url: actual))"
      case .unplayable(let reason): "the recorded response cannot be played: \(reason)"
      default:
        "\(request.method) \(SessionError.shown(url: request.urlString)) was not recorded, or was played already"
      }
    return ExchangePlayer.error(.noAnswer, .send, message, request, underlying: error)
  }

  // MARK: Playing

  private static let pieceSize = 64 * 1024

  private func steps(_ entry: HTTPArchive.Entry, _ request: TransportRequest) -> [ExchangeStep] {
    guard entry.response != nil || entry.failure != nil else {
      return [.end(Self.refusal(.unplayable("the entry has no response"), request))]
    }
    guard !entry.lacksBody else { return [.end(Self.refusal(.unplayable("its body was not kept"), request))] }
    var steps: [ExchangeStep] = []
    if playsTimings, let wait = entry.timings.wait { steps.append(.wait(wait)) }
    do throws(WireError) {
      if let response = entry.response { steps += try self.steps(response) }
    } catch {
      return [.end(Self.refusal(.unplayable("\(error)"), request))]
    }
    if playsTimings, let receive = entry.timings.receive { steps.append(.wait(receive)) }
    let failure = entry.failure.map { failure in
      SessionError(
        SessionError.Code(rawValue: failure.code), phase: SessionError.Phase(rawValue: failure.phase),
        message: failure.message, failingURL: request.urlString, requestBytesSent: failure.requestBytesSent)
    }
    return steps + [.end(failure)]
  }

  private func steps(_ response: HTTPArchive.Response) throws(WireError) -> [ExchangeStep] {
    var steps: [ExchangeStep] = []
    for interim in response.informational {
      steps.append(.informational(try ResponseHead(status: interim.status, fields: Self.pairs(interim.fields))))
    }
    let head = try ResponseHead(
      status: response.status, reason: response.reason,
      version: response.httpVersion.uppercased() == "HTTP/1.0" ? .http10 : .http11,
      fields: Self.pairs(response.fields))
    guard !head.isInformational else { throw WireError(.invalidStatusCode, at: 9) }
    let body = response.body ?? []
    steps.append(.head(head, .length(Int64(body.count))))
    for start in stride(from: 0, to: body.count, by: Self.pieceSize) {
      steps.append(.body(Array(body[start..<min(body.count, start + Self.pieceSize)])))
    }
    if !response.trailers.isEmpty { steps.append(.trailers(try FieldSection(Self.pairs(response.trailers)))) }
    return steps
  }

  /// Fields as HTTP/1.1 can carry them: browsers list pseudo fields of HTTP/2, and join cookies with line ends.
  private static func pairs(_ fields: [HTTPArchive.Field]) -> [(name: String, value: String)] {
    fields.filter { !$0.name.hasPrefix(":") }.flatMap { field in
      field.value.split(separator: "\n", omittingEmptySubsequences: false).map {
        (name: field.name, value: String($0.trimmingSpaces))
      }
    }
  }
}
