internal import LupineBase
internal import LupineWire
internal import Synchronization

/// Holds what arrives while somebody decides about what arrived before.
///
/// States, and their legal successors:
///
///     open     -> waiting            a decision was asked for; what arrives is held
///     waiting  -> draining           it has come, or is void
///     draining -> waiting | open     what was held is worked off, in order, by the thread that brought the decision
///
/// The end of an exchange is the last that is held of it. With that the gate is open: whoever goes on with it may begin the next exchange, whose head is never
/// held, so that nothing before that head may be.
///
/// A decision may ask for the next one, and another thread bring that before the first has come to what was held: only the thread with the
/// latest decision works it off, which is known by its number.
///
/// Besides, `isDropping`: body and trailers of a response that is not the answer are dropped.
struct Gate {
  enum State {
    case open
    case waiting
    case draining
  }

  enum Event {
    case informational(ResponseHead)
    case body([UInt8])
    case trailers(FieldSection)
    case proposal(StorageProposal)
    case end(SessionError?)
  }

  /// What to do with something that has arrived.
  enum Verdict {
    case pass
    case held
    case drop
  }

  private(set) var state = State.open
  /// Made when there is something to hold: for most responses there never is.
  private var held: RingBuffer<Event>?
  private var decision = 0
  private(set) var isDropping = false
  /// The response under way was given up: nothing that is asked about it matters any more.
  private(set) var isAbandoned = false
  /// All has been received, and is held: no exchange is under way any more whose deadline could end the task.
  private(set) var holdsEnd = false

  var isClosed: Bool { state != .open || isDropping }

  mutating func arrive(_ event: @autoclosure () -> Event, isEnd: Bool = false) -> Verdict {
    if isDropping, !isEnd { return .drop }
    guard state != .open else { return .pass }
    hold(event())
    holdsEnd = isEnd
    return .held
  }

  /// What is about to be stored is asked about in its turn, also where the body is dropped for the task: a redirect's is stored as well.
  mutating func arrive(proposal: StorageProposal) -> Verdict {
    guard state != .open else { return .pass }
    hold(.proposal(proposal))
    return .held
  }

  private mutating func hold(_ event: Event) {
    var events = held ?? RingBuffer()
    held = nil
    events.append(event)
    held = events
  }

  /// Closes the gate; the number names the decision.
  mutating func wait() -> Int {
    state = .waiting
    decision += 1
    return decision
  }

  /// A decision has come. False: nobody waits for it any more.
  mutating func decide(_ number: Int) -> Bool {
    guard state == .waiting, decision == number else { return false }
    state = .draining
    return true
  }

  /// No decision matters any more, and no body either. A number: the caller has to drain by it.
  mutating func abandon() -> Int? {
    isDropping = true
    isAbandoned = true
    guard state == .waiting else { return nil }
    state = .draining
    decision += 1
    return decision
  }

  mutating func drop() { isDropping = true }

  /// The next exchange begins.
  mutating func renew() {
    isDropping = false
    isAbandoned = false
  }

  /// The decision that is waited for.
  var awaited: Int? { state == .waiting ? decision : nil }

  /// Whether what is held falls to whoever has this number.
  func isDraining(_ number: Int) -> Bool { state == .draining && decision == number }

  /// The next of what was held, while draining; with an end, and behind the last one, the gate opens.
  mutating func next(_ number: Int) -> Event? {
    guard isDraining(number) else { return nil }
    while let event = held?.popFirst() {
      switch event {
      case .end:
        holdsEnd = false
        state = .open
        return event
      case .proposal: return event
      case .informational, .body, .trailers: if !isDropping { return event }
      }
    }
    state = .open
    return nil
  }
}

extension TaskRun {
  /// Closes the gate until `decide` is called with the number that comes back. On the transport's thread, or while draining. Nil: the task
  /// was cancelled, and nobody is asked; what comes of the exchange is dropped.
  func closeGate(for exchange: any TransportExchange) -> Int? {
    let (number, holdsEnd) = state.withLock { state -> (Int?, Bool) in
      guard !state.isCanceling else { return (nil, false) }
      isGated.store(true, ordering: .releasing)
      return (state.gate.wait(), state.gate.holdsEnd)
    }
    if number == nil { dropBody(of: exchange) } else { pause(.decision) }
    // One decision has asked for the next, and the timer of the first says nothing about this one.
    if holdsEnd { endDeciding() }
    return number
  }

  /// Applies a decision, unless it is void by now, and works off what was held.
  func decide(_ number: Int, _ apply: () -> Void) {
    guard state.withLock({ $0.gate.decide(number) }) else { return }
    // First, because what is applied may ask for the next decision.
    unpause(.decision)
    apply()
    drain(number)
  }

  /// Body and trailers of the response under way are dropped from here on.
  func dropBody() {
    state.withLock { state in
      isGated.store(true, ordering: .releasing)
      state.gate.drop()
    }
    discardBody()
  }

  func drain(_ number: Int) {
    while true {
      let event = state.withLock { state -> Gate.Event? in
        guard state.gate.isDraining(number) else { return nil }
        let event = state.gate.next(number)
        if event == nil { isGated.store(state.gate.isClosed, ordering: .releasing) }
        return event
      }
      switch event {
      case .informational(let head): inform(head)
      case .body(let bytes): deliver(bytes.span)
      case .trailers(let trailers): state.withLock { $0.trailers = trailers }
      case .proposal(let proposal): ask(proposal)
      case .end(let failure): exchangeEnded(failure)
      case nil: return
      }
    }
  }
}
