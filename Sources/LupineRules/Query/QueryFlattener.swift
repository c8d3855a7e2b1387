/// Writes a tree of parameters as the pairs of a form: `a[b][]=1`, as AFNetworking, Rails and PHP do.
///
/// Members of a dictionary are sorted by their names' bytes, level by level; lists keep their order. The name of the field is kept once and
/// grown and cut while the tree is walked, so that the work is in proportion to what is written.
package struct QueryFlattener {
  /// How the elements of a list are told from one another.
  package enum ListStyle: Sendable, Hashable {
    /// `key[]=a&key[]=b`
    case brackets
    /// `key=a&key=b`
    case plain
    /// `key[0]=a&key[1]=b`
    case indexed
  }

  /// A field with its value, neither escaped.
  package struct Pair: Sendable, Equatable {
    package enum Value: Sendable, Equatable {
      case null
      case text(String)
      case bytes([UInt8])
    }

    package var field: String
    package var value: Value
  }

  private let lists: ListStyle
  private let isEscaping: Bool
  private var path: [UInt8] = []
  private var output: [UInt8] = []
  private var pairs: [Pair] = []

  private init(_ lists: ListStyle, isEscaping: Bool) {
    self.lists = lists
    self.isEscaping = isEscaping
  }

  /// The pairs, escaped and joined with `&`.
  package static func query(
    of tree: ParameterTree, lists: ListStyle = .brackets
  ) throws(ParameterDepthError) -> String {
    var flattener = QueryFlattener(lists, isEscaping: true)
    try flattener.walk(tree, depth: 0)
    return String(decoding: flattener.output, as: UTF8.self)
  }

  /// The pairs as they are, for a multipart body.
  package static func pairs(
    of tree: ParameterTree, lists: ListStyle = .brackets
  ) throws(ParameterDepthError) -> [Pair] {
    var flattener = QueryFlattener(lists, isEscaping: false)
    try flattener.walk(tree, depth: 0)
    return flattener.pairs
  }

  private mutating func walk(_ tree: ParameterTree, depth: Int) throws(ParameterDepthError) {
    switch tree {
    case .null: emit(.null)
    case .value(let text): emit(.text(text))
    case .bytes(let bytes): emit(.bytes(bytes))
    case .list(let elements):
      try check(depth)
      for (index, element) in elements.enumerated() {
        let end = path.count
        switch lists {
        case .brackets: bracket("")
        case .plain: break
        case .indexed: bracket(String(index))
        }
        try walk(element, depth: depth + 1)
        path.removeSubrange(end...)
      }
    case .group(let elements):
      try check(depth)
      for element in elements { try walk(element, depth: depth + 1) }
    case .dictionary(let members):
      try check(depth)
      for member in members.sorted(by: { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }) {
        let end = path.count
        if depth == 0 { append(member.name) } else { bracket(member.name) }
        try walk(member.value, depth: depth + 1)
        path.removeSubrange(end...)
      }
    }
  }

  private func check(_ depth: Int) throws(ParameterDepthError) {
    guard depth < ParameterTree.depthLimit else { throw ParameterDepthError() }
  }

  private mutating func bracket(_ name: String) {
    path += isEscaping ? "%5B".utf8 : "[".utf8
    append(name)
    path += isEscaping ? "%5D".utf8 : "]".utf8
  }

  private mutating func append(_ name: String) {
    if isEscaping { QueryEscaping.append(name, to: &path) } else { path += name.utf8 }
  }

  private mutating func emit(_ value: Pair.Value) {
    guard isEscaping else {
      pairs.append(Pair(field: String(decoding: path, as: UTF8.self), value: value))
      return
    }
    // A top level of nothing is no field.
    if path.isEmpty, value == .null { return }
    if !output.isEmpty { output.append(UInt8(ascii: "&")) }
    output += path
    switch value {
    case .null: break
    case .text(let text):
      output.append(UInt8(ascii: "="))
      QueryEscaping.append(text, to: &output)
    case .bytes(let bytes):
      output.append(UInt8(ascii: "="))
      for byte in bytes { QueryEscaping.append(byte, to: &output) }
    }
  }
}
