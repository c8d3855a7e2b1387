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

  var isClosed: Bool { state != .open || isDropping }

  mutating func arrive(_ event: @autoclosure () -> Event, isEnd: Bool = false) -> Verdict {
    if isDropping, !isEnd { return .drop }
    guard state != .open else { return .pass }
    var events = held ?? RingBuffer()
    held = nil
    events.append(event())
    held = events
    return .held
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

  /// No decision matters any more, and no body either. True: the caller has to drain.
  mutating func abandon() -> Bool {
    isDropping = true
    guard state == .waiting else { return false }
    state = .draining
    return true
  }

  mutating func drop() { isDropping = true }

  /// The next exchange begins.
  mutating func renew() { isDropping = false }

  /// The next of what was held, while draining; at the last one the gate opens.
  mutating func next() -> Event? {
    guard state == .draining else { return nil }
    while let event = held?.popFirst() {
      if !isDropping { return event }
      if case .end = event { return event }
    }
    state = .open
    return nil
  }
}

extension TaskRun {
  /// Closes the gate until `decide` is called with the number that comes back. On the transport's thread, or while draining.
  func closeGate() -> Int {
    let number = state.withLock { state in
      isGated.store(true, ordering: .releasing)
      return state.gate.wait()
    }
    pause(.decision)
    return number
  }

  /// Applies a decision, unless it is void by now, and works off what was held.
  func decide(_ number: Int, _ apply: () -> Void) {
    guard state.withLock({ $0.gate.decide(number) }) else { return }
    // First, because what is applied may ask for the next decision.
    unpause(.decision)
    apply()
    drain()
  }

  /// Body and trailers of the response under way are dropped from here on.
  func dropBody() {
    state.withLock { state in
      isGated.store(true, ordering: .releasing)
      state.gate.drop()
    }
    discardBody()
  }

  func drain() {
    while true {
      let event = state.withLock { state -> Gate.Event? in
        let event = state.gate.next()
        if event == nil { isGated.store(state.gate.isClosed, ordering: .releasing) }
        return event
      }
      switch event {
      case .informational(let head): inform(head)
      case .body(let bytes): deliver(bytes.span)
      case .trailers(let trailers): state.withLock { $0.trailers = trailers }
      case .end(let failure): exchangeEnded(failure)
      case nil: return
      }
    }
  }
}
