import FoundationEssentials
import Glibc
import HTTPTypes
import LupineSession
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
      let before = DescriptorCensus.now(threadsNamed: "lupine")
      for round in 0..<5 {
        try await Self.everyEnding()
        guard before.isRestored(withinSeconds: 20) else {
          throw Leak(description: "round \(round): \(before) is now \(DescriptorCensus.now())")
        }
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
      let cancelled = Task { try await session.data(from: server.url("/slow")) }
      _ = await eventually { server.recordedRequests.count { $0.path == "/slow" } == 2 }
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
    session.invalidateAndCancel()
    plain.shutdown()
    secure.shutdown()
    bad.shutdown()
  }

  /// `sendfile` has no flag against SIGPIPE: with the signal at its default, a peer that resets in the middle of an upload must not kill us.
  @Test func brokenPipeDuringSendfileKillsNobody() async {
    await #expect(processExitsWith: .success) {
      signal(SIGPIPE, SIG_DFL)
      let path = "/tmp/lupine-sigpipe-\(getpid())"
      let descriptor = unsafe open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      defer {
        unsafe unlink(path)
        close(descriptor)
      }
      guard descriptor >= 0, ftruncate(descriptor, 64 << 20) == 0 else { throw Leak(description: "no file") }
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
}
