import Foundation
import LupineTesting
import Testing

/// Without `--output` the server or the URL names the file, and the file is in the folder that the tool runs in.
@Suite(.timeLimit(.minutes(2))) struct DownloadNameTests {
  static let rows: [(path: String, disposition: String?, name: String)] = [
    ("/a", #"attachment; filename="../../x""#, "x"), ("/a", "attachment; filename*=UTF-8''..%2Fx", "x"),
    ("/a", "attachment; filename=.bashrc", "bashrc"), ("/a", #"attachment; filename="/tmp/x""#, "x"),
    ("/%2e%2e", nil, "download"), ("/.bashrc", nil, "bashrc"),
  ]

  @Test(arguments: rows) func staysInItsFolder(_ row: (path: String, disposition: String?, name: String)) async throws {
    let disposition = row.disposition
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: disposition.map { ["Content-Disposition": $0] } ?? [:], text: "body")
    }
    defer { server.shutdown() }
    let folder = try Folder()
    try FileManager.default.createDirectory(at: folder.url("a/b"), withIntermediateDirectories: true)
    try Data("mine".utf8).write(to: folder.url("a/x"))
    let inner = try Folder(at: folder.url("a/b"))
    let outcome = try await Tool.run(["-d", server.url(row.path)], in: inner)
    #expect(outcome.status == 0 && outcome.error.contains("✓ \(row.name)  4 B"), "\(outcome.error)")
    #expect(
      try FileManager.default.subpathsOfDirectory(atPath: folder.root.path).sorted() == [
        "a", "a/b", "a/b/\(row.name)", "a/x",
      ])
    #expect(try folder.bytes("a/x") == Array("mine".utf8))
  }
}
