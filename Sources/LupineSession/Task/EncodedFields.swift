internal import Synchronization
internal import LupineBase
internal import LupineRules
internal import LupineWire

/// The fields that many requests share, as those of a serializer do, checked and encoded once for a session instead of once for each request.
///
/// A request keeps it next to its `fields` until these change. Whoever sets it vouches that all who share it have the same fields.
package final class EncodedFields: Sendable {
  /// What the fields come to in one session.
  final class Entry: Sendable {
    let composer: RequestComposer
    let offers: Bool
    /// All fields but `Host` and the jar's cookies; nil if they cannot be encoded ahead: a `Host` of the caller's, framing fields, a refusal.
    let prepared: PreparedFields?
    let offersCodings: Bool
    let marks: RequestMarks
    let hasCookie: Bool
    /// Whether some are for a proxy.
    let namesProxy: Bool

    init(
      composer: RequestComposer, offers: Bool, prepared: PreparedFields?, offersCodings: Bool, marks: RequestMarks,
      hasCookie: Bool, namesProxy: Bool
    ) {
      self.composer = composer
      self.offers = offers
      self.prepared = prepared
      self.offersCodings = offersCodings
      self.marks = marks
      self.hasCookie = hasCookie
      self.namesProxy = namesProxy
    }
  }

  private let last = LockedStorage<Entry?>(nil)

  /// Empty; filled by the first request.
  package init() {}

  /// What the fields come to in the session of `composer`; `make` is asked if that is not the one which asked last.
  func entry(_ composer: RequestComposer, offers: Bool, make: () -> Entry) -> Entry {
    if let entry = last.withLock({ $0 }), entry.composer === composer, entry.offers == offers { return entry }
    let entry = make()
    last.withLock { $0 = entry }
    return entry
  }
}
