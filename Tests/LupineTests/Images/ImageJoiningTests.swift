import Foundation
import Lupine
import LupineTesting
import Testing

/// Who shares a download, and whom that would not serve.
@Suite struct ImageJoiningTests {
  private func withService(_ body: (ImageService, ImageDownloader) async throws -> Void) async throws {
    let service = try ImageService()
    defer { service.server.shutdown() }
    try await body(service, try service.downloader())
    service.latch.release()
    #expect(await service.isDisconnected())
  }

  /// Who wants the image anew does not get what a download under way may have from a cache; two who do share theirs.
  @Test func reloadsAreApart() async throws {
    try await withService { service, downloader in
      let request = try service.request("/held?w=5&h=5")
      var revalidating = request
      revalidating.cachePolicy = .reloadRevalidatingCacheData
      let calls = Calls<Result<DownloadedImage, any Error>>()
      let first = try #require(downloader.download(request) { calls.note($0) })
      let second = try #require(downloader.download(request, cachePolicy: .reload) { calls.note($0) })
      let third = try #require(downloader.download(request, cachePolicy: .reload) { calls.note($0) })
      let fourth = try #require(downloader.download(revalidating) { calls.note($0) })
      #expect(first.task != second.task && second.task == third.task)
      #expect(fourth.task != first.task && fourth.task != second.task)
      service.latch.release()
      #expect(try await calls.first(4).allSatisfy { $0.success != nil })
      #expect(service.server.requestCount == 3)
    }
  }

  /// Who sends no cookies does not get what those of the jar have brought.
  @Test func cookiesOfTheJarAreApart() async throws {
    try await withService { service, downloader in
      let request = try service.request("/held?w=5&h=5")
      var plain = request
      plain.handlesCookies = false
      let first = try #require(downloader.download(request) { _ in })
      let second = try #require(downloader.download(plain) { _ in })
      #expect(first.task != second.task)
      for receipt in [first, second] { downloader.cancel(receipt) }
    }
  }

  /// Who takes an image from memory alone waits for no download.
  @Test func theMemoryAloneIsNotWaitedFor() async throws {
    try await withService { service, downloader in
      let request = try service.request("/held?w=5&h=5")
      let calls = Calls<Result<DownloadedImage, any Error>>()
      let receipt = try #require(downloader.download(request) { _ in })
      #expect(downloader.download(request, cachePolicy: .onlyCache) { calls.note($0) } == nil)
      let error = try await calls.first(1)[0].failure as? SessionError
      #expect(error?.code == .imageNotCached)
      downloader.cancel(receipt)
    }
  }

  /// Nor does a place where images are shown.
  @Test func slotsReloadAndLookIntoTheMemory() async throws {
    try await withService { service, downloader in
      let slot = ImageRequestSlot(downloader: downloader) { _ in }
      let request = try service.request("/held?w=5&h=5")
      let calls = Calls<Result<DownloadedImage, any Error>>()
      slot.setImage(for: request)
      let first = try #require(slot.activeReceipt)
      slot.setImage(for: request, cachePolicy: .reload)
      #expect(slot.activeReceipt != nil && slot.activeReceipt != first)
      slot.setImage(for: request, cachePolicy: .onlyCache) { calls.note($0) }
      #expect((try await calls.first(1)[0].failure as? SessionError)?.code == .imageNotCached)
      #expect(slot.activeReceipt == nil)
    }
  }
}
