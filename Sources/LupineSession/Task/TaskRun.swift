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
    case redirect(RedirectStep)
    case failure(SessionError)
  }

  private struct State {
    var exchange: (any TransportExchange)?
    /// Exchanges begun, and exchanges ended.
    var begun = 0
    var ended = 0
    var isCancelled = false
    var hasEnded = false
    var method: String
    var url: ParsedURL
    var dropsBody = false
    var chain = RedirectChain()
    /// What happens when the exchange under way ends, besides passing its response on.
    var pending: Pending?
    var response: Response?
    var informational: [ResponseHead] = []
    var redirects: [Response.Redirect] = []
    var transactions: [TransactionMetrics] = []
    var lastRequestHead: [UInt8] = []
  }

  private let request: Request
  private let session: Session
  private let consumer: any ResponseConsumer
  private let startedAt = EventLoop.monotonicNow()
  private let onSent: (@Sendable (Int) -> Void)?
  private let state: LockedStorage<State>

  /// - Parameter onSent: told how many more body bytes were handed to the network.
  init(_ request: Request, session: Session, consumer: any ResponseConsumer, onSent: (@Sendable (Int) -> Void)? = nil) {
    self.request = request
    self.session = session
    self.consumer = consumer
    self.onSent = onSent
    state = LockedStorage(State(method: request.method.rawValue, url: request.parsedURL))
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
    let (method, url, dropsBody, chain, isCancelled, number) = state.withLock { state in
      state.begun += 1
      return (state.method, state.url, state.dropsBody, state.chain, state.isCancelled, state.begun)
    }
    guard !isCancelled else {
      finish(
        SessionError(.cancelled, phase: .prepare, message: "the task was cancelled", failingURL: url.requestString))
      return
    }
    let (fields, decodes) = session.composer.fields(for: request, url: url, chain: chain)
    let configuration = session.configuration
    let total = (request.totalTimeout ?? configuration.timeoutIntervalForResource).saturatedNanoseconds
    let elapsed = EventLoop.monotonicNow().nanoseconds(since: startedAt)
    let transportRequest = TransportRequest(
      method: method, url: url, fields: fields, body: dropsBody ? .none : request.body,
      expectsContinue: request.expectsContinue && !dropsBody, decodesContent: decodes,
      idleTimeout: request.timeoutInterval ?? configuration.timeoutIntervalForRequest,
      totalTimeout: .nanoseconds(max(0, total - elapsed)), decodedLimit: nil)
    session.log("\(method) \(url.requestString)")
    let exchange = session.transport.start(transportRequest, self)
    let cancelNow = state.withLock { state -> Bool in
      // On its own thread the exchange may have ended meanwhile, and a redirect have begun the next one.
      guard state.ended < number, !state.hasEnded else { return false }
      state.exchange = exchange
      return state.isCancelled
    }
    if cancelNow { exchange.cancel() }
  }

  // MARK: What arrives

  func receive(informational head: ResponseHead, of exchange: any TransportExchange) {
    state.withLock { $0.informational.append(head) }
  }

  func receive(head: ResponseHead, framing: BodyFraming, of exchange: any TransportExchange) {
    if RedirectRule.isRedirect(head.status), redirect(head, exchange) { return }
    let response = state.withLock { state -> Response in
      state.exchange = exchange
      var response = Response(head: head, url: state.url)
      response.requestHead = exchange.requestHead
      response.informational = state.informational
      response.redirects = state.redirects
      state.response = response
      return response
    }
    consumer.receive(response, from: exchange)
  }

  /// Decides about a 3xx. False: it is the answer.
  private func redirect(_ head: ResponseHead, _ exchange: any TransportExchange) -> Bool {
    let policy = request.redirects ?? session.configuration.redirects
    let locations = head.fields.values(.location).map { Array($0.utf8) }
    let isTaken = state.withLock { state -> Bool in
      let decision = RedirectRule.decide(
        status: head.status, method: state.method, locations: locations, current: state.url, chain: state.chain,
        isBodyReplayable: state.dropsBody || request.body.isReplayable,
        policy: RedirectPolicy(
          isEnabled: policy.isEnabled, limit: policy.limit, allowsDowngrade: policy.allowsDowngrade))
      switch decision {
      case .deliver: return false
      case .follow(let step):
        state.redirects.append(Response.Redirect(url: state.url, head: head, requestHead: exchange.requestHead))
        state.pending = .redirect(step)
      case .refuse(let refusal):
        var response = Response(head: head, url: state.url)
        response.requestHead = exchange.requestHead
        response.redirects = state.redirects
        response.informational = state.informational
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
    state.withLock { $0.response?.trailers = trailers }
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
    case .redirect(let step):
      state.withLock { state in
        state.method = step.method
        state.url = step.url
        state.dropsBody = state.dropsBody || step.dropsBody
        state.chain = step.chain
        state.informational = []
      }
      begin()
    case .failure(let error): finish(error)
    case nil: finish(failure)
    }
  }

  private func finish(_ failure: SessionError?) {
    let duration = EventLoop.monotonicNow().nanoseconds(since: startedAt)
    let result = state.withLock { state -> Result<Response, SessionError>? in
      guard !state.hasEnded else { return nil }
      state.hasEnded = true
      state.exchange = nil
      state.response?.metrics.transactions = state.transactions
      state.response?.metrics.duration = .nanoseconds(duration)
      if var failure {
        failure.response = state.response ?? failure.response
        failure.requestHead = state.lastRequestHead
        failure.metrics = TaskMetrics(transactions: state.transactions, duration: .nanoseconds(duration))
        return .failure(failure)
      }
      guard let response = state.response else {
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
