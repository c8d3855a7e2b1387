import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// The headless facts of `AFUIImageViewTests` and `AFUIButtonTests`.
@Suite struct ImageRequestSlotTests {
  private typealias Outcome = Result<DownloadedImage, any Error>

  private struct View {
    let shown = Calls<Int?>()
    let slot: ImageRequestSlot

    init(_ downloader: ImageDownloader) {
      slot = ImageRequestSlot(downloader: downloader) { [shown] in shown.note($0?.pixelWidth) }
    }
  }

  private func withService(_ body: (ImageService, ImageDownloader) async throws -> Void) async throws {
    let service = try ImageService()
    defer { service.server.shutdown() }
    try await body(service, try service.downloader())
    service.latch.release()
    #expect(await service.isDisconnected())
  }

  /// Whether nothing is downloaded any more, and all that was to be told has been told.
  private func isOver(_ service: ImageService, _ downloader: ImageDownloader) async -> Bool {
    guard await until({ downloader.activeDownloads == 0 }) else { return false }
    service.queue.sync {}
    return true
  }

  /// `Accept: image/*` is sent, and the image shown.
  @Test func imageIsSetFromURL() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      view.slot.setImage(from: service.server.url("/image?w=9&h=1"))
      let shown = try await view.shown.first(1)
      #expect(shown == [9])
      #expect(service.server.recordedRequests.first?.fields.first("Accept") == "image/*")
      #expect(view.slot.activeReceipt == nil)
    }
  }

  /// The same request twice: one download, and the image is shown.
  @Test func duplicateCallStillSucceeds() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let calls = Calls<Outcome>()
      view.slot.setImage(from: service.server.url("/held?w=9&h=1"))
      let receipt = view.slot.activeReceipt
      view.slot.setImage(from: service.server.url("/held?w=9&h=1")) { calls.note($0) }
      #expect(receipt != nil && view.slot.activeReceipt == receipt)
      service.latch.release()
      let outcomes = try await calls.first(1)
      #expect(outcomes[0].success?.image.pixelWidth == 9)
      #expect(await isOver(service, downloader))
      #expect(service.server.requestCount == 1 && view.shown.all.isEmpty && calls.all.count == 1)
    }
  }

  /// The latest call counts, also if it has no completion: the image is the receiver's.
  @Test func theLatestCallNeedsNoCompletion() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let calls = Calls<Outcome>()
      view.slot.setImage(from: service.server.url("/held?w=9&h=1")) { calls.note($0) }
      view.slot.setImage(from: service.server.url("/held?w=9&h=1"))
      service.latch.release()
      let shown = try await view.shown.first(1)
      #expect(await isOver(service, downloader))
      #expect(shown == [9] && calls.all.isEmpty && service.server.requestCount == 1)
    }
  }

  /// What is being fetched anew is not given up for what is in memory.
  @Test(arguments: [false, true]) func anOrdinaryCallJoinsAReload(_ isByRequest: Bool) async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let request = try service.request("/held?w=9&h=1")
      let old = try TestImage.image(1, 1)
      downloader.imageCache?.add(old, for: request, additionalIdentifier: nil)
      var reloading = request
      if isByRequest { reloading.cachePolicy = .reloadIgnoringLocalCacheData }
      let policy = isByRequest ? ImageCachePolicy.useCache : .reload
      view.slot.setImage(for: reloading, cachePolicy: policy)
      view.slot.setImage(for: request, cachePolicy: .onlyCache)
      #expect(view.shown.all == [1] && view.slot.activeReceipt == nil, "the memory alone waits for nothing")
      view.slot.setImage(for: reloading, cachePolicy: policy)
      let receipt = view.slot.activeReceipt
      view.slot.setImage(from: request.urlString)
      #expect(receipt != nil && view.slot.activeReceipt == receipt && view.shown.all == [1])
      service.latch.release()
      let shown = try await view.shown.first(2)
      #expect(shown == [1, 9])
    }
  }

  /// Who asks the memory alone, whatever the request says of reloading, fetches nothing that others could wait for.
  @Test func nobodyWaitsForALookIntoTheMemory() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      var reloading = try service.request("/image?w=7&h=1")
      reloading.cachePolicy = .reloadIgnoringLocalCacheData
      let looking = reloading
      // Both before the first can end, as in one turn of a program's main queue.
      service.queue.sync {
        view.slot.setImage(for: looking, cachePolicy: .onlyCache)
        view.slot.setImage(from: looking.urlString)
      }
      let shown = try await view.shown.first(1)
      #expect(shown == [7])
    }
  }

  @Test func placeholderRemainsAfterFailure() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let calls = Calls<Outcome>()
      view.slot.setImage(from: service.server.url("/missing"), placeholder: try TestImage.image(1, 1)) {
        calls.note($0)
      }
      #expect((try await calls.first(1)[0].failure as? SerializationError)?.code == .unacceptableStatusCode)
      #expect(await isOver(service, downloader))
      #expect(view.shown.all == [1])
    }
  }

  /// From memory: at once, the same image, no response; the completion stands in for the receiver.
  @Test func cachedImageComesAtOnce() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let request = try service.request("/image?w=9&h=1")
      let image = try await downloader.image(for: request).image
      view.slot.setImage(for: request, placeholder: try TestImage.image(1, 1))
      #expect(view.shown.all == [9])
      let calls = Calls<Outcome>()
      view.slot.setImage(for: request) { calls.note($0) }
      let download = try #require(calls.all.first?.success)
      #expect(download.image === image && download.response == nil && view.shown.all == [9])
    }
  }

  /// A request that wants nothing stored is downloaded, although its image is in memory.
  @Test func theRequestsOwnPolicyCounts() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      var request = try service.request("/image?w=9&h=1")
      let image = try await downloader.image(for: request).image
      request.cachePolicy = .reloadIgnoringLocalCacheData
      let calls = Calls<Outcome>()
      view.slot.setImage(for: request) { calls.note($0) }
      let outcomes = try await calls.first(1)
      let download = try #require(outcomes[0].success)
      #expect(download.image !== image && download.response != nil && service.server.requestCount == 2)
    }
  }

  /// Cancelled and asked for again at once: the image comes, and of the first request nothing is heard.
  @Test func cancelThenReload() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let first = Calls<Outcome>()
      view.slot.setImage(from: service.server.url("/held?w=9&h=1")) { first.note($0) }
      view.slot.cancel()
      #expect(view.slot.activeReceipt == nil)
      view.slot.setImage(from: service.server.url("/held?w=9&h=1"))
      service.latch.release()
      let shown = try await view.shown.first(1)
      #expect(await isOver(service, downloader))
      #expect(shown == [9] && first.all.isEmpty)
    }
  }

  /// Another request supersedes the one before; only its image is shown.
  @Test func theLatestRequestCounts() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      for width in 1...3 { view.slot.setImage(from: service.server.url("/held?w=\(width)&h=1")) }
      service.latch.release()
      let shown = try await view.shown.first(1)
      #expect(shown == [3])
      #expect(await isOver(service, downloader))
      #expect(view.shown.all == [3])
    }
  }

  /// A URL that cannot be fetched: the placeholder, even none, a failure, and the download before it is given up.
  @Test func invalidURL() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let calls = Calls<Outcome>()
      view.slot.setImage(from: service.server.url("/held?w=9&h=1"))
      view.slot.setImage(from: "", placeholder: nil) { calls.note($0) }
      #expect(view.shown.all == [nil] && view.slot.activeReceipt == nil)
      #expect((calls.all.first?.failure as? SessionError)?.code == .badURL)
      #expect(await until { downloader.activeDownloads == 0 })
    }
  }

  /// A button's states and backgrounds do not concern each other.
  @Test func placesOfAButton() async throws {
    try await withService { service, downloader in
      let shown = Calls<String>()
      let button = ImageRequestSlots<String>(downloader: downloader) { shown.note("\($0) \($1?.pixelWidth ?? 0)") }
      for (width, key) in ["normal", "highlighted", "background"].enumerated() {
        button[key].setImage(from: service.server.url("/held?w=\(width + 1)&h=1"))
      }
      button["highlighted"].cancel()
      button["highlighted"].setImage(from: service.server.url("/held?w=5&h=1"))
      service.latch.release()
      let all = try await shown.first(3)
      #expect(Set(all) == ["normal 1", "highlighted 5", "background 3"])
    }
  }

  /// All places at once: what is under way is given up, and they may be asked again.
  @Test func cancellingAllPlaces() async throws {
    try await withService { service, downloader in
      let shown = Calls<String>()
      let button = ImageRequestSlots<String>(downloader: downloader) { shown.note("\($0) \($1?.pixelWidth ?? 0)") }
      for (width, key) in ["normal", "highlighted"].enumerated() {
        button[key].setImage(from: service.server.url("/held?w=\(width + 1)&h=1"))
      }
      button.cancelAll()
      #expect(button["normal"].activeReceipt == nil && button["highlighted"].activeReceipt == nil)
      #expect(await isOver(service, downloader))
      #expect(shown.all.isEmpty)
      button["normal"].setImage(from: service.server.url("/image?w=5&h=1"))
      let all = try await shown.first(1)
      #expect(all == ["normal 5"])
    }
  }

  /// A place that goes gives its download up.
  @Test func droppingThePlace() async throws {
    try await withService { service, downloader in
      var view: View? = View(downloader)
      view?.slot.setImage(from: service.server.url("/held?w=9&h=1"))
      let shown = view?.shown
      view = nil
      #expect(await isOver(service, downloader))
      #expect(shown?.all.isEmpty == true)
    }
  }
}

extension ImageRequestSlotTests {
  /// What the receiver asks for when it is shown a placeholder is the later call, also where the URL of the first is none: nothing is fetched for that one,
  /// and nobody hears of it.
  @Test(arguments: [false, true], [false, true])
  func callsOfTheReceiverCount(_ isURL: Bool, _ cancels: Bool) async throws {
    try await withService { service, downloader in
      let shown = Calls<Int?>()
      let place = Locked<ImageRequestSlot?>(nil)
      let second = service.server.url("/image?w=2&h=1")
      let slot = ImageRequestSlot(downloader: downloader) { image in
        shown.note(image?.pixelWidth)
        guard image?.pixelWidth == 7, let slot = place.withLock({ $0 }) else { return }
        if cancels { slot.cancel() } else { slot.setImage(from: second) }
      }
      place.withLock { $0 = slot }
      defer { place.withLock { $0 = nil } }
      let calls = Calls<Outcome>()
      let first = isURL ? service.server.url("/held?w=9&h=1") : ""
      slot.setImage(from: first, placeholder: try TestImage.image(7, 1)) { calls.note($0) }
      if !cancels { _ = try await shown.first(2) }
      #expect(await until { downloader.activeDownloads == 0 } && slot.activeReceipt == nil)
      #expect(shown.all == (cancels ? [7] : [7, 2]) && calls.all.isEmpty)
      #expect(service.server.requestCount == (cancels ? 0 : 1))
    }
  }

  /// Asks its place when it goes, as a screen does that takes its request back.
  private final class Screen: Sendable {
    let slot: ImageRequestSlot
    let asked: Calls<Bool>

    init(_ slot: ImageRequestSlot, _ asked: Calls<Bool>) {
      self.slot = slot
      self.asked = asked
    }

    deinit { asked.note(slot.activeReceipt != nil) }

    /// Gives the screen to the completion, and keeps nothing.
    static func begin(_ slot: ImageRequestSlot, _ url: String, _ asked: Calls<Bool>) {
      let screen = Screen(slot, asked)
      slot.setImage(from: url) { [screen] _ in _ = screen }
    }
  }

  /// The last reference to somebody who asks the place goes outside of its lock: when a completion is replaced, and when
  /// it is given up.
  @Test func formerCompletionsMayAskThePlace() async throws {
    try await withService { service, downloader in
      let view = View(downloader)
      let asked = Calls<Bool>()
      let url = service.server.url("/held?w=9&h=1")
      Screen.begin(view.slot, url, asked)
      Screen.begin(view.slot, url, asked)
      #expect(asked.all == [true])
      view.slot.cancel()
      #expect(asked.all == [true, false])
    }
  }
}
