import Foundation
import LupineTestSupport
import LupineWire

/// One case of a case file: what the peer sends, and what the parser must say, event by event.
///
/// The format of `Cases/*.md` (see `Docs/HTTPSupport.md`): a case starts with `### name`. Lines that start with `> ` are the input,
/// joined without anything between; `\r \n \t \\ \xNN` are escapes and `{a*5}` repeats `a` five times. Lines with `? ` set options,
/// lines with `= ` are the expected log. Everything else is prose.
struct WireCase: CustomStringConvertible, Sendable {
  var file: String
  var name: String
  var input: [UInt8] = []
  var expected: [String] = []
  var request = RequestContext()
  var limits = WireLimits()
  var leniency: WireLeniency = []
  /// The peer closes its side after the input.
  var closes = false
  /// The log shows every field.
  var showsFields = false

  var description: String { "\(file): \(name)" }
}

extension WireCase {
  /// Every case of every file, in order.
  static func all() throws -> [WireCase] {
    let files = try FileManager.default.contentsOfDirectory(
      at: CaseText.folder(in: .module), includingPropertiesForKeys: nil
    )
    .filter { $0.pathExtension == "md" }.sorted { $0.path < $1.path }
    return try files.flatMap { try read(String(contentsOf: $0, encoding: .utf8), file: $0.lastPathComponent) }
  }

  static func read(_ text: String, file: String) throws -> [WireCase] {
    var cases: [WireCase] = []
    for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
      if line.hasPrefix("### ") {
        cases.append(WireCase(file: file, name: String(line.dropFirst(4))))
        continue
      }
      guard var last = cases.popLast() else { continue }
      if line.hasPrefix("> ") {
        last.input += try CaseText.unescape(line.dropFirst(2))
      } else if line.hasPrefix("= ") {
        last.expected.append(String(line.dropFirst(2)))
      } else if line.hasPrefix("? ") {
        try last.set(line.dropFirst(2).split(separator: " ").map(String.init))
      }
      cases.append(last)
    }
    return cases
  }

  private mutating func set(_ words: [String]) throws {
    switch words.first {
    case "close": closes = true
    case "fields": showsFields = true
    case "request":
      switch words.last {
      case "HEAD": request.isHead = true
      case "CONNECT": request.isConnect = true
      case "upgrade": request.offersUpgrade = true
      default: throw CaseFileError(description: "\(self): request \(words)")
      }
    case "leniency":
      for word in words.dropFirst() {
        guard let one = Self.leniencies[word] else { throw CaseFileError(description: "\(self): leniency \(word)") }
        leniency.insert(one)
      }
    case "limit":
      guard words.count == 3, let path = Self.limits[words[1]], let value = Int(words[2]) else {
        throw CaseFileError(description: "\(self): limit \(words)")
      }
      limits[keyPath: path] = value
    default: throw CaseFileError(description: "\(self): option \(words)")
    }
  }

  private static let leniencies: [String: WireLeniency] = [
    "bareLineFeed": .bareLineFeed, "bareLineFeedInChunks": .bareLineFeedInChunks,
    "obsoleteLineFolding": .obsoleteLineFolding, "spaceBeforeColon": .spaceBeforeColon,
    "controlBytesInValues": .controlBytesInValues, "leadingEmptyLines": .leadingEmptyLines,
    "statusCodesAbove599": .statusCodesAbove599, "whitespaceAfterChunkSize": .whitespaceAfterChunkSize,
    "contentLengthWithTransferEncoding": .contentLengthWithTransferEncoding,
    "transferEncodingOnHTTP10": .transferEncodingOnHTTP10,
  ]

  private static var limits: [String: WritableKeyPath<WireLimits, Int>] {
    [
      "statusLine": \.statusLine, "fieldLine": \.fieldLine, "head": \.head, "fields": \.fields,
      "informationalHeads": \.informationalHeads, "chunkLine": \.chunkLine, "chunkExtensions": \.chunkExtensions,
      "trailers": \.trailers, "trailerFields": \.trailerFields,
    ]
  }
}
