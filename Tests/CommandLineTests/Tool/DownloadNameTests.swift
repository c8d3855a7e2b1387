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

  /// Who may name a part and its record says how the file of somebody else begins.
  @Test func noServerNamesPartsAndRecords() async throws {
    let server = try LoopbackServer { request, connection in
      let name = String(request.path.dropFirst())
      try connection.respond(
        fields: request.query("named") == nil ? [:] : ["Content-Disposition": "attachment; filename=\(name)"],
        text: "body")
    }
    defer { server.shutdown() }
    let names = [
      "a.part": "a_part", "a.part.resume": "a.part_resume", "a.part.resume.new": "a.part.resume_new",
      "a.part.x": "a.part.x",
    ]
    for options in [["-d"], ["-d", "-c"]] {
      for query in ["", "?named"] {
        let folder = try Folder()
        for (name, saved) in names {
          let outcome = try await Tool.run(options + [server.url("/\(name)\(query)")], in: folder)
          #expect(outcome.status == 0 && outcome.error.contains("✓ \(saved)  4 B"), "\(outcome.error)")
        }
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: folder.root.path)) == Set(names.values))
      }
    }
  }

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
