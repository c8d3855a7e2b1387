import FoundationEssentials
import LupineBase
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// What an archive says of responses that a cache had.
@Suite(.timeLimit(.minutes(5))) struct ArchiveCacheTests {
  private func entries(_ archive: HTTPArchive) throws -> [JSONValue] {
    try #require(try JSONReader.read(archive.json())["log"]?["entries"]?.array)
  }

  /// They cost no byte of the wire, which no coding has saved, and the file says where they came from, also when it is read and written again.
  @Test func cachedResponsesAreKnownAsSuch() async throws {
    let routes = [
      ServerRoute(nil, "/fresh") { _, connection in
        try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "fresh")
      },
      ServerRoute(nil, "/asked") { request, connection in
        let isKnown = request.fields.first("If-None-Match") != nil
        let fields: ServerFields = ["ETag": "\"1\"", "Cache-Control": "max-age=0"]
        if isKnown { return try connection.respond(304, fields: fields) }
        try connection.respond(fields: fields, text: "asked")
      },
    ]
    try await withServer(routes, configure: { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }) {
      session, server in
      var archive = HTTPArchive()
      for path in ["/fresh", "/fresh", "/asked", "/asked"] {
        let request = try Request(server.url(path))
        let (body, response) = try await session.data(for: request)
        archive.append(request, response: response, body: body)
      }
      let fetchTypes: [TransactionMetrics.FetchType] = [.networkLoad, .localCache, .networkLoad, .validatedCache]
      #expect(archive.entries.map(\.fetchType) == fetchTypes)
      #expect(archive.entries.map { $0.response?.bodyBytes } == [5, 0, 5, 0])
      #expect(archive.entries.map { $0.response?.decodedBytes } == [5, 5, 5, 5])
      let read = try HTTPArchive(json: archive.json())
      for archive in [archive, read] {
        let lines = try entries(archive)
        #expect(lines.map { $0["_fromCache"]?.string } == [nil, "memory", nil, "memory"])
        #expect(lines.map { $0["_cacheValidated"]?.boolean } == [nil, nil, nil, true])
        #expect(lines.map { $0["response"]?["bodySize"]?.number } == [5, 0, 5, 0])
        #expect(lines.map { $0["response"]?["content"]?["size"]?.number } == [5, 5, 5, 5])
        #expect(lines.allSatisfy { $0["response"]?["content"]?["compression"] == nil })
      }
      #expect(read.entries.map(\.fetchType) == fetchTypes)
    }
  }

  /// What comes in place of a failure was not what the server sent.
  @Test func whatStandsInForAFailureWasNotSent() async throws {
    let isBroken = Locked(false)
    let routes = [
      ServerRoute(nil, "/") { _, connection in
        if isBroken.withLock({ $0 }) { return try connection.respond(500, text: "a long word of regret") }
        isBroken.withLock { $0 = true }
        let fields: ServerFields = ["Cache-Control": "max-age=0, stale-if-error=1000", "ETag": "\"1\""]
        try connection.respond(fields: fields, text: "old")
      }
    ]
    try await withServer(routes, configure: { $0.responseCache = ResponseCache(memoryCapacity: 1 << 20) }) {
      session, server in
      let request = try Request(server.url("/"))
      try await session.expect("old", from: request)
      let (body, response) = try await session.data(for: request)
      var archive = HTTPArchive()
      archive.append(request, response: response, body: body)
      let entry = try #require(archive.entries.first)
      #expect(entry.response?.status == 200 && entry.response?.body == Array("old".utf8))
      #expect(entry.fetchType == .localCache && entry.response?.bodyBytes == 0 && entry.response?.decodedBytes == 3)
    }
  }

  /// Where the saving is that of a coding, it is written.
  @Test(
    arguments: [
      ("gzip", .networkLoad, 7), ("GZIP", .networkLoad, 7), (nil, .networkLoad, nil), ("", .networkLoad, nil),
      ("Identity", .networkLoad, nil), ("gzip", .localCache, nil), ("gzip", .validatedCache, nil),
    ] as [(String?, TransactionMetrics.FetchType, Double?)])
  func compressionIsThatOfACoding(
    _ coding: String?, _ fetchType: TransactionMetrics.FetchType, _ saved: Double?
  ) throws {
    var response = HTTPArchive.Response(status: 200)
    if let coding { response.fields = [.init("content-encoding", coding)] }
    response.body = Array("0123456789".utf8)
    response.bodyBytes = 3
    var archive = HTTPArchive()
    archive.entries = [
      .init(startedAt: Date(), request: .init(method: "GET", url: "http://a.example/"), response: response)
    ]
    archive.entries[0].fetchType = fetchType
    let written = try #require(try entries(archive).first?["response"])
    #expect(written["content"]?["compression"]?.number == saved)
    #expect(written["bodySize"]?.number == (fetchType == .networkLoad ? 3 : 0))
  }

  /// As Chrome writes it; what others may mean by the name is not guessed at.
  @Test(
    arguments: [
      (#""memory""#, .localCache, false), (#""disk""#, .localCache, true), (#""prefetch""#, .networkLoad, false),
      ("true", .networkLoad, false), ("null", .networkLoad, false),
    ] as [(String, TransactionMetrics.FetchType, Bool)])
  func cachesOfBrowsersAreKnown(_ value: String, _ fetchType: TransactionMetrics.FetchType, _ isFromDisk: Bool) throws {
    let text = """
      {"log":{"entries":[{"startedDateTime":"2026-01-01T00:00:00Z","request":{"method":"GET","url":"http://a.example/"},
      "response":{"status":200},"_fromCache":\(value)}]}}
      """
    let archive = try HTTPArchive(json: Array(text.utf8))
    for archive in [archive, try HTTPArchive(json: archive.json())] {
      let entry = try #require(archive.entries.first)
      #expect(entry.fetchType == fetchType && entry.isFromDisk == isFromDisk)
    }
  }
}
