import FoundationEssentials
import HTTPTypes
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// What a session's configuration says of its requests and of their answers, where no request says it itself.
@Suite(.timeLimit(.minutes(5))) struct ConfiguredRequestTests {
  /// The cache policy of the session is that of its requests, and a request's own one wins.
  @Test func requestCachePolicy() async throws {
    let route = ServerRoute("GET", "/fresh") { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
    }
    try await withServer([route]) {
      $0.responseCache = ResponseCache(memoryCapacity: 1 << 20)
      $0.requestCachePolicy = .returnCacheDataDontLoad
    } _: { session, server in
      let plain = try Request(server.url("/fresh"))
      let error = try await failure { try await session.data(for: plain) }
      #expect(error.code == .notInCache && !error.requestBytesSent, "\(error)")
      #expect(server.requestCount == 0 && server.connectionCount == 0)
      var own = plain
      own.cachePolicy = .useProtocolCachePolicy
      let loaded = try await session.expect("fresh", from: own)
      #expect(loaded.metrics.transactions.last?.fetchType == .networkLoad && server.requestCount == 1)
      // What is stored by then is what the session's policy asks for.
      let stored = try await session.expect("fresh", from: plain)
      #expect(stored.metrics.transactions.last?.fetchType == .localCache && server.requestCount == 1)
      own.cachePolicy = .reloadIgnoringLocalCacheData
      try await session.expect("fresh", from: own)
      #expect(server.requestCount == 2)
    }
  }

  /// What must not be loaded is not, where there is nothing stored because there is no cache.
  @Test(arguments: [false, true]) func nothingIsLoadedWithoutACache(_ byTheSession: Bool) async throws {
    let route = ServerRoute("GET", "/fresh") { _, connection in try connection.respond(text: "fresh") }
    try await withServer([route]) {
      if byTheSession { $0.requestCachePolicy = .returnCacheDataDontLoad }
    } _: { session, server in
      var request = try Request(server.url("/fresh"))
      if !byTheSession { request.cachePolicy = .returnCacheDataDontLoad }
      let error = try await failure { try await session.data(for: request) }
      #expect(error.code == .notInCache && !error.requestBytesSent && error.phase == .prepare, "\(error)")
      #expect(server.requestCount == 0 && server.connectionCount == 0)
      for policy in RequestCachePolicy.allCases where policy != .returnCacheDataDontLoad {
        request.cachePolicy = policy
        try await session.expect("fresh", from: request)
      }
    }
  }

  /// A head between the default and a limit that was lowered: the limit is that of the session, and the error names it.
  @Test(arguments: ["fieldLine", "head", "fields"]) func wireLimits(_ name: String) async throws {
    let fields = "X-Long: \(String(repeating: "y", count: 2_000))\r\nX-A: 1\r\nX-B: 2\r\n"
    var limits = WireLimits()
    switch name {
    case "fieldLine": limits.fieldLine = 1_000
    case "head": limits.head = 1_000
    // There are four, with the length.
    default: limits.fields = 3
    }
    let lowered = limits
    for isLowered in [true, false] {
      try await withScript([[.readHead, .send(reply("ok", fields)), .close]]) {
        if isLowered { $0.wireLimits = lowered }
      } _: { session, server in
        guard isLowered else {
          try await session.expect("ok", from: server.url())
          return
        }
        let error = try await failure { try await session.data(from: server.url()) }
        #expect(error.code == .badResponse, "\(error)")
        #expect(error.message.contains("(WireLimits.\(name))"), "\(error)")
      }
    }
  }

  /// Nothing is said of a body that its caller has not said: no media type is guessed, and no server is asked whether it wants it.
  @Test func bodiesHaveNoDefaultFields() async throws {
    let directory = try ScratchDirectory()
    let bytes = PatternBody.bytes(2 << 20)
    let path = try directory.write(bytes, to: "body")
    try await withServer { session, server in
      let request = try Request(server.url("/upload"), method: .post)
      _ = try await session.upload(for: request, from: Data(bytes))
      _ = try await session.upload(for: request, fromFile: path)
      _ = try await session.upload(for: request, from: UploadTests.chunks(3, of: 10_000))
      _ = try await session.data(for: Request(server.url("/upload"), method: .post, body: .bytes([1, 2, 3])))
      let requests = server.recordedRequests
      #expect(requests.map(\.bodyLength) == [2 << 20, 2 << 20, 30_000, 3])
      #expect(requests.allSatisfy { $0.fields.first("Content-Type") == nil && $0.fields.first("Expect") == nil })
    }
  }
}
