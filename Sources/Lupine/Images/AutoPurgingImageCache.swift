internal import LupineBase
public import LupineSession
internal import Synchronization

/// Images in memory, up to a number of bytes: when an addition exceeds it, those that were not looked at for the longest time go.
///
/// Nothing is written to a disk, and nothing expires. Any thread.
///
/// Source: `AFAutoPurgingImageCache`. Changed: the additional identifier is set off from the URL, so that no two pairs share a name; an image
/// larger than the capacity is not kept, where AFNetworking drops everything else on its account.
public final class AutoPurgingImageCache: ImageRequestCache {
  /// Decides whether an image is kept, of a request and an additional identifier.
  public typealias Filter = @Sendable (EncodedImage, Request, String?) -> Bool

  fileprivate struct Entry {
    var identifier: String
    var image: EncodedImage
    var cost: Int
  }

  fileprivate struct State {
    /// Those looked at, or added, the longest time ago are the oldest.
    var entries = AgeOrder<Entry>()
    var places: [String: AgeOrder<Entry>.Place] = [:]
    var usage = 0
    var capacity: Int
    var preferred: Int
  }

  private let state: LockedStorage<State>
  private let filter: Filter?

  /// Makes an empty cache.
  ///
  /// - Parameters:
  ///   - memoryCapacity: bytes that the images may have together, each by its decoded pixels or by its encoded bytes if they are more. Default 100 MiB; negative counts as 0.
  ///   - preferredMemoryUsageAfterPurge: bytes that a purge leaves at most. Default 60 MiB; what exceeds the capacity counts as the capacity.
  ///   - filter: whether an image is kept when a downloader asks. Default nil: every one.
  public init(
    memoryCapacity: Int = 100 * 1024 * 1024, preferredMemoryUsageAfterPurge: Int = 60 * 1024 * 1024,
    filter: Filter? = nil
  ) {
    state = LockedStorage(State(capacity: memoryCapacity, preferred: preferredMemoryUsageAfterPurge))
    self.filter = filter
  }

  /// Bytes that the images may have together. A change takes effect at the next addition.
  public var memoryCapacity: Int {
    get { state.withLock { $0.capacity } }
    set { state.withLock { $0.capacity = newValue } }
  }

  /// Bytes that a purge leaves at most. A change takes effect at the next purge.
  public var preferredMemoryUsageAfterPurge: Int {
    get { state.withLock { $0.preferred } }
    set { state.withLock { $0.preferred = newValue } }
  }

  /// Bytes that the images have together, each by its `memoryCost`, or by its encoded bytes if they are more.
  public var memoryUsage: Int { state.withLock { $0.usage } }

  /// Whether the filter, if there is one, lets the image in.
  public func shouldCache(_ image: EncodedImage, for request: Request, additionalIdentifier: String?) -> Bool {
    filter?(image, request, additionalIdentifier) ?? true
  }

  /// Keeps an image, instead of the one that had this name, and purges if the capacity is exceeded then. One larger than the capacity only
  /// removes that of its name.
  public func add(_ image: EncodedImage, withIdentifier identifier: String) {
    // What is held is the encoded form: a head of one pixel may be followed by any number of bytes.
    let cost = max(image.memoryCost, image.data.count)
    let former = state.withLock { state -> [EncodedImage?] in
      var former = [state.remove(identifier)]
      // The capacity may be a smaller one by now.
      if state.usage > state.limit { former += state.purge() }
      guard cost <= state.limit else { return former }
      state.places[identifier] = state.entries.append(Entry(identifier: identifier, image: image, cost: cost))
      state.usage += cost
      if state.usage > state.limit { former += state.purge() }
      return former
    }
    // Let go of outside the lock, here and below: whoever owns the bytes of an image may ask the cache when it goes.
    withExtendedLifetime(former) {}
  }

  /// Forgets an image; says whether there was one.
  @discardableResult
  public func removeImage(withIdentifier identifier: String) -> Bool {
    let former = state.withLock { $0.remove(identifier) }
    withExtendedLifetime(former) {}
    return former != nil
  }

  /// Forgets all images; says whether there were any.
  @discardableResult
  public func removeAllImages() -> Bool {
    let former = state.withLock { state -> AgeOrder<Entry> in
      let former = state.entries
      state.entries = AgeOrder()
      state.places = [:]
      state.usage = 0
      return former
    }
    withExtendedLifetime(former) {}
    return !former.isEmpty
  }

  /// The image of this name; it counts as looked at.
  public func image(withIdentifier identifier: String) -> EncodedImage? {
    state.withLock { state -> EncodedImage? in
      guard let place = state.places[identifier] else { return nil }
      state.entries.renew(place)
      return state.entries[place]?.image
    }
  }

  /// Forgets all images: call it when the system is short of memory, of which no notification comes on Linux (a memory cgroup's
  /// `memory.events`, or `PSI`, can tell). Source: the memory warning of UIKit.
  public func handleMemoryPressure() {
    removeAllImages()
  }
}

extension AutoPurgingImageCache.State {
  /// The capacity; two images that keep to it have a sum.
  fileprivate var limit: Int { min(capacity, .max / 2) }

  /// Removes an image, which is returned.
  fileprivate mutating func remove(_ identifier: String) -> EncodedImage? {
    guard let place = places[identifier] else { return nil }
    return take(place)
  }

  /// Removes those looked at the longest time ago until the rest is small enough, and returns them.
  fileprivate mutating func purge() -> [EncodedImage?] {
    let target = max(0, min(preferred, limit))
    var removed: [EncodedImage?] = []
    while usage > target, let oldest = entries.oldest { removed.append(take(oldest)) }
    return removed
  }

  private mutating func take(_ place: AgeOrder<AutoPurgingImageCache.Entry>.Place) -> EncodedImage? {
    guard let entry = entries.remove(place) else { return nil }
    places[entry.identifier] = nil
    usage -= entry.cost
    return entry.image
  }
}
