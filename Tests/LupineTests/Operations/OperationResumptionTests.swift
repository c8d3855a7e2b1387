import Dispatch
import Foundation
import Lupine
import LupineTesting
import Testing

/// The rest of a body that was paused, as servers give it that do not give all of it.
@Suite(.timeLimit(.minutes(1))) struct OperationResumptionTests {
  /// How a server answers a request for the rest of 1000 bytes.
  enum Rest: String, CaseIterable, Sendable {
    /// A part, as RFC 9110 allows it.
    case part
    /// A part, in chunks.
    case partInChunks
    /// Announced is the rest; it ends early.
    case chunksThatEndEarly
    case endsEarly
    /// Announced is the rest; more comes.
    case chunksThatEndLate
    /// All of it, in chunks.
    case whole
  }

  private static func server(_ latch: Latch) throws -> LoopbackServer {
    let bytes = PatternBody.bytes(1100)
    let route = ServerRoute("GET", "/rest") { request, connection in
      var fields: ServerFields = ["ETag": "\"a\""]
      guard let range = request.fields.first("Range"), let rest = Rest(rawValue: request.query("rest") ?? "") else {
        try connection.begin(fields: fields, framing: .length(1000))
        try connection.write(bytes[..<100])
        _ = try connection.stall(until: latch)
        return
      }
      let start = Int(range.dropFirst(6).dropLast()) ?? 0
      let isPart = rest == .part || rest == .partInChunks
      fields.append("Content-Range", "bytes \(start)-\(isPart ? start + 99 : 999)/1000")
      let end = rest == .whole ? 1000 : rest == .chunksThatEndLate ? 1100 : start + 100
      let framing: ServerConnection.Framing =
        switch rest {
        case .part: .length(100)
        case .endsEarly: .untilClose
        case .partInChunks, .chunksThatEndEarly, .chunksThatEndLate, .whole: .chunked
        }
      try connection.begin(206, fields: fields, framing: framing)
      try connection.write(bytes[start..<end])
      try connection.finish()
    }
    return try LoopbackServer(routes: [route])
  }

  /// Whatever the server leaves out, or adds, no success has another length than the version.
  @Test(arguments: Rest.allCases, [false, true]) func onlyTheWholeIsASuccess(_ rest: Rest, _ toFile: Bool) async throws
  {
    let latch = try Latch()
    let server = try Self.server(latch)
    defer { server.shutdown() }
    let session = try Session(SessionConfiguration())
    defer { session.invalidateAndCancel() }
    let folder = try ScratchFolder()
    let path = folder.file("body").path
    let request = try Request(server.url("/rest?rest=\(rest.rawValue)"))
    let operation = HTTPRequestOperation(request: request, session: session)
    operation.completionQueue = DispatchQueue(label: "rest")
    if toFile { operation.output = .file(path: path) }
    let steps = Calls<Int64>()
    operation.setDownloadProgress { _, total, _ in steps.note(total) }
    let outcomes = Calls<OperationOutcome>()
    operation.setCompletion(
      success: { _, value in outcomes.note(.success(value as? Data)) },
      failure: { _, error in outcomes.note(.failure(error)) })
    operation.start()
    #expect(await until { steps.all.last == 100 })
    operation.pause()
    latch.release()
    operation.resume()
    let outcome = try await outcomes.first(1)[0]
    let body = toFile ? try Data(contentsOf: URL(filePath: path)) : operation.responseData ?? Data()
    #expect(PatternBody.matches(body, from: 0))
    if rest == .whole {
      #expect(outcome.error == nil && body.count == 1000)
    } else {
      let error = outcome.error as? SessionError
      #expect(error?.code == .truncatedResponse && error?.response?.statusCode == 206 && error?.phase == .receive)
      #expect(body.count == (rest == .chunksThatEndLate ? 1100 : 200))
    }
  }
}
