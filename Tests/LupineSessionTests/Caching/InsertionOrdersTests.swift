import Testing

@testable import LupineSession

@Suite struct InsertionOrdersTests {
  /// As many as there are places, each by what was noted for it last; no more.
  @Test func theLatestAreRemembered() {
    var orders = InsertionOrders()
    let limit = InsertionOrders.limit
    orders.note("a", 1)
    for number in 0..<(limit - 2) { orders.note("\(number)", 1) }
    orders.note("a", 2)
    #expect(orders.order(of: "a") == 2 && orders.order(of: "0") == 1 && orders.order(of: "b") == 0)
    // The former place of the first key is taken, the latter is not.
    orders.note("b", 3)
    #expect(orders.order(of: "a") == 2 && orders.order(of: "0") == 1 && orders.order(of: "b") == 3)
    orders.note("c", 4)
    #expect(orders.order(of: "a") == 2 && orders.order(of: "0") == 0 && orders.order(of: "c") == 4)
  }

  /// Whether something was stored since so many had been.
  @Test func whatWasStoredSince() {
    var orders = InsertionOrders()
    #expect(orders.count == 0 && !orders.has("a", storedSince: 0))
    orders.note("a", 7)
    let count = orders.count
    #expect(orders.has("a", storedSince: 0) && !orders.has("a", storedSince: count) && !orders.has("b", storedSince: 0))
    // Asked for no later, and stored later.
    orders.note("a", 7)
    #expect(orders.has("a", storedSince: count) && orders.count == 2)
    for number in 0..<InsertionOrders.limit { orders.note("\(number)", 1) }
    #expect(!orders.has("a", storedSince: 0))
  }
}
