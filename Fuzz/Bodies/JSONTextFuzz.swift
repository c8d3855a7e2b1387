internal import LupineRules

/// Oracle: what is read, written down, is one line that reads as the same value, with and without escapes for what terminals act on; limits of
/// depth and number hold exactly; anything behind the value makes it none.
///
/// The first byte chooses the limits.
package enum JSONTextFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let text = Array(bytes.dropFirst())
    let (depthLimit, valueLimit) = choice & 1 == 0 ? (JSONReader.depthLimit, Int.max) : (3, 8)
    let value: JSONValue
    do {
      value = try JSONReader.read(text, depthLimit: depthLimit, valueLimit: valueLimit)
    } catch {
      return precondition((0...text.count).contains(error.offset), "the fault lies outside")
    }
    let (depth, count) = measure(value)
    precondition(depth <= depthLimit && count <= valueLimit, "more than the limits allow")
    for escapes in [false, true] {
      let written = JSONWriter.line(value, escapingC1: escapes)
      precondition(written.allSatisfy { $0 >= 0x20 && $0 != 0x7F }, "a control byte is written")
      precondition(
        !escapes || !String(decoding: written, as: UTF8.self).unicodeScalars.contains(where: InvisibleText.isUnsafe),
        "what hides text is written")
      precondition((try? JSONReader.read(written)) == value, "it reads differently when written down")
    }
    precondition((try? JSONReader.read(text, depthLimit: depth, valueLimit: count)) == value, "a limit that is kept")
    precondition((try? JSONReader.read(text, valueLimit: count - 1)) == nil, "one value more than the limit")
    precondition(depth == 0 || (try? JSONReader.read(text, depthLimit: depth - 1)) == nil, "one level too many")
    for end in [",", "]", "}", " x", "\"", ":"] {
      precondition((try? JSONReader.read(text + end.utf8)) == nil, "bytes behind the value")
    }
    inspect(value)
  }

  private static func measure(_ value: JSONValue) -> (depth: Int, count: Int) {
    let children: [JSONValue]
    switch value {
    case .array(let values): children = values
    case .object(let members): children = members.map(\.value)
    default: return (0, 1)
    }
    return children.reduce(into: (1, 1)) { result, child in
      let (depth, count) = measure(child)
      result = (max(result.0, depth + 1), result.1 + count)
    }
  }

  private static func inspect(_ value: JSONValue) {
    precondition(!value.kind.isEmpty)
    switch value {
    case .number(let text): precondition(value.number != nil && Double(text) != nil, "a number that is none")
    case .string(let text): precondition(value.string == text && value.number == nil)
    case .array(let values):
      precondition(value.array == values)
      for child in values { inspect(child) }
    case .object(let members):
      for member in members {
        precondition(value[member.name] == members.last { $0.name == member.name }?.value, "not the last of a name")
        inspect(member.value)
      }
    case .boolean(let flag): precondition(value.boolean == flag)
    case .null: precondition(value["a"] == nil && value.array == nil)
    }
  }
}
