internal import Synchronization
internal import HTTPTypes
internal import Logging
internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineWire

/// One task from its request to its last response: follows redirects, collects what was said on the way, and passes the final response to
/// its consumer.
///
/// States, and their legal successors:
///
///     ready -> running -> ended        one exchange at a time; a redirect begins the next one when its own body is dealt with
///
/// Invariant: the consumer's `end` is called exactly once, after which nothing is.
final class TaskRun: TransportReceiver {
  private enum Pending {
    case redirect
    /// The consumer wants the whole instead of a range.
    case whole
    case failure(SessionError)
  }

  /// Where a chain of redirects has led; nothing of it exists for the many requests that are not redirected.
  private struct Chain {
    var step: RedirectStep
    var dropsBody: Bool
    var redirects: [Response.Redirect]
  }

  private struct State {
    var exchange: (any TransportExchange)?
    /// Exchanges begun, and exchanges ended.
    var begun = 0
    var ended = 0
    var isCancelled = false
    var hasEnded = false
    var chain: Chain?
    /// Goes without the range that was asked for first.
    var asksForWhole = false
    /// What happens when the exchange under way ends, besides passing its response on.
    var pending: Pending?
    var response: Response?
    var trailers: FieldSection?
    var informational: [ResponseHead] = []
    var transactions: [TransactionMetrics] = []
    var lastRequestHead: [UInt8] = []
  }

  let request: Request
  let session: Session
  private let consumer: any ResponseConsumer
  private let startedAt = EventLoop.monotonicNow()
  private let onSent: (@Sendable (Int) -> Void)?
  private let state = LockedStorage(State())

  /// - Parameter onSent: told how many more body bytes were handed to the network.
  init(_ request: Request, session: Session, consumer: any ResponseConsumer, onSent: (@Sendable (Int) -> Void)? = nil) {
    self.request = request
    self.session = session
    self.consumer = consumer
    self.onSent = onSent
  }

  /// Begins. Call once.
  func start() {
    begin()
  }

  /// Gives up; the consumer is told with `.cancelled`.
  func cancel() {
    let exchange = state.withLock { state -> (any TransportExchange)? in
      state.isCancelled = true
      return state.exchange
    }
    exchange?.cancel()
  }

  func resumeReading() {
    state.withLock { $0.exchange }?.resume()
  }

  // MARK: Exchanges

  private func begin() {
    let (chain, asksForWhole, isCancelled, number) = state.withLock { state in
      state.begun += 1
      return (state.chain, state.asksForWhole, state.isCancelled, state.begun)
    }
    let url = chain?.step.url ?? request.parsedURL
    guard !isCancelled else {
      finish(
        SessionError(.cancelled, phase: .prepare, message: "the task was cancelled", failingURL: url.requestString))
      return
    }
    let exchange = session.transport.start(transportRequest(chain, url, asksForWhole), self)
    let cancelNow = state.withLock { state -> Bool in
      // On its own thread the exchange may have ended meanwhile, and a redirect have begun the next one.
      guard state.ended < number, !state.hasEnded else { return false }
      state.exchange = exchange
      return state.isCancelled
    }
    if cancelNow { exchange.cancel() }
  }

  private func transportRequest(_ chain: Chain?, _ url: ParsedURL, _ asksForWhole: Bool) -> TransportRequest {
    let method = chain?.step.method ?? request.method.rawValue
    let dropsBody = chain?.dropsBody ?? false
    let times = session.times
    var total = max(0, request.totalTimeout.map(\.saturatedNanoseconds) ?? times.resource)
    if chain != nil || asksForWhole { total -= EventLoop.monotonicNow().nanoseconds(since: startedAt) }
    session.log("\(method) \(url.requestString)")
    var strip = chain?.step.chain.strip ?? []
    if asksForWhole { strip.insert(.range) }
    let composition = ComposedFields(run: self, url: url, strip: strip)
    return TransportRequest(
      method: method, url: url, composition: composition, body: dropsBody ? .none : request.body,
      expectsContinue: request.expectsContinue && !dropsBody, decodesContent: composition.offersCodings,
      idleNanoseconds: request.timeoutInterval.map(\.saturatedNanoseconds) ?? times.request,
      totalNanoseconds: max(0, total))
  }

  // MARK: What arrives

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    state.withLock { $0.informational.append(head) }
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    if head.fields.has(.setCookie) { keepCookies(head.fields, from: currentURL) }
    if RedirectRule.isRedirect(head.status), redirect(head, exchange) { return }
    let response = state.withLock { state -> Response in
      state.exchange = exchange
      let response = makeResponse(head, exchange, state)
      state.response = response
      return response
    }
    guard !consumer.wantsWhole(insteadOf: response) else { return askForWhole(exchange) }
    consumer.receive(response, from: exchange)
  }

  /// Begins the chain again, without the range, when the body of this answer is dealt with.
  private func askForWhole(_ exchange: any TransportExchange) {
    state.withLock { state in
      state.chain = nil
      state.asksForWhole = true
      state.pending = .whole
    }
    exchange.discardBody()
  }

  /// Where the chain has led so far.
  private var currentURL: ParsedURL { state.withLock { $0.chain?.step.url } ?? request.parsedURL }

  private func makeResponse(_ head: ResponseHead, _ exchange: any TransportExchange, _ state: State) -> Response {
    Response(
      head: head, url: state.chain?.step.url ?? request.parsedURL, requestHead: exchange.requestHead,
      informational: state.informational, redirects: state.chain?.redirects ?? [])
  }

  /// Decides about a 3xx. False: it is the answer.
  private func redirect(_ head: ResponseHead, _ exchange: any TransportExchange) -> Bool {
    let wanted = request.redirects ?? session.configuration.redirects
    let policy = RedirectPolicy(
      isEnabled: wanted.isEnabled, limit: wanted.limit, allowsDowngrade: wanted.allowsDowngrade)
    let locations = head.fields.bytes(.location)
    let isTaken = state.withLock { state -> Bool in
      let step = state.chain?.step
      let url = step?.url ?? request.parsedURL
      let dropsBody = state.chain?.dropsBody ?? false
      let decision = RedirectRule.decide(
        status: head.status, method: step?.method ?? request.method.rawValue, locations: locations, current: url,
        chain: step?.chain ?? RedirectChain(), isBodyReplayable: dropsBody || request.body.isReplayable, policy: policy)
      switch decision {
      case .deliver: return false
      case .follow(let step):
        let redirect = Response.Redirect(url: url, head: head, requestHead: exchange.requestHead)
        state.chain = Chain(
          step: step, dropsBody: dropsBody || step.dropsBody, redirects: (state.chain?.redirects ?? []) + [redirect])
        state.pending = .redirect
      case .refuse(let refusal):
        let response = makeResponse(head, exchange, state)
        state.response = response
        state.pending = .failure(SessionError(refusal, response: response))
      }
      return true
    }
    if isTaken { exchange.discardBody() }
    return isTaken
  }

  func receive(body bytes: Span<UInt8>, of exchange: any TransportExchange) {
    consumer.receive(body: bytes, from: exchange)
  }

  func receive(trailers: FieldSection, of exchange: any TransportExchange) {
    state.withLock { $0.trailers = trailers }
  }

  func sent(bodyBytes count: Int, of exchange: any TransportExchange) {
    onSent?(count)
  }

  func end(_ failure: SessionError?, metrics: TransactionMetrics, of exchange: any TransportExchange) {
    let pending = state.withLock { state -> Pending? in
      state.transactions.append(metrics)
      state.lastRequestHead = exchange.requestHead
      state.exchange = nil
      state.ended += 1
      defer { state.pending = nil }
      // A discarded body that fails changes nothing; a cancelled task does.
      return failure?.code == .cancelled ? nil : state.pending
    }
    switch pending {
    case .redirect, .whole:
      state.withLock { state in
        state.response = nil
        state.informational = []
        state.trailers = nil
      }
      begin()
    case .failure(let error): finish(error)
    case nil: finish(failure)
    }
  }

  private func finish(_ failure: SessionError?) {
    let now = EventLoop.monotonicNow()
    let result = state.withLock { state -> Result<Response, SessionError>? in
      guard !state.hasEnded else { return nil }
      state.hasEnded = true
      state.exchange = nil
      let metrics = TaskMetrics(
        transactions: state.transactions, start: startedAt, end: now,
        redirectCount: state.chain?.redirects.count ?? 0)
      let response = state.response?.ended(trailers: state.trailers ?? FieldSection(), metrics: metrics)
      if var failure {
        failure.response = response ?? failure.response
        failure.requestHead = state.lastRequestHead
        failure.metrics = metrics
        return .failure(failure)
      }
      guard let response else {
        return .failure(SessionError(.unknown, phase: .receive, message: "the transport ended without a response"))
      }
      return .success(response)
    }
    if let result { consumer.end(result) }
  }
}

extension Request.Body {
  /// Whether a second request can carry it.
  var isReplayable: Bool {
    switch self {
    case .none, .bytes, .file: true
    case .stream(_, let isReplayable, _): isReplayable
    }
  }
}

extension SessionError {
  init(_ refusal: RedirectRefusal, response: Response) {
    let (code, message): (Code, String) =
      switch refusal {
      case .tooManyRedirects(let limit):
        (.tooManyRedirects, "more than \(limit) redirects; see SessionConfiguration.redirects")
      case .downgrade:
        (.redirectRefused, "a redirect leads from https to http; see RedirectConfiguration.allowsDowngrade")
      case .ambiguousLocation: (.redirectRefused, "a redirect has several Location fields that differ")
      case .invalidLocation(let refusal):
        (.redirectRefused, "a redirect leads to no URL that can be fetched: \(refusal)")
      }
    self.init(
      code, phase: .redirect, message: message, failingURL: response.urlString, requestBytesSent: true,
      response: response,
      underlying: refusal)
  }
}
