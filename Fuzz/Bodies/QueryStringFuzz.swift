internal import LupineRules

/// Oracle: a query splits at `&` and the first `=` into exactly the pairs that a multipart body would get, once they are percent-decoded; it has
/// no byte but those of RFC 3986's query, and appended to a URL it is the end of the target, before the fragment.
///
/// The first byte chooses how lists are written. Then come nodes: kind (null, text, bytes, list, set, dictionary) and count or length.
package enum QueryStringFuzz {
  package static func run(bytes: [UInt8]) {
    var input = Input(bytes: bytes[...])
    let lists = [QueryFlattener.ListStyle.brackets, .plain, .indexed][Int(input.byte() ?? 0) % 3]
    let tree = input.tree(depth: 0)
    guard let query = try? QueryFlattener.query(of: tree, lists: lists),
      let pairs = try? QueryFlattener.pairs(of: tree, lists: lists)
    else {
      precondition(Input.depth(of: tree) > ParameterTree.depthLimit, "a flat tree is refused")
      return
    }
    check(query, pairs.filter { !$0.field.isEmpty || $0.value != .null })
    append(query)
  }

  private static func check(_ query: String, _ pairs: [QueryFlattener.Pair]) {
    for byte in query.utf8 {
      precondition(QueryEscaping.isPlain(byte) || "%&=".utf8.contains(byte), "a byte of the query is not escaped")
    }
    let fields = query.isEmpty ? [] : query.utf8.split(separator: UInt8(ascii: "&"), omittingEmptySubsequences: false)
    precondition(fields.count == pairs.count, "fields and pairs differ in number")
    for (field, pair) in zip(fields, pairs) {
      let parts = field.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
      precondition(decoded(parts[0]) == Array(pair.field.utf8), "a name does not come back")
      switch pair.value {
      case .null: precondition(parts.count == 1, "null has a value")
      case .text(let text): precondition(parts.count == 2 && decoded(parts[1]) == Array(text.utf8))
      case .bytes(let bytes): precondition(parts.count == 2 && decoded(parts[1]) == bytes)
      }
    }
  }

  private static func append(_ query: String) {
    for base in ["http://h/p#f", "http://h?a#f", "http://h/?"] {
      guard let url = try? URLReader.read(base), let longer = try? url.appendingQuery(query) else {
        precondition(query.utf8.count > URLReader.maximumLength - 32, "a query cannot be appended")
        continue
      }
      precondition(longer.fragment == url.fragment && longer.target.utf8.count >= url.target.utf8.count)
      precondition(query.isEmpty || longer.target.utf8.reversed().starts(with: query.utf8.reversed()))
    }
  }

  private static func decoded(_ text: some Collection<UInt8>) -> [UInt8] {
    var rest = Array(text)[...]
    var result: [UInt8] = []
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        result.append(byte)
        continue
      }
      let digits = String(decoding: rest.prefix(2), as: UTF8.self)
      guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else {
        preconditionFailure("a bare percent sign")
      }
      result.append(value)
      rest = rest.dropFirst(2)
    }
    return result
  }

  private struct Input {
    var bytes: ArraySlice<UInt8>

    mutating func byte() -> UInt8? { bytes.popFirst() }

    mutating func piece() -> [UInt8] {
      let count = Int(byte() ?? 0) & 63
      defer { bytes = bytes.dropFirst(count) }
      return Array(bytes.prefix(count))
    }

    mutating func tree(depth: Int) -> ParameterTree {
      guard let kind = byte(), depth < 150 else { return .null }
      switch kind % 6 {
      case 0: return .null
      case 1: return .value(String(decoding: piece(), as: UTF8.self))
      case 2: return .bytes(piece())
      case 3: return .list(children(kind, depth))
      case 4: return .group(children(kind, depth))
      default:
        var members: [ParameterTree.Member] = []
        for _ in 0..<Int(kind / 6 % 8) where !bytes.isEmpty {
          members.append(.init(String(decoding: piece(), as: UTF8.self), tree(depth: depth + 1)))
        }
        return .dictionary(members)
      }
    }

    private mutating func children(_ kind: UInt8, _ depth: Int) -> [ParameterTree] {
      var children: [ParameterTree] = []
      for _ in 0..<Int(kind / 6 % 8) where !bytes.isEmpty { children.append(tree(depth: depth + 1)) }
      return children
    }

    static func depth(of tree: ParameterTree) -> Int {
      switch tree {
      case .null, .value, .bytes: 0
      case .list(let children), .group(let children): 1 + (children.map { depth(of: $0) }.max() ?? 0)
      case .dictionary(let members): 1 + (members.map { depth(of: $0.value) }.max() ?? 0)
      }
    }
  }
}
