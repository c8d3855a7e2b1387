import Foundation
import LupineBase
import LupineRules
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct BatchDownloadTests {
  private func run(_ request: String, in folder: Folder) async throws -> JSONValue {
    let outcome = try await Tool.run(["batch"], input: request + "\n", in: folder)
    #expect(outcome.status == 0 && outcome.error == "")
    return try JSONReader.read(try #require(outcome.lines.first))
  }

  /// Into a file, broken off, and gone on with by what the result of the first attempt said.
  @Test func goesOnFromTheResult() async throws {
    let isFirst = LockedFlag()
    let server = try LoopbackServer { request, connection in
      guard isFirst.take() else { return try StandardFile.respond(request, connection, 200_000) }
      try connection.begin(fields: ["ETag": "\"a\""], framing: .length(200_000))
      try connection.write(PatternBody.bytes(150_000))
      try connection.flush()
      connection.abort()
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let target = #""url":"\#(server.url("/f"))","outputFile":"f""#
    let broken = try await run("{\(target)}", in: folder)
    #expect(broken["file"] == .null && broken["error"]?["code"] == .string("truncatedResponse"))
    let data = try #require(broken["resumeData"]?.string)
    #expect(!folder.exists("f"))
    let whole = try await run(#"{\#(target),"resumeFrom":"\#(data)"}"#, in: folder)
    #expect(whole["file"] == .string("f") && whole["error"] == .null && whole["resumeData"] == .null)
    #expect(whole["status"] == .number("206"))
    #expect(try folder.bytes("f") == PatternBody.bytes(200_000))
    #expect(server.recordedRequests.last?.fields.first("Range") == "bytes=150000-")
  }

  @Test(arguments: [
    (#""resumeFrom":"AAAA""#, "badRequest"), (#""outputFile":"f","resumeFrom":"-""#, "badRequest"),
    (#""outputFile":"f","resumeFrom":"AAAA""#, "badResumeData"), (#""outputFile":"no/f""#, "fileFailed"),
  ]) func refusals(_ row: (String, String)) async throws {
    let folder = try Folder()
    let result = try await run(#"{"url":"http://127.0.0.1:1/",\#(row.0)}"#, in: folder)
    #expect(result["error"]?["code"] == .string(row.1), "\(result)")
  }
}

/// True once.
final class LockedFlag: Sendable {
  private let isSet = Locked(true)

  func take() -> Bool {
    isSet.withLock { isSet in
      defer { isSet = false }
      return isSet
    }
  }
}

/// A file of the pattern with a strong tag, in parts if asked for.
enum StandardFile {
  static func respond(_ request: ServerRequest, _ connection: ServerConnection, _ size: Int) throws {
    var fields: ServerFields = ["ETag": "\"a\""]
    guard let range = request.fields.first("Range"), let start = Int(range.dropFirst(6).dropLast()),
      request.fields.first("If-Range") ?? "\"a\"" == "\"a\""
    else {
      return try connection.respond(fields: fields, body: PatternBody.bytes(size))
    }
    fields.append("Content-Range", "bytes \(start)-\(size - 1)/\(size)")
    try connection.respond(206, fields: fields, body: PatternBody.bytes(size - start, from: start))
  }
}
