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
    let routes = [route("/vendor", "application/x-vendor", body), route("/plain", "application/json", body)]
    try await withManager(routes) { manager, server in
      let refused = await #expect(throws: SerializationError.self) { try await manager.get("vendor", as: Person.self) }
      #expect(refused?.code == .unacceptableContentType)
      var serializer = JSONResponseSerializer()
      serializer.acceptableContentTypes?.insert("application/x-vendor")
      manager.responseSerializer = serializer
      for path in ["vendor", "plain"] {
        let person = try await manager.get(path, as: Person.self)
        #expect(person == Person(firstName: "A"))
      }
      serializer.acceptableContentTypes = ["application/x-vendor"]
      manager.responseSerializer = serializer
      let plain = await #expect(throws: SerializationError.self) { try await manager.get("plain", as: Person.self) }
      #expect(plain?.code == .unacceptableContentType)
      let person = try await manager.get("vendor", as: Person.self)
      #expect(person == Person(firstName: "A"))
    }
  }

  /// A type that ends in `+json` is JSON to every way of reading it.
  @Test(arguments: ["application/vnd.api+json", "application/hal+json; charset=utf-8", "application/geo+json"])
  func suffixesNameTheFormat(_ type: String) async throws {
    try await withManager([route("/value", type, #"{"firstName":"A"}"#)]) { manager, server in
      let person = try await manager.get("value", as: Person.self)
      let value = try await manager.get("value", as: JSONValue.self)
      #expect(person == Person(firstName: "A") && value == ["firstName": "A"])
      let end = await ended { manager.get("value", success: $0, failure: $1) }
      #expect(end.value as? JSONValue == ["firstName": "A"])
    }
  }

  private struct Problem: Decodable, Equatable { var title: String }

  /// A problem (RFC 9457) is the value of the error, and can be read as what it is.
  @Test func problemsAreRead() async throws {
    let route = ServerRoute(nil, "/problem") { _, connection in
      try connection.respond(422, fields: ["Content-Type": "application/problem+json"], text: #"{"title":"No name."}"#)
    }
    try await withManager([route]) { manager, server in
      let error = await #expect(throws: SerializationError.self) { try await manager.get("problem", as: Person.self) }
      #expect(error?.code == .unacceptableStatusCode && error?.underlying == nil)
      #expect(error?.value as? JSONValue == ["title": "No name."])
      let problem = try error?.body(as: Problem.self)
      #expect(problem == Problem(title: "No name."))
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
