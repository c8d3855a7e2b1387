import Foundation
import HTTPTypes
import LupineBase
import LupineRules
import LupineSession
import LupineTestSupport
import LupineTesting

/// One case of `Cases/rfc9111.md`, whose head describes the format.
struct CacheCase: Sendable {
  struct Step: Sendable {
    var seconds: Int64
    var method: String
    var path = "/"
    var policy: RequestCachePolicy?
    var fields: [(name: String, value: String)] = []
    var answer = CacheCase.Answer()
    var outcome = ""
    /// The line whose body it is.
    var source: Int?
    var checks: [String] = []
  }

  struct Answer: Sendable {
    var status = "200"
    var fields: [(name: String, value: String)] = [("Cache-Control", "no-store")]
  }

  var name: String
  var steps: [Step] = []
  var isMemoryOnly: Bool { name.hasSuffix("[memory]") }

  /// The second at which every case begins.
  static let beginning: Int64 = 1_700_000_000

  static func all() throws -> [CacheCase] {
    var cases: [CacheCase] = []
    for line in try CaseText.lines("rfc9111.md", in: .module) {
      if line.hasPrefix("### ") {
        cases.append(CacheCase(name: String(line.dropFirst(4))))
      } else if line.hasPrefix("@"), !cases.isEmpty {
        cases[cases.count - 1].steps.append(try step(dated(line)))
      }
    }
    return cases
  }

  /// `%N` becomes a date.
  private static func dated(_ line: Substring) -> String {
    String(
      line.replacing(/%(-?[0-9]+)/) { match in
        HTTPDate(seconds: beginning + (Int64(match.1) ?? 0)).text
      })
  }

  private static func step(_ line: String) throws -> Step {
    let parts = line.components(separatedBy: " | ")
    let words = parts[0].split(separator: " ").map(String.init)
    guard let seconds = Int64(words[0].dropFirst()), words.count > 1 else { throw CaseFileError(description: line) }
    var step = Step(seconds: seconds, method: words[1])
    for word in words.dropFirst(2) {
      if word.hasPrefix("policy=") {
        step.policy = RequestCachePolicy(rawValue: String(word.dropFirst(7)))
        if step.policy == nil { throw CaseFileError(description: line) }
      } else {
        step.path = word
      }
    }
    var isAnswer = false
    for part in parts.dropFirst() {
      if part.hasPrefix("-> ") {
        isAnswer = true
        step.answer = Answer(status: String(part.dropFirst(3)), fields: [])
      } else if part.hasPrefix("= ") {
        let words = part.dropFirst(2).split(separator: " ")
        step.outcome = String(words[0])
        step.source = words.count > 1 ? Int(words[1]) : nil
      } else if !step.outcome.isEmpty {
        step.checks.append(part)
      } else if !part.hasPrefix("!") {
        let field = try field(part)
        if isAnswer { step.answer.fields.append(field) } else { step.fields.append(field) }
      }
    }
    return step
  }

  static func field(_ text: String) throws -> (name: String, value: String) {
    guard let colon = text.firstIndex(of: ":") else { throw CaseFileError(description: text) }
    return (String(text[..<colon]), String(text[text.index(after: colon)...]).trimmingCharacters(in: .whitespaces))
  }
}

/// A server that answers as the case under way says, and notes what it was asked.
final class CacheOrigin: Sendable {
  private struct State {
    var answer = CacheCase.Answer()
    var body = ""
    var asked: [ServerRequest] = []
  }

  private let state = Locked(State())
  let server: LoopbackServer

  init() throws {
    let state = state
    server = try LoopbackServer { request, connection in
      let (answer, body) = state.withLock { state in
        state.asked.append(request)
        return (state.answer, state.body)
      }
      try Self.respond(answer, body, request, connection)
    }
  }

  private static func respond(
    _ answer: CacheCase.Answer, _ body: String, _ request: ServerRequest, _ connection: ServerConnection
  ) throws {
    let fields = ServerFields(answer.fields.map { ServerFields.Field($0.name, $0.value) })
    if answer.status == "close" { return connection.abort() }
    if answer.status == "close-delimited" {
      try connection.begin(200, fields: fields, framing: .untilClose)
      try connection.write(Array(body.utf8))
      return try connection.finish()
    }
    let status = Int(answer.status) ?? 500
    guard status == 304, !request.isConditional else {
      return try connection.respond(status, fields: fields, body: Array(body.utf8))
    }
    try connection.respond(200, fields: ["Cache-Control": "no-store"], body: Array(body.utf8))
  }

  func prepare(_ answer: CacheCase.Answer, body: String) {
    state.withLock { $0 = State(answer: answer, body: body) }
  }

  var asked: [ServerRequest] { state.withLock { $0.asked } }
}

extension ServerRequest {
  var isConditional: Bool { fields.first("If-None-Match") != nil || fields.first("If-Modified-Since") != nil }
}
