import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

@Suite struct TimerTests {
  @Test func tenThousandTimersFireInOrder() throws {
    let fired = Locked<[Int64]>([])
    try onLoop { context in
      let start = context.now
      var seen: [Int64] = []
      var deadlines: [TimerIdentifier: Int64] = [:]
      let alarm = Alarm { identifier in
        seen.append(deadlines[identifier] ?? -1)
        #expect(context.now.nanoseconds(since: start) >= deadlines[identifier] ?? .max)
        if seen.count == 10_000 {
          fired.withLock { $0 = seen }
          context.loop.stop()
        }
      }
      var generator = SystemRandomNumberGenerator()
      for _ in 0..<10_000 {
        let delay = Int64.random(in: 0..<20_000_000, using: &generator)
        deadlines[context.schedule(at: start.advanced(byNanoseconds: delay), alarm)] = delay
      }
      #expect(context.timerCount == 10_000)
    }
    let order = fired.withLock { $0 }
    #expect(order.count == 10_000)
    #expect(order == order.sorted())
  }

  /// The heap against the obvious: a list that is sorted each time.
  @Test func theQueueAgreesWithASortedList() {
    final class Nobody: TimerHandler { func timerFired(_ identifier: TimerIdentifier) {} }
    let nobody = Nobody()
    var queue = TimerQueue()
    var model: [(deadline: Int64, order: Int, identifier: TimerIdentifier)] = []
    var dead: [TimerIdentifier] = []
    for step in 0..<20_000 {
      switch Int.random(in: 0..<10) {
      case 0..<5:
        let deadline = Int64.random(in: 0..<1000)
        let identifier = queue.schedule(at: Instant(nanoseconds: deadline), nobody)
        #expect(!model.contains { $0.identifier == identifier } && !dead.suffix(100).contains(identifier))
        model.append((deadline, step, identifier))
      case 5, 6:
        guard let index = model.indices.randomElement() else { continue }
        dead.append(model[index].identifier)
        let wasScheduled = queue.cancel(model.remove(at: index).identifier) === nobody
        #expect(wasScheduled)
      case 7:
        guard let index = model.indices.randomElement() else { continue }
        let deadline = Int64.random(in: 0..<1000)
        let wasScheduled = queue.reschedule(model[index].identifier, at: Instant(nanoseconds: deadline))
        #expect(wasScheduled)
        model[index].deadline = deadline
        model[index].order = step
      case 8:
        if let identifier = dead.randomElement() {
          let handler = queue.cancel(identifier)
          let wasScheduled = queue.reschedule(identifier, at: Instant(nanoseconds: 0))
          #expect(handler == nil && !wasScheduled)
        }
      default:
        let now = Int64.random(in: 0..<1000)
        let expected = model.min { ($0.deadline, $0.order) < ($1.deadline, $1.order) }
        let popped = queue.popDue(Instant(nanoseconds: now))?.1
        #expect(popped == (expected.map { $0.deadline <= now } == true ? expected?.identifier : nil))
        if let popped {
          dead.append(popped)
          model.removeAll { $0.identifier == popped }
        }
      }
      #expect(queue.count == model.count)
      #expect(queue.earliest?.nanoseconds == model.map(\.deadline).min())
      if model.count > 200 {
        let handlers = queue.removeAll()
        #expect(handlers.count == model.count)
        dead += model.map(\.identifier)
        model = []
      }
    }
  }

  @Test func aTimerForNowFromATimerDoesNotStarveTheMailbox() throws {
    let turns = Locked(0)
    try onLoop { context in
      var body: () -> Void = {}
      let alarm = Alarm { _ in body() }
      body = { [weak alarm] in
        turns.withLock { $0 += 1 }
        if let alarm { _ = context.schedule(at: context.now, alarm) }
      }
      body()
      let loop = context.loop
      loop.submit { loop.submit { loop.stop() } }
    }
    #expect(turns.withLock { $0 } < 10)
  }

  @Test func timersAreNotEarlyAndNotALotLate() throws {
    let lateness = Locked<[Int64]>([])
    try onLoop { context in
      var left = 20
      var due = context.now
      var next: () -> Void = {}
      let alarm = Alarm { _ in
        let late = EventLoop.monotonicNow().nanoseconds(since: due)
        lateness.withLock { $0.append(late) }
        left -= 1
        left == 0 ? context.loop.stop() : next()
      }
      next = { [weak alarm] in
        guard let alarm else { return }
        due = context.refreshNow().advanced(byNanoseconds: 300_000)
        _ = context.schedule(at: due, alarm)
      }
      next()
    }
    let measured = lateness.withLock { $0 }
    #expect(measured.count == 20)
    #expect(measured.allSatisfy { $0 >= 0 })
    // The least of them: each of the others may have waited for a processor as well.
    let least = try #require(measured.min())
    #expect(least < 5_000_000)
  }

  /// What came while a turn took long is told before what it was waited for with: time has not run out for it.
  @Test func whatCameBeforeADeadlineIsToldFirst() throws {
    let seen = Locked<[String]>([])
    try onLoop { context in
      do {
        let (near, far) = try socketPair()
        let handler = Handler()
        var timer: TimerIdentifier?
        let registration = try register(context, near, handler)
        handler.body = { readiness in
          guard readiness.contains(.readable) else { return }
          seen.withLock { $0.append("told") }
          if let timer { context.cancel(timer) }
          context.deregister(registration)
          context.loop.stop()
        }
        let alarm = Alarm { _ in seen.withLock { $0.append("late") } }
        let loop = context.loop
        let deadline = EventLoop.monotonicNow().advanced(byNanoseconds: 20_000_000)
        timer = context.schedule(at: deadline, alarm)
        loop.submit {
          do { try send(far, [1]) } catch { Issue.record(error) }
          while EventLoop.monotonicNow() < deadline {}
          // Another round of mail, for which the clock is read anew.
          loop.submit {}
        }
      } catch { Issue.record(error) }
    }
    #expect(seen.withLock { $0 } == ["told"])
  }

  /// A sleep ends when the next timer is due, however long the turn before it took.
  @Test func aLongTurnMakesNoTimerLate() throws {
    let late = Locked<Int64>(.max)
    try onLoop { context in
      let confined = LoopConfined(context)
      context.loop.submit {
        let context = confined.onLoop
        let due = context.now.advanced(byNanoseconds: 3_000_000_000)
        let alarm = Alarm { _ in
          late.withLock { $0 = EventLoop.monotonicNow().nanoseconds(since: due) }
          context.loop.stop()
        }
        _ = context.schedule(at: due, alarm)
        // The turn itself: it would sleep for as long again.
        usleep(2_980_000)
      }
    }
    #expect(late.withLock { $0 } < 2_500_000_000)
  }

  /// As of a process that was stopped and goes on: what came meanwhile is told with the interruption.
  @Test(arguments: [false, true]) func interruptionsHideNothing(precise: Bool) async {
    await #expect(processExitsWith: .exitCode(42)) { [precise] in
      let epoll = try SystemCalls.makeEpoll()
      let bell = try SystemCalls.eventDescriptor(semaphore: false)
      try SystemCalls.epollAdd(epoll, bell.number, events: UInt32(EPOLLIN.rawValue), token: 0)
      unsafe InterruptionBell.number = bell.number
      signal(SIGUSR1) { _ in
        var one: UInt64 = 1
        _ = unsafe write(InterruptionBell.number, &one, 8)
      }
      var none = sigset_t()
      unsafe sigemptyset(&none)
      _ = unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
      let (sleeper, directory) = (UInt(pthread_self()), InterruptionBell.directory)
      let ringer = try Thread.start(name: "ringer") {
        // Not before it sleeps; where nobody may see that, it will sleep by then.
        let deadline = EventLoop.monotonicNow().advanced(byNanoseconds: 10_000_000_000)
        while !InterruptionBell.isAsleep(directory), EventLoop.monotonicNow() < deadline { sched_yield() }
        pthread_kill(pthread_t(sleeper), SIGUSR1)
      }
      let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 1)
      let count = unsafe SystemCalls.epollWait(
        epoll, events, nanoseconds: 20_000_000_000, precise: precise && SystemCalls.hasPreciseEpollWait(epoll))
      ringer.join()
      exit(count == 1 && bell.number >= 0 ? 42 : 1)
    }
  }

  @Test func epollRoundsUpWithoutNanoseconds() throws {
    let epoll = try SystemCalls.makeEpoll()
    let events = UnsafeMutableBufferPointer<epoll_event>.allocate(capacity: 1)
    defer { unsafe events.deallocate() }
    for precise in [false, true] {
      let start = EventLoop.monotonicNow()
      let count = unsafe SystemCalls.epollWait(epoll, events, nanoseconds: 1_500_000, precise: precise)
      #expect(count == 0)
      #expect(EventLoop.monotonicNow().nanoseconds(since: start) >= 1_500_000)
    }
  }
}

@Suite struct RegistrationTests {
  @Test func dataAndTheEndInOneSegmentAreBothSeen() throws {
    let listener = try Listener()
    let address = listener.address
    let seen = Locked<[String]>([])
    try onLoop { context in
      do {
        let socket = try SocketOptions().makeSocket(for: address)
        _ = try SystemCalls.connect(socket, to: address)
        let peer = try listener.accept()
        // MSG_MORE holds the bytes back until the FIN takes them along.
        _ = try SystemCalls.send(peer, ([1, 2, 3] as [UInt8]).span, more: true)
        try SystemCalls.shutdownWriting(peer)
        // Both are there before the loop looks for the first time: one event.
        while try SystemCalls.peek(socket) == .wouldBlock {}
        let number = socket.release()
        let handler = Handler()
        let registration = try register(context, number, handler)
        handler.body = { readiness in
          #expect(readiness.isSuperset(of: [.readable, .readHangUp]))
          seen.withLock { $0.append("event") }
          let socket = Descriptor(adopting: number)
          do throws(IOError) {
            while true {
              let result = try context.read(socket)
              seen.withLock { $0.append("\(result) \(copy(context.bytes))") }
              guard case .bytes = result else { break }
            }
          } catch { Issue.record(error) }
          context.deregister(registration)
          context.loop.stop()
        }
      } catch { Issue.record(error) }
    }
    #expect(seen.withLock { $0 } == ["event", "bytes(3) [1, 2, 3]", "end []"])
  }

  @Test func aStaleEventNeverReachesANewRegistration() throws {
    let seen = Locked<[String]>([])
    try onLoop { context in
      do {
        // Two sockets become ready in the same turn; whoever is told first closes the other, whose number and slot are used again at once.
        let (first, firstPeer) = try socketPair()
        let (second, secondPeer) = try socketPair()
        let one = Handler()
        let two = Handler()
        let new = Handler { readiness in
          // A fresh socket is writable and nothing else: `readable` would be the stale event.
          seen.withLock { $0.append("new \(readiness.rawValue)") }
          context.loop.stop()
        }
        let registrations = [
          try register(context, first, one), try register(context, second, two),
        ]
        func replace(_ number: Int32, _ registration: Registration) {
          one.body = { _ in Issue.record("told after deregister") }
          two.body = one.body
          context.deregister(registration)
          do {
            let (fresh, _) = try socketPair()
            // Closes the old one and takes its number, which nobody else in this process can be given in between.
            #expect(dup2(fresh, number) == number)
            close(fresh)
            let replacement = try register(context, number, new)
            #expect(replacement.index == registration.index)
            #expect(replacement.generation != registration.generation)
            // The old name is dead: nothing happens to the new one.
            context.deregister(registration)
            context.requeue(registration)
          } catch { Issue.record(error) }
          seen.withLock { $0.append("replaced") }
        }
        one.body = { _ in replace(second, registrations[1]) }
        two.body = { _ in replace(first, registrations[0]) }
        for peer in [firstPeer, secondPeer] {
          _ = try send(peer, [7])
        }
      } catch { Issue.record(error) }
    }
    #expect(seen.withLock { $0 } == ["replaced", "new \(Readiness.writable.rawValue)"])
  }

  @Test func aRequeuedHandlerIsCalledOncePerTurnWithTheUnion() throws {
    let seen = Locked<[UInt32]>([])
    let turns = Locked<[UInt64]>([])
    try onLoop { context in
      do {
        let (number, _) = try socketPair()
        let handler = Handler()
        let registration = try register(context, number, handler)
        handler.body = { readiness in
          seen.withLock { $0.append(readiness.rawValue) }
          turns.withLock { $0.append(context.polls) }
          switch seen.withLock({ $0.count }) {
          case 1:
            context.requeue(registration)
            context.requeue(registration, .readHangUp)
            context.requeue(registration, .readable)
          case 2: context.requeue(registration)
          default:
            context.requeue(registration)
            context.deregister(registration)
            context.loop.stop()
          }
        }
      } catch { Issue.record(error) }
    }
    #expect(
      seen.withLock { $0 } == [
        Readiness.writable.rawValue, Readiness([.readable, .readHangUp]).rawValue, Readiness.readable.rawValue,
      ])
    // The first requeue runs in the same pass of the loop that polled; each later one polls in between.
    let polls = turns.withLock { $0 }
    #expect(polls == polls.sorted())
    #expect(polls.count == 3 && polls[2] > polls[1])
  }

  @Test func transferTellsTheNewHandlerWhatTheOldOneSaw() throws {
    let seen = Locked<[String]>([])
    try onLoop { context in
      do {
        let (number, peer) = try socketPair()
        _ = try send(peer, [1])
        let new = Handler { readiness in
          seen.withLock { $0.append("new \(readiness.rawValue)") }
          context.loop.stop()
        }
        let old = Handler()
        let registration = try register(context, number, old)
        old.body = { readiness in
          seen.withLock { $0.append("old \(readiness.rawValue)") }
          context.transfer(registration, to: new, readiness: readiness)
        }
      } catch { Issue.record(error) }
    }
    #expect(seen.withLock { $0 } == ["old 3", "new 3"])
  }

  @Test func aReadTakesAtMostTheLimit() throws {
    let seen = Locked<[[UInt8]]>([])
    try onLoop { context in
      do {
        let (number, peer) = try socketPair()
        let socket = Descriptor(adopting: number)
        let other = Descriptor(adopting: peer)
        let sent = try SystemCalls.send(other, ([1, 2, 3] as [UInt8]).span, ([4, 5] as [UInt8]).span)
        #expect(sent == .bytes(5))
        for _ in 0..<2 {
          _ = try context.read(socket, atMost: 3)
          let bytes = copy(context.bytes)
          seen.withLock { $0.append(bytes) }
        }
        #expect(try context.read(socket) == .wouldBlock)
        #expect(copy(context.bytes).isEmpty)
        context.loop.stop()
      } catch { Issue.record(error) }
    }
    #expect(seen.withLock { $0 } == [[1, 2, 3], [4, 5]])
  }

  @Test func handlersAreLetGoWhenTheLoopEnds() throws {
    final class Witness: Sendable {
      let end: Signal
      init(_ end: Signal) { self.end = end }
      deinit { end.raise() }
    }
    let ended = Signal()
    try onLoop { context in
      do {
        let (number, _) = try socketPair()
        let witness = Witness(ended)
        _ = try register(context, number, Handler { _ in withExtendedLifetime(witness) {} })
        _ = context.schedule(at: .distantFuture, Alarm { _ in withExtendedLifetime(witness) {} })
        context.loop.stop()
      } catch { Issue.record(error) }
    }
    #expect(ended.wait())
  }

  /// Whoever is held by the loop alone closes what he watches when he is let go: epoll has forgotten it by then.
  @Test(arguments: [false, true]) func handlersMayOwnWhatTheyWatch(isDeregistered: Bool) throws {
    let (near, far) = try socketPair()
    let peer = Descriptor(adopting: far)
    try onLoop { context in
      do {
        let registration = try register(context, near, Owner(adopting: near))
        if isDeregistered { context.deregister(registration) }
      } catch { Issue.record(error) }
      context.loop.stop()
    }
    let left = try SystemCalls.peek(peer)
    #expect(left == .end)
  }

  @Test func whoeverIsLetGoMayUseTheLoop() throws {
    let (near, far) = try socketPair()
    let count = Locked(0)
    try onLoop { context in
      do {
        let ended = try register(context, near, Handler())
        context.deregister(ended)
        func farewell() -> Farewell {
          Farewell {
            count.withLock { $0 += 1 }
            context.requeue(ended)
            context.deregister(ended)
            let timer = context.schedule(at: .distantFuture, Alarm { _ in })
            context.cancel(timer)
          }
        }
        // Statements of their own: nobody but the loop holds a handler any more behind them.
        let timer = context.schedule(at: .distantFuture, farewell())
        context.cancel(timer)
        let first = try register(context, near, farewell())
        context.deregister(first)
        let second = try register(context, near, farewell())
        context.transfer(second, to: farewell())
        #expect(count.withLock { $0 } == 3)
        _ = context.schedule(at: .distantFuture, farewell())
        #expect(context.timerCount == 1 && context.registrationCount == 1)
      } catch { Issue.record(error) }
      context.loop.stop()
    }
    #expect(count.withLock { $0 } == 5)
    close(near)
    close(far)
  }

  @Test func whatTheyLeaveAtTheEndIsLetGoToo() throws {
    let isOver = Locked(false)
    try onLoop { context in
      let handler = Farewell {
        // It holds the context, which would hold it for ever.
        let last = Farewell {
          context.refreshNow()
          isOver.withLock { $0 = true }
        }
        _ = context.schedule(at: .distantFuture, last)
      }
      _ = context.schedule(at: .distantFuture, handler)
      context.loop.stop()
    }
    #expect(isOver.withLock { $0 })
  }
}

/// What a signal's handler rings.
private enum InterruptionBell {
  nonisolated(unsafe) static var number: Int32 = -1

  /// Where the running thread is told of.
  static var directory: String {
    var name = [CChar](repeating: 0, count: 256)
    let count = unsafe readlink("/proc/thread-self", &name, name.count)
    return "/proc/" + String(decoding: name.prefix(max(0, count)).map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// Whether a thread waits in epoll.
  static func isAsleep(_ directory: String) -> Bool {
    let file = unsafe open(directory + "/syscall", O_RDONLY | O_CLOEXEC)
    defer { close(file) }
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = unsafe read(file, &bytes, bytes.count)
    let call = Int(String(decoding: bytes.prefix(max(0, count)), as: UTF8.self).prefix { $0 != " " })
    #if arch(x86_64)
    if call == Int(SYS_epoll_wait) { return true }
    #endif
    return call == Int(SYS_epoll_pwait) || call == 441
  }
}
