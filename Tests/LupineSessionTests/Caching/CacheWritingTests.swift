import Dispatch
import FoundationEssentials
import LupineBase
import LupineRules
import LupineTestSupport
import LupineTesting
import LupineWire
import Synchronization
import Testing

@testable import LupineSession

/// What is written and removed at the same time, and what is asked of a disk that does not come to it.
@Suite(.timeLimit(.minutes(5))) struct CacheWritingTests {
  /// What is stored and forgotten by two threads at once is in memory and in a file, or in neither.
  @Test(arguments: [false, true]) func whatIsForgottenDoesNotComeBack(_ isAll: Bool) async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(directory: path)
    let request = try CacheFolder.request(0)
    let failures = Locked(0)
    var faults = 0
    for _ in 0..<2_000 {
      let ready = Atomic<Int>(0)
      DispatchQueue.concurrentPerform(iterations: 2) { number in
        ready.add(1, ordering: .relaxed)
        // Both are there, or the other one has no processor.
        for _ in 0..<10_000 where ready.load(ordering: .relaxed) < 2 {}
        guard number == 0 else { return isAll ? cache.removeAll() : cache.remove(for: request) }
        do { try CacheFolder.store(0, size: 10, in: cache) } catch { failures.withLock { $0 += 1 } }
      }
      await cache.flush()
      let isForgotten = cache.currentMemoryUsage == 0
      if try CacheFolder.files(path).count != (isForgotten ? 0 : 1) { faults += 1 }
    }
    #expect(faults == 0 && failures.withLock { $0 } == 0)
    try CacheFolder.remove(path)
  }

  private func query(_ number: Int) throws -> ResponseCache.Query {
    let url = try CacheFolder.request(number).parsedURL
    return ResponseCache.Query(
      first: CacheKey.first(partition: "", isDecoded: true, url: url), isDecoded: true,
      request: CacheRequest(method: "GET"), fields: { [] })
  }

  /// A task waits for a file no longer than it may take at all.
  @Test func aLookAtAFileHasTheTimeOfTheTask() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(0, 1 << 20, 1 << 20, path, readsAtOnce: false) { 1_000_000_000 }
    let goOn = try Latch()
    defer { goOn.release() }
    // Both threads that read files are busy.
    let query = try query(0)
    for _ in 0..<2 { cache.find(query, onDisk: query.first) { _ in _ = goOn.wait(seconds: 60) } }
    try await withSession(configure: { $0.responseCache = cache }) { session in
      var request = try CacheFolder.request(1)
      request.totalTimeout = .milliseconds(60)
      let failure = Locked<SessionError?>(nil)
      session.data(for: request) { result in
        if case .failure(let error) = result { failure.withLock { $0 = error } }
      }
      #expect(await eventually(seconds: 30) { failure.withLock { $0 != nil } })
      let error = failure.withLock { $0 }
      #expect(error?.code == .timedOut && error?.phase == .total)
    }
    goOn.release()
    await cache.flush()
    try CacheFolder.remove(path)
  }

  /// Where misses are merged, whoever has looked for a file in vain looks once more before he fetches: who fetched the same may have stored it meanwhile.
  @Test func whatIsStoredBehindALookIsFound() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    let cache = try ResponseCache(1 << 20, 1 << 20, 1 << 20, path, readsAtOnce: false) { 1_000_000_000 }
    await cache.flush()
    // There is no file before it is released.
    let held = try HeldCache(path)
    let route = ServerRoute(nil, "/a") { _, connection in try connection.respond(text: "fetched") }
    try await withServer(
      [route],
      configure: {
        $0.responseCache = cache
        $0.mergesCacheMisses = true
      }
    ) { session, server in
      let request = try Request(server.url("/a"))
      // What follows the look waits behind this.
      let (isHeld, goOn) = try (Latch(), Latch())
      defer { goOn.release() }
      session.onEngine {
        isHeld.release()
        _ = goOn.wait(seconds: 60)
      }
      #expect(await eventually { isHeld.isReleased })
      let answer = Locked<String?>(nil)
      session.data(for: request) { result in
        let text = (try? result.get()).map { String(decoding: $0.0, as: UTF8.self) } ?? "failed"
        answer.withLock { $0 = text }
      }
      let head = try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=1000000")])
      let stored = CachedResponse(response: Response(head: head, url: request.parsedURL), data: Data("stored".utf8))
      #expect(cache.store(stored, for: request, in: session))
      goOn.release()
      #expect(await eventually { answer.withLock { $0 != nil } })
      #expect(answer.withLock { $0 } == "stored" && server.requestCount == 0)
    }
    held.release()
    await cache.flush()
    try CacheFolder.remove(path)
  }

  /// Where nothing is stored, forgetting it waits for no disk: whoever brings what is not to be stored has looked for a file just before.
  @Test func whatHasNoFileIsForgottenWithoutTheDisk() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(directory: path)
      await cache.flush()
      let (isBusy, goOn) = try (Latch(), Latch())
      defer { goOn.release() }
      cache.onWriter {
        isBusy.release()
        _ = goOn.wait(seconds: 60)
      } orElse: {
      }
      #expect(await eventually { isBusy.isReleased })
      for number in 0..<100 {
        #expect(await cache.cachedResponse(for: try CacheFolder.request(number)) == nil)
      }
      // Not every file system can tell at once what is not there.
      if case .missing = cache.find(try query(0)) {
        for number in 0..<100 { cache.remove(first: try query(number).first) }
        // Nor does one for ever.
        #expect(cache.changesDue <= 10)
      }
      try CacheFolder.store(0, size: 10, in: cache)
      cache.remove(first: try query(0).first)
      #expect(cache.changesDue > 0)
      goOn.release()
      await cache.flush()
      #expect(try CacheFolder.files(path) == [])
    }
  }

  /// What is not there is removed without waiting for another process that is writing.
  @Test func whatHasNoFileIsForgottenWithoutTheLock() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(1 << 20, 1 << 20, 1 << 20, path, readsAtOnce: false) { 1_000_000_000 }
      await cache.flush()
      let held = try HeldCache(path)
      cache.remove(first: try query(0).first)
      let isFlushed = try Latch()
      Task {
        await cache.flush()
        isFlushed.release()
      }
      #expect(await eventually(seconds: 30) { isFlushed.isReleased })
      held.release()
      #expect(await eventually { isFlushed.isReleased })
    }
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
      let query = try query(isForgotten ? number : 0)
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
