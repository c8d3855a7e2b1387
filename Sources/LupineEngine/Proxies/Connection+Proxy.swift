internal import LupineBase
internal import LupineIO
internal import LupineRules
internal import LupineTLS
internal import LupineWire

/// Connections through a proxy: TLS within TLS, and what a proxy says to requests that it forwards. Nothing here runs for others.
extension Connection {
  /// The way to the origin is free, or a proxy that forwards is reached: takes over what the handshake holds.
  func reached(_ handshake: ProxyHandshake, canRead readable: Bool) {
    guard state == .opening, let registration = handshake.registration, let socket = handshake.socket else { return }
    opener = nil
    remoteAddress = handshake.remote
    localAddress = handshake.local
    self.registration = registration
    self.socket = socket
    if handshake.seen.readsFallShort { note(handshake.seen) }
    context.transfer(registration, to: self, readiness: readable || hangUpSeen ? .readable : [])
    guard let policy = key.identity.tls else {
      tls = handshake.tls
      opened()
      return
    }
    outerTLS = handshake.tls
    startTLS(policy)
  }

  // MARK: TLS within TLS

  /// Ciphertext of the proxy's TLS, within which is the origin's.
  func receiveNested(_ bytes: Span<UInt8>) {
    guard let outer = outerTLS else { return }
    do throws(TLSError) {
      let result = try outer.receive(bytes) { inner in
        if let tls, state != .closed { receive(ciphertext: inner, tls) }
      }
      guard state != .closed else { return }
      _ = flushTLS()
      if result == .closedByPeer {
        canRead = false
        // The proxy says that it is at its end, not the origin.
        peerClosed(cleanly: false)
      }
    } catch {
      guard state != .closed else { return }
      sendAlert()
      outerFailed(error)
    }
  }

  private func outerFailed(_ error: TLSError) {
    switch state {
    case .handshaking: openFailed(.proxy(.tls(error)), .proxy)
    case .ending: verdict = .close(.bodyUntilClose)
    case .busy where isParsingHeld: holdFailure(error)
    case .busy: fail(.tls(error))
    case .idle, .opening: close(.failed)
    case .closed: break
    }
  }

  /// Wraps what the origin's TLS has to say in the proxy's, and sends that. False: the socket takes no more for now, or has failed.
  func flushNested() -> Bool {
    guard let outer = outerTLS, let inner = tls else { return true }
    if let error = Self.wrap(inner, in: outer) {
      outerFailed(error)
      return false
    }
    return sendCiphertext(of: outer) && !inner.isSendHeld
  }

  static func wrap(_ inner: TLSConnection, in outer: TLSConnection) -> TLSError? {
    guard inner.hasOutput else { return nil }
    var failure: TLSError?
    inner.drainOutput { bytes in
      do throws(TLSError) {
        try outer.send(bytes)
        return bytes.count
      } catch {
        failure = error
        return 0
      }
    }
    return failure
  }

  /// Best effort, at the end.
  func notifyNested() {
    guard let outer = outerTLS, let inner = tls, let socket else { return }
    inner.close()
    _ = Self.wrap(inner, in: outer)
    outer.close()
    outer.drainOutput { bytes in
      _ = try? SystemCalls.send(socket.descriptor, bytes)
      return 0
    }
  }

  // MARK: Forwarded requests

  /// What a proxy that forwards answers, before anybody else hears of it.
  func hearProxy(_ head: ResponseHead, _ transfer: Transfer) {
    guard case .proxy(let route) = key.identity.route, let forward = transfer.forward else { return }
    guard head.status == 407 else {
      if let answer = forward.authentication.sent {
        let nextNonce = answer.nonce == nil ? nil : head.fields.proxyNextNonce
        pool.proxies.accepted(answer, nextNonce: nextNonce, route)
      }
      return
    }
    let canRepeat =
      transfer.request.body.isReplayable || transfer.expectsContinue && exchange.sending == .awaitingContinue
    if canRepeat, forward.authentication.challenged(by: head.fields.proxyChallenges) {
      transfer.answerProxy()
    } else {
      pool.proxies.forget(route)
    }
  }
}

/// What a request in absolute form says to its proxy about who is asking.
final class ForwardState {
  var authentication: ProxyAuthentication

  init(_ authentication: ProxyAuthentication) {
    self.authentication = authentication
  }
}

extension EnginePool {
  /// Puts `Proxy-Authorization` into the head of a request that goes to the proxy in absolute form. Nothing of it is in the request itself, so that
  /// it cannot go anywhere else.
  func authorize(_ transfer: Transfer, _ target: String) throws(EngineError) {
    guard case .proxy(let route) = transfer.request.key.identity.route else { return }
    let forward: ForwardState
    if let known = transfer.forward {
      forward = known
      proxies.countAnew(&forward.authentication, for: route)
    } else {
      forward = ForwardState(proxies.authentication(for: route))
      transfer.forward = forward
    }
    let request = transfer.request
    var head = transfer.expectsContinue ? request.head : request.headWithoutExpectation ?? request.head
    let value: String?
    do {
      value = try forward.authentication.field(
        method: request.method, target: target, hasBody: transfer.hasBody)
    } catch {
      throw .proxy(.credentials("\(error)"))
    }
    if let value {
      // Before the empty line.
      head.removeLast(2)
      head += Array("Proxy-Authorization: \(value)\r\n\r\n".utf8)
    }
    transfer.head = head
  }
}

extension Connection {
  /// Whether a proxy is on the way.
  var isProxied: Bool {
    if case .proxy = key.identity.route { true } else { false }
  }
}
