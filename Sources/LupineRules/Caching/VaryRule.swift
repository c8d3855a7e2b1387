package import LupineWire

/// A request field that a response varies by, as the request had it.
package struct VaryField: Hashable, Sendable {
  /// In lower case.
  package var name: String
  /// Nil: the request had none.
  package var value: String?

  package init(name: String, value: String?) {
    self.name = name
    self.value = value
  }
}

/// Which requests a response is an answer to (RFC 9111 section 4.1).
package enum VaryRule {
  /// More than any server has use for. All of them are kept, and looked at by each request that asks for the same.
  package static let maximumNames = 128

  /// The names that a response varies by, in lower case, sorted, each once; nil for `*`, for what is no list of names, and for more than `maximumNames`.
  package static func names(_ fields: FieldSection) -> [String]? {
    guard fields.firstIndex(named: "vary") != nil else { return [] }
    var names: Set<String> = []
    for value in fields.values(named: "vary") {
      for element in value.utf8.split(separator: UInt8(ascii: ",")) {
        let name = FieldScanner.trimmed(element)
        if name.isEmpty { continue }
        guard let name = name.smallToken, name != "*" else { return nil }
        names.insert(name)
        guard names.count <= maximumNames else { return nil }
      }
    }
    return names.sorted()
  }

  /// What a request has of these names. Several fields of a name are one list; white space around values means nothing.
  package static func select(_ names: [String], of fields: [(name: String, value: String)]) -> [VaryField] {
    names.map { name in
      let values = fields.filter { $0.name.utf8.count == name.utf8.count && $0.name.lowercased() == name }
        .map { String(decoding: FieldScanner.trimmed($0.value.utf8[...]), as: UTF8.self) }
      return VaryField(name: name, value: values.isEmpty ? nil : values.joined(separator: ", "))
    }
  }
}
