import CLupineLinux
import CSystemCallFilter
import Glibc
import LupineBase
import Testing

@testable import LupineIO

/// Ends the process of a test for what is not so.
private func expect(_ condition: Bool) {
  if !condition { exit(EXIT_FAILURE) }
}

/// Allows no descriptor of a number from `count` on.
private func allowDescriptors(_ count: Int) {
  var limit = rlimit()
  expect(unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
  limit.rlim_cur = rlim_t(count)
  expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
}

/// What the process around this package takes away from it, each in a process of its own.
@Suite struct SandboxTests {
  /// A process that has closed its standard streams and prints all the same must not print into a connection.
  @Test func standardStreamsThatAreClosedStayFree() async {
    await #expect(processExitsWith: .success) {
      let directory = try Directory.open("/proc/self")
      for stream in 0...2 as ClosedRange<Int32> { Glibc.close(stream) }
      let event = try SystemCalls.eventDescriptor(semaphore: false)
      let epoll = try SystemCalls.makeEpoll()
      let socket = try SystemCalls.makeSocket(AF_INET)
      let file = try SystemCalls.open("/proc/self/exe", O_RDONLY)
      // Nil where it could not be told without waiting.
      let cached = try SystemCalls.openAtOnce("status", in: directory.descriptor, O_RDONLY)
      let pipe = BodyPipe.make()
      let numbers = [event.number, epoll.number, socket.number, file.number] + (pipe?.numbers ?? [])
      withExtendedLifetime(pipe) {
        expect(numbers.allSatisfy { $0 > 2 && fcntl($0, F_GETFD) == FD_CLOEXEC })
      }
      if let cached { expect(cached.number > 2) }
      expect((0...2).allSatisfy { fcntl($0, F_GETFD) < 0 })
      // Where there is no other number it is the limit that has been reached.
      allowDescriptors(3)
      var error: IOError?
      do throws(IOError) { _ = try SystemCalls.eventDescriptor(semaphore: false) } catch let refusal { error = refusal }
      expect(error == .descriptorLimit(code: EMFILE))
      expect((0...2).allSatisfy { fcntl($0, F_GETFD) < 0 })
    }
  }

  /// What was written is not lost because nothing can be opened.
  @Test(arguments: ["a file", "/dev/null"]) func aFileIsFlushedWithoutADescriptorToSpare(_ path: String) async {
    await #expect(processExitsWith: .success) { [path] in
      var template = Array("/tmp/lupine-flush-XXXXXX".utf8CString)
      let file =
        path == "/dev/null"
        ? File(try SystemCalls.open(path, O_WRONLY)) : File(Descriptor(adopting: unsafe mkstemp(&template)))
      unsafe unlink(template)
      if path != "/dev/null" { try file.write([1, 2, 3], at: 0) }
      for count in [3, 0] {
        allowDescriptors(count)
        try file.flush()
      }
    }
  }

  /// `poll` refuses then, at once and each time.
  @Test func idleThreadsEndWhereNoDescriptorIsAllowed() async {
    await #expect(processExitsWith: .success) {
      let threads = try WorkerThreads(name: "lupine-test", maximum: 1, idleMilliseconds: 50)
      // By the thread itself, which waits behind it.
      try threads.submit { allowDescriptors(0) }
      let start = EventLoop.monotonicNow()
      while threads.threadCount > 0 {
        expect(EventLoop.monotonicNow().nanoseconds(since: start) < 20_000_000_000)
        sched_yield()
      }
    }
  }

  @Test(arguments: [ENOSYS, EPERM]) func aLoopOutlivesAFilterThatComesBehindIt(_ code: Int32) async {
    await #expect(processExitsWith: .success) { [code] in
      try onLoop { context in
        // The filter may be refused, and then nothing is shown.
        let refused = filter_system_call(Int32(filter_epoll_pwait2), code)
        if refused != 0 { print("no filter: errno \(refused)") }
        _ = context.schedule(at: context.now.advanced(byNanoseconds: 20_000_000), Alarm { _ in context.loop.stop() })
      }
    }
  }

  @Test(arguments: [ENOSYS, EPERM, EINVAL, EOPNOTSUPP]) func aFileIsSentWithoutSendfile(_ code: Int32) async {
    await #expect(processExitsWith: .success) { [code] in
      let refused = filter_system_call(Int32(filter_sendfile), code)
      if refused != 0 { print("no filter: errno \(refused)") }
      var template = Array("/tmp/lupine-send-XXXXXX".utf8CString)
      let file = File(Descriptor(adopting: unsafe mkstemp(&template)))
      unsafe unlink(template)
      let bytes = (0..<200_000).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      try file.write(bytes, at: 0)
      let pair = try SystemCalls.makeSocketPair()
      let near = Descriptor(adopting: pair.0)
      let far = Descriptor(adopting: pair.1)
      var (sent, came) = (0, [UInt8]())
      while came.count < 150_000 {
        switch try SystemCalls.sendFile(near, file.descriptor, offset: 50_000 + Int64(sent), count: 150_000 - sent) {
        case .bytes(let count): sent += count
        case .wouldBlock: break
        case .end: expect(sent == 150_000)
        }
        var buffer = [UInt8](repeating: 0, count: 65_536)
        let count = unsafe recv(far.number, &buffer, buffer.count, Int32(MSG_DONTWAIT))
        if count > 0 { came += buffer[..<count] }
      }
      expect(came == Array(bytes[50_000...]))
      expect(try SystemCalls.sendFile(near, file.descriptor, offset: 200_000, count: 1) == .end)
    }
  }

  /// A look at a socket that is refused is no mistake of ours.
  @Test func aSocketThatTellsNothingIsNoTrap() async {
    await #expect(processExitsWith: .success) {
      let pair = try SystemCalls.makeSocketPair()
      let (near, far) = (pair.0, pair.1)
      let socket = Descriptor(adopting: near)
      for call in [filter_getsockname, filter_getsockopt] { _ = filter_system_call(Int32(call), EPERM) }
      let error = SystemCalls.pendingError(socket)
      expect(error == nil || error == .permissionDenied(code: EPERM))
      _ = SystemCalls.localAddress(socket)
      Glibc.close(far)
    }
  }

  @Test(arguments: [ENOSYS, EPERM]) func aFileIsGivenItsPathWithoutRenameat2(_ code: Int32) async {
    await #expect(processExitsWith: .success) { [code] in
      _ = filter_system_call(Int32(filter_renameat2), code)
      var template = Array("/tmp/lupine-rename-XXXXXX".utf8CString)
      expect(unsafe mkdtemp(&template) != nil)
      let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
      let directory = try Directory.open(path)
      try directory.create("part").write([1], at: 0)
      try directory.rename("part", to: path + "/whole", overwriting: false)
      expect(try directory.attributes(of: "whole")?.size == 1)
      expect(try directory.attributes(of: "part") == nil)
      try directory.remove("whole")
      unsafe rmdir(template)
    }
  }
}
