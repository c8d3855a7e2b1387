import Foundation

struct CaseFileError: Error {
  var description: String
}

/// One case of `Cases/challenges.md`; the file says how it is written.
struct ChallengeCase: Sendable, CustomStringConvertible {
  var name: String
  var fields: [[UInt8]] = []
  var expected: [String] = []
  var faults: [String] = []

  var description: String { name }

  static func all() throws -> [ChallengeCase] {
    var cases: [ChallengeCase] = []
    for line in try CaseFile.lines("challenges.md") {
      if line.hasPrefix("### ") {
        cases.append(ChallengeCase(name: String(line.dropFirst(4))))
        continue
      }
      guard var last = cases.popLast() else { continue }
      if line.hasPrefix("> ") {
        last.fields.append(try CaseFile.unescape(line.dropFirst(2)))
      } else if line.hasPrefix("= ") {
        last.expected += try CaseFile.repeated(line.dropFirst(2))
      } else if line.hasPrefix("! ") {
        last.faults += try CaseFile.repeated(line.dropFirst(2))
      }
      cases.append(last)
    }
    return cases
  }
}

enum CaseFile {
  static func lines(_ name: String) throws -> [Substring] {
    guard let folder = Bundle.module.url(forResource: "Cases", withExtension: nil) else {
      throw CaseFileError(description: "no Cases folder beside the tests")
    }
    let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    return text.split(separator: "\n", omittingEmptySubsequences: false)
  }

  /// `{a;*3}b` is a, a, a, b; anything else is itself.
  static func repeated(_ line: Substring) throws -> [String] {
    guard line.hasPrefix("{") else { return [String(line)] }
    return String(decoding: try unescape(line), as: UTF8.self).split(separator: ";").map(String.init)
  }

  static func unescape(_ line: Substring) throws -> [UInt8] {
    var result: [UInt8] = []
    var rest = Array(line.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "{"), let end = rest.firstIndex(of: UInt8(ascii: "}")),
        let star = rest[..<end].lastIndex(of: UInt8(ascii: "*")),
        let count = Int(String(decoding: rest[(star + 1)..<end], as: UTF8.self))
      {
        for _ in 0..<count { result += rest[..<star] }
        rest = rest[(end + 1)...]
        continue
      }
      guard byte == UInt8(ascii: "\\") else {
        result.append(byte)
        continue
      }
      switch rest.popFirst() {
      case UInt8(ascii: "r"): result.append(0x0D)
      case UInt8(ascii: "n"): result.append(0x0A)
      case UInt8(ascii: "t"): result.append(0x09)
      case UInt8(ascii: "\\"): result.append(0x5C)
      case UInt8(ascii: "\""): result += [0x5C, 0x22]
      case UInt8(ascii: "x"):
        guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
          throw CaseFileError(description: "escape in \(line)")
        }
        result.append(value)
        rest = rest.dropFirst(2)
      default: throw CaseFileError(description: "escape in \(line)")
      }
    }
    return result
  }
}
