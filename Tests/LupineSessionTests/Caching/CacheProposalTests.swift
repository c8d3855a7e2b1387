import Dispatch
import FoundationEssentials
import LupineBase
import LupineSession
import LupineTestSupport
import LupineTesting
import Testing

/// When a delegate is asked about what is about to be stored.
@Suite(.timeLimit(.minutes(2))) struct CacheProposalTests {
  struct Row: Sendable, CustomTestStringConvertible {
    let disposition: ResponseDisposition
    let entries: [String]
    let isStored: Bool
    var testDescription: String { "\(disposition)" }

    static let all: [Row] = [
      Row(
        disposition: .allow, entries: ["response 200", "data", "willCache 5", "metrics", "completed well completed"],
        isStored: true),
      Row(
        disposition: .cancel, entries: ["response 200", "metrics", "completed cancelled completed"], isStored: false),
      Row(
        disposition: .becomeDownload,
        entries: ["response 200", "became true", "wrote", "metrics", "finished", "completed well completed"],
        isStored: true),
    ]
  }

  /// All of the response is there before the delegate says what becomes of it.
  @Test(arguments: Row.all) func behindTheWordOnTheResponse(_ row: Row) async throws {
    let isReceived = try Latch()
    let server = try ScriptedServer([
      [.readHead, .send(reply("Hello", "Cache-Control: max-age=1000\r\n")), .waitForClose]
    ])
    defer {
      isReceived.release()
      server.shutdown()
    }
    var answers = RecordingDelegate.Answers()
    answers.disposition = { _ in
      _ = isReceived.wait(seconds: 60)
      return row.disposition
    }
    answers.manner = .elsewhere
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    let folder = try DownloadFolder()
    try await withDelegate(.all, answers) {
      $0.responseCache = cache
      $0.temporaryDirectory = folder.parentPath
    } _: { session, delegate in
      let request = try Request(server.url())
      session.dataTask(with: request).resume()
      #expect(await eventually { delegate.entries.contains("response 200") })
      // Until the engine has worked off what it has read.
      _ = await session.poolStatistics()
      isReceived.release()
      #expect(await delegate.hasEnded())
      #expect(delegate.entries == ["created"] + row.entries)
      // The word on storing may still be on its way.
      let isFound = { await cache.cachedResponse(for: request, in: session) != nil }
      if row.isStored { #expect(await eventually { await isFound() }) } else { #expect(await !isFound()) }
    }
    #expect(folder.partials == [])
  }

  /// A cache and a store ask for themselves, the cache first, and each keeps what it was answered: here one nothing, the other something else than was proposed.
  @Test(arguments: [true, false], RecordingDelegate.Manner.all)
  func cacheAndStore(_ isCached: Bool, _ manner: RecordingDelegate.Manner) async throws {
    let server = try ScriptedServer([
      [.readHead, .send(reply("Hello", "Cache-Control: max-age=1000\r\n")), .waitForClose]
    ])
    defer { server.shutdown() }
    let asked = Locked(0)
    var answers = RecordingDelegate.Answers()
    answers.manner = manner
    answers.stored = { proposed in
      let isOfCache = asked.withLock { asked in
        asked += 1
        return asked == 1
      }
      guard isOfCache == isCached else { return nil }
      return CachedResponse(response: proposed.response, data: Data("other".utf8))
    }
    let cache = ResponseCache(memoryCapacity: 1 << 20)
    let store = KeptResponses()
    try await withDelegate(.all, answers) {
      $0.responseCache = cache
      $0.responseStore = store
    } _: { session, delegate in
      let request = try Request(server.url())
      session.dataTask(with: request).resume()
      #expect(await delegate.hasEnded())
      let questions = delegate.entries.filter { $0.hasPrefix("willCache") }
      #expect(questions == ["willCache 5", "willCache 5"] && asked.withLock { $0 } == 2)
      session.delegateQueue.sync {}
      #expect(store.texts == (isCached ? [] : ["other"]))
      let found = { await cache.cachedResponse(for: request, in: session) }
      if isCached {
        #expect(await eventually { await found()?.data == Data("other".utf8) })
      } else {
        #expect(await found() == nil)
      }
    }
  }
}

/// Keeps what it is given to store.
final class KeptResponses: ResponseStore {
  private let kept = Locked<[CachedResponse]>([])

  /// Their bodies.
  var texts: [String] { kept.withLock { $0.map { String(decoding: $0.data, as: UTF8.self) } } }

  func store(_ response: CachedResponse, for request: Request) { kept.withLock { $0.append(response) } }
}
