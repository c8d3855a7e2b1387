import Foundation
import Lupine
import LupineTesting
import Testing

/// What the `async` verbs read bodies with, and which bodies they do not look at.
@Suite struct AsyncReadingTests {
  private struct Person: Decodable, Equatable { var firstName: String }

  private func route(_ path: String, _ type: String, _ text: String, _ status: Int = 200) -> ServerRoute {
    ServerRoute(nil, path) { _, connection in
      try connection.respond(status, fields: ["Content-Type": type], text: text)
    }
  }

  /// Whoever asks for nothing gets it of any body, JSON or not, whatever the server calls it; only the status counts.
  @Test func nobodyLooksAtTheBody() async throws {
    let routes = [
      route("/text", "text/plain", "OK"), route("/broken", "application/json", "OK"),
      route("/other", "text/json", "{"), route("/missing", "text/plain", "Not here", 404),
      route("/gone", "application/json", "Not here", 410),
    ]
    try await withManager(routes) { manager, server in
      for path in ["text", "broken", "other"] {
        let value = try await manager.delete(path, as: EmptyResponse.self)
        #expect(value == EmptyResponse())
      }
      for (path, status) in [("missing", 404), ("gone", 410)] {
        let error = await #expect(throws: SerializationError.self) {
          try await manager.delete(path, as: EmptyResponse.self)
        }
        #expect(error?.code == .unacceptableStatusCode && error?.response?.statusCode == status)
        #expect(error?.data == Data("Not here".utf8))
      }
      #expect(server.recordedRequests.allSatisfy { $0.method == "DELETE" })
    }
  }

  /// The manager's decoder reads values, whatever of its names the media type has; a copy of the manager has the same.
  @Test func theManagersDecoderReadsValues() async throws {
    let body = #"{"first_name":"A"}"#
    let routes = [route("/plain", "application/json", body), route("/named", "text/json; charset=utf-8", body)]
    try await withManager(routes) { manager, server in
      let error = await #expect(throws: SerializationError.self) { try await manager.get("plain", as: Person.self) }
      #expect(error?.code == .cannotParseResponse)
      let decoder = JSONDecoder()
      decoder.keyDecodingStrategy = .convertFromSnakeCase
      manager.decoder = decoder
      let copy = try HTTPSessionManager(copying: manager)
      for client in [manager, copy] {
        for path in ["plain", "named"] {
          let person = try await client.get(path, as: Person.self)
          #expect(person == Person(firstName: "A"))
        }
      }
    }
  }

  /// A serializer of JSON says what is called JSON, for values that are decoded too.
  @Test func theManagersSerializerNamesTheTypes() async throws {
    let body = #"{"firstName":"A"}"#
    let routes = [route("/vendor", "application/vnd.api+json", body), route("/plain", "application/json", body)]
    try await withManager(routes) { manager, server in
      let refused = await #expect(throws: SerializationError.self) { try await manager.get("vendor", as: Person.self) }
      #expect(refused?.code == .unacceptableContentType)
      var serializer = JSONResponseSerializer()
      serializer.acceptableContentTypes?.insert("application/vnd.api+json")
      manager.responseSerializer = serializer
      for path in ["vendor", "plain"] {
        let person = try await manager.get(path, as: Person.self)
        #expect(person == Person(firstName: "A"))
      }
      serializer.acceptableContentTypes = ["application/vnd.api+json"]
      manager.responseSerializer = serializer
      let plain = await #expect(throws: SerializationError.self) { try await manager.get("plain", as: Person.self) }
      #expect(plain?.code == .unacceptableContentType)
      let person = try await manager.get("vendor", as: Person.self)
      #expect(person == Person(firstName: "A"))
    }
  }

  /// A serializer of JSON reads each `JSONValue`; without one, or unless it allows them, fragments are refused.
  @Test func theManagersSerializerReadsJSONValues() async throws {
    try await withManager([route("/true", "application/json", "true")]) { manager, server in
      let serializers: [any ResponseSerializer] = [JSONResponseSerializer(), HTTPResponseSerializer()]
      for serializer in serializers {
        manager.responseSerializer = serializer
        let error = await #expect(throws: SerializationError.self) {
          try await manager.get("true", as: JSONValue.self)
        }
        #expect(error?.code == .cannotParseResponse)
      }
      manager.responseSerializer = JSONResponseSerializer(readingOptions: .fragmentsAllowed)
      let value = try await manager.get("true", as: JSONValue.self)
      #expect(value == .bool(true))
    }
  }
}
