/// Parameters as a query string sees them: what is a field's value, what is a list, what has names.
package indirect enum ParameterTree: Sendable, Equatable {
  /// A field without a value.
  case null
  case value(String)
  /// A value that is not text; only multipart bodies have it.
  case bytes([UInt8])
  case list([ParameterTree])
  /// Values of one field, which is written once for each, without brackets: a set, already in order.
  case group([ParameterTree])
  case dictionary([Member])

  /// A named child.
  package struct Member: Sendable, Equatable {
    package var name: String
    package var value: ParameterTree

    package init(_ name: String, _ value: ParameterTree) {
      self.name = name
      self.value = value
    }
  }

  /// Dictionaries and lists inside one another: more is refused, since it would take the stack, and no server reads it.
  package static let depthLimit = 128
}

/// Parameters are nested deeper than `ParameterTree.depthLimit`.
package struct ParameterDepthError: Error, Equatable, Sendable {
  package let limit: Int

  package init(limit: Int = ParameterTree.depthLimit) { self.limit = limit }
}
