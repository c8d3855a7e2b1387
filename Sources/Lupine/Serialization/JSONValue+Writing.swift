public import Foundation
internal import LupineRules

extension JSONValue {
  /// How a value is written.
  public struct WritingOptions: OptionSet, Sendable, Hashable, Codable {
    /// The bits.
    public var rawValue: Int
    /// Options of these bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// One line for each element and member, indented by two spaces.
    public static let prettyPrinted = WritingOptions(rawValue: 1)
    /// Members sorted by the bytes of their names, so that equal values give equal texts; otherwise their order means nothing and differs from
    /// run to run.
    public static let sortedKeys = WritingOptions(rawValue: 2)
    /// `/` instead of `\/`. Without it slashes are escaped, as Foundation does, so that the text can stand in a script element.
    public static let withoutEscapingSlashes = WritingOptions(rawValue: 8)
  }

  /// The value as a JSON text in UTF-8.
  ///
  /// - Throws: `SerializationError` with `.requestSerializationFailed` for a number that is not finite, and for more than `maximumDepth` levels.
  public func data(options: WritingOptions = []) throws(SerializationError) -> Data {
    try JSONTreeWriter.data(JSONTreeBuilder.tree(self), options)
  }
}

/// Writes one value.
struct JSONTreeWriter {
  private var output: [UInt8] = []
  private let isPretty: Bool
  private let isSorted: Bool
  private let escapesSlashes: Bool

  static func data(
    _ tree: LupineRules.JSONValue, _ options: JSONValue.WritingOptions
  ) throws(SerializationError) -> Data {
    var writer = JSONTreeWriter(options)
    try writer.write(tree, depth: 0)
    return Data(writer.output)
  }

  private init(_ options: JSONValue.WritingOptions) {
    isPretty = options.contains(.prettyPrinted)
    isSorted = options.contains(.sortedKeys)
    escapesSlashes = !options.contains(.withoutEscapingSlashes)
  }

  private mutating func write(_ value: LupineRules.JSONValue, depth: Int) throws(SerializationError) {
    switch value {
    case .null: output += "null".utf8
    case .boolean(let flag): output += (flag ? "true" : "false").utf8
    case .number(let text):
      guard text.utf8.last.map({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) == true else {
        throw JSONValue.refused("\(text) is no JSON number")
      }
      output += (text.hasSuffix(".0") ? text.dropLast(2) : text[...]).utf8
    case .string(let text): quote(text)
    case .array(let elements):
      try check(depth)
      output.append(UInt8(ascii: "["))
      for (index, element) in elements.enumerated() {
        separate(index, depth + 1)
        try write(element, depth: depth + 1)
      }
      end(isEmpty: elements.isEmpty, depth)
      output.append(UInt8(ascii: "]"))
    case .object(let members):
      try check(depth)
      output.append(UInt8(ascii: "{"))
      if isSorted {
        let sorted = members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        for (index, member) in sorted.enumerated() { try write(member.name, member.value, index, depth) }
      } else {
        for (index, member) in members.enumerated() { try write(member.name, member.value, index, depth) }
      }
      end(isEmpty: members.isEmpty, depth)
      output.append(UInt8(ascii: "}"))
    }
  }

  private mutating func write(
    _ name: String, _ value: LupineRules.JSONValue, _ index: Int, _ depth: Int
  ) throws(SerializationError) {
    separate(index, depth + 1)
    quote(name)
    output += (isPretty ? ": " : ":").utf8
    try write(value, depth: depth + 1)
  }

  private func check(_ depth: Int) throws(SerializationError) {
    guard depth < JSONValue.maximumDepth else {
      throw JSONValue.refused("it is nested deeper than \(JSONValue.maximumDepth) levels")
    }
  }

  private mutating func separate(_ index: Int, _ depth: Int) {
    if index > 0 { output.append(UInt8(ascii: ",")) }
    if isPretty { breakLine(depth) }
  }

  private mutating func end(isEmpty: Bool, _ depth: Int) {
    if isPretty, !isEmpty { breakLine(depth) }
  }

  private mutating func breakLine(_ depth: Int) {
    output.append(UInt8(ascii: "\n"))
    output.append(contentsOf: repeatElement(UInt8(ascii: " "), count: depth * 2))
  }

  private mutating func quote(_ text: String) {
    output.append(UInt8(ascii: "\""))
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""): output += #"\""#.utf8
      case UInt8(ascii: "\\"): output += #"\\"#.utf8
      case UInt8(ascii: "/") where escapesSlashes: output += #"\/"#.utf8
      case 0x0A: output += #"\n"#.utf8
      case 0x0D: output += #"\r"#.utf8
      case 0x09: output += #"\t"#.utf8
      case 0..<0x20:
        output += #"\u00"#.utf8
        output.append(Self.digit(byte >> 4))
        output.append(Self.digit(byte & 15))
      default: output.append(byte)
      }
    }
    output.append(UInt8(ascii: "\""))
  }

  private static func digit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") - 10 + value
  }
}
