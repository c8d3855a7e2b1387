import Glibc
import LupineBase
import LupineRules
import LupineSession
import LupineTesting
import Testing

/// Downloads that go on behind a redirect: a validator is one of a resource, not of whatever a name leads to.
extension ResumeTests {
  /// Redirected to another server, the same tag says nothing.
  @Test func otherOriginStartsAgain() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000)])
    let mirror = FileServer(.init(size: Self.size, shift: 3))
    let second = try LoopbackServer(routes: [mirror.route])
    defer { second.shutdown() }
    let first = try LoopbackServer(routes: [file.route])
    defer { first.shutdown() }
    let hops = Locked(0)
    let front = try LoopbackServer { request, connection in
      let hop = hops.withLock {
        $0 += 1; return $0
      }
      try connection.respond(302, fields: ["Location": hop == 1 ? first.url("/file") : second.url("/file")])
    }
    defer { front.shutdown() }
    let folder = try DownloadFolder()
    try await withSession(configure: { $0.temporaryDirectory = folder.parentPath }) { session in
      let data = try await broken(session, front, folder)
      #expect(data.urlString == front.url("/file"))
      let response = try await resume(data, session, folder).response
      #expect(Pattern.matches(folder.target, Self.size, from: 3))
      // Both ways were gone, of which the last one led here.
      #expect(response.metrics.redirectCount == 2 && response.metrics.transactions.count == 4)
      #expect(second.recordedRequests.map(Self.asks) == [["bytes=1000-", "\"v1\""], [nil, nil]])
      #expect(response.redirects.count == 1)
      #expect(folder.partials == [])
    }
  }

  /// Those before count: a download that begins anew follows no more of them than any task.
  @Test func redirectsBeforeItStartsAgainCount() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .init(ignoresCondition: true)])
    let server = try LoopbackServer { request, connection in
      guard request.path == "/file" else { return try file.serve(request, connection) }
      try connection.respond(302, fields: ["Location": "/here"])
    }
    defer { server.shutdown() }
    let folder = try DownloadFolder()
    try await withSession(configure: {
      $0.temporaryDirectory = folder.parentPath
      $0.redirects.limit = 1
    }) { session in
      let data = try await broken(session, server, folder)
      file.change { $0 = .init(size: Self.size, tag: "\"v2\"", shift: 7) }
      let error = try await failure { try await resume(data, session, folder) }
      #expect(error.code == .tooManyRedirects && error.metrics?.redirectCount == 1)
      #expect(server.recordedRequests.map(\.path) == ["/file", "/here", "/file", "/here", "/file"])
    }
  }

  /// What a name leads to has changed meanwhile, on one server, which makes its tags of date and length.
  @Test(arguments: [true, false]) func otherResourceStartsAgain(isTagged: Bool) async throws {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT"
    let tag = isTagged ? "\"v1\"" : nil
    let answered = "Tue, 15 Nov 1994 08:12:31 GMT"
    let old = FileServer(.init(size: Self.size, tag: tag, lastModified: date, date: answered), [.cut(1000)])
    let new = FileServer(.init(size: Self.size, tag: tag, lastModified: date, date: answered, shift: 3))
    let paths = isTagged ? ["/v1/file", "/v2/file"] : ["/file?v=1", "/file?v=2"]
    let hops = Locked(0)
    let server = try LoopbackServer { request, connection in
      switch request.target {
      case paths[0]: try old.serve(request, connection)
      case paths[1]: try new.serve(request, connection)
      default:
        let hop = hops.withLock {
          $0 += 1; return $0
        }
        try connection.respond(302, fields: ["Location": paths[min(hop, 2) - 1]])
      }
    }
    defer { server.shutdown() }
    let folder = try DownloadFolder()
    try await withSession(configure: { $0.temporaryDirectory = folder.parentPath }) { session in
      let data = try await broken(session, server, folder)
      try await resume(data, session, folder)
      #expect(Pattern.matches(folder.target, Self.size, from: 3))
      let asked = server.recordedRequests.filter { $0.target == paths[1] }.map(Self.asks)
      #expect(asked == [["bytes=1000-", isTagged ? tag : date], [nil, nil]])
      #expect(folder.partials == [])
    }
  }

  /// The same file, its redirect signed anew.
  @Test func otherSignatureGoesOn() async throws {
    let file = FileServer(.init(size: Self.size), [.cut(1000), .cut(2000)])
    let hops = Locked(0)
    let server = try LoopbackServer { request, connection in
      guard !request.target.hasPrefix("/objects/") else { return try file.serve(request, connection) }
      let hop = hops.withLock {
        $0 += 1; return $0
      }
      try connection.respond(302, fields: ["Location": "/objects/1?signature=\(hop)"])
    }
    defer { server.shutdown() }
    let folder = try DownloadFolder()
    try await withSession(configure: { $0.temporaryDirectory = folder.parentPath }) { session in
      let data = try await broken(session, server, folder)
      // Broken off once more: what was noted then must lead on too.
      let error = try await failure {
        try await session.download(resumeFrom: data, to: DownloadDestination(path: folder.target))
      }
      let second = try #require(error.resumeData)
      #expect(second.receivedBytes == 3000)
      try await resume(second, session, folder)
      #expect(Pattern.matches(folder.target, Self.size))
      let asked = server.recordedRequests.filter { $0.target.hasPrefix("/objects/") }.map(Self.asks)
      #expect(asked == [[nil, nil], ["bytes=1000-", "\"v1\""], ["bytes=3000-", "\"v1\""]])
    }
  }
}
