import CLupineLinux
import LupineBase
import Testing

@testable import LupineIO

/// Work that handlers leave is done for several of them at once, in the turn that they are told in, and never within one of them.
@Suite(.timeLimit(.minutes(1))) struct StagedWorkTests {
  /// Notes when it is called, and for how many who have staged something. Lives on the loop.
  private final class Work: StagedWork {
    let context: LoopContext
    private let log: Locked<[String]>
    private var left = 0
    private var isTelling = false

    init(_ context: LoopContext, _ log: Locked<[String]>) {
      self.context = context
      self.log = log
    }

    func note(_ what: String) {
      log.withLock { $0.append(what) }
    }

    func leave(_ what: String) {
      isTelling = true
      note(what)
      #expect(context.stage())
      left += 1
      isTelling = false
    }

    func run(in context: LoopContext) {
      #expect(!isTelling)
      note("run \(left)")
      left = 0
    }

    /// Has somebody told of one event, of a socket into which so many bytes have come.
    func tellOnce(bytes: Int = 0, isRequeued: Bool = false, _ body: @escaping (Int32) throws -> Void) throws {
      let (near, far) = try socketPair()
      if bytes > 0 { try send(far, [UInt8](repeating: 1, count: bytes)) }
      let handler = Handler()
      let registration = try register(context, near, handler)
      handler.body = { [context] _ in
        do { try body(near) } catch { Issue.record(error) }
        context.deregister(registration)
        for number in [near, far] { _ = Descriptor(adopting: number) }
      }
      if isRequeued { context.requeue(registration) }
    }
  }

  /// What has been noted when a loop for which `prepare` has left something has done it all, and stopped.
  private func log(_ prepare: @escaping @Sendable (Work) throws -> Void) throws -> [String] {
    let log = Locked<[String]>([])
    try onLoop { context in
      let work = Work(context, log)
      #expect(!context.stage())
      context.leaveStages(to: work)
      #expect(!context.stage())
      do { try prepare(work) } catch { Issue.record(error) }
    }
    return log.withLock { $0 }
  }

  /// What is noted when so many are told of the same, one after the other, and all of them stage something.
  private func expected(of count: Int) -> [String] {
    var log: [String] = []
    for index in 0..<count {
      log.append("\(index)")
      if index % 8 == 7 { log.append("run 8") }
    }
    return log + (count % 8 == 0 ? [] : ["run \(count % 8)"])
  }

  @Test(arguments: [1, 7, 8, 9, 20]) func eventsStage(count: Int) throws {
    let log = try log { work in
      for index in 0..<count {
        try work.tellOnce { _ in
          work.leave("\(index)")
          if index == count - 1 { work.context.loop.stop() }
        }
      }
    }
    #expect(log == expected(of: count))
  }

  @Test(arguments: [1, 8, 20]) func mailStages(count: Int) throws {
    let log = try log { work in
      let (confined, loop) = (LoopConfined(work), work.context.loop)
      for index in 0..<count { loop.submit { confined.onLoop.leave("\(index)") } }
      loop.stop()
    }
    #expect(log == expected(of: count))
  }

  /// What waits does so for seven others, whether or not these stage anything.
  @Test func othersWhoStageNothingCountToo() throws {
    let log = try log { work in
      let (confined, loop) = (LoopConfined(work), work.context.loop)
      for index in 0..<20 {
        loop.submit { if index == 2 { confined.onLoop.leave("left") } else { confined.onLoop.note("\(index)") } }
      }
      loop.stop()
    }
    let others = (0..<20).map { "\($0)" }
    let expected: [String] =
      Array(others[0..<2]) + ["left"] + Array(others[3..<10]) + ["run 1"] + Array(others[10...])
    #expect(log == expected)
  }

  /// Who reads much has what was left before done behind him, and not behind all of his turn: whatever he reads last, and whether he is told of an event or once more.
  @Test(arguments: [false, true]) func whoReadsMuchIsTheLastOfHisTurn(isRequeued: Bool) throws {
    let log = try log { work in
      for index in 0..<4 {
        let bytes = LoopContext.readAheadSize + (index == 1 ? 1 : 0)
        try work.tellOnce(bytes: bytes, isRequeued: isRequeued) { near in
          try withDescriptor(near) { (near) throws(IOError) in
            while case .bytes = try work.context.read(near) {}
          }
          work.leave("\(index)")
          if index == 3 { work.context.loop.stop() }
        }
      }
    }
    #expect(log == ["0", "1", "run 2", "2", "3", "run 2"])
  }

  /// Work of tasks is somebody else's, and may take any time.
  @Test func jobsAreNotWaitedFor() throws {
    let log = try log { work in
      let (confined, loop) = (LoopConfined(work), work.context.loop)
      // The first job of a task leaves the one that runs its body, for the next look at the mail, as this work does with what stages.
      loop.submit { loop.submit { confined.onLoop.leave("left") } }
      Task(executorPreference: loop) {
        confined.onLoop.note("job")
        loop.stop()
      }
    }
    #expect(log == ["left", "run 1", "job"])
  }

  @Test func timersAndRequeuedHandlersStage() throws {
    let log = try log { work in
      try work.tellOnce(isRequeued: true) { _ in work.leave("requeued") }
      _ = work.context.schedule(at: work.context.now, Alarm { _ in work.leave("timer") })
      try work.tellOnce { _ in
        work.leave("event")
        work.context.loop.stop()
      }
    }
    #expect(log == ["timer", "run 1", "requeued", "run 1", "event", "run 1"])
  }
}

/// Reads that the loop makes before it tells anybody.
@Suite(.timeLimit(.minutes(1))) struct ReadAheadTests {
  /// One end of a pair, watched by somebody who lets it be read ahead.
  private final class Reader: ReadinessHandler {
    let context: LoopContext
    let number: Int32
    let far: Int32
    private(set) var registration: Registration?
    var body: (Reader) -> Void = { _ in }
    var log: [String] = []
    var mayBeReadAhead = true

    init(_ context: LoopContext, _ ends: (Int32, Int32)? = nil) throws {
      self.context = context
      (number, far) = try ends ?? socketPair()
      registration = try register(context, number, self)
    }

    func ready(_ readiness: Readiness) {
      if readiness.isReadable { body(self) }
    }

    func write(_ text: String) throws {
      let bytes = Array(text.utf8)
      _ = try withDescriptor(far) { (far) throws(IOError) in try SystemCalls.send(far, bytes.span) }
    }

    /// What one read gives, of this socket or of another.
    func read(_ other: Int32? = nil) -> String {
      let context = context
      do throws(IOError) {
        switch try withDescriptor(other ?? number, { (near) throws(IOError) in try context.read(near) }) {
        case .bytes(let count):
          let bytes = copy(context.bytes)
          #expect(bytes.count == count && Set(bytes).count == 1)
          return "\(count)\(context.fellShort ? "" : "+") \(bytes[0])"
        case .wouldBlock: return "nothing"
        case .end: return "end"
        }
      } catch { return error == .reset ? "reset" : "\(error)" }
    }

    func readAll() {
      while true {
        log.append(read())
        if ["nothing", "end", "reset"].contains(log.last) { break }
      }
    }

    func close() {
      guard let ended = registration else { return }
      registration = nil
      context.deregister(ended)
      for number in [number, far] where number >= 0 { _ = Descriptor(adopting: number) }
    }
  }

  /// Runs turns until all readers are closed.
  private func run(
    _ count: Int, _ prepare: @escaping @Sendable ([Reader]) throws -> Void
  ) throws -> [[String]] {
    let logs = Locked<[[String]]>([])
    try onLoop { context in
      do {
        let readers = try (0..<count).map { _ in try Reader(context) }
        try prepare(readers)
        // Behind all that is told in the same turn.
        var isLast = false
        let (near, far) = try socketPair()
        let last = Handler()
        let registration = try register(context, near, last)
        last.body = { _ in
          guard isLast else {
            isLast = true
            return context.requeue(registration)
          }
          context.deregister(registration)
          for number in [near, far] { _ = Descriptor(adopting: number) }
          logs.withLock { $0 = readers.map(\.log) }
          for reader in readers { reader.close() }
          context.loop.stop()
        }
      } catch { Issue.record(error) }
    }
    return logs.withLock { $0 }
  }

  /// Twenty in one turn, so that the rooms serve three times, and not for all the last time.
  @Test func everybodyGetsWhatIsHis() throws {
    let logs = try run(20) { readers in
      for (index, reader) in readers.enumerated() {
        reader.mayBeReadAhead = index % 3 != 1
        try reader.write(String(repeating: Character(Unicode.Scalar(UInt8(65 + index))), count: 1 + index))
        reader.body = { $0.readAll() }
      }
    }
    #expect(logs == (0..<20).map { ["\($0 + 1) \(65 + $0)", "nothing"] })
  }

  /// Those behind the first have been read by the time that it is told: their sockets are empty then.
  @Test func whatOthersSentIsReadBeforeAnybodyIsTold() throws {
    let logs = try run(3) { readers in
      for reader in readers {
        try reader.write("x")
        let others = readers.filter { $0 !== reader }
        reader.body = { reader in
          if reader === readers[0] { reader.log += others.map { reader.read($0.number) } }
          reader.readAll()
        }
      }
    }
    #expect(logs == [["nothing", "nothing", "1 120", "nothing"], ["1 120", "nothing"], ["1 120", "nothing"]])
  }

  @Test func aFullRoomIsNoEnd() throws {
    let logs = try run(2) { readers in
      try readers[0].write(String(repeating: "a", count: 5000))
      try readers[1].write(String(repeating: "b", count: 4096))
      for reader in readers { reader.body = { $0.readAll() } }
    }
    #expect(logs == [["4096+ 97", "904 97", "nothing"], ["4096+ 98", "nothing"]])
  }

  /// The end comes when the bytes have been reported, and before they are read.
  @Test func anEndThatComesMeanwhileIsSeen() throws {
    let logs = try run(10) { readers in
      for reader in readers {
        try reader.write("x")
        reader.body = { reader in
          if reader === readers[0] { _ = shutdown(readers[9].far, Int32(SHUT_WR)) }
          reader.readAll()
        }
      }
    }
    #expect(logs == (0..<10).map { ["1 120", $0 == 9 ? "end" : "nothing"] })
  }

  /// An end that was reported: nothing is read ahead of it.
  @Test func theEndBehindBytesIsSeen() throws {
    let logs = try run(2) { readers in
      for reader in readers {
        try reader.write("x")
        _ = shutdown(reader.far, Int32(SHUT_WR))
        reader.body = { $0.readAll() }
      }
    }
    #expect(logs == [["1 120", "end"], ["1 120", "end"]])
  }

  /// A read would take the error away, and the next one say that the peer has ended well.
  @Test func anErrorIsLeftToWhoeverIsTold() throws {
    let listener = try Listener()
    let address = listener.address
    let log = Locked<[String]>([])
    try onLoop { context in
      do {
        let readers = try (0..<2).map { _ in
          let socket = try SocketOptions().makeSocket(for: address)
          _ = try SystemCalls.connect(socket, to: address)
          let peer = try listener.accept()
          reset(peer)
          return try Reader(context, (socket.release(), -1))
        }
        for reader in readers {
          reader.body = { reader in
            reader.readAll()
            log.withLock { $0 += reader.log }
            reader.close()
            if log.withLock({ $0.count }) == readers.count { context.loop.stop() }
          }
        }
      } catch { Issue.record(error) }
    }
    #expect(log.withLock { $0 } == ["reset", "reset"])
  }

  /// Whoever is told first ends the second: what was read for it goes to nobody, not to the one that has its room later either.
  @Test func whatWasReadForOneThatEndedIsLost() throws {
    let logs = try run(12) { readers in
      for reader in readers {
        try reader.write("x")
        reader.mayBeReadAhead = reader === readers[1]
        reader.body = { reader in
          if reader === readers[0] { readers[1].close() }
          reader.readAll()
        }
      }
    }
    #expect(logs == (0..<12).map { $0 == 1 ? [] : ["1 120", "nothing"] })
  }

  /// Bytes would be lost: that is a defect of the handler.
  @Test func whoeverLetsItBeReadReads() async {
    await #expect(processExitsWith: .failure) {
      try onLoop { context in
        guard let readers = try? [Reader(context), Reader(context)] else { return context.loop.stop() }
        for reader in readers { try? reader.write("x") }
        readers[1].body = { _ in context.loop.stop() }
      }
    }
  }
}
