import Foundation
import LupineTesting
import Testing

@testable import Lupine

/// What is kept and who is served, against models that spare no work; and that it takes no longer the more there are.
@Suite struct ImageModelTests {
  /// A cache that looks through all it has.
  private struct CacheModel {
    /// The one looked at last comes last.
    var images: [(identifier: String, image: EncodedImage)] = []
    var capacity: Int
    var preferred: Int

    var usage: Int { images.reduce(0) { $0 + Self.cost($1.image) } }

    static func cost(_ image: EncodedImage) -> Int { max(image.memoryCost, image.data.count) }

    mutating func add(_ image: EncodedImage, _ identifier: String) {
      _ = remove(identifier)
      purge()
      guard Self.cost(image) <= capacity else { return }
      images.append((identifier, image))
      purge()
    }

    mutating func image(_ identifier: String) -> EncodedImage? {
      guard let image = remove(identifier) else { return nil }
      images.append((identifier, image))
      return image
    }

    mutating func remove(_ identifier: String) -> EncodedImage? {
      images.firstIndex { $0.identifier == identifier }.map { images.remove(at: $0).image }
    }

    private mutating func purge() {
      guard usage > capacity else { return }
      while usage > min(preferred, capacity) { images.removeFirst() }
    }
  }

  @Test(arguments: 1...20) func cacheKeepsWhatItsModelKeeps(_ seed: UInt64) throws {
    var random = SeededGenerator(seed: seed)
    let images = try (5...14).map { try TestImage.image(10, $0) }
    let cache = AutoPurgingImageCache(memoryCapacity: 4_000, preferredMemoryUsageAfterPurge: 2_000)
    var model = CacheModel(capacity: 4_000, preferred: 2_000)
    for _ in 0..<500 {
      let identifier = "\(random.next() % 20)"
      switch random.next() % 20 {
      case 0..<9:
        let image = images[Int(random.next() % 10)]
        cache.add(image, withIdentifier: identifier)
        model.add(image, identifier)
      case 9..<16: holds(cache.image(withIdentifier: identifier) === model.image(identifier))
      case 16: holds(cache.removeImage(withIdentifier: identifier) == (model.remove(identifier) != nil))
      case 17:
        model.capacity = Int(random.next() % 6_000)
        cache.memoryCapacity = model.capacity
      case 18:
        model.preferred = Int(random.next() % 6_000)
        cache.preferredMemoryUsageAfterPurge = model.preferred
      default:
        guard random.next() % 10 == 0 else { continue }
        holds(cache.removeAllImages() == !model.images.isEmpty)
        model.images = []
      }
      holds(cache.memoryUsage == model.usage)
    }
    for number in 0..<20 { holds(cache.image(withIdentifier: "\(number)") === model.image("\(number)")) }
  }

  /// Downloads that are looked through for everything, in the order in which they were added.
  private struct DownloadModel {
    struct Download {
      var number: UInt64
      var key: String?
      var handlers: [(receipt: UInt64, handler: String)]
      var isRunning: Bool
    }

    let maximum: Int
    let prioritization: ImageDownloadPrioritization
    var downloads: [Download] = []

    var running: Int { downloads.count(where: \.isRunning) }

    mutating func join(_ key: String?, receipt: UInt64, handler: String) -> UInt64? {
      guard let key, let index = downloads.firstIndex(where: { $0.key == key && !$0.handlers.isEmpty }) else {
        return nil
      }
      downloads[index].handlers.append((receipt, handler))
      return downloads[index].number
    }

    mutating func add(_ number: UInt64, key: String?, receipt: UInt64, handler: String) -> Bool {
      let begins = running < maximum
      downloads.append(Download(number: number, key: key, handlers: [(receipt, handler)], isRunning: begins))
      return begins
    }

    mutating func cancel(_ receipt: UInt64, of number: UInt64) -> (handler: String, isGivenUp: Bool)? {
      guard let index = downloads.firstIndex(where: { $0.number == number }),
        let place = downloads[index].handlers.firstIndex(where: { $0.receipt == receipt })
      else { return nil }
      let handler = downloads[index].handlers.remove(at: place).handler
      let isGivenUp = downloads[index].handlers.isEmpty
      if isGivenUp, !downloads[index].isRunning { downloads.remove(at: index) }
      return (handler, isGivenUp)
    }

    mutating func finish(_ number: UInt64) -> (handlers: [String], next: UInt64?) {
      guard let index = downloads.firstIndex(where: { $0.number == number }) else { return ([], nil) }
      let ended = downloads.remove(at: index)
      let waiting = downloads.indices.filter { !downloads[$0].isRunning }
      let next = prioritization == .firstInFirstOut ? waiting.first : waiting.last
      guard ended.isRunning, let next else { return (ended.handlers.map(\.handler), nil) }
      downloads[next].isRunning = true
      return (ended.handlers.map(\.handler), downloads[next].number)
    }

    mutating func close() -> [String] {
      let handlers = downloads.flatMap(\.handlers).sorted { $0.receipt < $1.receipt }.map(\.handler)
      downloads = []
      return handlers
    }
  }

  /// Receipts come in no order: a handler's is given out before it is known whether it joins others.
  @Test(arguments: 1...40) func downloadsAreServedAsByTheirModel(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let prioritization: ImageDownloadPrioritization = seed % 2 == 0 ? .firstInFirstOut : .lastInFirstOut
    var machine = ImageDownloadMachine<String>(maximum: 3, prioritization: prioritization)
    var model = DownloadModel(maximum: 3, prioritization: prioritization)
    for number in [UInt64](1...400).shuffled(using: &random) {
      let other = model.downloads.randomElement(using: &random)
      switch random.next() % 8 {
      case 0..<4:
        let key: String? = random.next() % 4 == 0 ? nil : "\(random.next() % 30)"
        let handler = "\(number)"
        let joined = machine.join(key, receipt: number, handler: handler)
        holds(joined == model.join(key, receipt: number, handler: handler))
        guard joined == nil else { break }
        let begins = machine.add(number, key: key, receipt: number, handler: handler)
        holds(begins == model.add(number, key: key, receipt: number, handler: handler))
      case 4..<6:
        let receipt = other?.handlers.randomElement(using: &random)?.receipt ?? number
        let told = machine.cancel(receipt, of: other?.number ?? number)
        let expected = model.cancel(receipt, of: other?.number ?? number)
        holds(told?.handler == expected?.handler && told?.isGivenUp == expected?.isGivenUp)
      default:
        let ending = machine.finish(other?.number ?? number)
        let expected = model.finish(other?.number ?? number)
        holds(ending.handlers == expected.handlers && ending.next == expected.next)
      }
      if number % 150 == 0 { holds(machine.close() == model.close()) }
      holds(machine.running == model.running)
      holds(model.downloads.allSatisfy { machine.isWanted($0.number) == !$0.handlers.isEmpty })
    }
    holds(machine.close() == model.close())
  }

  // MARK: Costs

  private static let few = 2_000
  private static let many = 40_000

  /// How many times as long as with a few something takes with twenty times as many, at the best of several goes each: whatever else a machine does
  /// makes a go longer, never shorter. About 20 if all of them are looked through, 1 if not.
  ///
  /// - Parameter make: what is repeated, for so many.
  private static func growth(_ make: (_ count: Int) -> () -> Void) -> Double {
    let clock = ContinuousClock()
    let (small, large) = (make(few), make(many))
    var best = (small: Duration.seconds(3_600), large: Duration.seconds(3_600))
    for _ in 0..<10 {
      best.small = min(best.small, clock.measure(small))
      best.large = min(best.large, clock.measure(large))
    }
    return best.large / best.small
  }

  /// Images that each push out another one.
  @Test func fullCachesTakeNoLongerForBeingLarge() throws {
    let image = try TestImage.image(10, 10)
    let growth = Self.growth { count in
      let cache = AutoPurgingImageCache(memoryCapacity: count * 400, preferredMemoryUsageAfterPurge: .max)
      for number in 0..<count { cache.add(image, withIdentifier: "\(number)") }
      var number = count
      return {
        for _ in 0..<20 {
          cache.add(image, withIdentifier: "\(number)")
          number += 1
        }
      }
    }
    #expect(growth < 6)
  }

  /// Downloads that are added at one end, cancelled in the middle, and begin and end at the other or the same.
  @Test(arguments: [ImageDownloadPrioritization.firstInFirstOut, .lastInFirstOut])
  func queuesTakeNoLongerForBeingLong(_ prioritization: ImageDownloadPrioritization) {
    let growth = Self.growth { count in
      var machine = ImageDownloadMachine<Int>(maximum: 1, prioritization: prioritization)
      for number in 0...UInt64(count) { _ = machine.add(number, key: nil, receipt: number, handler: 0) }
      var running: UInt64 = 0
      var middle = UInt64(count / 2)
      var last = UInt64(count)
      return {
        for _ in 0..<20 {
          last += 2
          _ = machine.add(last - 1, key: nil, receipt: last - 1, handler: 0)
          _ = machine.add(last, key: nil, receipt: last, handler: 0)
          _ = machine.cancel(middle, of: middle)
          middle += 1
          running = machine.finish(running).next ?? running
        }
      }
    }
    #expect(growth < 6)
  }

  /// Those who wait for one image are cancelled one by one.
  @Test func handlersTakeNoLongerForBeingMany() {
    let growth = Self.growth { count in
      var machine = ImageDownloadMachine<Int>(maximum: 1, prioritization: .firstInFirstOut)
      _ = machine.add(0, key: "one", receipt: 0, handler: 0)
      var last = UInt64(count)
      for receipt in 1...last { _ = machine.join("one", receipt: receipt, handler: 0) }
      var middle = last / 2
      return {
        for _ in 0..<20 {
          last += 1
          _ = machine.join("one", receipt: last, handler: 0)
          _ = machine.cancel(middle, of: 0)
          middle += 1
        }
      }
    }
    #expect(growth < 6)
  }
}
