/// Text that is compared by its bytes, as the system compares paths. Swift's strings are equal in a normal form: two files, or two pass phrases, with two
/// spellings of a letter would be one. For stored properties, so that equality is synthesised with them.
@propertyWrapper
package struct ByteExact<Text: ExactText & Hashable & Sendable>: Hashable, Sendable {
  package var wrappedValue: Text

  package init(wrappedValue: Text) {
    self.wrappedValue = wrappedValue
  }

  package static func == (left: ByteExact, right: ByteExact) -> Bool {
    left.wrappedValue.hasBytes(of: right.wrappedValue)
  }
}

/// Text, or none.
package protocol ExactText {
  /// Whether both are the same bytes, or none.
  func hasBytes(of other: Self) -> Bool
}

extension String: ExactText {
  package func hasBytes(of other: String) -> Bool { utf8.span.hasBytes(of: other.utf8.span) }
}

extension Substring {
  /// Whether both are the same bytes.
  package func hasBytes(of other: Substring) -> Bool { utf8.span.hasBytes(of: other.utf8.span) }
}

extension Optional: ExactText where Wrapped == String {
  package func hasBytes(of other: String?) -> Bool {
    switch (self, other) {
    case (let text?, let other?): text.hasBytes(of: other)
    case (nil, nil): true
    case (nil, _?), (_?, nil): false
    }
  }
}

extension Span where Element == UInt8 {
  /// Whether both are the same bytes.
  package func hasBytes(of other: Span<UInt8>) -> Bool {
    guard count == other.count else { return false }
    var index = 0
    while index <= count - 8 {
      guard load(at: index, as: UInt64.self) == other.load(at: index, as: UInt64.self) else { return false }
      index += 8
    }
    while index < count {
      guard self[index] == other[index] else { return false }
      index += 1
    }
    return true
  }
}
