import Foundation
import Glibc
import Lupine
import LupineBase
import LupineTestSupport
import LupineTesting
import Testing

/// A program that is started while sessions live inherits nothing of them.
@Suite(.timeLimit(.minutes(2))) struct DescriptorTests {
  /// What is open, by number: `socket:[1]`, `anon_inode:[eventpoll]`, or a path.
  private static func open() -> [Int32: String] {
    let numbers = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")) ?? []
    let pairs = numbers.compactMap { name -> (Int32, String)? in
      guard let number = Int32(name),
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
      else { return nil }
      return (number, target)
    }
    return Dictionary(pairs) { $1 }
  }

  /// In a process of its own, whose descriptors are known before: connections in the clear and over TLS, a cache on disk, a log of keys, a
  /// download and an upload that are under way, and a monitor of the network.
  @Test func everyOneIsCloseOnExec() async {
    await #expect(processExitsWith: .success) {
      let before = Self.open()
      let folder = try ScratchFolder()
      try Data(count: 32 << 20).write(to: folder.file("upload"))
      try await Self.withEverything(in: folder) {
        let new = Self.open().filter { before[$0.key] != $0.value }
        let ends = [
          "socket:", "[eventfd]", "[eventpoll]", "/keys", "/upload", "/cache/v1", "/lupine-\(geteuid())", ".part",
        ]
        for end in ends {
          #expect(new.values.contains { $0.contains(end) }, "\(end) is not open: \(new.values.sorted())")
        }
        for (number, target) in new {
          let flags = fcntl(number, F_GETFD)
          #expect(flags < 0 || flags & FD_CLOEXEC != 0, "\(number) -> \(target)")
        }
      }
    }
  }

  private static func withEverything(in scratch: ScratchFolder, _ body: () throws -> Void) async throws {
    let folder = scratch.url.path
    let authority = try CertificateAuthority()
    let half = ServerRoute(nil, "/half") { _, connection in
      try connection.begin(framing: .length(1_000_000))
      try connection.write(PatternBody.bytes(500_000))
      try connection.stall(until: nil)
    }
    let full = ServerRoute(nil, "/full") { _, connection in try connection.stall(until: nil) }
    let stored = ServerRoute(nil, "/stored") { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "stored")
    }
    let plain = try LoopbackServer(routes: [half, full])
    let secure = try LoopbackServer(routes: [stored], tls: try ServerTLS.minted(by: authority))
    defer {
      plain.shutdown()
      secure.shutdown()
    }
    var configuration = SessionConfiguration()
    configuration.engine = .own
    configuration.temporaryDirectory = folder
    configuration.responseCache = try ResponseCache(directory: folder + "/cache")
    configuration.tls.roots = .certificates([authority.rootDER])
    configuration.tls.keyLogPath = folder + "/keys"
    let session = try Session(configuration)
    defer { session.invalidateAndCancel() }
    _ = try await session.data(from: secure.url("/stored"))

    let received = Locked<Int64>(0)
    let (downloaded, uploaded) = (plain.url("/half"), plain.url("/full"))
    let download = Task {
      try await session.download(for: Request(downloaded)) { count, _ in received.withLock { $0 = count } }
    }
    let upload = Task {
      try await session.upload(for: Request(uploaded, method: .put), fromFile: folder + "/upload")
    }
    let monitor = try NetworkReachabilityManager(address: "127.0.0.1")
    try monitor.startMonitoring()
    defer {
      monitor.stopMonitoring()
      download.cancel()
      upload.cancel()
    }
    let isUnderWay = await eventually {
      received.withLock { $0 } > 0 && plain.requestCount == 2 && monitor.networkReachabilityStatus != .unknown
        && open().values.contains(folder + "/upload")
    }
    #expect(isUnderWay, "\(open().values.sorted())")
    try body()
  }
}
