import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// What went wrong in other caches, each by the name it has there.
@Suite struct CacheAdvisoryTests {
  private static let fresh: ServerFields = ["Cache-Control": "max-age=1000"]

  /// fountain #1554 (URLSession on Linux): cancelling right after `resume` trapped, because the lookup ran beside the task.
  @Test(arguments: [false, true]) func fountain1554CancelRightAfterResume(_ isInFiles: Bool) async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache =
      isInFiles
      ? try ResponseCache(memoryCapacity: 0, directory: path) : ResponseCache(memoryCapacity: 1 << 20)
    let server = try LoopbackServer { _, connection in try connection.respond(fields: Self.fresh, text: "x") }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      let ends = Locked(0)
      for round in 0..<300 {
        let task = session.dataTask(with: try Request(server.url("/\(round % 3)"))) { _ in ends.withLock { $0 += 1 } }
        task.resume()
        if round % 5 > 0 { task.cancel() }
      }
      let isOver = await eventually { ends.withLock { $0 } == 300 }
      #expect(isOver)
    }
    await cache.flush()
    try CacheFolder.remove(path)
  }

  /// curl CVE-2025-14819, CVE-2026-11564, Go CVE-2025-68121: what came under one rule of trust was used under another.
  @Test func curl2025_14819TrustDoesNotOutliveItsOption() async throws {
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    let server = try LoopbackServer(tls: try TestIdentity.server()) { _, connection in
      try connection.respond(fields: Self.fresh, text: "x")
    }
    defer { server.shutdown() }
    for verifies in [false, false, true, true] {
      try await withSession(
        ports: [server.port],
        configure: {
          $0.responseCache = cache
          $0.tls.verifiesServer = verifies
        },
        { try await $0.expect("x", from: server.url()) })
    }
    #expect(server.requestCount == 2)
    // Without the authority nothing is believed that came with it.
    try await withSession(
      configure: {
        $0.responseCache = cache
        $0.tls = TLSConfiguration()
      },
      { session in
        try await expectFailure(.serverCertificateUntrusted) { try await session.data(from: server.url()) }
      })
  }

  /// urllib3 CVE-2026-21441, CVE-2025-66471, swift-nio-extras GHSA-xhhr-p2r9-jmm7: what nobody wants to see was unpacked, here to be stored. A
  /// redirect's body is followed past, and a body that fails leaves nothing.
  @Test func urllib3_2026_21441BombsAreNotStored() async throws {
    let bomb = try Compression.gzip.encode([UInt8](repeating: 0, count: 4 << 20))
    let server = try LoopbackServer { request, connection in
      let fields: ServerFields = ["Cache-Control": "max-age=1000", "Content-Encoding": "gzip", "Location": "/end"]
      switch request.target {
      case "/end": try connection.respond(fields: Self.fresh, text: "x")
      case "/bomb": try connection.respond(fields: fields, body: bomb)
      case "/broken": try connection.respond(301, fields: fields, body: Array("no gzip".utf8))
      default: try connection.respond(301, fields: fields, body: bomb)
      }
    }
    defer { server.shutdown() }
    let cache = ResponseCache(memoryCapacity: 64 << 20, maximumEntrySize: 64 << 20)
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      for _ in 0..<2 {
        try await session.expect("x", from: server.url("/redirect"))
        try await session.expect("x", from: server.url("/broken"))
        // As a stream: an error that carries the half of it takes long to describe.
        let (bytes, _) = try await session.bytes(for: Request(server.url("/bomb")))
        try await expectFailure(.cannotDecodeContent) {
          for try await _ in bytes.chunks {}
        }
      }
    }
    let targets = server.recordedRequests.map(\.target)
    #expect(
      ["/redirect", "/broken", "/bomb", "/end"].map { target in targets.count { $0 == target } } == [2, 2, 2, 1])
    #expect(cache.currentMemoryUsage < 10_000)
  }

  /// swift-corelibs-foundation #4846: a cache that does not know `Vary`. The table has the cases; here, that the network is asked.
  @Test func foundation4846Vary() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(
        fields: ["Cache-Control": "max-age=1000", "Vary": "X-Lang"], text: request.fields.first("X-Lang") ?? "none")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port], configure: { $0.responseCache = ResponseCache() }) { session in
      let name = try #require(HTTPField.Name("X-Lang"))
      for language in ["en", "fr", "en", "fr"] {
        var request = try Request(server.url())
        request.fields[name] = language
        #expect(try await session.text(request).0 == language)
      }
      #expect(server.requestCount == 2)
    }
  }

  /// A real server's validators, dates and 304s.
  @Test func nginxAsOrigin() async throws {
    try await withTool {
      let bytes = PatternBody.bytes(100_000)
      let server = try NginxServer(files: ["data.bin": bytes], directives: "expires 60s;")
      defer { server.stop() }
      let offset = Locked<Int64>(0)
      let cache = ResponseCache(memoryCapacity: 1 << 20) {
        Int64(Date().timeIntervalSince1970) + offset.withLock { $0 }
      }
      try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
        var types: [TransactionMetrics.FetchType?] = []
        for seconds: Int64 in [0, 30, 90, 100, 300] {
          offset.withLock { $0 = seconds }
          let (data, response) = try await session.data(from: server.url("/data.bin"))
          #expect(Array(data) == bytes && response.statusCode == 200)
          types.append(response.metrics.transactions.last?.fetchType)
        }
        // nginx dates its 304 by its own clock, so that it is as old as we pretend.
        #expect(types == [.networkLoad, .localCache, .validatedCache, .validatedCache, .validatedCache])
      }
    }
  }
}
