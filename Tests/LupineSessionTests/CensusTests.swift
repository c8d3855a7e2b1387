import FoundationEssentials
import Glibc
import HTTPTypes
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// In processes of their own: what a session leaves behind, and what a broken pipe does to one.
@Suite(.timeLimit(.minutes(5))) struct CensusTests {
  private struct Leak: Error, CustomStringConvertible {
    let description: String
  }

  /// Every way a request can end, then the end of the session: no descriptor and no thread of ours is left.
  @Test func nothingIsLeftBehind() async {
    await #expect(processExitsWith: .success) {
      try await Self.everyEnding()  // starts what the process keeps: resolver, file threads, TLS
      let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
      for round in 0..<5 {
        try await Self.everyEnding()
        guard before.isRestored(withinSeconds: 60) else {
          throw Leak(description: "round \(round): \(before) is now \(DescriptorCensus.now())")
        }
      }
    }
  }

  /// A session that cannot be made leaves no engine behind.
  @Test func aRefusedConfigurationLeavesNothing() async {
    await #expect(processExitsWith: .success) {
      // Starts what the process keeps.
      _ = try? await Session(.ephemeral).data(from: "http://127.0.0.1:1/")
      let before = DescriptorCensus.now(threadsNamed: "lupine", except: ["lupine-dns", "lupine-file"])
      var configuration = SessionConfiguration()
      configuration.engine = .own
      configuration.nameOverrides = ["a.example:443": "no address"]
      for _ in 0..<5 {
        let session = try? Session(configuration)
        guard session == nil else { throw Leak(description: "a name is no address") }
      }
      guard before.isRestored(withinSeconds: 10) else {
        throw Leak(description: "\(before) is now \(DescriptorCensus.now())")
      }
    }
  }

  private static func everyEnding() async throws {
    let authority = try CertificateAuthority()
    let plain = try LoopbackServer(routes: ServerRoute.standard())
    let secure = try LoopbackServer(routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: authority))
    let bad = try ScriptedServer([[.readHead, .send("nonsense\r\n\r\n"), .waitForClose]], surplus: .repeatLast)
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.tls.roots = .certificates([authority.rootDER])
    let session = try Session(configuration)
    for server in [plain, secure] {
      for path in [
        "/hello", "/chunked?n=300000", "/gzip?n=1000", "/bytes?n=1000&cut=10", "/close", "/redirect",
        "/status?code=500",
      ] {
        _ = try? await session.data(from: server.url(path))
      }
      var slow = try Request(server.url("/slow"))
      slow.timeoutInterval = .milliseconds(20)
      _ = try? await session.data(for: slow)
      let cancelled = Task { try await session.data(from: server.url("/slow?n=1")) }
      // Of the one before that nothing may have come, as short as its time is.
      _ = await eventually { server.recordedRequests.contains { $0.target == "/slow?n=1" } }
      cancelled.cancel()
      _ = await cancelled.result
      let (path, _) = try await session.download(for: Request(server.url("/bytes?n=100000")))
      _ = try await session.upload(for: Request(server.url("/upload"), method: .put), fromFile: path)
      unsafe unlink(path)
      let (bytes, _) = try await session.bytes(for: Request(server.url("/bytes?n=5000000")))
      for try await _ in bytes.chunks { break }
    }
    _ = try? await session.data(from: bad.url())
    _ = try? await session.data(from: "http://127.0.0.1:1/")
    plain.shutdown()
    secure.shutdown()
    bad.shutdown()
  }

  /// A connection is still being opened when its session and the engine go, and the server lives on.
  @Test func connectionBeingOpenedGoesWithItsSession() async {
    await #expect(processExitsWith: .success) {
      let silent = try ScriptedServer([[.stall(nil)]], surplus: .repeatLast)
      try await Self.openAndLeave(silent)
      _ = await eventually { ClientSockets.count(to: silent.port) == 0 }
      guard ClientSockets.count(to: silent.port) == 0 else {
        throw Leak(description: "the socket outlived its session")
      }
    }
  }

  private static func openAndLeave(_ server: ScriptedServer) async throws {
    var configuration = SessionConfiguration()
    configuration.engine = .own
    // Longer than anybody waits for the end.
    configuration.tlsTimeout = .seconds(300)
    let session = try Session(configuration)
    let opening = Task { try await session.data(from: "https://127.0.0.1:\(server.port)/") }
    _ = await eventually { server.connectionCount == 1 }
    opening.cancel()
    _ = await opening.result
  }

  /// `sendfile` has no flag against SIGPIPE: with the signal at its default, a peer that resets in the middle of an upload must not kill us.
  @Test func brokenPipeDuringSendfileKillsNobody() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      let directory = try ScratchDirectory()
      let path = try directory.write([], to: "body")
      try TextFile.truncate(path, to: 64 << 20)
      let server = try ScriptedServer(
        [[.readHead, .reset], [.readHead, .read(100_000), .reset], [.readHead, .finishSending, .reset]],
        surplus: .repeatLast)
      let session = try Session()
      for _ in 0..<20 {
        let request = try Request(server.url(), method: .put, body: .file(path: path))
        do {
          _ = try await session.data(for: request)
          throw Leak(description: "a reset passed for an answer")
        } catch let error as SessionError {
          guard error.code == .connectionLost, error.requestBytesSent else { throw error }
        }
      }
    }
  }

  /// Down and up, plaintext and TLS, server and client in one process: a body of `LUPINE_LARGE_BODY_BYTES` (default 16 MiB) raises the peak
  /// by less than its own size. The exact budget is the business of a probe without a server in it.
  @Test func peakMemoryIsFlat() async {
    await #expect(processExitsWith: .success) {
      // Sanitizers keep freed memory.
      guard unsafe getenv("LUPINE_SANITIZE") == nil else { return }
      let size = unsafe getenv("LUPINE_LARGE_BODY_BYTES").flatMap { unsafe Int(String(cString: $0)) } ?? 16 << 20
      for isSecure in [false, true] {
        try await Self.downAndUp(1 << 20, isSecure)
        let before = try PeakMemory.reset()
        try await Self.downAndUp(size, isSecure)
        let after = PeakMemory.bytes
        guard after - before < 12 << 20 else {
          throw Leak(description: "secure \(isSecure): \(size) bytes raised the peak from \(before) to \(after)")
        }
      }
    }
  }

  private static func downAndUp(_ size: Int, _ isSecure: Bool) async throws {
    let authority = try CertificateAuthority()
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: isSecure ? try ServerTLS.minted(by: authority) : nil, recording: .none)
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.tls.roots = .certificates([authority.rootDER])
    let session = try Session(configuration)
    let (bytes, _) = try await session.bytes(for: Request(server.url("/bytes?n=\(size)")))
    var received = 0
    for try await chunk in bytes.chunks { received += chunk.count }
    let (path, _) = try await session.download(for: Request(server.url("/chunked?n=\(size)&size=100000")))
    defer { unsafe unlink(path) }
    let upload = try Request(server.url("/upload"), method: .put)
    let (answer, _) = try await session.upload(for: upload, fromFile: path)
    let left = Counter()
    let chunk = [UInt8](repeating: 1, count: 65_536)
    let chunks = AsyncStream<[UInt8]> { left.next() < size / chunk.count ? chunk : nil }
    let (second, _) = try await session.upload(for: upload, from: chunks)
    for text in [answer, second] {
      guard String(decoding: text, as: UTF8.self).hasPrefix("{\"bytes\":\(size),"), received == size else {
        throw Leak(description: "\(received) came, and \(String(decoding: text, as: UTF8.self))")
      }
    }
  }
}

/// The peak of this process's resident memory.
private enum PeakMemory {
  /// Sets the peak back to what is resident now, and returns that.
  static func reset() throws -> Int {
    let descriptor = unsafe open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC)
    defer { close(descriptor) }
    guard descriptor >= 0, unsafe write(descriptor, "5", 1) == 1 else {
      throw LoopbackError.system(call: "clear_refs", code: errno)
    }
    return bytes
  }

  static var bytes: Int {
    let line = TextFile.read("/proc/self/status").split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    let kilobytes = line?.split(separator: " ", omittingEmptySubsequences: true).dropFirst().first.flatMap { Int($0) }
    return (kilobytes ?? 0) * 1024
  }
}
