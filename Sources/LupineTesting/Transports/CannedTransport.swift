internal import LupineBase
public import LupineSession

/// A request as a transport of this module saw it.
public struct SeenRequest: Sendable, Equatable {
  /// The method.
  public var method: String
  /// The URL, without userinfo and fragment.
  public var urlString: String
  /// Path and query, as they stand in the request line.
  public var target: String
  /// All fields but those that frame the body, in the order in which they are sent.
  public var fields: ServerFields
  /// The body as far as it was read.
  public var body: [UInt8] = []
  /// What followed the body; empty until all of it was read.
  public var trailers = ServerFields()
  /// Whether the body was read to its end; false of one that was cut by a cancellation, a deadline, a limit or its own failure.
  public var bodyIsComplete = false

  /// The body as text; invalid UTF-8 is replaced.
  public var text: String { String(decoding: body, as: UTF8.self) }

  init(_ request: TransportRequest) {
    method = request.method
    urlString = request.urlString
    target = request.target
    fields = ServerFields(pairs: request.fields)
    if case .none = request.body { bodyIsComplete = true }
  }
}

/// Why a transport of this module has no answer; the `underlying` error of a `SessionError` with the code `.noAnswer`. Its URLs are as they were asked for,
/// with the secrets that the error's message leaves out.
public enum NoAnswer: Error, Equatable, Sendable {
  /// `CannedTransport`: no route matches; these are there.
  case noRoute(method: String, url: String, routes: [String])
  /// `ReplayTransport`: nothing that was recorded, and not played yet, matches.
  case notRecorded(method: String, url: String)
  /// `ReplayTransport`, in order: something else comes next.
  case outOfOrder(expected: String, actual: String)
  /// `ReplayTransport`, strict: method and URL were recorded, and the rest is another; the text says what, without values.
  case differs(method: String, url: String, difference: String)
  /// `ReplayTransport`: the recorded response cannot be played; the text says why.
  case unplayable(String)
}

extension SessionError.Code {
  /// A transport of `LupineTesting` has no answer to a request; `underlying` is a `NoAnswer`.
  public static let noAnswer = SessionError.Code(rawValue: "noAnswer")
}

/// A transport that answers from memory: put one into `SessionConfiguration.transport` of the session under test.
///
/// Requests are answered by the first route that matches; one that no route matches fails with `.noAnswer`. Callbacks come on one thread of
/// the transport's own, in the order of the wire; deadlines, pauses and cancellation are honoured as the network honours them.
public final class CannedTransport: Transport {
  /// Answers some requests.
  public struct Route: Sendable {
    enum Answer: Sendable {
      case reply(CannedReply)
      case replies([CannedReply])
      case closure(@Sendable (SeenRequest) async throws -> CannedReply)
    }

    let method: String?
    let pattern: URLPattern
    var answer: Answer
    /// Whether the body of a request is read before it is answered. Default true; otherwise `SeenRequest.body` stays empty.
    public var readsBody = true

    /// Always the same reply.
    ///
    /// - Parameters:
    ///   - method: nil: any.
    ///   - pattern: a URL in which `*` stands for any characters; one that begins with "/" matches on any host; one without "?" matches
    ///     any query.
    public init(_ method: String?, _ pattern: String, _ reply: CannedReply) {
      self.init(method, pattern, .reply(reply))
    }

    /// One reply after another; the last one is repeated.
    public init(_ method: String?, _ pattern: String, inTurn replies: [CannedReply]) {
      self.init(method, pattern, .replies(replies))
    }

    /// What a closure makes of the request. If it throws a `SessionError`, the exchange fails with that; another error is its `underlying`.
    /// It is not asked about a request whose body was cut.
    public init(
      _ method: String?, _ pattern: String,
      _ respond: @escaping @Sendable (SeenRequest) async throws -> CannedReply
    ) {
      self.init(method, pattern, .closure(respond))
    }

    private init(_ method: String?, _ pattern: String, _ answer: Answer) {
      self.method = method
      self.pattern = URLPattern(pattern)
      self.answer = answer
    }

    /// For messages.
    var description: String { "\(method ?? "*") \(pattern.text)" }

    func matches(_ request: TransportRequest) -> Bool {
      (method ?? request.method) == request.method
        && pattern.matches(url: request.urlString, target: request.target)
    }
  }

  private struct State {
    var routes: [Route]
    /// How often each route was used.
    var uses: [Int]
    var seen: [SeenRequest] = []
  }

  private let thread: TransportThread
  private let state: Locked<State>
  private let bodyLimit: Int

  /// Makes a transport with these routes.
  ///
  /// - Parameters:
  ///   - bodyLimit: bytes of a request body that are kept; a longer one fails with `.bodyTooLarge`. Default 64 MiB.
  ///   - clock: what delays and deadlines are measured with.
  public init(_ routes: [Route] = [], bodyLimit: Int = 64 << 20, clock: TransportClock = .real) {
    thread = TransportThread(clock: clock)
    state = Locked(State(routes: routes, uses: routes.map { _ in 0 }))
    self.bodyLimit = bodyLimit
  }

  /// Adds a route behind the others.
  public func add(_ route: Route) {
    state.withLock { state in
      state.routes.append(route)
      state.uses.append(0)
    }
  }

  /// Every request so far, in the order in which they were begun, redirects and repetitions included.
  public var requests: [SeenRequest] { state.withLock { $0.seen } }

  // MARK: Transport

  /// Answers a request.
  public func start(_ request: TransportRequest, _ receiver: any TransportReceiver) -> any TransportExchange {
    let player = ExchangePlayer(request, receiver, on: thread)
    let seen = SeenRequest(request)
    let (index, answer, readsBody, routes) = state.withLock { state -> (Int, Route.Answer?, Bool, [String]) in
      state.seen.append(seen)
      let index = state.seen.count - 1
      guard let place = state.routes.firstIndex(where: { $0.matches(request) }) else {
        return (index, nil, false, state.routes.map(\.description))
      }
      let route = state.routes[place]
      defer { state.uses[place] += 1 }
      guard case .replies(let replies) = route.answer else { return (index, route.answer, route.readsBody, []) }
      let reply = replies.isEmpty ? CannedReply() : replies[min(state.uses[place], replies.count - 1)]
      return (index, .reply(reply), route.readsBody, [])
    }
    guard let answer else {
      player.append([.end(Self.noRoute(request, routes))])
      return player
    }
    if case .reply(let reply) = answer, seen.bodyIsComplete || !readsBody {
      player.append([.requestSent] + reply.steps(for: request), isImmediate: true)
    } else {
      respond(player, index, answer, readsBody)
    }
    return player
  }

  private static func noRoute(_ request: TransportRequest, _ routes: [String]) -> SessionError {
    let line = "\(request.method) \(SessionError.shown(url: request.urlString))"
    return ExchangePlayer.error(
      .noAnswer, .send, "no route answers \(line); there are: \(routes.map { SessionError.shown(url: $0) })", request,
      underlying: NoAnswer.noRoute(method: request.method, url: request.urlString, routes: routes))
  }

  /// Reads the body, asks the closure, and plays what comes of it; all of that ends with the exchange.
  private func respond(_ player: ExchangePlayer, _ index: Int, _ answer: Route.Answer, _ readsBody: Bool) {
    let request = player.request
    let task = Task.detached { [self] in
      do {
        var readAt: Int64?
        if readsBody {
          guard let instant = try await readBody(player, index) else { return }
          readAt = instant
        }
        let seen = state.withLock { $0.seen[index] }
        let steps = (try await reply(answer, seen)).steps(for: request)
        // What a closure says begins when it has said it.
        if case .closure = answer { readAt = nil }
        player.append([.requestSent] + steps, since: readAt)
      } catch let error as SessionError {
        player.append([ExchangePlayer.failed(error)])
      } catch {
        player.append([
          .end(
            ExchangePlayer.error(
              .unknown, .receive, "the route's closure threw: \(error)", request, underlying: error))
        ])
      }
    }
    player.onEnd { task.cancel() }
  }

  /// Reads the body into what was seen of the request.
  ///
  /// - Returns: when it had been read, before anybody could see that; nil: the exchange was over before the body was.
  private func readBody(_ player: ExchangePlayer, _ index: Int) async throws(SessionError) -> Int64? {
    let body = player.request.body
    let isTooLarge = Locked(false)
    let trailers = try await player.request.readBody { [self] chunk in
      let isTaken = state.withLock { state in
        guard chunk.count <= bodyLimit - state.seen[index].body.count else { return false }
        state.seen[index].body += chunk
        return true
      }
      if isTaken { player.append([.sent(chunk.count)]) } else { isTooLarge.withLock { $0 = true } }
      return isTaken && !Task.isCancelled
    }
    guard !isTooLarge.withLock({ $0 }) else {
      throw ExchangePlayer.error(
        .bodyTooLarge, .send, "the request body is larger than \(bodyLimit) bytes; see CannedTransport.init",
        player.request)
    }
    let now = thread.now
    return state.withLock { state -> Int64? in
      let count = Int64(state.seen[index].body.count)
      state.seen[index].trailers = ServerFields(pairs: trailers)
      // A sequence that is cancelled ends as one that is over does.
      state.seen[index].bodyIsComplete = body.knownLength.map { $0 == count } ?? !Task.isCancelled
      return state.seen[index].bodyIsComplete ? now : nil
    }
  }

  private func reply(_ answer: Route.Answer, _ seen: SeenRequest) async throws -> CannedReply {
    switch answer {
    case .reply(let reply): reply
    case .replies(let replies): replies.last ?? CannedReply()
    case .closure(let respond): try await respond(seen)
    }
  }
}
