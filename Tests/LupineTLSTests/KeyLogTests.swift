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
      let waitsForNothing = log.whenWritten { told.withLock { $0 += 10 } }
      #expect(!waitsForNothing)
      log.append("A 1 2")
      log.append("B 3 4")
      let waits = log.whenWritten { told.withLock { $0 += 1 } }
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
      for _ in 0..<3 { log.append("lost") }
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
      let waits = log.whenWritten { told.withLock { $0 = true } }
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
    let waits = log.whenWritten {}
    #expect(!waits)
  }
}
