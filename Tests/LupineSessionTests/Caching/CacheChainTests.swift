import FoundationEssentials
import Glibc
import LupineBase
import LupineRules
import LupineSession
import LupineTesting
import LupineWire
import Testing

/// Chains of redirects that are stored from end to end.
@Suite(.timeLimit(.minutes(2))) struct CacheChainTests {
  /// A chain may be of any length where a caller lets it, and two servers' redirects to each other have no end: one that is followed within the end of
  /// the one before takes a part of the stack, and all of them no more than a thread has.
  @Test func aStoredChainIsNotFollowedOnOneStack() async throws {
    let looks = Locked<[UInt]>([])
    let cache = ResponseCache(memoryCapacity: 4 << 20) {
      looks.withLock { $0.append(currentThread()) }
      return 1_000_000_000
    }
    let length = 60
    try await withSession(configure: {
      $0.responseCache = cache
      $0.redirects.limit = length
    }) { session in
      let requests = try (0...length).map { try Request("http://cache.example/\($0)") }
      for (index, request) in requests.enumerated() {
        let isLast = index == length
        var fields = [(name: "Cache-Control", value: "max-age=1000")]
        if !isLast { fields.append((name: "Location", value: "/\(index + 1)")) }
        let head = try ResponseHead(status: isLast ? 200 : 301, fields: fields)
        let response = Response(head: head, url: request.parsedURL)
        let isStored = cache.store(CachedResponse(response: response, data: Data()), for: request, in: session)
        #expect(isStored)
      }
      looks.withLock { $0 = [] }
      let caller = Locked<UInt>(0)
      let result: Result<(Data, Response), SessionError> = await withCheckedContinuation { continuation in
        caller.withLock { $0 = currentThread() }
        session.dataTask(with: requests[0]) { continuation.resume(returning: $0) }.resume()
      }
      let (_, response) = try result.get()
      #expect(response.statusCode == 200 && response.redirects.count == length)
      let thread = caller.withLock { $0 }
      let (all, own) = looks.withLock { looks in (looks.count, looks.count { $0 == thread }) }
      #expect(all > length)
      #expect(own > 0 && own * 2 < all)
    }
  }
}

private func currentThread() -> UInt { pthread_self() }
