import CLupineLinux
import Glibc
import LupineBase
import Testing

@testable import LupineIO

private func makePipe() -> (reading: Int32, writing: Int32) {
  var ends: [Int32] = [-1, -1]
  let code = unsafe pipe(&ends)
  precondition(code == 0, "there is no pipe: errno \(errno)")
  return (ends[0], ends[1])
}

@Suite struct ProgrammerErrorTests {
  @Test func closingANumberTwiceTraps() async {
    await #expect(processExitsWith: .failure) {
      let number = dup(0)
      try Descriptor(adopting: number).close()
      try Descriptor(adopting: number).close()
    }
  }

  @Test func usingAClosedNumberTraps() async {
    await #expect(processExitsWith: .failure) {
      let number = dup(0)
      Glibc.close(number)
      try send(number, [1])
    }
  }

  @Test func sendingThroughWhatIsNoSocketTraps() async {
    await #expect(processExitsWith: .failure) {
      let (_, writing) = makePipe()
      try send(writing, [1])
    }
  }

  @Test func registeringAFileTwiceIsATypedError() throws {
    let errors = Locked<[IOError]>([])
    try onLoop { context in
      do throws(IOError) {
        let (reading, _) = makePipe()
        _ = try register(context, reading, Handler())
        do throws(IOError) {
          _ = try register(context, reading, Handler())
        } catch {
          errors.withLock { $0.append(error) }
        }
        // A regular file cannot be watched: EPERM, and no registration stays.
        let file = try File.open("/proc/self/exe")
        do throws(IOError) {
          _ = try context.register(file.descriptor, Handler())
        } catch {
          errors.withLock { $0.append(error) }
        }
        #expect(context.registrationCount == 1)
      } catch { Issue.record(error) }
      context.loop.stop()
    }
    #expect(errors.withLock { $0 } == [.alreadyExists, .permissionDenied(code: EPERM)])
  }

  @Test func invalidArgumentsOfOurOwnTrap() async {
    await #expect(processExitsWith: .failure) {
      // An epoll descriptor that watches itself.
      let epoll = try SystemCalls.makeEpoll()
      try SystemCalls.epollAdd(epoll, epoll.number, events: 1, token: 1)
    }
  }

  @Test func aContextAwayFromItsLoopTraps() async {
    await #expect(processExitsWith: .failure) {
      _ = try LoopContext(of: try EventLoop(name: "idle"))
    }
  }
}

@Suite struct SocketCallTests {
  @Test func errorsOfAPeerThatIsGoneAreTyped() throws {
    let (number, peer) = try socketPair()
    let socket = Descriptor(adopting: number)
    try Descriptor(adopting: peer).close()
    // MSG_NOSIGNAL: this thread does not block SIGPIPE.
    let bytes: [UInt8] = [1]
    #expect(throws: IOError.brokenPipe) { try SystemCalls.send(socket, bytes.span) }
    #expect(throws: IOError.brokenPipe) { try SystemCalls.send(socket, bytes.span, bytes.span) }
    #expect(try SystemCalls.peek(socket) == .end)
  }

  @Test func aResetIsTyped() throws {
    let listener = try Listener()
    let socket = try SocketOptions().makeSocket(for: listener.address)
    _ = try SystemCalls.connect(socket, to: listener.address)
    let peer = try listener.accept()
    reset(peer)
    var error: IOError?
    while error == nil {
      do throws(IOError) {
        #expect(try SystemCalls.peek(socket) == .wouldBlock)
      } catch let failure {
        error = failure
      }
    }
    #expect(error == .reset)
    let bytes: [UInt8] = [1]
    #expect(throws: IOError.brokenPipe) { try SystemCalls.send(socket, bytes.span) }
    #expect(try SystemCalls.peek(socket) == .end)
    try SystemCalls.shutdownWriting(socket)
  }

  @Test func peekLeavesWhatItSees() throws {
    let (number, peer) = try socketPair()
    let socket = Descriptor(adopting: number)
    let other = Descriptor(adopting: peer)
    #expect(try SystemCalls.peek(socket) == .wouldBlock)
    _ = try SystemCalls.send(other, ([9] as [UInt8]).span)
    #expect(try SystemCalls.peek(socket) == .bytes(1))
    #expect(try SystemCalls.peek(socket) == .bytes(1))
  }

  @Test func aFullSocketWouldBlockAndEmptySendsAreNothing() throws {
    let (number, peer) = try socketPair()
    let socket = Descriptor(adopting: number)
    let other = Descriptor(adopting: peer)
    let chunk = [UInt8](repeating: 1, count: 100_000)
    var sent = 0
    while case .bytes(let count) = try SystemCalls.send(socket, chunk.span, chunk.span) { sent += count }
    #expect(sent > 0)
    #expect(try SystemCalls.send(socket, chunk.span) == .wouldBlock)
    let nothing: [UInt8] = []
    #expect(try SystemCalls.send(other, nothing.span) == .bytes(0))
  }

  @Test func errorsHaveTheNumberAndATextOfTheSystem() {
    let cases: [(Int32, IOError)] = [
      (ECONNREFUSED, .refused), (EHOSTUNREACH, .unreachable(code: EHOSTUNREACH)), (ECONNRESET, .reset),
      (EPIPE, .brokenPipe), (ETIMEDOUT, .timedOut), (EADDRINUSE, .addressInUse),
      (EADDRNOTAVAIL, .addressNotAvailable(code: EADDRNOTAVAIL)), (EMFILE, .descriptorLimit(code: EMFILE)),
      (ENOBUFS, .outOfMemory(code: ENOBUFS)), (EACCES, .permissionDenied(code: EACCES)),
      (ENOENT, .notFound(code: ENOENT)), (EEXIST, .alreadyExists), (ELOOP, .symbolicLink),
      (ENOSPC, .storageFull(code: ENOSPC)), (ENAMETOOLONG, .badPath), (EXDEV, .crossDevice),
      (EIO, .other(.rename, code: EIO)),
    ]
    for (code, error) in cases {
      #expect(IOError(.rename, code: code) == error)
      #expect(error.code == code)
      #expect(error.description.contains("\(code)"))
    }
    #expect(IOError.refused.description == "Connection refused (errno 111)")
    #expect(IOError(.connect, code: EINVAL) == .addressNotAvailable(code: EINVAL))
  }
}

@Suite struct SendFileTests {
  @Test func aSliceIsBoundedAndTheEndIsSeen() throws {
    let (number, peer) = try socketPair()
    let socket = Descriptor(adopting: number)
    let other = Descriptor(adopting: peer)
    let path = temporaryPath()
    defer { unsafe unlink(path) }
    let file = try File.create(path)
    try file.write([UInt8](repeating: 7, count: 1 << 20), at: 0)
    let result = Locked<[ReadResult]>([])
    let thread = try Thread.start(name: "sender") {
      do throws(IOError) {
        let first = try SystemCalls.sendFile(socket, file.descriptor, offset: 1 << 20, count: 10)
        let second = try SystemCalls.sendFile(socket, file.descriptor, offset: (1 << 20) - 3, count: 1 << 20)
        let third = try SystemCalls.sendFile(socket, file.descriptor, offset: 0, count: 1 << 20)
        result.withLock { $0 = [first, second, third] }
      } catch { Issue.record(error) }
    }
    thread.join()
    let results = result.withLock { $0 }
    #expect(results.prefix(2) == [.end, .bytes(3)])
    guard case .bytes(let count)? = results.last else {
      Issue.record("nothing sent")
      return
    }
    #expect(count > 0 && count <= SystemCalls.sliceSize)
    #expect(try SystemCalls.peek(other) == .bytes(1))
  }

  /// Sends a file into a connection that the peer has reset, with SIGPIPE at its default.
  private static func sendIntoAReset() throws -> IOError? {
    signal(SIGPIPE, SIG_DFL)
    let listener = try Listener()
    let socket = try SocketOptions().makeSocket(for: listener.address)
    _ = try SystemCalls.connect(socket, to: listener.address)
    reset(try listener.accept())
    while (try? SystemCalls.peek(socket)) == .wouldBlock {}
    let file = try File.open("/proc/self/exe")
    do throws(IOError) {
      _ = try SystemCalls.sendFile(socket, file.descriptor, offset: 0, count: 1000)
      return nil
    } catch {
      return error
    }
  }

  @Test func onOurThreadsAResetPeerIsAnErrorAndNotTheEndOfTheProcess() async {
    await #expect(processExitsWith: .exitCode(42)) {
      let outcome = Locked<IOError?>(nil)
      try onLoop { context in
        let error = (try? Self.sendIntoAReset()) ?? nil
        outcome.withLock { $0 = error }
        // The signal is pending on this thread now, and stays so.
        context.loop.stop()
      }
      // The thread has ended with the signal pending, and we are still here.
      exit(outcome.withLock { $0 } == .brokenPipe ? 42 : 1)
    }
  }

  /// The proof that the test above can fail.
  @Test func onOtherThreadsItIs() async {
    await #expect(processExitsWith: .signal(SIGPIPE)) {
      var none = sigset_t()
      unsafe sigemptyset(&none)
      _ = unsafe pthread_sigmask(SIG_SETMASK, &none, nil)
      _ = try Self.sendIntoAReset()
    }
  }
}

@Suite struct SocketAddressTests {
  @Test(arguments: [
    ("127.0.0.1", "127.0.0.1:80"), ("0.0.0.0", "0.0.0.0:80"), ("255.255.255.255", "255.255.255.255:80"),
    ("::", "[::]:80"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80"), ("1::", "[1::]:80"),
    ("2001:DB8:0:0:8:800:200C:417A", "[2001:db8::8:800:200c:417a]:80"),
    ("1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:80"), ("1:2:3:4:5:6:7::", "[1:2:3:4:5:6:7:0]:80"),
    ("::2:3:4:5:6:7:8", "[0:2:3:4:5:6:7:8]:80"), ("1:0:0:2:0:0:0:3", "[1:0:0:2::3]:80"),
    ("::ffff:192.0.2.1", "[::ffff:192.0.2.1]:80"), ("64:ff9b::192.0.2.1", "[64:ff9b::c000:201]:80"),
    ("1:2:3:4:5:6:1.2.3.4", "[1:2:3:4:5:6:102:304]:80"), ("fe80::1%7", "[fe80::1%7]:80"),
    ("fe80::1%lo", "[fe80::1%1]:80"),
  ])
  func literalsAreRead(_ literal: String, _ expected: String) {
    #expect(SocketAddress(literal: literal, port: 80)?.description == expected)
  }

  @Test(arguments: [
    "", "1", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.04", "1.2.3.", ".1.2.3", "1..2.3", "0x7f.0.0.1",
    "127.1", "+1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4\0", "١.2.3.4", ":", ":::", "1:", ":1", "1::2::3",
    "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7:8::", "::1:2:3:4:5:6:7:8", "12345::", "g::", "::1.2.3",
    "::1.2.3.4:5", "1:2:3:4:5:6:7:1.2.3.4", "1.2.3.4::", "[::1", "::1]", "[]", "::1%", "::1%0", "::1%nosuchinterface",
    "::+1",
    "[1.2.3.4]", "example.com", "::1%lo\0",
  ])
  func everythingElseIsNot(_ text: String) {
    #expect(SocketAddress(literal: text, port: 80) == nil)
  }

  @Test func theSystemsFormAgrees() throws {
    for _ in 0..<2000 {
      // Groups of zero in every arrangement.
      let groups = (0..<8).map { _ in Bool.random() ? 0 : UInt64.random(in: 0...0xFFFF) }
      let address = IPv6Address(
        high: groups[..<4].reduce(0) { $0 << 16 | $1 }, low: groups[4...].reduce(0) { $0 << 16 | $1 })
      let text = address.description
      #expect(IPv6Address(text) == address)
      let (system, printed) = systemForm(of: text)
      #expect(system == address)
      #expect(IPv6Address(printed) == address)
    }
  }
}

/// What inet_pton reads, and inet_ntop makes of it.
private func systemForm(of text: String) -> (IPv6Address?, String) {
  var bytes = [UInt8](repeating: 0, count: 16)
  guard unsafe inet_pton(AF_INET6, text, &bytes) == 1 else { return (nil, "") }
  var printed = [CChar](repeating: 0, count: 64)
  _ = unsafe inet_ntop(AF_INET6, bytes, &printed, 64)
  let string = String(decoding: printed.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  let address = IPv6Address(
    high: bytes[..<8].reduce(0) { $0 << 8 | UInt64($1) }, low: bytes[8...].reduce(0) { $0 << 8 | UInt64($1) })
  return (address, string)
}
