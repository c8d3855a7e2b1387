internal import Synchronization
internal import HTTPTypes
internal import LupineBase
internal import LupineEngine
internal import LupineRules
internal import LupineWire

/// Redirects (RFC 9110 15.4), with the delegate's word.
extension TaskRun {
  private enum Outcome {
    case deliver
    case follow(RedirectStep, Response.Redirect)
    case refuse(RedirectRefusal, Response)
  }

  /// Decides about a 3xx. False: it is the answer.
  func redirect(_ head: ResponseHead, _ exchange: any TransportExchange) -> Bool {
    let locations = head.fields.bytes(.location)
    let requestHead = exchange.requestHead
    let outcome = state.withLock { decideRedirect(head, locations, exchange, requestHead, &$0) }
    switch outcome {
    case .deliver: return false
    case .refuse(let refusal, let response):
      state.withLock { state in
        state.response = response
        state.following = .failure(SessionError(refusal, response: response))
      }
      dropBody(of: exchange)
    case .follow(let step, let redirect):
      if let observer, observer.wants(.redirection) {
        askRedirection(step, redirect, exchange, observer)
      } else {
        follow(step, redirect, exchange)
        dropBody(of: exchange)
      }
    }
    return true
  }

  private func decideRedirect(
    _ head: ResponseHead, _ locations: [[UInt8]], _ exchange: any TransportExchange, _ requestHead: [UInt8],
    _ state: inout State
  ) -> Outcome {
    if state.exchange == nil, state.machine.state != .completed { state.exchange = exchange }
    let request = state.chain?.base ?? self.request
    let wanted = request.redirects ?? session.configuration.redirects
    let policy = RedirectPolicy(
      isEnabled: wanted.isEnabled, limit: wanted.limit, allowsDowngrade: wanted.allowsDowngrade)
    let url = state.chain?.url ?? request.parsedURL
    let dropsBody = state.chain?.dropsBody ?? false
    let decision = RedirectRule.decide(
      status: head.status, method: state.chain?.method ?? request.method.rawValue, locations: locations, current: url,
      chain: state.chain?.history ?? RedirectChain(),
      isBodyReplayable: dropsBody || request.body.isReplayable || canAskForBody
        || state.chain?.newBody == nil && exchange.keepsBody, policy: policy)
    switch decision {
    case .deliver: return .deliver
    case .follow(let step):
      return .follow(step, Response.Redirect(url: url, head: head, requestHead: requestHead))
    case .refuse(let refusal): return .refuse(refusal, makeResponse(head, requestHead, &state))
    }
  }

  private func follow(_ step: RedirectStep, _ redirect: Response.Redirect, _ exchange: any TransportExchange) {
    changeChain { state in
      var chain = state.chain ?? Chain(request)
      chain.follow(step, from: redirect)
      // What was sent once cannot be sent again.
      chain.needsNewBody =
        !chain.dropsBody
        && (chain.newBody != nil || !(chain.base ?? request).body.isReplayable && !exchange.keepsBody)
      chain.newBody = nil
      state.chain = chain
      state.redirectCount += 1
      state.following = .again
    }
  }

  func dropBody(of exchange: any TransportExchange) {
    exchange.discardBody()
    // Its bytes may be held already, and transports of others need not stop them.
    if callbacks != nil || isGated.load(ordering: .acquiring) || !(exchange is EngineExchange) { dropBody() }
  }

  private func askRedirection(
    _ step: RedirectStep, _ redirect: Response.Redirect, _ exchange: any TransportExchange, _ observer: TaskCallbacks
  ) {
    let (proposed, response) = state.withLock { state -> (Request, Response) in
      var chain = state.chain ?? Chain(request)
      chain.follow(step, from: redirect)
      return (
        chain.request(instead: request, isMarkedSensitive: isSensitive),
        makeResponse(redirect.head, redirect.requestHead, &state)
      )
    }
    guard let number = closeGate(for: exchange) else { return }
    observer.redirection(response, proposed) { [self] answer in
      decide(number) {
        guard let answer else {
          self.answer(redirect.head, exchange)
          return
        }
        follow(step, redirect, exchange)
        changeChain { $0.chain?.replace(with: answer, insteadOf: proposed) }
        dropBody(of: exchange)
      }
    }
  }

  /// Whether the caller says that a field is a secret.
  func isSensitive(_ name: HTTPField.Name) -> Bool {
    request.sensitiveFields.contains(name) || session.configuration.sensitiveFields.contains(name)
  }
}

extension TransportExchange {
  /// Whether the body of the exchange was never asked for, as its `Expect` was not met: then it is there for another one.
  var keepsBody: Bool { (self as? CacheExchange)?.keepsBodyBelow ?? ((self as? EngineExchange)?.isBodySpent == false) }
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
      response: response, underlying: refusal)
  }
}
