import Glibc
import LupineBase
import LupineIO
import LupineTLS
import LupineTesting
import Testing

@testable import LupineEngine

/// However many want the context of a policy that nobody knows yet, its files are looked at once.
@Suite(.timeLimit(.minutes(1))) struct PolicyReadTests {
  @Test func oneBeginsForAll() {
    let flight = SingleFlight<String, Int>()
    let told = Locked<[Int]>([])
    var begun = 0
    for number in 0..<6 {
      let isFirst = flight.join("a") { value in told.withLock { $0.append(10 * value + number) } }
      if isFirst { begun += 1 }
    }
    let isFirstOfOthers = flight.join("b") { value in told.withLock { $0.append(value) } }
    #expect(begun == 1 && isFirstOfOthers && told.withLock { $0 }.isEmpty)
    flight.finish("a", 7)
    #expect(told.withLock { $0 } == [70, 71, 72, 73, 74, 75])
    // Nobody is given what was found before he asked.
    let isFirstAgain = flight.join("a") { value in told.withLock { $0 = [value] } }
    #expect(isFirstAgain && told.withLock { $0.count } == 6)
    flight.finish("a", 8)
    #expect(told.withLock { $0 } == [8])
    flight.finish("b", 9)
    #expect(told.withLock { $0 } == [8, 9])
  }

  /// Roots in a pipe that nobody writes to, for more connections than there are threads: who has others is given them meanwhile.
  @Test func aFileThatHangsKeepsOneThread() throws {
    var template = Array("/tmp/lupine-roots-XXXXXX".utf8CString)
    let isFolderMade = unsafe mkdtemp(&template) != nil
    try #require(isFolderMade)
    let folder = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    let path = folder + "/pipe"
    try #require(unsafe mkfifo(path, 0o600) == 0)
    defer {
      unsafe unlink(path)
      unsafe rmdir(folder)
    }
    let drive = try Drive()
    func settle(until isDone: () -> Bool) {
      let end = EventLoop.monotonicNow().advanced(byNanoseconds: 30_000_000_000)
      while !isDone(), EventLoop.monotonicNow() < end { drive.settle() }
    }
    var hanging = TLSPolicy()
    hanging.roots = .file(path)
    var other = TLSPolicy()
    other.roots = .certificates([try CertificateAuthority().rootDER])
    var failures = 0
    var isMade = false
    for _ in 0..<6 {
      drive.pool.core.tlsContext(for: hanging) { result in
        if case .failure(.rootsUnreadable) = result { failures += 1 }
      }
    }
    drive.pool.core.tlsContext(for: other) { result in
      if case .success = result { isMade = true }
    }
    settle { isMade }
    #expect(isMade && failures == 0)
    // All of them are told, as the pipe is empty.
    settle {
      let writer = unsafe open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
      if writer >= 0 { _ = close(writer) }
      return failures == 6
    }
    #expect(failures == 6)
    drive.end()
  }
}
