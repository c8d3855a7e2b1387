import Foundation
import LupineRules
import Testing

/// One case of `Cases/rfc9110-14-resume.md`, whose head describes the format.
struct ResumeCase: CustomStringConvertible, Sendable {
  var name: String
  var offer = RangeOffer(offset: 100, total: 200, validator: nil, source: nil)
  var answer: RangeAnswer
  var expected = ""
  private var hasStatus = false

  /// What gave the bytes that are there, and answers again.
  private static let url = "http://a.example/f?q"

  var description: String { name }

  static func all() throws -> [ResumeCase] {
    let folder = try #require(Bundle.module.url(forResource: "Cases", withExtension: nil))
    let text = try String(contentsOf: folder.appending(path: "rfc9110-14-resume.md"), encoding: .utf8)
    var cases: [ResumeCase] = []
    for line in text.split(separator: "\n") {
      if line.hasPrefix("### ") {
        cases.append(try ResumeCase(name: String(line.dropFirst(4))))
      } else if !cases.isEmpty, let kind = line.first, line.dropFirst().first == " " {
        try cases[cases.count - 1].read(kind, line.dropFirst(2))
      }
    }
    return cases
  }

  private init(name: String) throws {
    self.name = name
    offer.validator = ResumeValidator(
      entityTags: ["\"v1\""], lastModified: [], dates: [], now: HTTPDate(seconds: 0))
    let url = try URLReader.read(Self.url)
    offer.source = ResumeSource(url, for: offer.validator)
    answer = RangeAnswer(status: 0, url: url)
  }

  private mutating func read(_ kind: Character, _ text: Substring) throws {
    switch kind {
    case "?": try setUp(text)
    case "=": expected = String(text)
    case ">" where !hasStatus:
      answer.status = try #require(Int(text))
      hasStatus = true
    case ">":
      let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      let value = parts[1].trimmingCharacters(in: .whitespaces)
      switch parts[0] {
      // As the parser leaves it, and with blanks that it would have taken away.
      case "Content-Range": answer.contentRanges.append(String(parts[1]))
      case "Content-Type": answer.contentTypes.append(value)
      case "Content-Encoding": answer.contentCodings.append(value)
      case "Content-Length": answer.contentLength = Int64(value)
      case "ETag": answer.entityTags.append(value)
      case "Last-Modified": answer.lastModified.append(value)
      default: Issue.record("\(name): unknown field \(parts[0])")
      }
    default: break
    }
  }

  private mutating func setUp(_ text: Substring) throws {
    if text.hasPrefix("date=") {
      let date = String(text.dropFirst(5))
      offer.validator = ResumeValidator(
        entityTags: [], lastModified: [date], dates: ["Tue, 15 Nov 1994 08:12:31 GMT"], now: HTTPDate(seconds: 0))
      offer.source = try ResumeSource(URLReader.read(Self.url), for: offer.validator)
      return
    }
    for word in text.split(separator: " ") {
      let parts = word.split(separator: "=", maxSplits: 1)
      let value = String(parts[1])
      switch parts[0] {
      case "offset": offer.offset = try #require(Int64(value))
      case "total": offer.total = Int64(value)
      case "tag":
        offer.validator =
          value == "none"
          ? nil : ResumeValidator(entityTags: [value], lastModified: [], dates: [], now: HTTPDate(seconds: 0))
      case "source": offer.source = nil
      case "from": answer.url = try URLReader.read(value)
      default: Issue.record("\(name): unknown option \(word)")
      }
    }
  }
}

extension ResumeDecision {
  /// As the case file writes it.
  var text: String {
    switch self {
    case .append(let count, let total): "append \(count) of \(total)"
    case .replace: "replace"
    case .complete: "complete"
    case .fail: "fail"
    case .askAgain(let reason):
      switch reason {
      case .otherOrigin: "again origin"
      case .otherResource: "again resource"
      case .severalParts: "again parts"
      case .noContentRange: "again no-range"
      case .otherStart(let start): "again start \(start)"
      case .otherTotal(let total): "again total \(total)"
      case .unknownTotal: "again unknown-total"
      case .contradictoryLength(let length): "again length \(length)"
      case .otherVersion: "again version"
      case .coded: "again coded"
      case .unsatisfiable: "again unsatisfiable"
      }
    }
  }
}
