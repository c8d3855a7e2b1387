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
    answers.answersElsewhere = true
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
}
