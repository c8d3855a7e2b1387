internal import Synchronization
internal import HTTPTypes
internal import LupineBase
internal import LupineRules
internal import LupineWire

/// Challenges of servers (RFC 9110 section 11), with the delegate's word. A 407 is a proxy's: from a server it is an answer like any other.
extension TaskRun {
  /// The field that says who is asking, for the exchange that begins. Nobody pays for it where nobody was ever asked.
  ///
  /// - Throws: `SessionError` with `.cannotAuthenticate`.
  func authorization(_ chain: Box<Chain>?) throws(SessionError) -> (name: String, value: String)? {
    guard
      isAuthenticating.load(ordering: .relaxed) || session.authentication.isInformed
        || request.credential?.isPreemptive ?? false || chain?.value.base?.credential?.isPreemptive ?? false
    else { return nil }
    return try authentication.field(hop(chain?.value))
  }

  /// What the task has tried so far; made when it is first needed.
  private var authentication: TaskAuthentication {
    state.withLock { state in
      if let known = state.authentication { return known }
      let made = TaskAuthentication(session.authentication)
      state.authentication = made
      isAuthenticating.store(true, ordering: .relaxed)
      return made
    }
  }

  private func hop(_ chain: Chain?) -> AuthenticationHop {
    let request = chain?.base ?? self.request
    let url = chain?.url ?? request.parsedURL
    let strip = (own: chain?.strip ?? [], session: chain?.history.strip ?? [])
    let isHome = !strip.own.contains(.sensitive) && OriginRule.isSame(url, request.parsedURL)
    let hasOwnField =
      request.fields.contains(.authorization) && !OriginRule.strips("authorization", strip.own)
      || session.configuration.additionalFields.contains(.authorization)
        && !OriginRule.strips("authorization", strip.session)
    let hasBody = if case .none = body(chain) { chain?.newBody != nil } else { true }
    return AuthenticationHop(
      party: AuthenticationParty(origin: url.origin), url: url, method: chain?.method ?? request.method.rawValue,
      explicit: isHome ? request.namedCredential : nil, hasOwnField: hasOwnField, hasBody: hasBody,
      redirects: chain?.redirects.count ?? 0)
  }

  private func body(_ chain: Chain?) -> Request.Body {
    guard let chain else { return request.body }
    return chain.dropsBody ? .none : (chain.base ?? request).body
  }

  // MARK: The response

  /// Decides about a 401, and learns from anything else. False: it is the answer, or a redirect.
  func authenticate(_ head: ResponseHead, _ exchange: any TransportExchange) -> Bool {
    let chain = state.withLock { state in
      if state.exchange == nil, state.machine.state != .completed { state.exchange = exchange }
      return state.chain
    }
    let hop = hop(chain)
    let authentication = authentication
    guard head.status == 401 else {
      let isStored = (exchange as? CacheExchange)?.servesStored ?? false
      authentication.accepted(
        hop, status: isStored ? nil : head.status,
        // What was said to an earlier request names a nonce of before.
        info: isStored ? [] : head.fields.rawValues(named: "authentication-info"))
      return false
    }
    let asks = observer?.wants(.taskChallenge) ?? false
    let step = authentication.challenged(hop, by: head.fields.rawValues(named: "www-authenticate"), asks: asks)
    return take(step, hop, head, exchange)
  }

  private func take(
    _ step: TaskAuthentication.Step, _ hop: AuthenticationHop, _ head: ResponseHead, _ exchange: any TransportExchange
  ) -> Bool {
    switch step {
    case .deliver: return false
    case .again: sendAgain(hop, head, exchange)
    case .ask(let question): ask(question, hop, head, exchange)
    case .fail(let error): fail(error, head, exchange)
    }
    return true
  }

  private func ask(
    _ question: TaskAuthentication.Question, _ hop: AuthenticationHop, _ head: ResponseHead,
    _ exchange: any TransportExchange
  ) {
    guard let observer else { return answer(head, exchange) }
    let requestHead = exchange.requestHead
    let challenge = AuthenticationChallenge(
      protectionSpace: question.space, proposedCredential: question.proposed,
      previousFailureCount: question.failureCount,
      failureResponse: state.withLock { makeResponse(head, requestHead, &$0) })
    guard let number = closeGate(for: exchange) else { return }
    observer.challenge(challenge) { [self] disposition in
      decide(number) {
        let step = authentication.decided(disposition, question, hop)
        if !take(step, hop, head, exchange) { answer(head, exchange) }
      }
    }
  }

  private func sendAgain(_ hop: AuthenticationHop, _ head: ResponseHead, _ exchange: any TransportExchange) {
    let refusal = changeChain { state -> SessionError? in
      let body = body(state.chain)
      // A body that a delegate made was read by the exchange that ends.
      let isOnce = state.chain?.newBody != nil || !body.isReplayable && !exchange.keepsBody
      if isOnce, !canAskForBody { return .bodyNotReplayable(hop.url) }
      if isOnce || body.hasStream, authentication(state)?.wantsBodyHash != nil {
        return SessionError(authentication: DigestRefusal.needsBodyHash, url: hop.url)
      }
      var chain = state.chain ?? Chain(request)
      chain.newBody = nil
      chain.needsNewBody = isOnce
      state.chain = chain
      state.following = .again
      return nil
    }
    if let refusal { return fail(refusal, head, exchange) }
    dropBody(of: exchange)
  }

  private func authentication(_ state: State) -> TaskAuthentication? { state.authentication }

  private func fail(_ error: SessionError, _ head: ResponseHead, _ exchange: any TransportExchange) {
    let requestHead = exchange.requestHead
    state.withLock { state in
      let response = makeResponse(head, requestHead, &state)
      var error = error
      error.response = response
      state.response = response
      state.following = .failure(error)
    }
    dropBody(of: exchange)
  }

  // MARK: The hash of the body

  /// Hashes the body, if the next exchange cannot begin before that, then begins it. False: there is nothing to hash.
  func hashesBody() -> Bool {
    guard isAuthenticating.load(ordering: .relaxed) else { return false }
    let (known, body) = state.withLock { state -> (TaskAuthentication?, Request.Body) in
      (state.authentication, self.body(state.chain))
    }
    guard let known, let function = known.wantsBodyHash, let source = BodyHash(body) else { return false }
    computed(source, function) { [self] result in
      switch result {
      case .success(let hash):
        known.give(bodyHash: hash)
        begin()
      case .failure(let error): finish(error)
      }
    }
    return true
  }
}

extension SessionError {
  fileprivate static func bodyNotReplayable(_ url: ParsedURL) -> SessionError {
    SessionError(
      .bodyNotReplayable, phase: .authentication,
      message: "the server wants to know who is asking, and the body can be sent only once; send a replayable one, "
        + "make a new one in the delegate, or set Credential.isPreemptive",
      failingURL: url.requestString, requestBytesSent: true)
  }
}
