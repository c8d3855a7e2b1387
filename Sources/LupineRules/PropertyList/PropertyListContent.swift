/// A value of a property list, as it is read.
package indirect enum PropertyListContent: Sendable, Equatable {
  case boolean(Bool)
  case integer(Int64)
  /// More than `Int64` holds.
  case unsigned(UInt64)
  case real(Double)
  /// Seconds since 2001-01-01T00:00:00Z.
  case date(Double)
  case data([UInt8])
  case string(String)
  case array([PropertyListContent])
  case dictionary([Member])

  package struct Member: Sendable, Equatable {
    package var name: String
    package var value: PropertyListContent

    package init(name: String, value: PropertyListContent) {
      self.name = name
      self.value = value
    }
  }
}
