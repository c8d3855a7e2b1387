import FoundationEssentials
import HTTPTypes
import LupineBase
import LupineSession
import LupineTesting
import Testing

/// Whom a stored response may answer.
@Suite struct CacheSharingTests {
  private static let fresh: ServerFields = ["Cache-Control": "max-age=1000"]

  /// A response that changes the jar is stored under the cookies that it was asked for with: neither without cookies, nor with those that it has set,
  /// nor by another session, is anybody else answered with it.
  @Test(arguments: ["; Max-Age=0", "bob"]) func whatVariesByCookieIsForWhoAsked(_ successor: String) async throws {
    let server = try LoopbackServer { request, connection in
      let cookie = request.fields.first("Cookie") ?? "nobody"
      var fields: ServerFields = ["Cache-Control": "private, max-age=1000", "Vary": "Cookie"]
      if request.path == "/in" { fields = ["Set-Cookie": "sid=alice; Path=/", "Cache-Control": "no-store"] }
      if cookie == "sid=alice" { fields.append("Set-Cookie", "sid=\(successor); Path=/") }
      try connection.respond(fields: fields, text: "page of \(cookie)")
    }
    defer { server.shutdown() }
    let cache = ResponseCache()
    try await withSession(configure: { $0.responseCache = cache }) { session in
      _ = try await session.data(from: server.url("/in"))
      try await session.expect("page of sid=alice", from: server.url("/page"))
      let next = successor == "bob" ? "sid=bob" : "nobody"
      try await session.expect("page of \(next)", from: server.url("/page"))
      let fromMemory = try await session.expect("page of \(next)", from: server.url("/page"))
      #expect(fromMemory.metrics.transactions.map(\.fetchType) == [.localCache])
    }
    try await withSession(ports: [server.port], configure: { $0.responseCache = cache }) { session in
      try await session.expect("page of nobody", from: server.url("/page"))
    }
  }
}
