/// A growable queue: append at the back, remove at the front, both O(1) amortised.
package struct RingBuffer<Element> {
  @usableFromInline var slots: [Element?]
  @usableFromInline var head: Int
  @usableFromInline package internal(set) var count: Int

  // Default values would not be inlined, and an empty buffer in each request would cost a lookup of metadata.
  @inlinable package init() {
    slots = []
    head = 0
    count = 0
  }

  @inlinable package var isEmpty: Bool { count == 0 }

  @inlinable package var first: Element? { count == 0 ? nil : slots[head] }

  @inlinable package mutating func append(_ element: Element) {
    if count == slots.count { grow() }
    slots[(head + count) & (slots.count - 1)] = element
    count += 1
  }

  @inlinable package mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = slots[head]
    slots[head] = nil
    head = (head + 1) & (slots.count - 1)
    count -= 1
    return element
  }

  @inlinable package mutating func removeAll() {
    slots.removeAll()
    head = 0
    count = 0
  }

  /// Capacity stays a power of two, so that wrapping is a mask.
  @usableFromInline mutating func grow() {
    var grown: [Element?] = []
    grown.reserveCapacity(max(8, slots.count * 2))
    for offset in 0..<count { grown.append(slots[(head + offset) & (slots.count - 1)]) }
    while grown.count < max(8, slots.count * 2) { grown.append(nil) }
    slots = grown
    head = 0
  }
}
