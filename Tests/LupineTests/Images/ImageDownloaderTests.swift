import Foundation
import HTTPTypes
import Lupine
import LupineTesting
import Testing

/// The facts of `AFImageDownloaderTests`, over loopback.
@Suite struct ImageDownloaderTests {
  private typealias Outcome = Result<DownloadedImage, any Error>

  /// Runs `body`; afterwards no connection of a downloader may be left.
  private func withService(_ body: (ImageService) async throws -> Void) async throws {
    let service = try ImageService()
    defer { service.server.shutdown() }
    try await body(service)
    service.latch.release()
    #expect(await service.isDisconnected(), "a downloader that has gone is still connected")
  }

  @Test func singleton() {
    #expect(ImageDownloader.default === ImageDownloader.default)
    #expect(ImageDownloader.default.maximumActiveDownloads == 4)
    #expect(ImageDownloader.default.prioritization == .firstInFirstOut)
    #expect(ImageDownloader.default.imageCache is AutoPurgingImageCache)
  }

  /// A URL that cannot be fetched: no receipt, a failure.
  @Test func invalidURL() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let calls = Calls<Outcome>()
      let receipt = downloader.download(from: "") { calls.note($0) }
      #expect(receipt == nil)
      #expect((try await calls.first(1)[0].failure as? SessionError)?.code == .badURL)
      await #expect(throws: SessionError.self) { try await downloader.image(from: "ftp://x/") }
    }
  }

  @Test func imageIsDownloaded() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let calls = Calls<(Outcome, Bool)>()
      let request = try service.request("/image?w=400&h=200")
      let receipt = downloader.download(request) { calls.note(($0, service.isOnCompletionQueue)) }
      #expect(receipt != nil)
      let (outcome, isOnQueue) = try await calls.first(1)[0]
      let download = try outcome.get()
      #expect(isOnQueue && download.response?.statusCode == 200 && download.request.urlString == request.urlString)
      #expect(download.image.format == .png && download.image.pixelWidth == 400 && download.image.pixelHeight == 200)
      #expect(service.server.recordedRequests.first?.fields.first("Accept") == "image/*")
    }
  }

  /// Whoever names a user gets an image of their own: none is shared with another user's download, taken from memory or kept there.
  @Test func usersDoNotShare() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let plain = try service.request("/image?w=5&h=5")
      var named = plain
      named.credential = .password(user: "alice", password: "a")
      let inURL = try Request(plain.urlString.replacing("http://", with: "http://bob:b@"))
      var inField = plain
      inField.fields[.authorization] = "Bearer token"
      for request in [named, inURL, inField, named] { _ = try await downloader.image(for: request) }
      #expect(service.server.recordedRequests.count == 4)
      let cache = try #require(downloader.imageCache)
      #expect(cache.image(for: plain, additionalIdentifier: nil) == nil)
      _ = try await downloader.image(for: plain)
      let another = try await downloader.image(for: named)
      #expect(another.response != nil && service.server.recordedRequests.count == 6)
    }
  }

  @Test func twoImagesConcurrently() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      async let first = downloader.image(from: service.server.url("/image?w=1&h=2"))
      async let second = downloader.image(from: service.server.url("/image?w=3&h=4"))
      let (one, two) = try await (first, second)
      #expect(one.image.pixelHeight == 2 && two.image.pixelHeight == 4)
    }
  }

  /// Two who ask at the same time get the same response to one request, each with its own request back.
  @Test func simultaneousRequestsAreOneDownload() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let calls = Calls<(Int, Outcome)>()
      let request = try service.request("/held?w=5&h=5")
      let first = try #require(downloader.download(request) { calls.note((1, $0)) })
      let second = try #require(downloader.download(request) { calls.note((2, $0)) })
      #expect(first.task == second.task && first.receiptID != second.receiptID)
      service.latch.release()
      let outcomes = try await calls.first(2)
      #expect(outcomes.map(\.0) == [1, 2])
      let images = try outcomes.map { try $0.1.get().image }
      #expect(images[0] === images[1] && service.server.requestCount == 1)
    }
  }

  /// Method and fields make another request of it.
  @Test func otherFieldsAreAnotherDownload() async throws {
    try await withService { service in
      let downloader = try service.downloader(cache: nil)
      let calls = Calls<Outcome>()
      var request = try service.request("/held?w=5&h=5")
      downloader.download(request) { calls.note($0) }
      request.fields[.authorization] = "Bearer x"
      downloader.download(request) { calls.note($0) }
      service.latch.release()
      #expect(try await calls.first(2).allSatisfy { $0.success != nil })
      #expect(service.server.requestCount == 2)
    }
  }

  /// The second answer: the same image, no response, no receipt, no request.
  @Test func secondRequestIsAnsweredFromMemory() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let request = try service.request("/image?w=5&h=6")
      let first = try await downloader.image(for: request)
      let calls = Calls<Outcome>()
      #expect(downloader.download(request) { calls.note($0) } == nil)
      let second = try await calls.first(1)[0].get()
      #expect(second.image === first.image && second.response == nil && service.server.requestCount == 1)
      let third = try await downloader.image(for: request, cachePolicy: .onlyCache)
      #expect(third.image === first.image)
    }
  }

  @Test func onlyTheMemory() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let request = try service.request("/image?w=5&h=6")
      let error = await #expect(throws: SessionError.self) {
        try await downloader.image(for: request, cachePolicy: .onlyCache)
      }
      #expect(error?.code == .imageNotCached && service.server.requestCount == 0)
    }
  }

  /// The cache is asked, and then given the image; if it says no, the next request is a real one, and its image another.
  @Test func theCacheIsAskedFirst() async throws {
    try await withService { service in
      let asked = Calls<String>()
      let cache = AutoPurgingImageCache { image, request, _ in
        asked.note(request.urlString)
        return image.pixelWidth > 5
      }
      let downloader = try service.downloader(cache: cache)
      let small = try service.request("/image?w=5&h=5")
      let first = try await downloader.image(for: small)
      let second = try await downloader.image(for: small)
      #expect(first.image !== second.image && second.response != nil && cache.memoryUsage == 0)
      let large = try service.request("/image?w=6&h=5")
      _ = try await downloader.image(for: large)
      #expect(cache.image(for: large) != nil)
      #expect(asked.all == [small, small, large].map(\.urlString))
    }
  }

  /// A reload does not look into the memory, but what it gets is kept there.
  @Test func reloadPassesTheMemory() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let request = try service.request("/image?w=5&h=5")
      let first = try await downloader.image(for: request)
      let calls = Calls<Outcome>()
      let receipt = downloader.download(request, cachePolicy: .reload) { calls.note($0) }
      #expect(receipt != nil)
      let second = try await calls.first(1)[0].get()
      #expect(second.image !== first.image && second.response != nil)
      #expect(downloader.imageCache?.image(for: request, additionalIdentifier: nil) === second.image)
    }
  }

  /// A request that wants nothing stored does not get what is in memory either; what it gets is kept there.
  @Test(arguments: [
    RequestCachePolicy.reloadIgnoringLocalCacheData, .reloadIgnoringLocalAndRemoteCacheData,
    .reloadRevalidatingCacheData,
  ]) func theRequestsOwnPolicyCounts(_ policy: RequestCachePolicy) async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let plain = try service.request("/image?w=5&h=5")
      let first = try await downloader.image(for: plain)
      var reloading = plain
      reloading.cachePolicy = policy
      let second = try await downloader.image(for: reloading)
      #expect(second.image !== first.image && second.response != nil && service.server.requestCount == 2)
      #expect(downloader.imageCache?.image(for: plain, additionalIdentifier: nil) === second.image)
    }
  }

  /// Without images in memory the responses answer, unless they are not to.
  @Test func reloadGoesPastTheResponseCache() async throws {
    try await withService { service in
      let downloader = try service.downloader(cache: nil)
      let request = try service.request("/fresh")
      for _ in 0..<3 { _ = try await downloader.image(for: request) }
      #expect(service.server.requestCount == 1)
      _ = try await downloader.image(for: request, cachePolicy: .reload)
      #expect(service.server.requestCount == 2)
      // Also of a request that says what is the default, or that would take anything.
      for policy in [RequestCachePolicy.useProtocolCachePolicy, .returnCacheDataElseLoad] {
        let before = service.server.requestCount
        var named = request
        named.cachePolicy = policy
        _ = try await downloader.image(for: named, cachePolicy: .reload)
        #expect(service.server.requestCount == before + 1)
      }
      #expect(ImageDownloader.defaultConfiguration.responseCache === ImageDownloader.defaultResponseCache)
    }
  }

  @Test func redirectedImage() async throws {
    try await withService { service in
      let download = try await service.downloader().image(from: service.server.url("/moved"))
      #expect(download.image.pixelWidth == 7 && download.response?.urlString.hasSuffix("/image?w=7&h=7") == true)
    }
  }

  /// Not acceptable, not found, not an image: each is an error that says so.
  @Test(arguments: [
    ("/text", SerializationError.Code.unacceptableContentType), ("/missing", .unacceptableStatusCode),
    ("/broken", .cannotParseResponse),
  ])
  func whatIsNoImageIsAnError(_ path: String, _ code: SerializationError.Code) async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let error = await #expect(throws: SerializationError.self) {
        try await downloader.image(from: service.server.url(path))
      }
      #expect(error?.code == code && error?.failingURL == service.server.url(path))
      #expect(downloader.activeDownloads == 0)
    }
  }

  /// A HEAD succeeds and brings no image; nobody has cancelled it.
  @Test func aHeadIsNoImage() async throws {
    try await withService { service in
      let request = try Request(service.server.url("/image"), method: .head)
      let error = await #expect(throws: SerializationError.self) {
        try await service.downloader().image(for: request)
      }
      #expect(error?.code == .cannotParseResponse)
    }
  }

  /// What answers for a range answers for nobody else.
  @Test func aPartIsNotKept() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      var part = try service.request("/image?w=5&h=5&part=1")
      part.fields[.range] = "bytes=0-40"
      let first = try await downloader.image(for: part)
      #expect(first.response?.statusCode == 206 && first.image.pixelWidth == 5)
      let whole = try await downloader.image(for: service.request("/image?w=5&h=5&part=1"))
      #expect(whole.response?.statusCode == 200 && whole.image !== first.image)
    }
  }

  // MARK: Cancelling

  @Test func cancelledRequestFails() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let calls = Calls<(Outcome, Bool)>()
      let request = try service.request("/held?w=1&h=1")
      let receipt = try #require(downloader.download(request) { calls.note(($0, service.isOnCompletionQueue)) })
      downloader.cancel(receipt)
      let (outcome, isOnQueue) = try await calls.first(1)[0]
      let error = try #require(outcome.failure as? SessionError)
      #expect(isOnQueue && error.code == .cancelled)
      #expect(error.message == "ImageDownloader cancelled URL request: \(request.urlString)")
      #expect(await until { downloader.activeDownloads == 0 })
      downloader.cancel(receipt)
      #expect(calls.all.count == 1 && downloader.imageCache?.removeAllImages() == false)
    }
  }

  @Test func cancellingOneOfTwoLeavesTheOther() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let calls = Calls<(Int, Outcome)>()
      let request = try service.request("/held?w=1&h=1")
      // Not inside of the macro: Swift 6.3.1 takes a closure there and the one after it for the same.
      let first = downloader.download(request) { calls.note((1, $0)) }
      downloader.download(request) { calls.note((2, $0)) }
      downloader.cancel(try #require(first))
      service.latch.release()
      let outcomes = try await calls.first(2)
      #expect(outcomes.map(\.0) == [1, 2])
      #expect((outcomes[0].1.failure as? SessionError)?.code == .cancelled)
      #expect(outcomes[1].1.success != nil)
    }
  }

  /// Five begun and cancelled, and begun again at once: five failures, five images.
  @Test func startCancelRestart() async throws {
    try await withService { service in
      let downloader = try service.downloader(cache: nil)
      let cancelled = Calls<Outcome>()
      let restarted = Calls<Outcome>()
      let requests = try (1...5).map { try service.request("/held?w=\($0)&h=1") }
      for request in requests {
        let receipt = downloader.download(request) { cancelled.note($0) }
        downloader.cancel(try #require(receipt))
        downloader.download(request) { restarted.note($0) }
      }
      service.latch.release()
      #expect(try await cancelled.first(5).allSatisfy { ($0.failure as? SessionError)?.code == .cancelled })
      #expect(try await restarted.first(5).allSatisfy { $0.success != nil })
      #expect(await until { downloader.activeDownloads == 0 })
    }
  }

  /// What was cancelled is not kept, even if its response has come.
  @Test func aCancelledImageIsNotKept() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let request = try service.request("/held?w=1&h=1")
      let receipt = try #require(downloader.download(request) { _ in })
      _ = try service.server.waitForRequests(1)
      downloader.cancel(receipt)
      service.latch.release()
      #expect(await until { downloader.activeDownloads == 0 })
      #expect(downloader.imageCache?.image(for: request, additionalIdentifier: nil) == nil)
    }
  }

  @Test func cancellingTheTaskCancelsTheRequest() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let url = service.server.url("/held?w=1&h=1")
      let task = Task { try await downloader.image(from: url) }
      #expect(await until { service.server.requestCount == 1 })
      task.cancel()
      let error = await #expect(throws: SessionError.self) { try await task.value }
      #expect(error?.code == .cancelled)
      #expect(await until { downloader.activeDownloads == 0 })
    }
  }

  // MARK: Places

  /// Four at a time; a place is free when one has ended, and cancelling what waits frees none (#3469).
  @Test func fourAtATime() async throws {
    try await withService { service in
      let downloader = try service.downloader(cache: nil)
      let calls = Calls<Outcome>()
      let receipts = try (1...8).map { number in
        try #require(downloader.download(try service.request("/held?w=\(number)&h=1")) { calls.note($0) })
      }
      _ = try service.server.waitForRequests(4)
      #expect(downloader.activeDownloads == 4)
      for receipt in receipts[4..<7] { downloader.cancel(receipt) }
      #expect(try await calls.first(3).allSatisfy { $0.failure != nil })
      #expect(await until { receipts[4..<7].allSatisfy { $0.task.state == .completed } })
      #expect(downloader.activeDownloads == 4 && receipts[7].task.state == .suspended)
      #expect(service.server.requestCount == 4)
      service.latch.release()
      #expect(try await calls.first(8).suffix(5).allSatisfy { $0.success != nil })
      #expect(service.server.requestCount == 5 && downloader.activeDownloads == 0)
    }
  }

  /// The last that was asked for is the next to begin.
  @Test func lastInFirstOut() async throws {
    try await withService { service in
      let downloader = try service.downloader(.lastInFirstOut, maximum: 1, cache: nil)
      let calls = Calls<Int>()
      for number in 1...4 {
        downloader.download(try service.request("/held?w=\(number)&h=1")) {
          calls.note($0.success?.image.pixelWidth ?? 0)
        }
      }
      service.latch.release()
      #expect(try await calls.first(4) == [1, 4, 3, 2])
    }
  }

  @Test func theGivenIdentifierComesBack() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let identifier = UUID()
      let receipt = downloader.download(try service.request("/held?w=1&h=1"), receiptID: identifier) { _ in }
      #expect(receipt?.receiptID == identifier)
    }
  }

  /// A downloader that goes with downloads under way: every handler is told, the session is closed.
  @Test func droppingTheDownloaderFailsWhatIsUnderWay() async throws {
    try await withService { service in
      let calls = Calls<Outcome>()
      var downloader: ImageDownloader? = try service.downloader(maximum: 1)
      weak let observed = downloader
      for number in 1...3 {
        downloader?.download(try service.request("/held?w=\(number)&h=1")) { calls.note($0) }
      }
      _ = try service.server.waitForRequests(1)
      downloader = nil
      #expect(observed == nil)
      #expect(try await calls.first(3).allSatisfy { ($0.failure as? SessionError)?.code == .cancelled })
    }
  }
}

extension ImageDownloaderTests {
  /// Asks its downloader when it goes.
  private final class Screen: Sendable {
    let downloader: ImageDownloader
    let asked: Calls<Int>

    init(_ downloader: ImageDownloader, _ asked: Calls<Int>) {
      self.downloader = downloader
      self.asked = asked
    }

    deinit { asked.note(downloader.activeDownloads) }

    /// Gives the screen to a cache, and keeps nothing.
    static func filter(_ downloader: ImageDownloader, _ asked: Calls<Int>) {
      let screen = Screen(downloader, asked)
      downloader.imageCache = AutoPurgingImageCache { [screen] _, _, _ in
        _ = screen
        return true
      }
    }
  }

  /// The last reference to somebody who asks the downloader goes outside of its lock.
  @Test func aFormerCacheMayAskTheDownloader() async throws {
    try await withService { service in
      let downloader = try service.downloader()
      let asked = Calls<Int>()
      Screen.filter(downloader, asked)
      downloader.imageCache = AutoPurgingImageCache()
      #expect(asked.all == [0])
    }
  }
}
