import CLupineLinux
import Glibc
import Testing

@testable import LupineIO

private func pattern(_ range: Range<Int>) -> [UInt8] {
  range.map { UInt8(truncatingIfNeeded: $0 &* 31 &+ $0 >> 8) }
}

/// One without a name.
private func temporaryFile() throws -> File {
  let path = temporaryPath()
  defer { unsafe unlink(path) }
  return try File.create(path)
}

/// Bytes from a socket into a file, by way of a pipe.
@Suite(.timeLimit(.minutes(1))) struct BodyPipeTests {
  /// A socket, its peer, and a file that is removed.
  private struct Ends: ~Copyable {
    let socket: Descriptor
    let peer: Descriptor
    let file: File

    init() throws {
      let file = try temporaryFile()
      let (number, other) = try socketPair()
      self.file = file
      socket = Descriptor(adopting: number)
      peer = Descriptor(adopting: other)
    }

    /// Bytes of the pattern.
    func give(_ range: Range<Int>) throws {
      let bytes = pattern(range)
      let sent = try SystemCalls.send(peer, bytes.span)
      #expect(sent == .bytes(range.count))
    }

    func holds(_ count: Int) throws -> Bool {
      try file.read(at: 0, count: count + 1) == pattern(0..<count)
    }
  }

  @Test func bytesGoIntoTheFile() throws {
    let ends = try Ends()
    let pipe = try #require(BodyPipe.make())
    let filled1 = try pipe.fill(from: ends.socket, atMost: 10)
    #expect(filled1 == 0)
    #expect(pipe.isEmpty)
    try ends.give(0..<100_000)
    // No more than was asked for.
    let filled2 = try pipe.fill(from: ends.socket, atMost: 60_000)
    #expect(filled2 == 60_000)
    #expect(!pipe.isEmpty)
    try pipe.empty(60_000, into: ends.file, at: 0)
    #expect(pipe.isEmpty)
    #expect(try ends.holds(60_000))
    let filled3 = try pipe.fill(from: ends.socket, atMost: .max)
    #expect(filled3 == 40_000)
    // In two calls, each in its place.
    try pipe.empty(30_000, into: ends.file, at: 60_000)
    #expect(!pipe.isEmpty)
    try pipe.empty(10_000, into: ends.file, at: 90_000)
    #expect(pipe.isEmpty)
    #expect(try ends.holds(100_000))
  }

  /// The end is told by a read, not by the pipe.
  @Test func theEndIsLeftToReads() throws {
    let (number, peer) = try socketPair()
    let socket = Descriptor(adopting: number)
    let pipe = try #require(BodyPipe.make())
    _ = try send(peer, [1, 2, 3])
    _ = Glibc.close(peer)
    let filled4 = try pipe.fill(from: socket, atMost: 10)
    #expect(filled4 == 3)
    try pipe.empty(3, into: temporaryFile(), at: 0)
    let filled5 = try pipe.fill(from: socket, atMost: 10)
    #expect(filled5 == nil && pipe.isEmpty)
  }

  /// The reset of a peer is the error that a read gives; what follows is left to reads as well.
  @Test func aResetIsTold() throws {
    let listener = try Listener()
    let client = try SystemCalls.makeSocket(listener.address.systemFamily)
    _ = try SystemCalls.connect(client, to: listener.address)
    reset(try listener.accept())
    let hasCome = SystemCalls.waitReadable(client, milliseconds: 10_000)
    #expect(hasCome)
    let pipe = try #require(BodyPipe.make())
    var error: IOError?
    do { _ = try pipe.fill(from: client, atMost: 10) } catch let thrown { error = thrown }
    #expect(error == .reset)
    let next = try pipe.fill(from: client, atMost: 10)
    #expect(next == nil && pipe.isEmpty)
  }

  /// What cannot be moved by a pipe is read as others are, and the pipe is not asked again.
  @Test func whatKnowsNoSuchCall() throws {
    let socket = Descriptor(adopting: epoll_create1(0))
    let pipe = try #require(BodyPipe.make())
    let filled = try pipe.fill(from: socket, atMost: 10)
    #expect(filled == nil && !pipe.isEmpty && pipe.isRefused)
  }

  /// A file that takes nothing out of a pipe, as `/dev/full`, is written to: its own error counts. What waits is lost then.
  @Test func filesThatRefuse() throws {
    let ends = try Ends()
    let pipe = try #require(BodyPipe.make())
    try ends.give(0..<10)
    _ = try pipe.fill(from: ends.socket, atMost: 10)
    let full = try File.reopen("/dev/full")
    #expect(throws: IOError.storageFull(code: ENOSPC)) { try pipe.empty(10, into: full, at: 0) }
    #expect(!pipe.isEmpty)
  }

  /// One that is opened to be appended to refuses pipes as well, and takes everything, in more than one piece.
  @Test func filesThatAreCopiedInto() throws {
    let ends = try Ends()
    let path = temporaryPath()
    defer { unsafe unlink(path) }
    let file = File(try SystemCalls.open(path, O_RDWR | O_CREAT | O_APPEND, mode: 0o600))
    let pipe = try #require(BodyPipe.make())
    try ends.give(0..<150_000)
    let filled6 = try pipe.fill(from: ends.socket, atMost: 150_000)
    #expect(filled6 == 150_000)
    try pipe.empty(150_000, into: file, at: 0)
    #expect(pipe.isEmpty)
    let isWhole = try file.read(at: 0, count: 200_000) == pattern(0..<150_000)
    #expect(isWhole)
  }

  /// More bytes than wait are an error, and no wait without end.
  @Test func moreThanWait() throws {
    let ends = try Ends()
    let pipe = try #require(BodyPipe.make())
    try ends.give(0..<10)
    _ = try pipe.fill(from: ends.socket, atMost: 10)
    #expect(throws: IOError.other(.splice, code: EIO)) { try pipe.empty(11, into: ends.file, at: 0) }
  }

  /// Others of the same user want pipes too.
  @Test func thereAreOnlySoMany() throws {
    var pipes: [BodyPipe] = []
    while let pipe = BodyPipe.make() {
      pipes.append(pipe)
      try #require(pipes.count <= BodyPipe.maximumCount)
    }
    #expect(BodyPipe.make() == nil)
    pipes.removeLast()
    #expect(BodyPipe.make() != nil)
  }

  /// Both ends are ours alone, and none is left.
  @Test func descriptorsAreClosed() throws {
    var pipe = BodyPipe.make()
    let before = try #require(pipe).numbers
    for number in before {
      #expect(fcntl(number, F_GETFD) & FD_CLOEXEC != 0 && fcntl(number, F_GETFL) & O_NONBLOCK != 0)
    }
    let name = Self.name(of: before[0])
    #expect(name?.hasPrefix("pipe:") == true && Self.name(of: before[1]) == name)
    pipe = nil
    // Somebody else may have the numbers by now.
    for number in before { #expect(Self.name(of: number) != name) }
  }

  private static func name(of number: Int32) -> String? {
    let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 256) { buffer, count in
      guard let start = buffer.baseAddress else { return }
      let result = unsafe start.withMemoryRebound(to: CChar.self, capacity: buffer.count) {
        unsafe readlink("/proc/self/fd/\(number)", $0, buffer.count)
      }
      count = max(0, result)
    }
    return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
  }
}
