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
}
