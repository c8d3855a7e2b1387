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
}
