internal import CLupineLinux

/// What a descriptor is ready for.
package struct Readiness: OptionSet, Sendable {
  package let rawValue: UInt32

  package init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// Whether the peer has closed its side, or more; plain arithmetic, because set algebra is not specialised across modules.
  package var isEnding: Bool { rawValue & 28 != 0 }
  /// Whether a short read does not mean that the socket is drained.
  package var readsFallShort: Bool { rawValue & 60 != 0 }
  package var isReadable: Bool { rawValue & 1 != 0 }
  package var isWritable: Bool { rawValue & 2 != 0 }

  /// Bytes wait, or the end.
  package static let readable = Readiness(rawValue: 1)
  package static let writable = Readiness(rawValue: 2)
  /// The peer has closed its side: read on until `end`, a short read does not mean drained.
  package static let readHangUp = Readiness(rawValue: 4)
  /// Both sides are closed.
  package static let hangUp = Readiness(rawValue: 8)
  /// An error waits: the next read or write gives it.
  package static let error = Readiness(rawValue: 16)

  /// TCP's urgent data: a read ends before it, although more waits behind it, and nothing says so again.
  package static let urgent = Readiness(rawValue: 32)

  /// A read that filled its buffer only partly has drained the socket only if none of these, nor `urgent`, was reported with it.
  package static let ending: Readiness = [.readHangUp, .hangUp, .error]

  @inline(__always)
  init(epoll events: UInt32) {
    var bits: UInt32 = 0
    if events & EPOLLIN.rawValue != 0 { bits |= 1 }
    if events & EPOLLOUT.rawValue != 0 { bits |= 2 }
    if events & EPOLLRDHUP.rawValue != 0 { bits |= 4 }
    if events & EPOLLHUP.rawValue != 0 { bits |= 8 }
    if events & EPOLLERR.rawValue != 0 { bits |= 16 }
    if events & EPOLLPRI.rawValue != 0 { bits |= 32 }
    rawValue = bits
  }
}

/// Called on the loop when a registered descriptor becomes ready.
package protocol ReadinessHandler: AnyObject {
  /// Edge-triggered: read and write until `wouldBlock`, or `requeue`.
  func ready(_ readiness: Readiness)

  /// Whether the loop may read before it tells of bytes: the first read behind that gives what it has read. Whoever says so reads when he is told.
  var mayBeReadAhead: Bool { get }
}

extension ReadinessHandler {
  package var mayBeReadAhead: Bool { false }
}

/// Names one registration, never again used for another.
package struct Registration: Hashable, Sendable {
  let index: UInt32
  let generation: UInt32

  init(index: UInt32, generation: UInt32) {
    self.index = index
    self.generation = generation
  }

  init(token: UInt64) {
    self.init(index: UInt32(truncatingIfNeeded: token), generation: UInt32(truncatingIfNeeded: token >> 32))
  }

  /// What epoll carries: no pointer, so that a stale event can name nothing that has been freed.
  var token: UInt64 { UInt64(generation) << 32 | UInt64(index) }
}

/// Who is told about which descriptor.
///
/// A slot is used again after its registration ended, with another generation, so that an event which was already on its way names
/// nobody. Generation 0 is never given out: token 0 stays free for the loop itself.
///
/// Handlers that leave the table are handed out: whoever is let go may close what he watched, or use the loop. So the caller lets go of them when neither
/// the table is accessed any more nor epoll knows the descriptor.
struct RegistrationTable {
  struct Slot {
    var handler: (any ReadinessHandler)?
    var number: Int32 = -1
    var generation: UInt32 = 1
    /// What `requeue` asked to report in the next turn.
    var requeued: Readiness = []
  }

  private var slots: [Slot] = []
  private var free: [UInt32] = []

  /// Live registrations.
  var count: Int { slots.count - free.count }

  mutating func insert(_ number: Int32, _ handler: any ReadinessHandler) -> Registration {
    let index: UInt32
    if let reused = free.popLast() {
      index = reused
    } else {
      index = UInt32(slots.count)
      slots.append(Slot())
    }
    slots[Int(index)].handler = handler
    slots[Int(index)].number = number
    return Registration(index: index, generation: slots[Int(index)].generation)
  }

  /// The index of a live registration.
  @inline(__always)
  func find(_ registration: Registration) -> Int? {
    let index = Int(registration.index)
    guard index < slots.count, slots[index].generation == registration.generation, slots[index].handler != nil
    else { return nil }
    return index
  }

  @inline(__always)
  func handler(of registration: Registration) -> (any ReadinessHandler)? { watched(registration)?.handler }

  /// The handler, and the number of the descriptor that is watched for it.
  @inline(__always)
  func watched(_ registration: Registration) -> (handler: any ReadinessHandler, number: Int32)? {
    let index = Int(registration.index)
    guard index < slots.count, slots[index].generation == registration.generation, let handler = slots[index].handler
    else { return nil }
    return (handler, slots[index].number)
  }

  /// Ends a registration and hands out the handler, with the descriptor's number; nil if it had ended before.
  mutating func remove(_ registration: Registration) -> (handler: any ReadinessHandler, number: Int32)? {
    guard let former = watched(registration) else { return nil }
    let index = Int(registration.index)
    let generation = slots[index].generation &+ 1
    slots[index] = Slot(generation: generation == 0 ? 1 : generation)
    free.append(registration.index)
    return former
  }

  /// Hands out the former handler; nil if the registration had ended before.
  mutating func setHandler(
    _ registration: Registration, _ handler: any ReadinessHandler
  ) -> (any ReadinessHandler)? {
    guard let index = find(registration) else { return nil }
    let former = slots[index].handler
    slots[index].handler = handler
    return former
  }

  /// Notes what to report in the next turn; true if nothing was noted before.
  mutating func requeue(_ registration: Registration, _ readiness: Readiness) -> Bool {
    guard let index = find(registration), !readiness.isEmpty else { return false }
    let isFirst = slots[index].requeued.isEmpty
    slots[index].requeued.formUnion(readiness)
    return isFirst
  }

  /// Takes what was noted, with the handler to tell.
  mutating func takeRequeued(_ registration: Registration) -> (any ReadinessHandler, Readiness)? {
    guard let index = find(registration), let handler = slots[index].handler else { return nil }
    let readiness = slots[index].requeued
    slots[index].requeued = []
    return readiness.isEmpty ? nil : (handler, readiness)
  }

  /// Ends every registration and hands out the handlers, with the descriptors' numbers.
  mutating func removeAll() -> [(handler: any ReadinessHandler, number: Int32)] {
    slots.indices.compactMap { index in
      remove(Registration(index: UInt32(index), generation: slots[index].generation))
    }
  }
}
