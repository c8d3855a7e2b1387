/// Carries a value that is not `Sendable` into another isolation domain, once it has been given up by this one.
///
/// This is the only `@unchecked Sendable` in the package outside the lock. It is sound because `init` takes the value as `sending`:
/// the compiler proves that nobody else holds it; what remains for the user of the box is to open it in one domain only.
package struct Handoff<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  @usableFromInline let value: Value

  /// Gives up `value`.
  @inlinable package init(_ value: consuming sending Value) {
    self.value = value
  }

  /// Takes the value into the caller's domain.
  @inlinable package consuming func take() -> sending Value {
    value
  }
}

/// A reference to an object confined to one loop, which other threads may hold and pass back to that loop, but not open.
package struct LoopConfined<Object: AnyObject>: @unchecked Sendable {
  @usableFromInline let object: Object

  /// Wraps an object that lives on a loop, or that is given up to one.
  @inlinable package init(_ object: Object) {
    self.object = object
  }

  /// The object. Call only on the loop that owns it.
  @inlinable package var onLoop: Object { object }
}
