import Foundation
import LupineTestSupport

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
        last.fields.append(try CaseText.unescape(line.dropFirst(2)))
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
  static func lines(_ name: String) throws -> [Substring] { try CaseText.lines(name, in: .module) }

  /// The parts of a file, each behind `### NAME`, and those of their lines that begin with one of `marks`.
  static func sections(_ name: String, marks: Set<Substring>) throws -> [(name: String, lines: [Substring])] {
    var sections: [(name: String, lines: [Substring])] = []
    for line in try lines(name) {
      if line.hasPrefix("### ") {
        sections.append((String(line.dropFirst(4)), []))
      } else if !sections.isEmpty, marks.contains(line.prefix(2)) {
        sections[sections.count - 1].lines.append(line)
      }
    }
    return sections
  }

  /// `{a;*3}b` is a, a, a, b; anything else is itself.
  static func repeated(_ line: Substring) throws -> [String] {
    guard line.hasPrefix("{") else { return [String(line)] }
    return String(decoding: try CaseText.unescape(line), as: UTF8.self).split(separator: ";").map(String.init)
  }
}
