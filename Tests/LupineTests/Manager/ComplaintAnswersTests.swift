import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// Complaints about AFNetworking that are answered by serializers; the numbers are those of Docs/AFNetworking.md.
@Suite(.timeLimit(.minutes(5))) struct ComplaintAnswersTests {
  private func withServer(
    _ type: String, _ body: String, _ use: (HTTPSessionManager, LoopbackServer) async throws -> Void
  ) async throws {
    let route = ServerRoute(nil, "/value") { _, connection in
      _ = try connection.readBody()
      try connection.respond(fields: ["Content-Type": type], text: body)
    }
    try await withManager([route], use)
  }

  /// "unacceptable content-type: text/html": the message lists what is accepted, and one line accepts more.
  @Test func complaint5ContentTypes() async throws {
    try await withServer("text/html", #"{"a": 1}"#) { manager, _ in
      var serializer = JSONResponseSerializer()
      let request = try manager.request(.get, "value")
      do {
        _ = try await manager.response(for: request, serializer: serializer)
        Issue.record("text/html was taken for JSON")
      } catch let error as SerializationError {
        #expect(error.code == .unacceptableContentType && error.data?.isEmpty == false)
        for type in JSONResponseSerializer.contentTypes.union(["text/html"]) {
          #expect(error.message.contains(type), "\(error.message)")
        }
      }
      serializer.validation.acceptableContentTypes?.insert("text/html")
      let value = try await manager.response(for: request, serializer: serializer).0
      #expect(value?["a"]?.intValue == 1)
    }
  }

  /// Serializers that change while requests are made: values, so that nothing crashes, and each request has one of them whole.
  @Test func complaint12SerializersFromManyThreads() async throws {
    try await withServer("text/plain", "") { manager, _ in
      await withTaskGroup(of: Void.self) { group in
        for index in 0..<8 {
          group.addTask {
            for round in 0..<200 {
              manager.requestSerializer.base.setValue("\(index)-\(round)", forHeader: "X-Round")
              manager.requestSerializer = round.isMultiple(of: 2) ? HTTPRequestSerializer() : JSONRequestSerializer()
              let request = try? manager.request(.post, "value", parameters: ["a": 1])
              let type = request?.fields[.contentType]
              #expect(["application/json", "application/x-www-form-urlencoded"].contains(type), "\(type ?? "none")")
            }
          }
        }
      }
    }
  }

  /// Arrays without brackets or with numbers, booleans as words, and parameters of DELETE in the body.
  @Test func complaint13Encodings() async throws {
    let parameters: [String: any Sendable] = ["list": [1, 2], "flag": true]
    let rows: [(QueryEncoding, String)] = [
      (QueryEncoding(), "flag=1&list%5B%5D=1&list%5B%5D=2"),
      (QueryEncoding(arrays: .plain, booleans: .literal), "flag=true&list=1&list=2"),
      (QueryEncoding(arrays: .indexed), "flag=1&list%5B0%5D=1&list%5B1%5D=2"),
    ]
    for (encoding, expected) in rows {
      #expect(try queryString(from: parameters, encoding: encoding) == expected)
    }
    try await withServer("text/plain", "ok") { manager, server in
      var serializer = HTTPRequestSerializer()
      serializer.methodsEncodingParametersInURL.remove("DELETE")
      manager.requestSerializer = serializer
      _ = try await manager.delete("value", as: Data.self, parameters: ["id": 7])
      let request = try #require(server.recordedRequests.last)
      #expect(request.method == "DELETE" && request.target == "/value" && request.fields.first("Content-Length") == "4")
    }
  }

  /// Nulls go on request, inside of arrays and however deep.
  @Test func complaint15Nulls() async throws {
    try await withServer("application/json", #"{"a": null, "b": [null, {"c": null, "d": [null]}], "e": 1}"#) {
      manager, _ in
      var serializer = JSONResponseSerializer()
      serializer.removesKeysWithNullValues = true
      let value = try await manager.response(for: manager.request(.get, "value"), serializer: serializer).0
      #expect(value == ["b": [["d": []]], "e": 1])
    }
  }
}
