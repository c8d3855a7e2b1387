import Foundation
import Lupine
import Testing

/// The facts of `AFAutoPurgingImageCacheTests`.
@Suite struct AutoPurgingImageCacheTests {
  private let cache = AutoPurgingImageCache()

  private func request(_ path: String = "logo.png") throws -> Request { try Request("http://localhost/\(path)") }

  /// By identifier; none without it or under another one.
  @Test func imageIsFoundByIdentifier() throws {
    let image = try TestImage.image(510, 500)
    cache.add(image, withIdentifier: "logo")
    #expect(cache.image(withIdentifier: "logo") === image)
    #expect(cache.image(withIdentifier: "Logo") == nil)
  }

  /// By request, and by request with an additional identifier; neither stands for the other, nor for another URL.
  @Test func imageIsFoundByRequest() throws {
    let image = try TestImage.image(510, 500)
    let filtered = try TestImage.image(51, 50)
    cache.add(image, for: try request())
    cache.add(filtered, for: try request(), additionalIdentifier: "filter")
    #expect(try cache.image(for: request()) === image)
    #expect(try cache.image(for: request(), additionalIdentifier: "filter") === filtered)
    #expect(try cache.image(for: request(), additionalIdentifier: "other") == nil)
    #expect(try cache.image(for: request("other.png")) == nil)
  }

  /// The identifier is set off from the URL: `a` with `bc` is not `ab` with `c`.
  @Test func identifierIsSetOffFromTheURL() throws {
    cache.add(try TestImage.image(1, 1), for: try request("a"), additionalIdentifier: "bc")
    #expect(try cache.image(for: request("ab"), additionalIdentifier: "c") == nil)
    #expect(try cache.image(for: request("abc")) == nil)
  }

  /// The zone of an address says whose image it is; a fragment names no other image.
  @Test func identifiersKnowZones() throws {
    func identifier(_ url: String) throws -> String {
      AutoPurgingImageCache.identifier(for: try Request(url), additionalIdentifier: nil)
    }
    let (first, second) = ("http://[fe80::1%25eth0]/x", "http://[fe80::1%25eth1]/x")
    #expect(try identifier(first) != identifier(second))
    #expect(try identifier(first + "#part") == identifier(first))
    let image = try TestImage.image(3, 2)
    cache.add(image, for: try Request(first))
    #expect(try cache.image(for: Request(first)) === image)
    #expect(try cache.image(for: Request(second)) == nil)
  }

  @Test func addingReplaces() throws {
    let second = try TestImage.image(20, 10)
    cache.add(try TestImage.image(510, 500), withIdentifier: "logo")
    cache.add(second, withIdentifier: "logo")
    #expect(cache.image(withIdentifier: "logo") === second && cache.memoryUsage == 800)
  }

  /// What is held counts: a head of one pixel with a long tail is as large as its bytes.
  @Test func longTailsCount() throws {
    let image = try EncodedImage(data: Data(TestImage.png(1, 1)) + Data(count: 100_000))
    cache.add(image, withIdentifier: "long")
    #expect(cache.memoryUsage == image.data.count && image.memoryCost == 4)
    let small = AutoPurgingImageCache(memoryCapacity: 50_000, preferredMemoryUsageAfterPurge: 50_000)
    small.add(image, withIdentifier: "long")
    #expect(small.memoryUsage == 0)
  }

  /// Yes, then no; a wrong identifier removes nothing.
  @Test func removalTellsWhetherThereWasOne() throws {
    let image = try TestImage.image(510, 500)
    cache.add(image, withIdentifier: "logo")
    #expect(!cache.removeImage(withIdentifier: "other"))
    #expect(cache.removeImage(withIdentifier: "logo") && !cache.removeImage(withIdentifier: "logo"))
    cache.add(image, for: try request())
    cache.add(image, for: try request(), additionalIdentifier: "filter")
    #expect(try !cache.removeImage(for: request(), additionalIdentifier: "other"))
    #expect(try cache.removeImage(for: request(), additionalIdentifier: "filter"))
    #expect(try !cache.removeImage(for: request(), additionalIdentifier: "filter"))
    #expect(try cache.removeImage(for: request()) && !cache.removeImage(for: request()))
    #expect(cache.memoryUsage == 0)
  }

  @Test func removeAllTellsWhetherThereWereAny() throws {
    #expect(!cache.removeAllImages())
    cache.add(try TestImage.image(3, 2), withIdentifier: "a")
    #expect(cache.removeAllImages() && cache.memoryUsage == 0 && cache.image(withIdentifier: "a") == nil)
  }

  /// 0, then 1,020,000 of the logo's 510 by 500 pixels, then 0.
  @Test func memoryUsageCountsPixels() throws {
    #expect(cache.memoryUsage == 0)
    cache.add(try TestImage.image(510, 500), withIdentifier: "logo")
    #expect(cache.memoryUsage == 1_020_000)
    cache.removeImage(withIdentifier: "logo")
    #expect(cache.memoryUsage == 0)
  }

  @Test func defaultCapacities() {
    #expect(cache.memoryCapacity == 104_857_600 && cache.preferredMemoryUsageAfterPurge == 62_914_560)
  }

  private func tenAndSix() throws -> (AutoPurgingImageCache, [EncodedImage]) {
    let images = try (0...10).map { _ in try TestImage.image(510, 500) }
    return (
      AutoPurgingImageCache(memoryCapacity: 10_200_000, preferredMemoryUsageAfterPurge: 6_120_000), images
    )
  }

  /// Room for ten: the eleventh leaves six images' bytes.
  @Test func purgesToThePreferredUsage() throws {
    let (cache, images) = try tenAndSix()
    for (index, image) in images.dropLast().enumerated() { cache.add(image, withIdentifier: "\(index)") }
    #expect(cache.memoryUsage == 10_200_000)
    cache.add(images[10], withIdentifier: "10")
    #expect(cache.memoryUsage == 6_120_000)
  }

  /// Image 0 was looked at before the eleventh came: 0 and 6 to 10 are left.
  @Test func keepsWhatWasLookedAtLast() throws {
    let (cache, images) = try tenAndSix()
    for (index, image) in images.dropLast().enumerated() { cache.add(image, withIdentifier: "\(index)") }
    #expect(cache.image(withIdentifier: "0") === images[0])
    cache.add(images[10], withIdentifier: "10")
    let survivors = (0...10).filter { cache.image(withIdentifier: "\($0)") != nil }
    #expect(survivors == [0, 6, 7, 8, 9, 10])
  }

  /// One that is too large for the cache leaves the others alone, and takes the place of none.
  @Test func anImageLargerThanTheCapacityIsNotKept() throws {
    let cache = AutoPurgingImageCache(memoryCapacity: 10_000, preferredMemoryUsageAfterPurge: 5_000)
    cache.add(try TestImage.image(30, 20), withIdentifier: "small")
    cache.add(try TestImage.image(30, 20), withIdentifier: "grows")
    cache.add(try TestImage.image(60, 50), withIdentifier: "grows")
    #expect(cache.image(withIdentifier: "small") != nil && cache.image(withIdentifier: "grows") == nil)
    #expect(cache.memoryUsage == 2_400)
    // What a hostile header claims is a cost like any other.
    cache.add(try TestImage.image(0x7fff_ffff, 0x7fff_ffff), withIdentifier: "huge")
    #expect(cache.memoryUsage == 2_400)
  }

  /// Strictly: an image of exactly the capacity is kept.
  @Test func theCapacityItselfIsAllowed() throws {
    let cache = AutoPurgingImageCache(memoryCapacity: 2_400, preferredMemoryUsageAfterPurge: 0)
    cache.add(try TestImage.image(30, 20), withIdentifier: "a")
    #expect(cache.memoryUsage == 2_400)
    cache.add(try TestImage.image(10, 10), withIdentifier: "b")
    #expect(cache.memoryUsage == 0)
  }

  @Test func capacitiesCanChange() throws {
    cache.add(try TestImage.image(50, 50), withIdentifier: "a")
    cache.memoryCapacity = 1_000
    cache.preferredMemoryUsageAfterPurge = 10_000
    #expect(cache.memoryUsage == 10_000)
    cache.add(try TestImage.image(10, 10), withIdentifier: "b")
    #expect(cache.memoryUsage == 400 && cache.image(withIdentifier: "a") == nil)
    // An image that is too large itself makes room as well.
    cache.memoryCapacity = 100
    cache.add(try TestImage.image(10, 10), withIdentifier: "c")
    #expect(cache.memoryUsage == 0)
  }

  @Test func memoryPressureEmptiesIt() throws {
    cache.add(try TestImage.image(510, 500), withIdentifier: "logo")
    cache.handleMemoryPressure()
    #expect(cache.memoryUsage == 0 && cache.image(withIdentifier: "logo") == nil)
  }

  @Test func shouldCacheImage() throws {
    let image = try TestImage.image(3, 2)
    #expect(try cache.shouldCache(image, for: request(), additionalIdentifier: nil))
    let picky = AutoPurgingImageCache { image, _, identifier in image.pixelWidth > 3 || identifier == "x" }
    #expect(try !picky.shouldCache(image, for: request(), additionalIdentifier: nil))
    #expect(try picky.shouldCache(image, for: request(), additionalIdentifier: "x"))
  }
}

extension AutoPurgingImageCacheTests {
  enum Ending: CaseIterable, Sendable {
    case removed, pressed, replaced, purged
  }

  /// Adds an image of 400 bytes whose owner asks the cache when it goes, and keeps nothing.
  private static func add(_ identifier: String, to cache: AutoPurgingImageCache, _ asked: Calls<Int>) throws {
    let bytes = TestImage.png(10, 10)
    let memory = UnsafeMutableRawPointer.allocate(byteCount: bytes.count, alignment: 1)
    unsafe memory.copyMemory(from: bytes, byteCount: bytes.count)
    let data = unsafe Data(
      bytesNoCopy: memory, count: bytes.count,
      deallocator: .custom { memory, _ in
        unsafe memory.deallocate()
        asked.note(cache.memoryUsage)
      })
    cache.add(try EncodedImage(data: data), withIdentifier: identifier)
  }

  /// The last reference to an image goes outside of the cache's lock, whatever it goes for.
  @Test(.timeLimit(.minutes(1)), arguments: Ending.allCases)
  func ownersOfImagesMayAskTheCache(_ ending: Ending) throws {
    let cache = AutoPurgingImageCache(memoryCapacity: 1_000, preferredMemoryUsageAfterPurge: 900)
    let asked = Calls<Int>()
    try Self.add("a", to: cache, asked)
    #expect(cache.memoryUsage == 400 && asked.all.isEmpty)
    switch ending {
    case .removed: cache.removeImage(withIdentifier: "a")
    case .pressed: cache.handleMemoryPressure()
    case .replaced: cache.add(try TestImage.image(5, 5), withIdentifier: "a")
    case .purged: cache.add(try TestImage.image(15, 15), withIdentifier: "b")
    }
    let left =
      switch ending {
      case .removed, .pressed: 0
      case .replaced: 100
      case .purged: 900
      }
    #expect(asked.all == [left] && cache.memoryUsage == left)
  }
}
