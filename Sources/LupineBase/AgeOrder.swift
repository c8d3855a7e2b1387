/// Elements in the order in which they came: any of them is taken out, from the middle too, at a cost that does not depend on their number.
///
/// Invariants: `first` and `last` are the ends of one list through all slots in use, or both nil; every other slot is in `free`.
public struct AgeOrder<Element> {
  /// Where an element is until it is removed; then another one may get the place.
  public typealias Place = Int

  @usableFromInline struct Slot {
    @usableFromInline var element: Element
    @usableFromInline var older: Place?
    @usableFromInline var newer: Place?

    @inlinable init(element: Element) { self.element = element }
  }

  @usableFromInline var slots: [Slot?]
  @usableFromInline var free: [Place]
  @usableFromInline var first: Place?
  @usableFromInline var last: Place?

  /// Makes an empty order, without memory.
  @inlinable public init() {
    slots = []
    free = []
  }

  /// The place of the oldest element; nil: there is none.
  @inlinable public var oldest: Place? { first }

  /// The place of the newest element; nil: there is none.
  @inlinable public var newest: Place? { last }

  /// Whether there is no element.
  @inlinable public var isEmpty: Bool { oldest == nil }

  /// The element of a place in use.
  @inlinable public subscript(place: Place) -> Element? { slots[place]?.element }

  /// Changes the element of a place in use where it is.
  @inlinable public mutating func change(_ place: Place, _ change: (inout Element) -> Void) {
    guard var slot = slots[place] else { return }
    slots[place] = nil
    change(&slot.element)
    slots[place] = slot
  }

  /// Adds an element as the newest.
  @inlinable public mutating func append(_ element: Element) -> Place {
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
  @inlinable public mutating func remove(_ place: Place) -> Element? {
    guard let slot = slots[place] else { return nil }
    unlink(place)
    slots[place] = nil
    free.append(place)
    return slot.element
  }

  /// Makes an element the newest; it keeps its place.
  @inlinable public mutating func renew(_ place: Place) {
    guard last != place, slots[place] != nil else { return }
    unlink(place)
    link(place)
  }

  @inlinable mutating func link(_ place: Place) {
    slots[place]?.newer = nil
    slots[place]?.older = last
    if let last { slots[last]?.newer = place }
    last = place
    if first == nil { first = place }
  }

  @inlinable mutating func unlink(_ place: Place) {
    let (newer, older) = (slots[place]?.newer, slots[place]?.older)
    if let newer { slots[newer]?.older = older } else { last = older }
    if let older { slots[older]?.newer = newer } else { first = newer }
  }
}

extension AgeOrder.Slot: Sendable where Element: Sendable {}
extension AgeOrder: Sendable where Element: Sendable {}
