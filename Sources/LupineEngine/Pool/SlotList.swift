/// Doubly linked lists threaded through one array: append, remove from anywhere and pop, all O(1), no allocation once warm.
///
/// A slot is on one list at a time, or free. A slot's generation tells a stale token from a live one.
struct SlotList<Element> {
  /// Names an element; stays invalid for ever after its removal.
  struct Token: Hashable, Sendable {
    fileprivate var index: UInt32
    fileprivate var generation: UInt32
  }

  /// The ends of one list.
  struct List: Sendable {
    fileprivate var head: UInt32 = .max
    fileprivate var tail: UInt32 = .max
    fileprivate(set) var count = 0
    var isEmpty: Bool { count == 0 }
  }

  private struct Slot {
    var element: Element?
    var previous: UInt32 = .max
    var next: UInt32 = .max
    var generation: UInt32 = 0
  }

  private var slots: [Slot] = []
  private var freeHead: UInt32 = .max

  init() {}

  /// Puts `element` at the back of `list`.
  mutating func append(_ element: Element, to list: inout List) -> Token {
    let index: UInt32
    if freeHead == .max {
      index = UInt32(slots.count)
      slots.append(Slot(element: element))
    } else {
      index = freeHead
      freeHead = slots[Int(index)].next
      slots[Int(index)].element = element
      slots[Int(index)].next = .max
    }
    slots[Int(index)].previous = list.tail
    if list.tail == .max { list.head = index } else { slots[Int(list.tail)].next = index }
    list.tail = index
    list.count += 1
    return Token(index: index, generation: slots[Int(index)].generation)
  }

  func first(of list: List) -> Element? {
    list.head == .max ? nil : slots[Int(list.head)].element
  }

  func last(of list: List) -> Element? {
    list.tail == .max ? nil : slots[Int(list.tail)].element
  }

  func contains(_ token: Token) -> Bool {
    Int(token.index) < slots.count && slots[Int(token.index)].generation == token.generation
      && slots[Int(token.index)].element != nil
  }

  mutating func popFirst(of list: inout List) -> Element? {
    list.head == .max ? nil : unlink(list.head, from: &list)
  }

  /// Takes the element out of `list`, on which it must be; nil if the token is stale.
  mutating func remove(_ token: Token, from list: inout List) -> Element? {
    contains(token) ? unlink(token.index, from: &list) : nil
  }

  private mutating func unlink(_ index: UInt32, from list: inout List) -> Element? {
    let slot = slots[Int(index)]
    if slot.previous == .max { list.head = slot.next } else { slots[Int(slot.previous)].next = slot.next }
    if slot.next == .max { list.tail = slot.previous } else { slots[Int(slot.next)].previous = slot.previous }
    list.count -= 1
    slots[Int(index)].element = nil
    slots[Int(index)].generation &+= 1
    slots[Int(index)].next = freeHead
    freeHead = index
    return slot.element
  }
}
