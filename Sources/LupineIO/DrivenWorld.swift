package import LupineBase

/// The clock and the network of a loop that is driven by hand: with the same world, the same things happen in the same order, every time.
///
/// Lives on the thread that drives the loop. Whoever drives it moves the clock between turns, and answers every attempt to connect with a
/// socket of his own, mostly one end of `SystemCalls.makeSocketPair`, whose other end he holds.
package final class DrivenWorld {
  /// The time of the loop. It never goes back.
  package var now: Instant {
    didSet { precondition(now >= oldValue, "the clock of a loop goes forward only") }
  }

  /// How long the machine has been suspended, in nanoseconds: time that `now` leaves out.
  package var suspendedNanoseconds: Int64 = 0

  /// Stands for `socket` and `connect`: called for each attempt, in the middle of a turn.
  let connect: (SocketAddress) throws(IOError) -> StartedSocket

  /// Of how many events a turn is told at most.
  let eventCapacity: Int

  package init(
    now: Instant = Instant(nanoseconds: 0), eventCapacity: Int = LoopContext.eventCapacity,
    connect: @escaping (SocketAddress) throws(IOError) -> StartedSocket
  ) {
    self.now = now
    self.eventCapacity = eventCapacity
    self.connect = connect
  }
}

/// A socket that connects, or has connected already.
package struct StartedSocket: ~Copyable {
  private let descriptor: Descriptor
  package let result: SystemCalls.ConnectResult

  /// - Parameter result: with `inProgress`, the attempt is decided when the socket becomes writable or fails.
  package init(_ descriptor: consuming Descriptor, _ result: SystemCalls.ConnectResult) {
    self.descriptor = descriptor
    self.result = result
  }

  package consuming func takeDescriptor() -> Descriptor { descriptor }
}
