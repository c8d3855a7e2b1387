import Glibc
import LupineBase
import LupineTLS
import Testing

/// Who has a secret does not wait for the file, and the file has every line whole and in order, or says how many are missing.
@Suite struct KeyLogTests {
  /// Work that is done when the test says so.
  private final class Desk: Sendable {
    private let works = Locked<[@Sendable (Bool) -> Void]>([])

    var count: Int { works.withLock { $0.count } }

    var fileWork: TLSFileWork {
      return { [self] work in works.withLock { $0.append(work) } }
    }

    // The file is closed by the last of it.
    deinit { run(false) }

    func run(_ mayWait: Bool = true) {
      let all = works.withLock { works in
        defer { works = [] }
        return works
      }
      for work in all { work(mayWait) }
    }
  }

  @Test func linesAreWrittenElsewhereAndInOrder() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      let told = Locked(0)
      let waitsForNothing = log.whenWritten { told.withLock { $0 += 10 } } != nil
      #expect(!waitsForNothing)
      log.append("A 1 2")
      log.append("B 3 4")
      let waits = log.whenWritten { told.withLock { $0 += 1 } } != nil
      #expect(waits && desk.count == 1)
      #expect(try text(of: path) == "")
      desk.run()
      #expect(try text(of: path) == "A 1 2\nB 3 4\n")
      #expect(told.withLock { $0 } == 1)
      log.append("C 5 6")
      #expect(desk.count == 1)
      desk.run()
      #expect(try text(of: path) == "A 1 2\nB 3 4\nC 5 6\n")
      #expect(told.withLock { $0 } == 1 && log.lostLines == 0)
    }
  }

  @Test func noMoreWaitsThanTheLimit() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      // A KiB with its end.
      let line = String(repeating: "x", count: 1_023)
      for _ in 0..<(KeyLog.limit / 1_024) { log.append(line) }
      #expect(log.lostLines == 0)
      for _ in 0..<3 {
        let isTaken = log.append("lost")
        #expect(!isTaken)
      }
      #expect(log.lostLines == 3)
      desk.run()
      let written = try text(of: path)
      #expect(written.utf8.count > KeyLog.limit && written.hasSuffix("x\n\n# lines missing: 3\n"))
      log.append("D")
      desk.run()
      #expect(try text(of: path).hasSuffix("\n# lines missing: 3\nD\n"))
    }
  }

  /// A process that has no thread left.
  @Test func linesThatNobodyMayWriteAreCounted() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      let told = Locked(false)
      log.append("A")
      log.append("B")
      let waits = log.whenWritten { told.withLock { $0 = true } } != nil
      #expect(waits)
      desk.run(false)
      #expect(told.withLock { $0 } && log.lostLines == 2)
      log.append("C")
      desk.run()
      #expect(try text(of: path) == "C\n\n# lines missing: 2\n")
    }
  }

  /// What a full disk refuses is counted, and told about as soon as there is room.
  @Test func linesThatCannotBeWrittenAreCounted() throws {
    let log = try KeyLog(path: "/dev/full", fileWork: KeyLog.atOnce)
    for _ in 0..<3 { log.append("A") }
    #expect(log.lostLines == 3)
    let waits = log.whenWritten {} != nil
    #expect(!waits)
  }

  // MARK: Waiting

  /// Once somebody has waited in vain nobody does, until the disk is heard of again.
  @Test func nobodyWaitsForADiskThatHangs() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      let told = Locked(0)
      func waits() -> Bool {
        log.append("A")
        return log.whenWritten { told.withLock { $0 += 1 } } != nil
      }
      let first = waits()
      let second = waits()
      #expect(first && second && told.withLock { $0 } == 0)
      log.waitedInVain()
      // Who came a moment after the first is told with it.
      #expect(told.withLock { $0 } == 2)
      let third = waits()
      #expect(!third && !log.isSettled)
      desk.run()
      #expect(told.withLock { $0 } == 2 && log.isSettled)
      let fourth = waits()
      #expect(fourth)
      desk.run()
      #expect(told.withLock { $0 } == 3)
      // In vain as well, but there is nothing that hangs.
      log.waitedInVain()
      let fifth = waits()
      #expect(fifth)
      desk.run()
    }
  }

  /// What a connection that has ended would be told is not kept for as long as the disk hangs.
  @Test func whoGivesUpIsForgotten() throws {
    final class Witness: Sendable {}
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      let told = Locked(0)
      func attempt() -> (token: KeyLog.WaiterToken?, witness: () -> Witness?) {
        let witness = Witness()
        let token = log.whenWritten { [witness] in
          withExtendedLifetime(witness) { told.withLock { $0 += 1 } }
        }
        return (token, { [weak witness] in witness })
      }
      log.append("A")
      let one = attempt()
      let other = attempt()
      #expect(one.witness() != nil && other.witness() != nil)
      let token = try #require(one.token)
      log.giveUp(token)
      #expect(one.witness() == nil && other.witness() != nil)
      desk.run()
      #expect(told.withLock { $0 } == 1 && other.witness() == nil)
      // What was told already.
      let toldToken = try #require(other.token)
      log.giveUp(toldToken)
    }
  }

  @Test func soManyWaitAtMost() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let log = try KeyLog(path: path, fileWork: desk.fileWork)
      let told = Locked(0)
      log.append("A")
      for number in 0...KeyLog.waiterLimit {
        let waits = log.whenWritten { told.withLock { $0 += 1 } } != nil
        if waits != (number < KeyLog.waiterLimit) { Issue.record("\(number)") }
      }
      desk.run()
      #expect(told.withLock { $0 } == KeyLog.waiterLimit)
    }
  }

  /// A connection knows whether the log has its secrets.
  @Test func connectionsKnowWhatIsLost() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      var policy = TLSPolicy.trusting()
      policy.keyLogPath = path
      let context = try TLSContext(client: policy, fileWork: desk.fileWork)
      let log = try #require(context.keyLog)
      let options = TLSClientOptions(serverName: try ServerName("localhost"))
      for isFull in [false, true] {
        if isFull {
          let line = String(repeating: "x", count: 1_023)
          while log.append(line) {}
          // Shorter ones do not fit either.
          while log.append("x") {}
        }
        let pair = Pair(
          client: try TLSConnection(client: context, options: options),
          server: try TLSConnection(server: try serverContext()))
        pair.run()
        #expect(pair.client.failure == nil && pair.client.connection.hasLostSecrets == isFull)
      }
      desk.run()
    }
  }

  // MARK: Files

  /// Opening one waits for a reader, for ever if none comes.
  @Test(.timeLimit(.minutes(1))) func aPipeThatNobodyReadsIsRefused() throws {
    try withTemporaryPath("keys.pipe") { path in
      try #require(unsafe mkfifo(path, 0o600) == 0)
      // ENXIO.
      #expect(throws: TLSError.keyLogUnwritable(path: path, code: 6)) {
        try KeyLog(path: path, fileWork: KeyLog.atOnce)
      }
    }
  }

  /// However many policies name a file, its lines have one order, and one thread waits for its disk.
  @Test func aFileHasOneLog() throws {
    try withTemporaryPath("keys.log") { path in
      let desk = Desk()
      let one = try KeyLog.shared(path: path, fileWork: desk.fileWork)
      let contexts = try TLSVersion.allCases.map { version in
        var policy = TLSPolicy.trusting(Mint.shared.root, version)
        policy.keyLogPath = path
        return try TLSContext(client: policy, fileWork: desk.fileWork)
      }
      #expect(contexts.count == 2 && contexts.allSatisfy { $0.keyLog === one })
      let other = try KeyLog.shared(path: path + ".other", fileWork: desk.fileWork)
      #expect(other !== one)
      // One that was put in its place is another, wherever the lines of before go.
      #expect(unsafe rename(path, path + ".moved") == 0)
      let next = try KeyLog.shared(path: path, fileWork: desk.fileWork)
      #expect(next !== one)
      let moved = try KeyLog.shared(path: path + ".moved", fileWork: desk.fileWork)
      #expect(moved === one)
      desk.run()
    }
  }

  /// Nobody is given a log that is closed.
  @Test func aLogThatNobodyHasIsGone() throws {
    try withTemporaryPath("keys.log") { path in
      for line in ["A", "B"] { try KeyLog.shared(path: path, fileWork: KeyLog.atOnce).append(line) }
      #expect(try text(of: path) == "A\nB\n")
    }
  }

  /// A disk that is full in the middle of a line, and has no room for the comment either: the next line is one all the same.
  @Test(arguments: [false, true]) func aPartOfALineSpoilsNoOther(_ isCommentTorn: Bool) throws {
    try withTemporaryPath("keys.log") { path in
      let room = Locked(4)
      let log = try KeyLog(
        path: path, fileWork: KeyLog.atOnce,
        write: { descriptor, bytes in
          let count = room.withLock { room -> Int in
            defer { room -= min(room, bytes.count) }
            return min(room, bytes.count)
          }
          return count == 0 ? -1 : KeyLog.systemWrite(descriptor, Array(bytes[..<count]))
        })
      log.append("A 1 2")
      #expect(try text(of: path) == "A 1 ")
      if isCommentTorn {
        room.withLock { $0 = 8 }
        log.append("B 3 4")
        #expect(try text(of: path) == "A 1 \n# lines")
      }
      room.withLock { $0 = 1_000 }
      log.append("C 5 6")
      let begin = isCommentTorn ? "A 1 \n# lines" : "A 1 "
      let missing = isCommentTorn ? 2 : 1
      #expect(try text(of: path) == "\(begin)\n# lines missing: \(missing)\nC 5 6\n")
      #expect(log.lostLines == missing)
    }
  }
}
