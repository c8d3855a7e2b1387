import Foundation
import Lupine
import LupineTesting
import Testing

/// What an error of serialization says of its exchange.
@Suite struct SerializationErrorTests {
  struct Example: Sendable, CustomTestStringConvertible {
    var name: String
    var error: SerializationError
    var phase: SessionError.Phase
    var hasLeft: Bool
    var testDescription: String { name }
  }

  static let examples: [Example] = {
    let lost = SessionError(.connectionLost, phase: .send, message: "lost", requestBytesSent: true)
    let refused = SessionError(.cannotConnect, phase: .connect, message: "refused")
    let behind = SerializationError(.unacceptableContentType, message: "type", underlying: lost)
    return [
      Example(
        name: "parameters", error: SerializationError(.requestSerializationFailed, message: "no JSON"), phase: .prepare,
        hasLeft: false),
      Example(
        name: "a text that is of no response", error: SerializationError(.cannotParseResponse, message: "no JSON"),
        phase: .receive, hasLeft: false),
      Example(
        name: "lost", error: SerializationError(.unacceptableStatusCode, message: "status", underlying: lost),
        phase: .send, hasLeft: true),
      Example(
        name: "lost, behind another one",
        error: SerializationError(.unacceptableStatusCode, message: "status", underlying: behind), phase: .send,
        hasLeft: true),
      Example(
        name: "never connected", error: SerializationError(.cannotParseResponse, message: "none", underlying: refused),
        phase: .connect, hasLeft: false),
    ]
  }()

  @Test(arguments: examples) func errorsKnowTheirPhase(_ example: Example) {
    #expect(example.error.phase == example.phase)
    #expect(example.error.requestBytesSent == example.hasLeft)
  }

  /// A response whose metrics are not there yet may be a server's.
  @Test func responsesThatHaveNotEndedMayBeAServers() throws {
    let response = try Responses.response(500)
    let error = try #require(ResponseValidation().validate(response, data: nil))
    #expect(error.phase == .receive && error.requestBytesSent)
  }

  /// Parameters that cannot be written never leave.
  @Test func parametersStayHere() async throws {
    try await withManager { manager, server in
      manager.requestSerializer = JSONRequestSerializer()
      let end = await ended { manager.post("json", parameters: ["a": Double.nan], success: $0, failure: $1) }
      let error = try #require(end.error as? SerializationError)
      #expect(error.code == .requestSerializationFailed && error.phase == .prepare && !error.requestBytesSent)
      #expect(server.requestCount == 0)
    }
  }

  /// A body that is refused came from a server the first time, and from the cache the second: nothing had left for that one.
  @Test func whatTheCacheAnswersHasNotLeft() async throws {
    let route = ServerRoute(nil, "/broken") { _, connection in
      try connection.respond(
        fields: ["Cache-Control": "max-age=1000", "Content-Type": "application/json"], text: "[1")
    }
    let cache = ResponseCache()
    try await withManager([route], configure: { $0.responseCache = cache }) { manager, server in
      for hasLeft in [true, false] {
        let end = await ended { manager.get("broken", success: $0, failure: $1) }
        let error = try #require(end.error as? SerializationError)
        #expect(error.code == .cannotParseResponse && error.phase == .receive)
        #expect(error.requestBytesSent == hasLeft)
        #expect(server.requestCount == 1)
      }
    }
  }
}
