import Glibc
import LupineIO
import LupineTestSupport
import LupineTesting
import Testing

@testable import LupineSession

/// What is known of files that were used, until it is written down.
@Suite(.timeLimit(.minutes(2))) struct CacheUseTests {
  /// Makes the one record of a store look as if nobody had used it for long.
  private func age(_ path: String) throws {
    for file in try CacheFolder.files(path) {
      var times = [timespec(tv_sec: 1_000_000, tv_nsec: 0), timespec(tv_sec: 1_000_000, tv_nsec: 0)]
      let result = unsafe utimensat(AT_FDCWD, file, &times, 0)
      #expect(result == 0)
    }
  }

  /// Whether the record was read, of which not every file system can tell that it needs no waiting.
  private func reads(_ store: DiskStore) -> Bool {
    if case .record = store.readAtOnce("key") { true } else { false }
  }

  /// A process that runs for long keeps nothing for each use: not while its disk stands still, nor because there was no thread once.
  @Test func usesDoNotAddUp() async throws {
    try await CacheFolder.with { path in
      let writer = try FileThreads(maximumThreads: 1)
      let store = try DiskStore(path: path, capacity: 1 << 20, atOnceLimit: 1 << 20, writer: writer)
      let isStored = store.write(try CacheFolder.record("key", size: 100))
      #expect(isStored)
      let (isBusy, goOn) = try (Latch(), Latch())
      defer { goOn.release() }
      writer.run { () throws(IOError) in
        isBusy.release()
        _ = goOn.wait(seconds: 60)
      } completion: { _ in
      }
      let stands = await eventually { isBusy.isReleased }
      #expect(stands)
      try age(path)
      guard reads(store) else { return }
      for _ in 0..<3 { _ = reads(store) }
      #expect(store.usesDue == 1)
      goOn.release()
      let isWritten = await eventually { store.usesDue == 0 }
      #expect(isWritten)
      // No thread comes any more, and what it was to do is let go.
      writer.stop()
      try age(path)
      for _ in 0..<3 { _ = reads(store) }
      #expect(store.usesDue == 0)
    }
  }

  /// What was written while the clock was ahead would be the youngest for as long as that was.
  @Test func aClockThatWasAheadKeepsNothingForEver() async throws {
    try await CacheFolder.with { path in
      let store = try DiskStore(
        path: path, capacity: 10_000, atOnceLimit: 1 << 20, writer: try FileThreads(maximumThreads: 1))
      let isStored = store.write(try CacheFolder.record("ahead", size: 3_000))
      #expect(isStored)
      var ahead = timespec()
      unsafe clock_gettime(CLOCK_REALTIME, &ahead)
      ahead.tv_sec += 400_000_000
      for file in try CacheFolder.files(path) {
        let result = unsafe utimensat(AT_FDCWD, file, [ahead, ahead], 0)
        #expect(result == 0)
      }
      for key in ["a", "b", "c"] {
        let isStored = store.write(try CacheFolder.record(key, size: 3_000))
        #expect(isStored)
      }
      #expect(store.read("ahead") == nil && store.read("c") != nil)
    }
  }
}
