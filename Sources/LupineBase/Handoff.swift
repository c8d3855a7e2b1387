/// Carries a value that is not `Sendable` into another isolation domain, once it has been given up by this one.
///
/// This is the only `@unchecked Sendable` in the package outside the lock. It is sound because `init` takes the value as `sending`:
/// the compiler proves that nobody else holds it; what remains for the user of the box is to open it in one domain only.
package struct Handoff<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  private let value: Value

  /// Gives up `value`.
  package init(_ value: consuming sending Value) {
    self.value = value
  }

  /// Takes the value into the caller's domain.
  package consuming func take() -> sending Value {
    value
  }
}

/// A reference to an object confined to one loop, which other threads may hold and pass back to that loop, but not open.
package struct LoopConfined<Object: AnyObject>: @unchecked Sendable {
  private let object: Object

  /// Wraps an object that lives on a loop, or that is given up to one.
  package init(_ object: Object) {
    self.object = object
  }

  /// The object. Call only on the loop that owns it.
  package var onLoop: Object { object }
}
