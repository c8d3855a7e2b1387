package import Foundation

/// A case file that does not say what it should.
package struct CaseFileError: Error, CustomStringConvertible {
  package var description: String

  package init(description: String) { self.description = description }
}

/// Reads the case files of the tests: `Cases/*` beside them, a line each for what goes in and what must come out.
package enum CaseText {
  /// The lines of a file in the folder `Cases` of a bundle.
  package static func lines(_ name: String, in bundle: Bundle) throws -> [Substring] {
    try String(contentsOf: folder(in: bundle).appending(path: name), encoding: .utf8)
      .split(separator: "\n", omittingEmptySubsequences: false)
  }

  /// The folder `Cases` of a bundle.
  package static func folder(in bundle: Bundle) throws -> URL {
    guard let folder = bundle.url(forResource: "Cases", withExtension: nil) else {
      throw CaseFileError(description: "no Cases folder beside the tests")
    }
    return folder
  }

  /// The bytes of a line: `\r \n \t \\ \" \xNN` are escapes, and `{a*5}` repeats `a`, which may hold escapes, five times.
  package static func unescape(_ line: Substring) throws -> [UInt8] {
    var result: [UInt8] = []
    var rest = Array(line.utf8)[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "{"), let (unit, count) = repetition(&rest) {
        let unit = try unescape(Substring(String(decoding: unit, as: UTF8.self)))
        for _ in 0..<count { result += unit }
      } else if byte == UInt8(ascii: "\\") {
        result += try escape(&rest, in: line)
      } else {
        result.append(byte)
      }
    }
    return result
  }

  private static func repetition(_ rest: inout ArraySlice<UInt8>) -> (ArraySlice<UInt8>, Int)? {
    guard let end = rest.firstIndex(of: UInt8(ascii: "}")),
      let star = rest[..<end].lastIndex(of: UInt8(ascii: "*")),
      let count = Int(String(decoding: rest[(star + 1)..<end], as: UTF8.self))
    else { return nil }
    defer { rest = rest[(end + 1)...] }
    return (rest[..<star], count)
  }

  private static func escape(_ rest: inout ArraySlice<UInt8>, in line: Substring) throws -> [UInt8] {
    switch rest.popFirst() {
    case UInt8(ascii: "r"): return [0x0D]
    case UInt8(ascii: "n"): return [0x0A]
    case UInt8(ascii: "t"): return [0x09]
    case UInt8(ascii: "\\"): return [0x5C]
    // Stays escaped: it is an escape of the quoted strings under test.
    case UInt8(ascii: "\""): return [0x5C, 0x22]
    case UInt8(ascii: "x"):
      defer { rest = rest.dropFirst(2) }
      guard let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else { fallthrough }
      return [value]
    default: throw CaseFileError(description: "escape in \(line)")
    }
  }
}
