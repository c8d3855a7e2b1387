public import Foundation
internal import LupineRules

extension JSONValue {
  /// How deep arrays and objects may be nested, read or written.
  public static let maximumDepth = JSONReader.depthLimit

  /// What is read besides RFC 8259's grammar, or against it.
  public struct ReadingOptions: OptionSet, Sendable, Hashable, Codable {
    /// The bits.
    public var rawValue: Int
    /// Options of these bits.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// A text may be a single string, number, truth value or null. Source: `NSJSONReadingAllowFragments`.
    public static let fragmentsAllowed = ReadingOptions(rawValue: 1)
  }

  /// Reads a JSON text: UTF-8, or UTF-16 or UTF-32 as RFC 4627 section 3 tells them apart; a byte order mark is skipped.
  ///
  /// - Throws: `SerializationError` with `.cannotParseResponse`, which says what is wrong at which byte; also for more than `maximumDepth` levels
  ///   of nesting, numbers that a `Double` cannot hold, and names with more than 256 combining marks in a row, which would take very long to look for.
  public init(parsing data: Data, options: ReadingOptions = .fragmentsAllowed) throws(SerializationError) {
    let bytes = try Self.utf8(data)
    let read: LupineRules.JSONValue
    do throws(JSONError) {
      read = try JSONReader.read(bytes)
    } catch {
      throw SerializationError(.cannotParseResponse, message: "The data is no JSON: \(error).")
    }
    switch read {
    case .array, .object: break
    default:
      guard options.contains(.fragmentsAllowed) else {
        throw SerializationError(
          .cannotParseResponse,
          message: "The JSON text is neither an array nor an object, and fragments are not allowed.")
      }
    }
    self = try JSONValue(read)
  }

  /// Nothing but white space; such a body has no value.
  static func isBlank(_ data: Data) -> Bool {
    guard let first = data.first, first <= 0x20 else { return data.isEmpty }
    return data.allSatisfy { $0 == 0x20 || $0 == 0x0A || $0 == 0x0D || $0 == 0x09 }
  }

  /// Which of five encodings it is shows in the zeros among the first four bytes, since the first character of a JSON text is ASCII.
  static func utf8(_ data: Data) throws(SerializationError) -> [UInt8] {
    let head = Array(data.prefix(4))
    let encoding: String.Encoding
    var skipped = 0
    if head.starts(with: [0xEF, 0xBB, 0xBF]) {
      return [UInt8](data.dropFirst(3))
    } else if head == [0, 0, 0xFE, 0xFF] {
      (encoding, skipped) = (.utf32BigEndian, 4)
    } else if head == [0xFF, 0xFE, 0, 0] {
      (encoding, skipped) = (.utf32LittleEndian, 4)
    } else if head.starts(with: [0xFE, 0xFF]) {
      (encoding, skipped) = (.utf16BigEndian, 2)
    } else if head.starts(with: [0xFF, 0xFE]) {
      (encoding, skipped) = (.utf16LittleEndian, 2)
    } else if head.count == 4, head[0] == 0, head[1] == 0, head[2] == 0 {
      encoding = .utf32BigEndian
    } else if head.count == 4, head[1] == 0, head[2] == 0, head[3] == 0 {
      encoding = .utf32LittleEndian
    } else if head.count >= 2, head[0] == 0 {
      encoding = .utf16BigEndian
    } else if head.count >= 2, head[1] == 0 {
      encoding = .utf16LittleEndian
    } else {
      return [UInt8](data)
    }
    guard let text = String(data: Data(data.dropFirst(skipped)), encoding: encoding) else {
      throw SerializationError(.cannotParseResponse, message: "The data is no text in its encoding.")
    }
    return Array(text.utf8)
  }

  /// - Throws: for numbers that are no finite `Double`.
  init(_ value: LupineRules.JSONValue) throws(SerializationError) {
    switch value {
    case .null: self = .null
    case .boolean(let flag): self = .bool(flag)
    case .string(let text): self = .string(text)
    case .number(let text):
      if let integer = Int64(text) {
        // "-0" is a number of its own only as a Double.
        self = integer == 0 && text.hasPrefix("-") ? .number(-0.0) : .integer(integer)
      } else if let unsigned = UInt64(text) {
        self = .unsigned(unsigned)
      } else if let number = Double(text), number.isFinite {
        self = .number(number)
      } else {
        throw SerializationError(
          .cannotParseResponse, message: "The data is no JSON: the number \(text.prefix(40)) is out of range.")
      }
    case .array(let values):
      var elements: [JSONValue] = []
      elements.reserveCapacity(values.count)
      for value in values { elements.append(try JSONValue(value)) }
      self = .array(elements)
    case .object(let list):
      var members: [String: JSONValue] = [:]
      members.reserveCapacity(list.count)
      for member in list { members[member.name] = try JSONValue(member.value) }
      self = .object(members)
    }
  }
}
