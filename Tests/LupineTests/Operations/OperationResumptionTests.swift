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
    /// Announced is a part; all of the rest comes.
    case partThatEndsLate
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
      let isPart = [.part, .partInChunks, .partThatEndsLate].contains(rest)
      fields.append("Content-Range", "bytes \(start)-\(isPart ? start + 99 : 999)/1000")
      let end =
        switch rest {
        case .whole, .partThatEndsLate: 1000
        case .chunksThatEndLate: 1100
        default: start + 100
        }
      let framing: ServerConnection.Framing =
        switch rest {
        case .part: .length(100)
        case .endsEarly: .untilClose
        case .partInChunks, .partThatEndsLate, .chunksThatEndEarly, .chunksThatEndLate, .whole: .chunked
        }
      try connection.begin(206, fields: fields, framing: framing)
      try connection.write(bytes[start..<end])
      try connection.finish()
    }
    return try LoopbackServer(routes: [route])
  }

  /// How an operation ends that is paused once something is so, and resumed after something else.
  private func interrupted(
    _ operation: HTTPRequestOperation, once isSo: @escaping @Sendable () -> Bool, _ meanwhile: () -> Void
  ) async throws -> OperationOutcome {
    operation.completionQueue = DispatchQueue(label: "resumption")
    let outcomes = operation.outcomes()
    operation.start()
    #expect(await until { isSo() })
    operation.pause()
    meanwhile()
    operation.resume()
    return try await outcomes.first(1)[0]
  }

  /// 416 with the length of what is there: the operation is over, however the body of that answer ends.
  @Test func howAnAnswerEndsThatAllWasThereChangesNothing() async throws {
    let latch = try Latch()
    let route = ServerRoute("GET", "/all") { request, connection in
      guard request.fields.first("Range") != nil else {
        try connection.begin(fields: ["ETag": "\"a\""], framing: .chunked)
        try connection.write(PatternBody.bytes(1000))
        try connection.flush()
        _ = try connection.stall(until: latch)
        return
      }
      try connection.begin(416, fields: ["Content-Range": "bytes */1000"], framing: .length(50))
      try connection.write(Array("no".utf8))
      try connection.flush()
      connection.abort()
    }
    let server = try LoopbackServer(routes: [route])
    defer { server.shutdown() }
    let session = try Session(SessionConfiguration())
    defer { session.invalidateAndCancel() }
    let operation = HTTPRequestOperation(request: try Request(server.url("/all")), session: session)
    let steps = Calls<Int64>()
    operation.setDownloadProgress { _, total, _ in steps.note(total) }
    let outcome = try await interrupted(operation) {
      steps.all.last == 1000
    } _: {
      latch.release()
    }
    #expect(outcome.error == nil && operation.responseData == Data(PatternBody.bytes(1000)))
  }

  /// A part need not say again what the whole is: the response that did is the one that the serializer judges by.
  @Test func theTypeOfTheWholeIsThatOfItsBeginning() async throws {
    let bytes = Array(("[" + String(repeating: "1,", count: 99) + "1]").utf8)
    let latch = try Latch()
    let route = ServerRoute("GET", "/list") { request, connection in
      guard request.fields.first("Range") != nil else {
        try connection.begin(
          fields: ["ETag": "\"a\"", "Content-Type": "application/json"], framing: .length(bytes.count))
        try connection.write(bytes[..<50])
        _ = try connection.stall(until: latch)
        return
      }
      let fields: ServerFields = ["ETag": "\"a\"", "Content-Range": "bytes 50-\(bytes.count - 1)/\(bytes.count)"]
      try connection.respond(206, fields: fields, body: Array(bytes[50...]))
    }
    let server = try LoopbackServer(routes: [route])
    defer { server.shutdown() }
    let session = try Session(SessionConfiguration())
    defer { session.invalidateAndCancel() }
    let operation = HTTPRequestOperation(request: try Request(server.url("/list")), session: session)
    operation.responseSerializer = JSONResponseSerializer()
    let steps = Calls<Int64>()
    operation.setDownloadProgress { _, total, _ in steps.note(total) }
    let outcome = try await interrupted(operation) {
      steps.all.last == 50
    } _: {
      latch.release()
    }
    #expect(outcome.error == nil && operation.response?.statusCode == 200)
    #expect((operation.responseObject as? JSONValue)?.arrayValue?.count == 100)
  }

  /// What is left of a stream that was read in part is not the body.
  @Test func aBodyThatCanBeSentOnceIsNotSentInPart() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let session = try Session(SessionConfiguration())
    defer { session.invalidateAndCancel() }
    let (chunks, producer) = AsyncStream<[UInt8]>.makeStream()
    let request = try Request(server.url("/echo"), method: .post, body: .sequence(chunks))
    let operation = HTTPRequestOperation(request: request, session: session)
    let steps = Calls<Int64>()
    operation.setUploadProgress { _, total, _ in steps.note(total) }
    producer.yield(Array("first".utf8))
    let outcome = try await interrupted(operation) {
      steps.all.last == 5
    } _: {
      producer.yield(Array("second".utf8))
      producer.finish()
    }
    #expect((outcome.error as? SessionError)?.code == .bodyNotReplayable)
    #expect(operation.isFinished && server.recordedRequests.allSatisfy { $0.text != "second" })
  }

  /// Of a body that nobody has begun to read nothing is missing.
  @Test func aBodyThatWasNotReadIsSentWhole() async throws {
    let latch = try Latch()
    let count = Calls<Int>()
    let route = ServerRoute("POST", "/late") { _, connection in
      count.note(1)
      guard count.all.count > 1 else { return _ = try connection.stall(until: latch) }
      let body = try connection.readBody()
      try connection.respond(body: body)
    }
    let server = try LoopbackServer(routes: [route])
    defer { server.shutdown() }
    var configuration = SessionConfiguration()
    configuration.continueTimeout = .seconds(100)
    let session = try Session(configuration)
    defer { session.invalidateAndCancel() }
    let chunks = AsyncStream<[UInt8]> { producer in
      producer.yield(Array("whole".utf8))
      producer.finish()
    }
    var request = try Request(server.url("/late"), method: .post, body: .sequence(chunks))
    request.expectsContinue = true
    let operation = HTTPRequestOperation(request: request, session: session)
    let outcome = try await interrupted(operation) {
      count.all.count == 1
    } _: {
      latch.release()
    }
    #expect(outcome.error == nil && operation.responseData == Data("whole".utf8))
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
    if toFile { operation.output = .file(path: path) }
    let steps = Calls<Int64>()
    operation.setDownloadProgress { _, total, _ in steps.note(total) }
    let outcome = try await interrupted(operation) {
      steps.all.last == 100
    } _: {
      latch.release()
    }
    let body = toFile ? try Data(contentsOf: URL(filePath: path)) : operation.responseData ?? Data()
    #expect(PatternBody.matches(body, from: 0))
    if rest == .whole {
      #expect(outcome.error == nil && body.count == 1000)
    } else {
      let error = outcome.error as? SessionError
      #expect(error?.response?.statusCode == 206 && error?.phase == .receive)
      switch rest {
      case .chunksThatEndLate, .partThatEndsLate:
        #expect(error?.code == .badResponse && body.count <= (rest == .partThatEndsLate ? 200 : 1000))
      default: #expect(error?.code == .truncatedResponse && body.count == 200)
      }
    }
  }
}
