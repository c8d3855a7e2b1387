/// A reference to an object confined to one loop, which other threads may hold and pass back to that loop, but not open.
public struct LoopConfined<Object: AnyObject>: @unchecked Sendable {
  @usableFromInline let object: Object

  /// Wraps an object that lives on a loop, or that is given up to one.
  @inlinable public init(_ object: Object) {
    self.object = object
  }

  /// The object. Call only on the loop that owns it.
  @inlinable public var onLoop: Object { object }
}
