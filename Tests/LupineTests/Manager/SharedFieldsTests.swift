import Foundation
import Lupine
import LupineTesting
import Testing

/// The fields of a serializer are encoded once for many requests; what is sent must not show it.
@Suite struct SharedFieldsTests {
  /// What arrived of a request with the manager's fields and those of the call; sent twice, so that the second takes what was encoded for the first.
  private func arrived(_ manager: HTTPSessionManager, headers: [String: String]? = nil) async throws -> [String: String]
  {
    let first: Anything = try await manager.get("anything", headers: headers)
    let second: Anything = try await manager.get("anything", headers: headers)
    #expect(first.headers == second.headers)
    return second.headers
  }

  /// A header that is set later goes with the next request, and one that is removed does not.
  @Test func changesAreSeen() async throws {
    try await withManager(ServerRoute.api()) { manager, _ in
      let base = try await arrived(manager)
      #expect(base["user-agent"]?.isEmpty == false && base["accept"] == "*/*")
      manager.requestSerializer.base.setValue("one", forHeader: "X-Mark")
      let arrived1 = try await arrived(manager)["x-mark"]
      #expect(arrived1 == "one")
      manager.requestSerializer.base.setValue("two", forHeader: "X-Mark")
      let arrived2 = try await arrived(manager)["x-mark"]
      #expect(arrived2 == "two")
      manager.requestSerializer.base.setValue(nil, forHeader: "X-Mark")
      let arrived3 = try await arrived(manager)
      #expect(arrived3 == base)
    }
  }

  /// A call's own headers are its own: the requests after it have none of them.
  @Test func headersOfACallStayThere() async throws {
    try await withManager(ServerRoute.api()) { manager, _ in
      let base = try await arrived(manager)
      let own = try await arrived(manager, headers: ["X-Own": "1", "Accept": "text/plain"])
      #expect(own["x-own"] == "1" && own["accept"] == "text/plain")
      let arrived4 = try await arrived(manager)
      #expect(arrived4 == base)
    }
  }

  /// `Host`, a range, a `Cookie` and an idempotency key of the serializer keep their rules.
  @Test func fieldsWithRulesKeepThem() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      manager.requestSerializer.base.setValue("other.example", forHeader: "Host")
      let arrived5 = try await arrived(manager)["host"]
      #expect(arrived5 == "other.example")
      manager.requestSerializer.base.setValue(nil, forHeader: "Host")
      let base = try await arrived(manager)
      #expect(base["host"]?.hasSuffix(":\(server.port)") == true)
      #expect(base["accept-encoding"]?.contains("gzip") == true)
      manager.requestSerializer.base.setValue("bytes=0-", forHeader: "Range")
      let arrived6 = try await arrived(manager)["accept-encoding"]
      #expect(arrived6 == "identity")
      manager.requestSerializer.base.setValue("own=1", forHeader: "Cookie")
      let arrived7 = try await arrived(manager)["cookie"]
      #expect(arrived7 == "own=1")
    }
  }

  /// What the jar has goes with every request, although it changes between them.
  @Test func cookiesOfTheJarAreAdded() async throws {
    try await withManager(ServerRoute.api()) { manager, server in
      let jar = try #require(manager.session.configuration.cookieStorage)
      for value in ["1", "2"] {
        try jar.setCookies(["jar=\(value)"], from: server.url("/"))
        let arrived8 = try await arrived(manager)["cookie"]
        #expect(arrived8 == "jar=\(value)")
      }
    }
  }

  /// Two sessions share a serializer, and each adds what is its own.
  @Test func sessionsDoNotShare() async throws {
    let serializer = HTTPRequestSerializer()
    try await withManager(ServerRoute.api(), configure: { $0.acceptsCompressedContent = false }) { first, _ in
      try await withManager(ServerRoute.api()) { second, _ in
        (first.requestSerializer, second.requestSerializer) = (serializer, serializer)
        for _ in 0..<2 {
          let arrived9 = try await arrived(first)["accept-encoding"]
          #expect(arrived9 == nil)
          let arrived10 = try await arrived(second)["accept-encoding"]
          #expect(arrived10 != nil)
        }
      }
    }
  }

  /// A refused field is refused each time, by name, and nothing is sent.
  @Test func framingFieldsAreRefused() async throws {
    try await withManager { manager, server in
      manager.requestSerializer.base.setValue("5", forHeader: "Content-Length")
      for _ in 0..<2 {
        await #expect(throws: SessionError.self) { try await manager.get("json", as: JSONValue.self) }
      }
      #expect(server.connectionCount == 0)
    }
  }
}
