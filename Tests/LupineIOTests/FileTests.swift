import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

/// Runs `body` with a loop and file threads, until `finish` is called.
private func withFiles(_ body: @escaping @Sendable (LoopContext, FileThreads) throws -> Void) throws {
  let threads = try FileThreads()
  try onLoop { context in
    do {
      try body(context, threads)
    } catch {
      Issue.record(error)
      context.loop.stop()
    }
  }
  threads.stop()
  #expect(threads.threadCount == 0)
}

private func pattern(_ count: Int) -> [UInt8] {
  (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
}

@Suite struct FileTests {
  @Test func newFilesAreOursAloneAndNeverReplaceAnything() throws {
    let path = temporaryPath()
    let link = temporaryPath()
    defer { for name in [path, link] { unsafe unlink(name) } }
    let file = try File.create(path)
    var status = stat()
    #expect(unsafe fstat(file.descriptor.number, &status) == 0)
    #expect(status.st_mode & 0o777 == 0o600)
    #expect(fcntl(file.descriptor.number, F_GETFD) & FD_CLOEXEC != 0)
    #expect(throws: IOError.alreadyExists) { try File.create(path) }
    #expect(unsafe symlink("/nonexistent", link) == 0)
    #expect(throws: IOError.alreadyExists) { try File.create(link) }
    #expect(throws: IOError.symbolicLink) { try File.reopen(link) }
    #expect(throws: IOError.notFound(code: ENOENT)) { try File.open(link) }
  }

  @Test(arguments: ["", "a\0b"]) func pathsThatAreNoneAreRefused(_ path: String) {
    #expect(throws: IOError.badPath) { try File.create(path) }
    #expect(throws: IOError.badPath) { try File.rename(path, to: "/tmp/x") }
    #expect(throws: IOError.badPath) { try File.rename("/tmp/x", to: path) }
    #expect(throws: IOError.badPath) { try File.remove(path) }
  }

  @Test func whatIsWrittenIsReadAndMoved() throws {
    let path = temporaryPath()
    let moved = temporaryPath()
    defer { for name in [path, moved] { unsafe unlink(name) } }
    let bytes = pattern(300_000)
    let file = try File.create(path)
    try file.write(bytes, at: 0)
    #expect(try file.size() == 300_000)
    #expect(try file.read(at: 0, count: 400_000) == bytes)
    #expect(try file.read(at: 299_999, count: 10) == [bytes[299_999]])
    #expect(try file.read(at: 300_000, count: 10) == [])
    try file.truncate(to: 5)
    try file.synchronize()
    try file.flush()
    try File.rename(path, to: moved)
    #expect(throws: IOError.notFound(code: ENOENT)) { try File.open(path) }
    #expect(try File.open(moved).read(at: 0, count: 10) == Array(bytes[..<5]))
    try File.remove(moved)
    #expect(throws: IOError.notFound(code: ENOENT)) { try File.remove(moved) }
    #expect(try File.open("/dev/null").size() == nil)
  }

  @Test func aFullDiskIsATypedError() throws {
    let full = try File.reopen("/dev/full")
    #expect(throws: IOError.storageFull(code: ENOSPC)) { try full.write([1], at: 0) }
  }

  @Test func jobsCompleteOnTheLoop() throws {
    let seen = Locked<[Result<Int, IOError>]>([])
    try withFiles { context, threads in
      let loop = context.loop
      threads.run(on: loop) { () throws(IOError) -> Int in
        if loop.isCurrent { throw .brokenPipe }
        return 5
      } completion: { result in
        #expect(loop.isCurrent)
        seen.withLock { $0.append(result) }
        threads.run(on: loop) { () throws(IOError) -> Int in
          throw .reset
        } completion: { result in
          #expect(loop.isCurrent)
          seen.withLock { $0.append(result) }
          loop.stop()
        }
      }
    }
    #expect(seen.withLock { $0 } == [.success(5), .failure(.reset)])
  }

  @Test func afterStopJobsAreRefused() throws {
    let threads = try FileThreads()
    threads.stop()
    let results = Locked<[Result<Int, IOError>]>([])
    threads.run {
      1
    } completion: { result in
      results.withLock { $0.append(result) }
    }
    #expect(results.withLock { $0 } == [.failure(.stopped)])
  }

  @Test func stoppingRunsWhatWaits() throws {
    let threads = try FileThreads(maximumThreads: 2)
    let count = Locked(0)
    for _ in 0..<1000 {
      threads.run {
        1
      } completion: { _ in
        count.withLock { $0 += 1 }
      }
    }
    threads.stop()
    #expect(count.withLock { $0 } == 1000)
    #expect(threads.threadCount == 0)
  }

  /// Both threads wake up for one job. The one that finds it taken has not been idle, and stays.
  @Test func aThreadThatComesTooLateStays() throws {
    let threads = try FileThreads(maximumThreads: 2)
    let (begun, gate, done) = (Signal(), Signal(), Signal())
    for _ in 0..<2 {
      threads.run {
        begun.raise()
        return gate.wait()
      } completion: { _ in
        done.raise()
      }
    }
    for _ in 0..<2 { #expect(begun.wait()) }
    for _ in 0..<2 { gate.raise() }
    for _ in 0..<2 { #expect(done.wait()) }
    for _ in 0..<500 {
      threads.run {
        1
      } completion: { _ in
        done.raise()
      }
      #expect(done.wait())
      #expect(threads.threadCount == 2)
    }
    threads.stop()
  }
}

@Suite struct SequentialFileTests {
  @Test func aFullDiskIsAnError() throws {
    #expect(throws: IOError.storageFull(code: ENOSPC)) { try File.reopen("/dev/full").write([1], at: 0) }
  }

  @Test func afterCancelNothingIsCalled() throws {
    let path = temporaryPath()
    defer { unsafe unlink(path) }
    try File.create(path).write([1], at: 0)
    let calls = Locked(0)
    try withFiles { context, threads in
      let input = InputFile(try File.open(path), threads: threads, loop: context.loop)
      input.next { _ in calls.withLock { $0 += 1 } }
      input.cancel()
      // With one job after the others on each of two threads, everything above has been answered by then.
      let loop = context.loop
      threads.run(on: loop) {
        1
      } completion: { _ in
        threads.run(on: loop) {
          1
        } completion: { _ in
          loop.stop()
        }
      }
    }
    #expect(calls.withLock { $0 } == 0)
  }

  @Test(arguments: [(1, 0..<10), (4096, 0..<100_000), (4096, 5000..<5000), (1000, 99_500..<200_000), (7, 3..<50)])
  func inputGivesTheRangeInChunks(_ chunkSize: Int, _ range: Range<Int64>) throws {
    let path = temporaryPath()
    defer { unsafe unlink(path) }
    let bytes = pattern(100_000)
    try File.create(path).write(bytes, at: 0)
    let collected = Locked<[UInt8]>([])
    try withFiles { context, threads in
      let input = InputFile(
        try File.open(path), range: range, chunkSize: chunkSize, threads: threads, loop: context.loop)
      func ask() {
        input.next { result in
          #expect(context.loop.isCurrent)
          switch result {
          case .failure(let error):
            Issue.record(error)
            context.loop.stop()
          case .success(let chunk):
            #expect(chunk.count <= chunkSize)
            collected.withLock { $0 += chunk }
            chunk.isEmpty ? context.loop.stop() : ask()
          }
        }
      }
      ask()
    }
    let expected = bytes[Int(range.lowerBound)..<min(Int(range.upperBound), bytes.count)]
    #expect(collected.withLock { $0 } == Array(expected))
  }

  @Test func anErrorOfInputIsGivenEveryTime() throws {
    let seen = Locked<[Result<[UInt8], IOError>]>([])
    try withFiles { context, threads in
      let input = InputFile(try File.open("/proc/self"), threads: threads, loop: context.loop)
      input.next { first in
        seen.withLock { $0.append(first) }
        input.next { second in
          seen.withLock { $0.append(second) }
          context.loop.stop()
        }
      }
    }
    let expected: Result<[UInt8], IOError> = .failure(.other(.read, code: EISDIR))
    #expect(seen.withLock { $0 } == [expected, expected])
  }
}
