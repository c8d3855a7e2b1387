import Dispatch
import FoundationEssentials
import Glibc
import HTTPTypes
import LupineBase
import LupineRules
import LupineTesting
import LupineWire
import Testing

@testable import LupineSession

/// The store by itself: limits, order, files, faults.
@Suite struct CacheStoreTests {
  private func present(_ numbers: Range<Int>, in cache: ResponseCache) async throws -> [Int] {
    var present: [Int] = []
    for number in numbers where await cache.cachedResponse(for: try CacheFolder.request(number)) != nil {
      present.append(number)
    }
    return present
  }

  @Test func memoryKeepsWhatWasUsedLast() async throws {
    let cache = ResponseCache(memoryCapacity: 40_000)
    for number in 0..<3 { try CacheFolder.store(number, size: 10_000, in: cache) }
    #expect(await cache.cachedResponse(for: try CacheFolder.request(0)) != nil)
    try CacheFolder.store(3, size: 10_000, in: cache)
    #expect(try await present(0..<4, in: cache) == [0, 2, 3])
    #expect(cache.currentMemoryUsage <= 40_000)
    try CacheFolder.store(4, size: 50_000, in: cache)
    #expect(try await present(0..<5, in: cache) == [0, 2, 3])
    cache.remove(for: try CacheFolder.request(2))
    #expect(try await present(0..<5, in: cache) == [0, 3])
    cache.removeAll()
    #expect(cache.currentMemoryUsage == 0)
  }

  @Test func largeBodiesAreNotKept() async throws {
    let cache = ResponseCache(memoryCapacity: 1 << 20, maximumEntrySize: 1000)
    try CacheFolder.store(0, size: 1000, in: cache)
    try CacheFolder.store(1, size: 1001, in: cache)
    #expect(try await present(0..<2, in: cache) == [0])
  }

  /// More than may wait for the disk is never written, and not said to be stored, whatever else there is room for.
  @Test func whatIsTooLargeToBeWrittenIsNotStored() async throws {
    try await CacheFolder.with { path in
      let large = 1 << 30
      let cache = try ResponseCache(
        memoryCapacity: 0, diskCapacity: large, directory: path, maximumEntrySize: large)
      #expect(cache.largestBody(isInMemoryOnly: false) < CacheState.pendingLimit)
      let request = try CacheFolder.request(0)
      let head = try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=1000000")])
      let response = Response(head: head, url: request.parsedURL)
      for size in [1000, 65 << 20, CacheState.largestWrittenBody, CacheState.largestWrittenBody + 1] {
        let body = CachedResponse(response: response, data: Data(repeating: 0, count: size))
        let isStored = cache.store(body, for: request)
        await cache.flush()
        cache.forgetMemory()
        // Nor is what was there before.
        let isThere = await cache.cachedResponse(for: request) != nil
        #expect(isStored == isThere && isStored == (size <= CacheState.largestWrittenBody), "\(size)")
      }
    }
  }

  /// A file that cannot be written would have taken the place of the one that is there, which is no answer any more.
  @Test(.enabled(if: SmallDisk.isAvailable, "\(SmallDisk.hint)")) func aFullDiskLeavesNothingOlder() async throws {
    let disk = try SmallDisk(bytes: 1 << 20)
    defer { disk.unmount() }
    let cache = try ResponseCache(directory: disk.path + "/cache")
    for size in [1000, 2_000_000] {
      try CacheFolder.store(0, size: size, in: cache)
      await cache.flush()
    }
    cache.forgetMemory()
    #expect(try await present(0..<1, in: cache) == [])
    try CacheFolder.store(0, size: 1000, in: cache)
    await cache.flush()
    cache.forgetMemory()
    #expect(try await present(0..<1, in: cache) == [0])
  }

  /// Method, body and host of a request count as they do for a session (RFC 9111 sections 3 and 4).
  @Test func onlyAnswersToPlainRequestsAreKept() async throws {
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    let plain = try CacheFolder.request(0)
    let answer = CachedResponse(
      response: Response(
        head: try ResponseHead(status: 200, fields: [("Cache-Control", "max-age=1000")]), url: plain.parsedURL),
      data: Data("x".utf8))
    func changed(_ change: (inout Request) throws -> Void) rethrows -> Request {
      var request = plain
      try change(&request)
      return request
    }
    let host = try #require(HTTPField.Name("Host"))
    let others = [
      changed { $0.method = .post }, changed { $0.method = .delete }, changed { $0.body = .bytes([1]) },
      changed { $0.fields[host] = "other.example" }, changed { $0.fields[.range] = "bytes=0-0" },
    ]
    let head = changed { $0.method = .head }
    for request in others + [head] {
      #expect(!cache.store(answer, for: request), "\(request)")
      #expect(await cache.cachedResponse(for: plain) == nil, "\(request)")
    }
    let same = changed { $0.fields[host] = "CACHE.example" }
    #expect(cache.store(answer, for: same))
    for request in [plain, head, same] {
      #expect(await cache.cachedResponse(for: request)?.data == answer.data, "\(request)")
    }
    for request in others { #expect(await cache.cachedResponse(for: request) == nil, "\(request)") }
  }

  @Test func filesOutliveTheCache() async throws {
    try await CacheFolder.with { path in
      var cache = try ResponseCache(directory: path)
      for number in 0..<20 { try CacheFolder.store(number, size: number * 100, in: cache) }
      await cache.flush()
      cache = try ResponseCache(directory: path)
      #expect(try await present(0..<21, in: cache) == Array(0..<20))
      for number in 0..<20 { #expect(try await CacheFolder.fault(number, in: cache) == nil) }
      cache.remove(for: try CacheFolder.request(3))
      #expect(await cache.cachedResponse(for: try CacheFolder.request(3)) == nil)
      await cache.flush()
      cache = try ResponseCache(directory: path)
      #expect(await cache.cachedResponse(for: try CacheFolder.request(3)) == nil)
      cache.removeAll()
      #expect(try await present(0..<20, in: cache) == [])
      await cache.flush()
      #expect(try CacheFolder.files(path) == [])
      #expect(cache.currentDiskUsage == 0)
    }
  }

  /// What has come into memory while a file was read is not replaced with what the file has.
  @Test func aFileDoesNotReplaceWhatIsInMemory() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(directory: path)
      try CacheFolder.store(0, 2, size: 100, in: cache)
      await cache.flush()
      let other = try ResponseCache(directory: path)
      try CacheFolder.store(0, 1, size: 100, in: other)
      await other.flush()
      let url = try CacheFolder.request(0).parsedURL
      let query = ResponseCache.Query(
        first: CacheKey.first(partition: "", isDecoded: true, url: url), isDecoded: true,
        request: CacheRequest(method: "GET"), fields: { [] })
      let found = AsyncStream<[UInt8]?>.makeStream()
      cache.find(query, onDisk: query.first) { response in
        found.continuation.yield(response?.body)
        found.continuation.finish()
      }
      for await body in found.stream { #expect(body == CacheFolder.body(0, 2, size: 100)) }
      #expect(try await CacheFolder.fault(0, in: cache) == nil)
    }
  }

  /// What differs in bytes is somebody else's, though it is the same text: in memory, on its way to a file, and there.
  @Test(arguments: ["memory", "pending", "file"]) func whatVariesByAValueIsForItsBytes(_ place: String) async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(memoryCapacity: place == "memory" ? 1 << 20 : 0, directory: path)
      let held = place == "pending" ? try HeldCache(path) : nil
      let name = try #require(HTTPField.Name("X-User"))
      let requests = try ["\u{E9}", "e\u{301}"].map { user in
        var request = try CacheFolder.request(0)
        request.fields[name] = user
        return request
      }
      #expect(requests[0].fields[name] == requests[1].fields[name])
      let fields = [(name: "Cache-Control", value: "max-age=1000000"), (name: "Vary", value: "X-User")]
      let answer = CachedResponse(
        response: Response(head: try ResponseHead(status: 200, fields: fields), url: requests[0].parsedURL),
        data: Data("own".utf8))
      #expect(cache.store(answer, for: requests[0]))
      if place == "file" { await cache.flush() }
      #expect(await cache.cachedResponse(for: requests[0])?.data == answer.data)
      #expect(await cache.cachedResponse(for: requests[1]) == nil)
      held?.release()
      await cache.flush()
    }
  }

  @Test func onlyTheOwnerMayRead() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(directory: path)
      try CacheFolder.store(0, size: 10, in: cache)
      await cache.flush()
      func mode(_ path: String) -> mode_t {
        var status = stat()
        return unsafe lstat(path, &status) == 0 ? status.st_mode & 0o777 : 0
      }
      #expect(mode(path + "/v1") == 0o700)
      #expect(try CacheFolder.files(path).map(mode) == [0o600])
      #expect(mode(path + "/v1/lock") == 0o600)
      try FileManager.default.removeItem(atPath: path + "/v1")
      #expect(unsafe symlink("/tmp", path + "/v1") == 0)
      #expect(throws: SessionError.self) { try ResponseCache(directory: path) }
      #expect(unsafe unlink(path + "/v1") == 0)
    }
  }

  /// Every byte of a file in turn, and every length: a miss, never another byte.
  @Test(arguments: [true, false]) func brokenFilesAreMisses(_ readsAtOnce: Bool) async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(4 << 20, 1 << 20, 1 << 20, path, readsAtOnce: readsAtOnce) { 1_000_000_000 }
      try CacheFolder.store(0, size: 50, in: cache)
      await cache.flush()
      let file = try #require(CacheFolder.files(path).first)
      let bytes = TextFile.bytes(file)
      #expect(bytes.count > 100)
      let scratch = try ScratchDirectory()
      func looks(at bytes: [UInt8]) async throws -> Bool {
        let other = try scratch.write(bytes, to: "entry")
        try FileManager.default.removeItem(atPath: file)
        try FileManager.default.moveItem(atPath: other, toPath: file)
        cache.forgetMemory()
        return await cache.cachedResponse(for: try CacheFolder.request(0)) != nil
      }
      #expect(try await looks(at: bytes))
      for place in bytes.indices {
        var bent = bytes
        bent[place] ^= 0x10
        if try await looks(at: bent) { Issue.record("byte \(place) was not missed") }
      }
      for length in stride(from: 0, to: bytes.count, by: 3) where try await looks(at: Array(bytes[..<length])) {
        Issue.record("\(length) of \(bytes.count) bytes were enough")
      }
      #expect(try await !looks(at: bytes + [0]))
    }
  }

  @Test func filesStayBelowTheLimitUnderLoad() async throws {
    try await CacheFolder.with { path in
      let limit = 300_000
      let caches = [
        try ResponseCache(memoryCapacity: 0, diskCapacity: limit, directory: path),
        try ResponseCache(memoryCapacity: 0, diskCapacity: limit, directory: path),
      ]
      let largest = Locked(0)
      for round in 0..<20 {
        for number in 0..<10 { try CacheFolder.store(round * 10 + number, size: 5000, in: caches[number % 2]) }
        for cache in caches { await cache.flush() }
        let sum = try CacheFolder.size(path)
        largest.withLock { $0 = max($0, sum) }
        #expect(caches[0].currentDiskUsage == sum)
      }
      #expect(largest.withLock { $0 } <= limit)
      #expect(largest.withLock { $0 } > limit / 2)
      // What was stored last is there.
      #expect(await caches[0].cachedResponse(for: try CacheFolder.request(199)) != nil)
    }
  }

  /// The count that is there when a cache is opened is not believed: what is too much goes.
  @Test func filesAreCountedWhenACacheIsOpened() async throws {
    try await CacheFolder.with { path in
      var cache = try ResponseCache(memoryCapacity: 0, directory: path)
      for number in 0..<50 { try CacheFolder.store(number, size: 5000, in: cache) }
      await cache.flush()
      try CacheFolder.setCount([UInt8](repeating: 0, count: 8), path)
      cache = try ResponseCache(memoryCapacity: 0, diskCapacity: 100_000, directory: path)
      await cache.flush()
      let sum = try CacheFolder.size(path)
      #expect(sum > 50_000 && sum <= 100_000 && cache.currentDiskUsage == sum)
    }
  }

  /// What a process has left half goes when a cache is opened; what may still be written stays.
  @Test func filesThatWereLeftHalfGoWhenACacheIsOpened() async throws {
    let scratch = try ScratchDirectory()
    let path = scratch.path + "/cache"
    try await ResponseCache(directory: path).flush()
    let old = try scratch.write([1], to: "cache/v1/part-old")
    _ = try scratch.write([1], to: "cache/v1/part-new")
    let times = [timespec](repeating: timespec(tv_sec: 1_000_000_000, tv_nsec: 0), count: 2)
    try #require(unsafe utimensat(AT_FDCWD, old, times, 0) == 0)
    try await ResponseCache(directory: path).flush()
    #expect(try FileManager.default.contentsOfDirectory(atPath: path + "/v1").sorted() == ["lock", "part-new"])
    try CacheFolder.remove(path)
  }

  /// Where the count is lost, and files are counted anew, the one that is removed is taken off once.
  @Test func whatIsRemovedIsSubtractedOnce() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(memoryCapacity: 0, directory: path)
      for number in 0..<3 { try CacheFolder.store(number, size: 5000, in: cache) }
      await cache.flush()
      try CacheFolder.setCount([], path)
      cache.remove(for: try CacheFolder.request(0))
      await cache.flush()
      let sum = try CacheFolder.size(path)
      #expect(sum > 10_000 && cache.currentDiskUsage == sum)
    }
  }

  /// 8 threads on one cache, and two processes with 4 threads each beside it: everything is there, and nothing else.
  @Test func threadsAndProcessesShareADirectory() async throws {
    try await CacheFolder.with { path in
      let cache = try ResponseCache(memoryCapacity: 1 << 20, directory: path)
      async let first: Void = Self.writeElsewhere(1000, path)
      async let second: Void = Self.writeElsewhere(2000, path)
      try await CacheWriter.write(0..<200, to: cache, threads: 8)
      _ = await (first, second)
      cache.forgetMemory()
      for range in [0..<200, 1000..<1100, 2000..<2100] {
        #expect(try await present(range, in: cache) == Array(range))
        for number in range { #expect(try await CacheFolder.fault(number, in: cache) == nil) }
      }
    }
  }

  private static func writeElsewhere(_ start: Int, _ path: String) async {
    await #expect(processExitsWith: .success) { [path = path as String, start = start as Int] in
      try await CacheWriter.write(start..<(start + 100), to: path, threads: 4)
    }
  }

  /// Killed while it writes, the cache opens, and holds nothing but what was stored. `LUPINE_CACHE_KILLS` says how often, 20 by default.
  @Test func killsLeaveNoWrongByte() async throws {
    let kills = ProcessInfo.processInfo.environment["LUPINE_CACHE_KILLS"].flatMap { Int($0) } ?? 20
    try await CacheFolder.with { path in
      var found = 0
      for round in 0..<kills {
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String, round = round as Int] in
          try await CacheWriter.writeUntilKilled(round, to: path)
        }
        let cache = try ResponseCache(memoryCapacity: 0, diskCapacity: 400_000, directory: path)
        for number in 0..<CacheWriter.keys {
          if let fault = try await CacheFolder.fault(number, in: cache) { Issue.record("kill \(round): \(fault)") }
          if await cache.cachedResponse(for: try CacheFolder.request(number)) != nil { found += 1 }
        }
      }
      #expect(found > 0)
    }
  }
}

/// Writes to a cache from several threads.
enum CacheWriter {
  static let keys = 40

  static func write(_ range: Range<Int>, to path: String, threads: Int) async throws {
    let cache = try ResponseCache(memoryCapacity: 1 << 20, directory: path)
    try await write(range, to: cache, threads: threads)
  }

  static func write(_ range: Range<Int>, to cache: ResponseCache, threads: Int) async throws {
    await withTaskGroup(of: Void.self) { group in
      for thread in 0..<threads {
        group.addTask {
          for number in range where number % threads == thread {
            try? CacheFolder.store(number, size: number % 7 * 1000, in: cache)
          }
        }
      }
    }
    await cache.flush()
  }

  /// Stores over and over, larger than the limit in all, until this process is killed: after so many microseconds, by itself.
  static func writeUntilKilled(_ seed: Int, to path: String) async throws {
    let cache = try ResponseCache(memoryCapacity: 0, diskCapacity: 400_000, directory: path)
    var generator = SystemRandomNumberGenerator()
    let delay = UInt32.random(in: 500...30_000, using: &generator)
    DispatchQueue.global().async {
      usleep(delay)
      kill(getpid(), SIGKILL)
    }
    var version = seed * 1000
    while true {
      version += 1
      for number in 0..<keys { try CacheFolder.store(number, version, size: 500 + number * 700, in: cache) }
      await cache.flush()
    }
  }
}
