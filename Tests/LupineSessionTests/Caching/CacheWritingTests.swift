import Dispatch
import FoundationEssentials
import LupineBase
import LupineRules
import LupineTesting
import LupineWire
import Synchronization
import Testing

@testable import LupineSession

/// What is written and removed at the same time, and by a disk that does not come to it.
@Suite(.timeLimit(.minutes(5))) struct CacheWritingTests {
  /// What is stored and forgotten by two threads at once is in memory and in a file, or in neither.
  @Test func whatIsForgottenDoesNotComeBack() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    var faults = 0
    for _ in 0..<2_000 {
      let ready = Atomic<Int>(0)
      DispatchQueue.concurrentPerform(iterations: 2) { number in
        ready.add(1, ordering: .relaxed)
        // Both are there, or the other one has no processor.
        for _ in 0..<10_000 where ready.load(ordering: .relaxed) < 2 {}
        if number == 0 { try? CacheFolder.store(0, size: 10, in: cache) } else { cache.removeAll() }
      }
      await cache.flush()
      let isForgotten = cache.currentMemoryUsage == 0
      if try CacheFolder.files(path).count != (isForgotten ? 0 : 1) { faults += 1 }
    }
    #expect(faults == 0)
    try CacheFolder.remove(path)
  }

  private struct Witness {
    weak var response: StoredResponse?
  }

  /// While the disk stands still, what waits for it does not grow: neither by what one URL brings again and again, nor by what was forgotten.
  @Test(arguments: [false, true]) func aDiskThatStandsStillHoldsNoMoreThanTheLimit(_ isForgotten: Bool) async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(memoryCapacity: 0, directory: path)
    await cache.flush()
    let head = try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=1000000")])
    var witnesses: [Witness] = []
    var largest = 0
    let held = try HeldCache(path)
    for number in 0..<200 {
      let url = try CacheFolder.request(isForgotten ? number : 0).parsedURL
      let query = ResponseCache.Query(
        first: CacheKey.first(partition: "", isDecoded: true, url: url), isDecoded: true,
        request: CacheRequest(method: "GET"), fields: { [] })
      let response = try #require(
        StoredResponse(
          key: query.first, head: head, body: [UInt8](repeating: UInt8(number), count: 1 << 20),
          requestTime: 1_000_000_000, responseTime: 1_000_000_000, authorization: nil))
      cache.insert(.response(response), for: query, inMemoryOnly: false, since: cache.stamp)
      witnesses.append(Witness(response: response))
      if isForgotten, number % 50 == 49 { cache.removeAll() }
      largest = max(largest, witnesses.count { $0.response != nil })
    }
    // And the one that was made last.
    #expect(largest <= (CacheState.pendingLimit >> 20) + 1)
    held.release()
    await cache.flush()
    let found = await cache.cachedResponse(for: try CacheFolder.request(0))?.data
    #expect(found == (isForgotten ? nil : Data(repeating: 199, count: 1 << 20)))
    #expect(witnesses.allSatisfy { $0.response == nil })
    try CacheFolder.remove(path)
  }
}
