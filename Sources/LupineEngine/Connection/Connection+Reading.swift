internal import LupineBase
internal import LupineIO
internal import LupineTLS
internal import LupineWire

extension Connection {
  /// Reads of one connection in a turn of the loop; then the others have theirs.
  static let readsPerTurn = 4

  /// Small responses are read for several connections at once. A large one would take a read more, and its body goes where its reader says.
  var mayBeReadAhead: Bool {
    state == .busy && isSmallLikely && tls == nil && !isParsingHeld && exchange.receiving == .head
      && mayRead(behind: true)
  }

  func ready(_ readiness: Readiness) {
    if readiness.readsFallShort { note(readiness) }
    if readiness.isWritable {
      canWrite = true
      writableEdges &+= 1
    }
    if readiness.isReadable || hangUpSeen {
      canRead = true
      read()
      if context.hasReadAhead { holdReadAhead() }
    }
    if readiness.isWritable, state != .closed { pumpWrites() }
  }

  /// Something was reported after which the socket is read until it says that there is nothing, or the end.
  func note(_ readiness: Readiness) {
    if readiness.isEnding { hangUpSeen = true }
    shortReadDrains = false
  }

  /// The reader wants more: what came meanwhile is read in the next turn, never from within somebody's callback, because all
  /// connections of a loop share its read buffer.
  func resumeReading() {
    guard state == .busy else { return }
    transfer?.clock.readOn(at: context.now)
    armForTransfer()
    gatherOn()
    readOn()
  }

  /// Reads in the next turn what may have come while nothing was read.
  func readOn() {
    if state == .busy, canRead || isParsingHeld, let registration { context.requeue(registration) }
  }

  private var mayRead: Bool { mayRead(behind: canRead) }

  /// - Parameter readable: whether there may be anything to read.
  private func mayRead(behind readable: Bool) -> Bool {
    guard readable else { return false }
    switch state {
    case .opening, .closed: return false
    case .handshaking: return !isHandshakeHeld
    case .idle: return true
    case .busy: return !(transfer?.isPaused ?? false) && !isFileBeingSent
    // A reader that is behind does not matter any more; and once the connection cannot serve again, nothing more need be known of it.
    case .ending: return verdict == .reusable
    }
  }

  /// A file thread is putting bytes into the socket.
  private var isFileBeingSent: Bool {
    if case .file(let sender) = body { sender.isSending } else { false }
  }

  func read() {
    if isParsingHeld, !isFileBeingSent { continueParsing() }
    let context = context
    var reads = 0
    while mayRead, let socket {
      guard reads < Self.readsPerTurn else {
        if let registration { context.requeue(registration) }
        break
      }
      reads += 1
      do throws(IOError) {
        if isGathering, let count = try readIntoPipe(socket) {
          notePiped(count)
          continue
        }
        switch try context.read(socket.descriptor) {
        case .bytes(let count):
          if context.fellShort, shortReadDrains { canRead = false }
          receive(context.bytes)
          if isGathering || count >= Self.largeRead { updateGathering() }
        case .wouldBlock: canRead = false
        case .end:
          canRead = false
          peerClosed(cleanly: tls == nil)
        }
      } catch {
        canRead = false
        readFailed(error)
      }
    }
    if state == .ending, !canRead || verdict != .reusable { finishExchange() }
  }

  private func readFailed(_ error: IOError) {
    switch state {
    case .ending:
      verdict = .close(.bodyUntilClose)
    case .busy:
      // A reset after nothing is the same fact as an end after nothing: the retry rule asks only what was sent and received.
      fail(.io(writeError ?? error))
    case .handshaking: openFailed(.io(error), .tls)
    case .idle, .opening, .closed: close(.closedByPeer)
    }
  }

  func receive(_ bytes: Span<UInt8>) {
    guard let tls else {
      receive(plaintext: bytes)
      return
    }
    lastCiphertextAt = context.now
    let wasSendHeld = tls.isSendHeld || outerTLS?.isSendHeld ?? false
    if outerTLS == nil { receive(ciphertext: bytes, tls) } else { receiveNested(bytes) }
    // The rest of the body goes on, which the socket had room for all the time.
    if wasSendHeld, let registration { context.requeue(registration, .writable) }
  }

  /// Ciphertext of the origin.
  func receive(ciphertext bytes: Span<UInt8>, _ tls: TLSConnection) {
    do throws(TLSError) {
      let result = try tls.receive(bytes) { plaintext in receive(plaintext: plaintext) }
      guard state != .closed else { return }
      // The end of our handshake goes with the request that waits for it, if one does.
      if result == .open, state == .handshaking { handshakeDone() }
      _ = flushTLS()
      switch result {
      case .handshaking, .open: break
      case .trustPending: askTrust()
      case .identityPending: askIdentity()
      case .closedByPeer:
        canRead = false
        peerClosed(cleanly: true)
      }
    } catch {
      sendAlert()
      tlsFailed(error)
    }
  }

  /// Sends what TLS says to the peer about its own failure. During the handshake that may find nobody any more, and is no other reason then: what
  /// was wrong with the peer is what the user has to know.
  func sendAlert() {
    guard state == .handshaking else {
      _ = flushTLS()
      return
    }
    if let outerTLS, let tls { _ = Self.wrap(tls, in: outerTLS) }
    guard let socket, let layer = outerTLS ?? tls, layer.hasOutput else { return }
    _ = try? Self.send(outputOf: layer, to: socket)
  }

  func tlsFailed(_ error: TLSError) {
    switch state {
    case .handshaking: openFailed(.tls(error), .tls)
    case .ending: verdict = .close(.bodyUntilClose)
    case .busy where isParsingHeld: holdFailure(error)
    case .busy: fail(.tls(error))
    case .idle, .opening: close(.failed)
    case .closed: break
    }
  }

  private func receive(plaintext bytes: Span<UInt8>) {
    switch state {
    case .busy: parse(bytes)
    case .ending: verdict = .close(.bytesAfterResponse)
    case .idle: close(.unsolicitedBytes)
    case .handshaking: openFailed(.unsolicitedBytes, .tls)
    case .opening, .closed: break
    }
  }

  func parse(_ bytes: Span<UInt8>) {
    guard let transfer else { return }
    guard !isParsingHeld else {
      unparsed.append(bytes)
      return
    }
    let now = context.now
    transfer.clock.lastActivityAt = now
    // Where that of the clock is not known, neither is this one.
    if transfer.record.firstByteAt == nil {
      transfer.record.firstByteAt = now
      transfer.receivedAnything = true
      if transfer.clock.firstByteAt == nil { transfer.clock.firstByteAt = now }
    }
    var offset = 0
    let attempt = transfer.record.retries
    do {
      while state == .busy, try handle(parser.value.next(bytes, &offset), of: bytes, offset, transfer) {}
    } catch let error as WireError {
      fail(.wire(error), .receive)
    } catch let error as EngineError {
      fail(error, .receive)
    } catch {
      preconditionFailure("the parser and the decoder throw typed errors only: \(error)")
    }
    // An answer that was given up may have begun the next attempt, with another record; and behind the end others may be reading it.
    if !transfer.hasEnded, transfer.record.retries == attempt { transfer.record.responseBytes += Int64(offset) }
    if state == .ending, offset < bytes.count { verdict = .close(.bytesAfterResponse) }
    if state == .busy, transfer.isDecodingHeld { holdParsing(bytes.extracting(offset...)) }
  }

  /// Carries out one event, which ends before `offset`. False: nothing more to parse for now.
  private func handle(
    _ event: ResponseEvent, of bytes: Span<UInt8>, _ offset: Int, _ transfer: Transfer
  ) throws -> Bool {
    switch event {
    case .needMore: return false
    case .informational(let head): receive(informational: head, isLast: offset == bytes.count, transfer)
    case .head(let head, let framing):
      transfer.record.responseHeadBytes = transfer.record.responseBytes + Int64(offset)
      transfer.record.responseStatus = head.status
      transfer.record.responseMinorVersion = head.version.minor
      try receive(head, framing, transfer)
    case .body(let range):
      try transfer.receive(body: bytes.extracting(range))
      if let budget = transfer.discardBudget, budget < 0 {
        abandonDiscarded()
        return false
      }
      return !transfer.isDecodingHeld
    case .trailers(let trailers): transfer.receive(trailers: trailers)
    case .end:
      responseEnded()
      return false
    }
    return true
  }

  /// - Parameter isLast: nothing has come behind it. Apart, as few responses have one.
  @inline(never)
  private func receive(informational head: ResponseHead, isLast: Bool, _ transfer: Transfer) {
    // The response begins behind it, with bytes that came along if there are any.
    let firstByteAt = isLast ? nil : context.now
    transfer.record.firstByteAt = firstByteAt
    // What is said while the request is under way is not the response that its last byte waits for. Before the body goes out, which may be at once.
    if transfer.clock.sendEndedAt == nil { transfer.clock.firstByteAt = firstByteAt }
    if exchange.informational(status: head.status) == .startBody {
      transfer.clock.awaitingContinueSince = nil
      startBody()
    }
    if head.status != 100 { transfer.informational(head) }
  }

  private func receive(_ head: ResponseHead, _ framing: BodyFraming, _ transfer: Transfer) throws {
    // Also behind bytes of the body, if it can be had again: the server was slow to say that it does not know expectations, no more (RFC 9110 section 10.1.1).
    // One that has said 100 means something else.
    if head.status == 417, transfer.expectsContinue, !transfer.isBodySpent, !exchange.wasContinued {
      transfer.refuseExpectation()
    }
    if transfer.request.forwardTarget != nil { hearProxy(head, transfer) }
    if exchange.finalHead(status: head.status) == .stopBody {
      transfer.clock.awaitingContinueSince = nil
      // Nothing more will be sent, so that no deadline waits for it.
      transfer.clock.sendEndedAt = context.now
      stopBody()
    }
    try transfer.receive(head, framing: framing)
  }

  /// The body under way is not wanted, since the head or since somebody decided so later: it is read for a short time only.
  func boundDiscarding() {
    guard state == .busy, let transfer else { return }
    transfer.clock.discardUntil = context.now.advanced(byNanoseconds: pool.configuration.drainNanoseconds)
    armForTransfer()
  }

  private func responseEnded() {
    state = .ending
    verdict = parser.value.currentVerdict()
    if exchange.responseEnded() == .stopBody { stopBody() }
  }

  /// The peer sends no more. `cleanly` is false when TLS did not say so: anybody on the path can forge a FIN.
  func peerClosed(cleanly: Bool) {
    switch state {
    // Within a proxy's TLS its own end may follow that of the origin, which counts.
    case .busy where isParsingHeld: heldEnd = heldEnd ?? cleanly
    case .opening, .closed: break
    case .handshaking: openFailed(.tls(.truncated), .tls)
    case .idle: close(.closedByPeer)
    case .ending: verdict = .close(.bodyUntilClose)
    case .busy:
      guard let transfer else { return }
      guard transfer.receivedAnything else {
        fail(writeError.map { .io($0) } ?? .closedBeforeResponse)
        return
      }
      do throws(WireError) {
        // Only a body that ends with the connection is complete here; anything else is truncated.
        guard case .end = try parser.value.finish() else {
          fail(.closedBeforeResponse, .receive)
          return
        }
        // The write that met it took the error of the socket from the read, which is told an end. A broken pipe alone stands behind an end in order, and what
        // TLS has said no socket takes back.
        if let writeError, writeError != .brokenPipe, !cleanly || tls == nil && outerTLS == nil {
          fail(.io(writeError), .receive)
          return
        }
        guard cleanly || allowsTruncation else {
          fail(.tls(.truncated), .receive)
          return
        }
        state = .ending
        _ = exchange.responseEnded()
        stopBody()
        verdict = .close(.bodyUntilClose)
      } catch {
        fail(.wire(error), .receive)
      }
    }
  }

  /// Whether a body may end with a close that TLS did not announce; where there is the proxy's TLS alone, that is for its route to say.
  private var allowsTruncation: Bool {
    guard key.identity.tls == nil, case .proxy(let route) = key.identity.route else {
      return pool.configuration.allowsTLSTruncation
    }
    return route.allowsTLSTruncation
  }

  /// Whether TLS has handed out all that was read. A part of a record may be that of a response nobody asked for, and its rest would come as the next one's.
  var hasNoPartOfARecord: Bool { (tls?.isAtRest ?? true) && (outerTLS?.isAtRest ?? true) }

  /// Whether an idle connection may take a request: nobody has heard from it. If the loop has polled since it became idle, it has been
  /// watched, and what arrived would have closed it, unless that is still to be told: then one look at the socket. If it became idle in
  /// this very turn, the read that ended its last exchange drained it, which is as good as another look. Else one look as well.
  func isFitForLease() -> Bool {
    guard state == .idle, !hasDeparted(), hasNoPartOfARecord, let socket else { return false }
    guard canRead || (context.isTellingEvents && idlePoll != context.polls) else { return true }
    return (try? SystemCalls.peek(socket.descriptor)) == .wouldBlock
  }
}
