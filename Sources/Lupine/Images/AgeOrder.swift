/// Elements in the order in which they came: any of them is taken out, from the middle too, at a cost that does not depend on their number.
///
/// Invariants: `oldest` and `newest` are the ends of one list through all slots in use, or both nil; every other slot is in `free`.
struct AgeOrder<Element: Sendable> {
  /// Where an element is until it is removed; then another one may get the place.
  typealias Place = Int

  private struct Slot {
    var element: Element
    var older: Place?
    var newer: Place?
  }

  private var slots: [Slot?] = []
  private var free: [Place] = []
  private(set) var oldest: Place?
  private(set) var newest: Place?

  var isEmpty: Bool { oldest == nil }

  /// The element of a place in use.
  subscript(place: Place) -> Element? { slots[place]?.element }

  /// Adds an element as the newest.
  mutating func append(_ element: Element) -> Place {
    let slot = Slot(element: element)
    let place: Place
    if let reused = free.popLast() {
      place = reused
      slots[place] = slot
    } else {
      place = slots.count
      slots.append(slot)
    }
    link(place)
    return place
  }

  /// Takes an element out; nil: nothing is there.
  @discardableResult
  mutating func remove(_ place: Place) -> Element? {
    guard let slot = slots[place] else { return nil }
    unlink(place)
    slots[place] = nil
    free.append(place)
    return slot.element
  }

  /// Makes an element the newest; it keeps its place.
  mutating func renew(_ place: Place) {
    guard newest != place, slots[place] != nil else { return }
    unlink(place)
    link(place)
  }

  private mutating func link(_ place: Place) {
    slots[place]?.newer = nil
    slots[place]?.older = newest
    if let newest { slots[newest]?.newer = place }
    newest = place
    if oldest == nil { oldest = place }
  }

  private mutating func unlink(_ place: Place) {
    let (newer, older) = (slots[place]?.newer, slots[place]?.older)
    if let newer { slots[newer]?.older = older } else { newest = older }
    if let older { slots[older]?.newer = newer } else { oldest = newer }
  }
}
