internal import LupineRules

/// Typed access to the members of a request; null is as good as missing.
struct BatchFields {
  private let json: JSONValue
  /// What stands before the names of its members in messages.
  private let path: String

  init(_ json: JSONValue) {
    self.init(json, path: "")
  }

  private init(_ json: JSONValue, path: String) {
    self.json = json
    self.path = path
  }

  /// A member as messages name it.
  func label(_ name: String) -> String { "\"\(path)\(name)\"" }

  /// Refuses a member that nobody reads: without a word a misspelt one would make another request. So would one that is there twice: of two with one
  /// name readers take either.
  func refuseOthers(than names: Set<String>, of object: String) throws(BatchRefusal) {
    guard case .object(let members) = json else { return }
    var seen: Set<String> = []
    // Over after one more than there are names, however many members a line has.
    for member in members {
      // All names are plain ASCII: no other spelling that Unicode holds for the same is one.
      guard names.contains(member.name), member.name.utf8.allSatisfy({ $0 < 0x80 }) else {
        throw BatchRefusal("\(BatchRefusal.quoted(member.name)) is no member of \(object)")
      }
      guard seen.insert(member.name).inserted else { throw BatchRefusal("\(label(member.name)) is there twice") }
    }
  }

  private func value(_ name: String) -> JSONValue? {
    json[name].flatMap { $0 == .null ? nil : $0 }
  }

  private func typed<Value>(
    _ name: String, _ kind: String, _ read: (JSONValue) -> Value?
  ) throws(BatchRefusal) -> Value? {
    guard let value = value(name) else { return nil }
    guard let result = read(value) else { throw BatchRefusal("\(label(name)) must be \(kind), not \(value.kind)") }
    return result
  }

  func string(_ name: String) throws(BatchRefusal) -> String? { try typed(name, "a string") { $0.string } }

  func boolean(_ name: String) throws(BatchRefusal) -> Bool? { try typed(name, "a boolean") { $0.boolean } }

  func array(_ name: String) throws(BatchRefusal) -> [JSONValue]? { try typed(name, "an array") { $0.array } }

  /// Of a file, a directory or a socket. The system would take what stands before a NUL for the whole.
  func filePath(_ name: String) throws(BatchRefusal) -> String? {
    guard let text = try string(name) else { return nil }
    guard !Self.hasNUL(text) else { throw BatchRefusal("\(label(name)) has a NUL, which no path has") }
    return text
  }

  static func hasNUL(_ text: String) -> Bool { text.utf8.contains(0) }

  /// The text of a number; nobody writes one that is longer.
  private func number(_ name: String) throws(BatchRefusal) -> String? {
    let text = try typed(name, "a number") { (value: JSONValue) -> String? in
      guard case .number(let digits) = value else { return nil }
      return digits
    }
    guard let text else { return nil }
    guard text.utf8.count <= 64 else { throw BatchRefusal("\(label(name)) has more than 64 digits") }
    return text
  }

  func integer(_ name: String) throws(BatchRefusal) -> Int? {
    guard let text = try number(name) else { return nil }
    guard let value = Int(text) ?? Self.integer(text), value >= 0 else {
      throw BatchRefusal("\(label(name)) must be an integer from 0 on")
    }
    return value
  }

  /// `1e3` is an integer too, and so is `1.0`. By the digits: a floating-point number would round what has many.
  private static func integer(_ text: String) -> Int? {
    let parts = text.split(whereSeparator: { $0 == "e" || $0 == "E" })
    let mantissa = (parts.first ?? "").split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    guard let whole = mantissa.first, let exponent = parts.count > 1 ? Int(parts[1]) : 0 else { return nil }
    let fraction = mantissa.count > 1 ? mantissa[1] : ""
    var digits = String(whole + fraction)
    // A text has at most 64 bytes (`number`): above this nothing but 0 is an `Int`, below it nothing but 0 an integer, and 0 is not written like that.
    guard (-64...64).contains(exponent) else { return nil }
    let missing = exponent - fraction.count
    if missing >= 0 {
      digits += String(repeating: "0", count: missing)
    } else {
      let rest = digits.suffix(-missing)
      guard rest.allSatisfy({ $0 == "0" || $0 == "-" }) else { return nil }
      digits = String(digits.dropLast(-missing))
    }
    return digits.isEmpty || digits == "-" ? 0 : Int(digits)
  }

  func seconds(_ name: String) throws(BatchRefusal) -> Double? {
    guard let text = try number(name) else { return nil }
    guard let value = Double(text), value > 0, value < 1e9 else {
      throw BatchRefusal("\(label(name)) must be a number of seconds above 0 and below 1000000000")
    }
    return value
  }

  /// An object; its members are read as those of the request are.
  func object(_ name: String) throws(BatchRefusal) -> BatchFields? {
    guard let value = value(name) else { return nil }
    guard case .object = value else { throw BatchRefusal("\(label(name)) must be an object, not \(value.kind)") }
    return BatchFields(value, path: "\(path)\(name).")
  }

  /// An object of strings.
  func strings(_ name: String) throws(BatchRefusal) -> [String: String] {
    guard let value = value(name) else { return [:] }
    return try strings(of: value, name)
  }

  /// An array of objects of strings.
  func objects(_ name: String) throws(BatchRefusal) -> [[String: String]]? {
    guard let array = try array(name) else { return nil }
    var result: [[String: String]] = []
    for element in array { result.append(try strings(of: element, "\(name)[\(result.count)]")) }
    return result
  }

  private func strings(of value: JSONValue, _ name: String) throws(BatchRefusal) -> [String: String] {
    guard case .object(let members) = value else {
      throw BatchRefusal("\(label(name)) must be an object, not \(value.kind)")
    }
    var result: [String: String] = [:]
    for member in members {
      guard let text = member.value.string else {
        throw BatchRefusal(
          "\(label(name)) maps strings to strings; \(BatchRefusal.quoted(member.name)) is \(member.value.kind)")
      }
      guard result.updateValue(text, forKey: member.name) == nil else {
        throw BatchRefusal("\(label(name)) has \(BatchRefusal.quoted(member.name)) twice")
      }
    }
    return result
  }
}
