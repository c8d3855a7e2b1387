/// A value that lives apart from the object which owns it, and checks by itself that it is accessed exclusively.
///
/// The law is that of a stored property: reads may overlap, a modification overlaps with nothing, and whoever breaks that traps. The runtime
/// enforces it with a set of accesses of each thread, at about a hundred instructions for each access that it cannot prove harmless; the
/// count here, which stands beside the value, costs a few. Thus it is for values of objects that are confined to one thread at a time.
@safe
public struct Exclusive<Value: ~Copyable>: ~Copyable {
  @usableFromInline
  struct Cell: ~Copyable {
    /// The readings under way, or -1: a modification.
    @usableFromInline var accesses = 0
    @usableFromInline var value: Value

    @inlinable
    init(_ value: consuming Value) {
      self.value = value
    }
  }

  @usableFromInline let cell: UnsafeMutablePointer<Cell>

  /// Moves a value to a place of its own.
  @inlinable
  public init(_ value: consuming Value) {
    unsafe cell = .allocate(capacity: 1)
    unsafe cell.initialize(to: Cell(value))
  }

  deinit {
    unsafe precondition(cell.pointee.accesses == 0, "an exclusive value ended while it was accessed")
    unsafe cell.deinitialize(count: 1)
    unsafe cell.deallocate()
  }

  /// The value. An overlapping access is a defect of the program, and traps.
  @inlinable
  public var value: Value {
    _read {
      unsafe precondition(cell.pointee.accesses >= 0, "a value was read while it was modified")
      unsafe cell.pointee.accesses &+= 1
      defer { unsafe cell.pointee.accesses &-= 1 }
      yield unsafe cell.pointee.value
    }
    nonmutating _modify {
      unsafe precondition(cell.pointee.accesses == 0, "a value was modified while it was accessed")
      unsafe cell.pointee.accesses = -1
      defer { unsafe cell.pointee.accesses = 0 }
      yield unsafe &cell.pointee.value
    }
  }

  /// Gives the value to `body` where it is, also for a look at a large one: an access that only reads may copy all of it.
  @inlinable
  public func update<Result>(_ body: (inout Value) -> Result) -> Result {
    body(&value)
  }

  /// Reads the value for as long as `body` runs: for spans of it, which end with an access.
  @inlinable
  public func withValue<Result>(_ body: (borrowing Value) -> Result) -> Result {
    unsafe precondition(cell.pointee.accesses >= 0, "a value was read while it was modified")
    unsafe cell.pointee.accesses &+= 1
    defer { unsafe cell.pointee.accesses &-= 1 }
    return unsafe body(cell.pointee.value)
  }
}
