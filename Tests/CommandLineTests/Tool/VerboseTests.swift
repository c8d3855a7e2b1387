import Foundation
import LupineTesting
import Testing

@testable import lupine

/// Which heads `--verbose` shows: those that went over the wire, all of them, and no others.
@Suite(.timeLimit(.minutes(3))) struct VerboseTests {
  /// The first lines of the heads.
  private func lines(_ outcome: Tool.Outcome) -> [String] {
    outcome.error.split(separator: "\n").map { String($0) }.filter {
      $0.hasPrefix("> GET ") || $0.hasPrefix("< HTTP/1.1 ")
    }
  }

  @Test func redirectToNobody() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(302, fields: ["Location": "http://127.0.0.1:1/b"])
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/a"), "-vF"])
    #expect(outcome.status == 3)
    #expect(lines(outcome) == ["> GET /a HTTP/1.1", "< HTTP/1.1 302 Found"], "\(outcome.error)")
  }

  @Test func tooManyRedirects() async throws {
    let server = try LoopbackServer { request, connection in
      try connection.respond(302, fields: ["Location": request.path + "a"])
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/a"), "-v", "--max-redirects", "1"])
    #expect(
      lines(outcome) == [
        "> GET /a HTTP/1.1", "< HTTP/1.1 302 Found", "> GET /aa HTTP/1.1", "< HTTP/1.1 302 Found",
      ], "\(outcome.error)")
  }

  @Test func challenge() async throws {
    let authority = DigestAuthority(user: "Mufasa", password: "Circle of Life")
    let server = try LoopbackServer { request, connection in
      if try authority.admit(request, connection) { try connection.respond(text: "Welcome.") }
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let arguments = [server.url("/a"), "-v", "-a", "Mufasa:Circle of Life"]
    for more in [[], ["--har", "h"], ["-d"]] {
      let outcome = try await Tool.run(arguments + more, in: folder)
      #expect(outcome.status == 0)
      #expect(
        lines(outcome) == [
          "> GET /a HTTP/1.1", "< HTTP/1.1 401 Unauthorized", "> GET /a HTTP/1.1", "< HTTP/1.1 200 OK",
        ], "\(outcome.error)")
    }
  }

  /// A request without an answer was sent all the same.
  @Test func noAnswer() async throws {
    let server = try LoopbackServer { _, connection in connection.abort() }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/a"), "-v"])
    #expect(outcome.status == 5 && lines(outcome) == ["> GET /a HTTP/1.1"], "\(outcome.error)")
  }

  @Test func informational() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.sendInformational(103, fields: ["Link": "</a>"])
      try connection.respond(text: "a")
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/a"), "-v"])
    #expect(
      lines(outcome) == ["> GET /a HTTP/1.1", "< HTTP/1.1 103 Early Hints", "< HTTP/1.1 200 OK"], "\(outcome.error)")
  }

  /// Of what the cache has there was no request.
  @Test func cached() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Cache-Control": "max-age=1000"], text: "a")
    }
    defer { server.shutdown() }
    let folder = try Folder()
    let first = try await Tool.run([server.url("/a"), "-v", "--cache", "kept"], in: folder)
    #expect(lines(first) == ["> GET /a HTTP/1.1", "< HTTP/1.1 200 OK"], "\(first.error)")
    let second = try await Tool.run([server.url("/a"), "-v", "--cache", "kept"], in: folder)
    #expect(lines(second) == ["< HTTP/1.1 200 OK"] && server.requestCount == 1, "\(second.error)")
  }

  private static let trailers = [
    "--trailer", "X-Sum: 7", "--trailer", "Link: <http://h/?sig=s1gned>", "--trailer", "X-Note:a\u{202e}b",
  ]

  /// What follows the body of a request stands behind its head, and before the answer to all of it.
  @Test func trailersOfRequests() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let arguments = [server.url("/upload"), "-v", "--raw", "text"] + Self.trailers
    let folder = try Folder()
    for more in [[], ["--har", "h"]] {
      let outcome = try await Tool.run(arguments + more, in: folder)
      #expect(outcome.status == 0)
      let expected = #"> X-Sum: 7\#n> Link: <http://h/?sig=REDACTED>\#n> X-Note: a\u{202e}b"#
      #expect(outcome.error.contains("\n\n\(expected)\n\n< HTTP/1.1 200 OK\n"), "\(outcome.error)")
    }
    let shown = try await Tool.run(arguments + ["--show-secrets"])
    #expect(shown.error.contains("\n> Link: <http://h/?sig=s1gned>\n"), "\(shown.error)")
  }

  @Test func trailersOfEveryRequest() async throws {
    let server = try LoopbackServer(
      routes: [
        ServerRoute("POST", "/from") { _, connection in
          _ = try connection.readBody()
          try connection.respond(307, fields: ["Location": "/upload"])
        }
      ] + ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/from"), "-vF", "--raw", "text", "--trailer", "X-Sum: 7"])
    let lines = outcome.error.split(separator: "\n").map { String($0) }.filter {
      $0.hasPrefix("> POST ") || $0.hasPrefix("> X-Sum:") || $0.hasPrefix("< HTTP/1.1 ")
    }
    #expect(
      lines == [
        "> POST /from HTTP/1.1", "> X-Sum: 7", "< HTTP/1.1 307 Temporary Redirect", "> POST /upload HTTP/1.1",
        "> X-Sum: 7", "< HTTP/1.1 200 OK",
      ], "\(outcome.error)")
  }

  /// What is refused when it is given was announced, and not sent.
  @Test func trailersThatWereNotSent() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let trailer = "X-Sum: " + String(repeating: "7", count: 17 << 10)
    let outcome = try await Tool.run([server.url("/upload"), "-v", "--raw", "text", "--trailer", trailer])
    #expect(outcome.status != 0)
    #expect(outcome.error.contains("\n> Trailer: X-Sum\n") && !outcome.error.contains("> X-Sum"), "\(outcome.error)")
  }
}
