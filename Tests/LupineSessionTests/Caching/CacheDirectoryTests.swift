import FoundationEssentials
import HTTPTypes
import LupineRules
import LupineSession
import LupineWire
import Testing

/// Caches on one directory, as several processes have them: each with a memory of its own.
@Suite struct CacheDirectoryTests {
  private func request(_ name: String, _ value: String?) throws -> Request {
    var request = try CacheFolder.request(0)
    if let value { request.fields[try #require(HTTPField.Name(name))] = value }
    return request
  }

  private func store(
    _ text: String, for request: Request, _ fields: [(name: String, value: String)], in cache: ResponseCache
  ) async throws {
    let head = try ResponseHead(status: 200, fields: fields)
    let response = Response(head: head, url: request.parsedURL)
    #expect(cache.store(CachedResponse(response: response, data: Data(text.utf8)), for: request))
    await cache.flush()
  }

  private func text(_ request: Request, in cache: ResponseCache) async -> String? {
    await cache.cachedResponse(for: request).map { String(decoding: $0.data, as: UTF8.self) }
  }

  /// Whoever made a URL forgotten does not find again what it had of it, though another process stores more of the same.
  @Test func whatAnotherProcessForgotStaysForgotten() async throws {
    try await CacheFolder.with { path in
      let (first, second) = try (ResponseCache(directory: path), ResponseCache(directory: path))
      let fields = [(name: "Cache-Control", value: "max-age=1000000"), (name: "Vary", value: "X-Lang")]
      let requests = try ["en", "de", "fr"].map { try request("X-Lang", $0) }
      for number in 0..<2 { try await store("old \(number)", for: requests[number], fields, in: first) }
      for number in 0..<2 { #expect(await text(requests[number], in: second) == "old \(number)") }
      second.remove(for: requests[0])
      await second.flush()
      // The first one does not know of it, until it looks at its file. Which of what it has is older, nobody knows.
      for _ in 0..<2 { try await store("new", for: requests[2], fields, in: first) }
      for cache in [first, second] {
        for number in 0..<2 { #expect(await text(requests[number], in: cache) == nil) }
        #expect(await text(requests[2], in: cache) == "new")
      }
    }
  }

  /// Where nobody forgets anything, all stay side by side: what one process stores and what another does.
  @Test func whatVariesIsOfAllProcesses() async throws {
    try await CacheFolder.with { path in
      let caches = try [ResponseCache(directory: path), ResponseCache(directory: path)]
      let fields = [(name: "Cache-Control", value: "max-age=1000000"), (name: "Vary", value: "X-Lang")]
      for number in 0..<6 {
        let request = try request("X-Lang", "\(number)")
        #expect(await text(request, in: caches[number % 2]) == nil)
        try await store("\(number)", for: request, fields, in: caches[number % 2])
      }
      for cache in caches {
        for number in 0..<6 { #expect(await text(try request("X-Lang", "\(number)"), in: cache) == "\(number)") }
      }
    }
  }

  /// Who stores without having looked before takes nothing away either, nor one that keeps nothing in memory.
  @Test(arguments: [0, 4 << 20]) func whatIsStoredUnseenIsBesideWhatIsThere(_ memoryCapacity: Int) async throws {
    try await CacheFolder.with { path in
      let fields = [(name: "Cache-Control", value: "max-age=1000000"), (name: "Vary", value: "X-Lang")]
      for number in 0..<6 {
        let cache = try ResponseCache(memoryCapacity: memoryCapacity, directory: path)
        for next in [number, number + 6] {
          try await store("\(next)", for: try request("X-Lang", "\(next)"), fields, in: cache)
        }
      }
      let cache = try ResponseCache(memoryCapacity: memoryCapacity, directory: path)
      for number in 0..<12 { #expect(await text(try request("X-Lang", "\(number)"), in: cache) == "\(number)") }
    }
  }

  /// What is for one user, and in memory alone, takes nothing away from what is for those without a cookie, and in a file; nor the reverse.
  @Test func whatIsForOneIsBesideWhatIsForAll() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(directory: path)
      let fields = [(name: "Cache-Control", value: "private, max-age=1000000")]
      let (own, common) = try (request("Cookie", "a=1"), request("Cookie", nil))
      for _ in 0..<2 {
        try await store("own", for: own, fields, in: cache)
        try await store("common", for: common, fields, in: cache)
        #expect(await text(own, in: cache) == "own")
        #expect(await text(common, in: cache) == "common")
      }
      try await store("own", for: own, fields, in: cache)
      cache.forgetMemory()
      #expect(await text(own, in: cache) == nil)
      #expect(await text(common, in: cache) == "common")
    }
  }
}
