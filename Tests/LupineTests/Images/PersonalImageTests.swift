import Foundation
import HTTPTypes
import Lupine
import LupineTesting
import Testing

/// Images for one user are nobody else's.
@Suite(.timeLimit(.minutes(1))) struct PersonalImageTests {
  /// Routes of a server whose pictures are those of who asks; `/moved` leads to another origin, where nobody is told who asks, `/near` to the same.
  private func routes(_ other: String) -> [ServerRoute] {
    let image: @Sendable (ServerRequest, ServerConnection) throws -> Void = { _, connection in
      try connection.respond(fields: ["Content-Type": "image/png"], body: TestImage.png(3, 3))
    }
    return [
      ServerRoute("GET", "/me", handler: image), ServerRoute("GET", "/public", handler: image),
      ServerRoute("GET", "/moved") { _, connection in try connection.respond(302, fields: ["Location": other]) },
      ServerRoute("GET", "/near") { _, connection in try connection.respond(302, fields: ["Location": "/me"]) },
    ]
  }

  /// What an interceptor's `Authorization` got is not kept for others, whatever a redirect leaves of that; what it leaves alone is.
  @Test func whatInterceptorsAuthorizeIsNotKept() async throws {
    let other = try LoopbackServer(routes: routes(""))
    defer { other.shutdown() }
    let server = try LoopbackServer(routes: routes(other.url("/public")))
    defer { server.shutdown() }
    let users = Calls<String>()
    let manager = try SessionManager(configuration: .ephemeral)
    manager.completionQueue = DispatchQueue(label: "responses")
    manager.interceptors = [
      ClosureInterceptor(adapt: { request, _ in
        guard !request.urlString.hasSuffix("/public") else { return request }
        var request = request
        users.note("user")
        request.fields.append(HTTPField(name: .authorization, value: "Bearer \(users.all.count)"))
        return request
      })
    ]
    let downloader = ImageDownloader(sessionManager: manager, completionQueue: DispatchQueue(label: "images"))
    for (path, isKept) in [("/me", false), ("/moved", false), ("/near", false), ("/public", true)] {
      let request = try Request(server.url(path))
      _ = try await downloader.image(for: request)
      let kept = downloader.imageCache?.image(for: request, additionalIdentifier: nil)
      #expect((kept != nil) == isKept, "\(path)")
    }
    try manager.invalidateSession(cancellingTasks: true)
  }

  /// What answers a body answers nobody who sends another one, or none.
  @Test func whatAnswersABodyIsNotKept() async throws {
    let route = ServerRoute(nil, "/chart") { request, connection in
      let body = try request.method == "GET" ? [] : connection.readBody()
      try connection.respond(fields: ["Content-Type": "image/png"], body: TestImage.png(body.count + 1, 1))
    }
    let server = try LoopbackServer(routes: [route])
    defer { server.shutdown() }
    let downloader = try ImageDownloader(
      configuration: .ephemeral, completionQueue: DispatchQueue(label: "images"))
    func width(_ method: HTTPRequest.Method, _ body: Request.Body) async throws -> Int {
      var request = try Request(server.url("/chart"), method: method)
      request.body = body
      return try await downloader.image(for: request).image.pixelWidth
    }
    for count in [3, 5, 3] {
      let found = try await width(.post, .bytes([UInt8](repeating: 0, count: count)))
      #expect(found == count + 1)
    }
    #expect(try await width(.get, .none) == 1 && server.requestCount == 4)
    // Now that there is one in memory, it is for GET alone.
    #expect(try await width(.post, .bytes([0])) == 2)
    #expect(try await width(.get, .none) == 1 && server.requestCount == 5)
  }

  /// A `Cookie` of the request's own and a field that is marked say who asks as `Authorization` does: such an image is neither kept for others nor taken
  /// from what others have. That the jar has cookies says nothing.
  @Test(arguments: ["Cookie", "X-Own-Key", "X-Session-Key", "X-Plain"])
  func whatNamesTheUserIsPersonal(_ field: String) async throws {
    let server = try LoopbackServer(routes: routes(""))
    defer { server.shutdown() }
    let (own, shared) = (try #require(HTTPField.Name("X-Own-Key")), try #require(HTTPField.Name("X-Session-Key")))
    var configuration = SessionConfiguration.ephemeral
    configuration.sensitiveFields = [shared]
    try configuration.cookieStorage?.setCookies(["a=1; Path=/"], from: server.url())
    let downloader = try ImageDownloader(
      configuration: configuration, completionQueue: DispatchQueue(label: "images"))
    var request = try Request(server.url("/me"))
    request.sensitiveFields = [own]
    request.fields[try #require(HTTPField.Name(field))] = "alice"
    _ = try await downloader.image(for: request)
    let isKept = downloader.imageCache?.image(for: request, additionalIdentifier: nil) != nil
    #expect(isKept == (field == "X-Plain"))
    _ = try await downloader.image(from: server.url("/me"))
    _ = try await downloader.image(for: request)
    #expect(server.requestCount == (field == "X-Plain" ? 1 : 3))
  }

  /// What the session says to everybody tells nobody apart, also where it is several cookies.
  @Test func cookiesOfTheSessionAreNobodys() async throws {
    let server = try LoopbackServer(routes: routes(""))
    defer { server.shutdown() }
    var configuration = SessionConfiguration.ephemeral
    configuration.cookieStorage = nil
    configuration.additionalFields[.cookie] = "a=1; b=2"
    let manager = try SessionManager(configuration: configuration)
    manager.completionQueue = DispatchQueue(label: "responses")
    let downloader = ImageDownloader(sessionManager: manager, completionQueue: DispatchQueue(label: "images"))
    for path in ["/public", "/near"] {
      let request = try Request(server.url(path))
      _ = try await downloader.image(for: request)
      #expect(downloader.imageCache?.image(for: request, additionalIdentifier: nil) != nil, "\(path)")
    }
    try manager.invalidateSession(cancellingTasks: true)
  }

  /// What an interceptor marks, and a redirect leaves behind, is the user's all the same; so are a key by custom and a `Cookie` that no jar has sent, also where
  /// there is a jar.
  @Test(arguments: [("X-Own-Key", false), ("X-Api-Key", false), ("Cookie", false), ("Cookie", true)])
  func whatInterceptorsMarkIsNotKept(_ field: String, hasJar: Bool) async throws {
    let other = try LoopbackServer(routes: routes(""))
    defer { other.shutdown() }
    let server = try LoopbackServer(routes: routes(other.url("/public")))
    defer { server.shutdown() }
    let name = try #require(HTTPField.Name(field))
    var configuration = SessionConfiguration.ephemeral
    if !hasJar { configuration.cookieStorage = nil }
    let manager = try SessionManager(configuration: configuration)
    manager.completionQueue = DispatchQueue(label: "responses")
    manager.interceptors = [
      ClosureInterceptor(adapt: { request, _ in
        var request = request
        request.fields[name] = "alice"
        if field == "X-Own-Key" { request.sensitiveFields = [name] }
        return request
      })
    ]
    let downloader = ImageDownloader(sessionManager: manager, completionQueue: DispatchQueue(label: "images"))
    for path in ["/me", "/moved", "/near"] {
      let request = try Request(server.url(path))
      _ = try await downloader.image(for: request)
      #expect(downloader.imageCache?.image(for: request, additionalIdentifier: nil) == nil, "\(path)")
    }
    #expect(other.recordedRequests.map { $0.fields.first(field) } == [nil])
    try manager.invalidateSession(cancellingTasks: true)
  }
}
