/// A growable queue: append at the back, remove at the front, both O(1) amortised.
public struct RingBuffer<Element> {
  @usableFromInline var slots: [Element?]
  @usableFromInline var head: Int
  @usableFromInline var length: Int

  // Default values would not be inlined, and an empty buffer in each request would cost a lookup of metadata.
  /// Makes an empty queue, without memory.
  @inlinable public init() {
    slots = []
    head = 0
    length = 0
  }

  /// How many elements wait.
  @inlinable public var count: Int { length }

  /// Whether none waits.
  @inlinable public var isEmpty: Bool { length == 0 }

  /// The element at the front, which stays; nil of an empty queue.
  @inlinable public var first: Element? { length == 0 ? nil : slots[head] }

  /// Adds an element at the back.
  @inlinable public mutating func append(_ element: consuming Element) {
    if length == slots.count { grow() }
    slots[(head + length) & (slots.count - 1)] = element
    length += 1
  }

  /// Changes the element at the back, in its place; false of an empty queue.
  @inlinable public mutating func changeLast(_ change: (inout Element) -> Bool) -> Bool {
    let index = (head + length - 1) & (slots.count - 1)
    guard length > 0, var last = slots[index].take() else { return false }
    defer { slots[index] = last }
    return change(&last)
  }

  /// Takes the element at the front; nil of an empty queue.
  @inlinable public mutating func popFirst() -> Element? {
    guard length > 0 else { return nil }
    // Moved out: a copy would count a reference only to have it forgotten.
    let element = slots[head].take()
    head = (head + 1) & (slots.count - 1)
    length -= 1
    return element
  }

  /// Drops all elements, and the memory.
  @inlinable public mutating func removeAll() {
    slots.removeAll()
    head = 0
    length = 0
  }

  /// Capacity stays a power of two, so that wrapping is a mask.
  @usableFromInline mutating func grow() {
    var grown: [Element?] = []
    grown.reserveCapacity(max(8, slots.count * 2))
    for offset in 0..<length { grown.append(slots[(head + offset) & (slots.count - 1)]) }
    while grown.count < max(8, slots.count * 2) { grown.append(nil) }
    slots = grown
    head = 0
  }
}

extension RingBuffer: Sendable where Element: Sendable {}
