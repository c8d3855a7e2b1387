import LupineSession
import LupineTesting
import Testing

/// The name that a response suggests is the server's word: it must not lead out of the folder in which somebody saves it.
@Suite(.timeLimit(.minutes(1))) struct SuggestedNameTests {
  /// A path, the value of `Content-Disposition` if there is one, and the name.
  static let rows: [(path: String, disposition: String?, name: String)] = [
    ("/a", #"attachment; filename="../../x""#, "x"), ("/a", #"attachment; filename="/etc/x""#, "x"),
    ("/a", "attachment; filename*=UTF-8''..%2Fx", "x"), ("/a", "attachment; filename=.bashrc", "bashrc"),
    ("/a", #"attachment; filename="..\\..\\x""#, "x"), ("/a", #"attachment; filename="..""#, "a"),
    ("/a/b.txt?c=/d", nil, "b.txt"), ("/%2e%2e", nil, "download"), ("/.bashrc", nil, "bashrc"),
    ("/Annual%20Report.pdf", nil, "Annual Report.pdf"), ("/caf%C3%A9", nil, "café"),
    ("/a%2f..%2f..%2fx", nil, "a%2f..%2f..%2fx"), ("/", nil, "download"),
  ]

  @Test(arguments: rows) func isOneSafeComponent(_ row: (path: String, disposition: String?, name: String)) async throws
  {
    let disposition = row.disposition
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: disposition.map { ["Content-Disposition": $0] } ?? [:], text: "body")
    }
    defer { server.shutdown() }
    try await withSession(ports: [server.port]) { session in
      let (_, response) = try await session.data(from: server.url(row.path))
      #expect(response.suggestedFileName == row.name)
    }
  }
}
