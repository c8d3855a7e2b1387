import Foundation
import LupineCommandLine
import LupineRules
import LupineSession
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct CookieTests {
  /// `/cookies`, `/cookies/set` and `/redirect` of the standard routes.
  private func withServer(_ body: (LoopbackServer, Folder) async throws -> Void) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    try await body(server, Folder())
  }

  @Test func aSessionIsKeptBetweenRuns() async throws {
    try await withServer { server, folder in
      let set = try await Tool.run(["--session", "s.json", server.url("/cookies/set?sid=1&x=2")], in: folder)
      #expect(set.status == 0 && set.error == "", "\(set.error)")
      let mode = try FileManager.default.attributesOfItem(atPath: folder.path("s.json"))[.posixPermissions] as? Int
      #expect(mode == 0o600)
      let shown = try await Tool.run(["--session", "s.json", server.url("/cookies")], in: folder)
      #expect(shown.text == "sid=1; x=2")
      // Another session, and none, know nothing of them.
      #expect(try await Tool.run(["--session", "t.json", server.url("/cookies")], in: folder).text == "")
      #expect(try await Tool.run([server.url("/cookies")], in: folder).text == "")
    }
  }

  /// What others keep in the file stays there.
  @Test func unknownMembersOfTheFileAreKept() async throws {
    try await withServer { server, folder in
      try folder.write(#"{"version": 1, "later": [{"a": 1.50}], "cookies": []}"#, to: "s.json")
      let outcome = try await Tool.run(["--session", "s.json", server.url("/cookies/set?sid=1")], in: folder)
      #expect(outcome.status == 0, "\(outcome.error)")
      let value = try JSONReader.read(try folder.bytes("s.json"))
      #expect(value["later"] == .array([.object([JSONValue.Member("a", .number("1.50"))])]))
      #expect(value["cookies"]?.array?.first?["name"] == .string("sid"))
      #expect(value["version"] == .number("1"))
    }
  }

  @Test(arguments: [
    "[]", "{", "{\"version\": 7}", "text", "{\"version\": 1, \"credentials\": 7}",
    "{\"version\": 1, \"credentials\": [{\"origin\": \"http://a\", \"user\": \"s3cret\"}]}",
    "{\"version\": 1, \"credentials\": [{\"origin\": \"a\", \"token\": \"s3cret\"}]}",
  ]) func noSessionFile(_ text: String) async throws {
    try await withServer { server, folder in
      try folder.write(text, to: "s.json")
      let outcome = try await Tool.run(["--session", "s.json", server.url("/cookies")], in: folder)
      #expect(outcome.status == 2 && outcome.error.contains("is no session file"), "\(outcome.error)")
      #expect(!outcome.error.contains("s3cret"))
      #expect(server.requestCount == 0)
      #expect(String(decoding: try folder.bytes("s.json"), as: UTF8.self) == text)
    }
  }

  /// What a later run would refuse to read does not take the place of what it reads.
  @Test func noMoreIsSavedThanIsRead() throws {
    let folder = try Folder()
    try folder.write(#"{"version": 1, "cookies": []}"#, to: "s.json")
    let file = try SessionFile(folder.path("s.json"), sizeLimit: 500)
    let value = String(repeating: "\"", count: 200)
    #expect(try file.cookies.setCookies(["a=\(value)"], from: "https://site.com/") == 1)
    #expect(throws: CommandFailure.self) { try file.save() }
    #expect(try SessionFile(folder.path("s.json")).cookies.isEmpty)
  }

  /// What cannot be kept is known before anything is sent; a link stays one; what is printed is not saved.
  @Test func aSessionGoesWhereItsNameLeads() async throws {
    try await withServer { server, folder in
      let url = server.url("/cookies/set?sid=1")
      let nowhere = try await Tool.run(["--session", "no/such/s.json", url], in: folder)
      #expect(
        nowhere.status == 1 && nowhere.error.contains("no/such/s.json") && server.requestCount == 0, "\(nowhere.error)")
      try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "target")
      #expect(try await Tool.run(["--session", "link", "--print-curl", url], in: folder).status == 0)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path) == ["link"])
      for _ in 0..<2 { #expect(try await Tool.run(["--session", "link", url], in: folder).status == 0) }
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("link")) == "target")
      #expect(try SessionFile(folder.path("target")).cookies.count == 1)
    }
  }

  /// The system says where a path leads: to it `~` is a name, and `..` behind a link is above what that leads to.
  @Test(arguments: ["--session", "--har"], ["~/s.json", "link/../t.json"])
  func aPathLeadsWhereTheSystemSays(_ option: String, _ path: String) async throws {
    try await withServer { server, folder in
      let root = folder.root.path
      for name in ["~", "home", "real/sub"] {
        try FileManager.default.createDirectory(atPath: "\(root)/\(name)", withIntermediateDirectories: true)
      }
      try FileManager.default.createSymbolicLink(atPath: "\(root)/link", withDestinationPath: "real/sub")
      let others = ["home/s.json", "t.json"]
      for other in others { try folder.write("mine", to: other) }
      // Into a file that is missing, and into one that is there.
      for _ in 0..<2 {
        let outcome = try await Tool.run(
          [option, path, server.url("/cookies/set?sid=1")], in: folder, environment: ["HOME": "\(root)/home"])
        #expect(outcome.status == 0, "\(outcome.error)")
      }
      let meant = path.hasPrefix("~") ? "\(root)/~/s.json" : "\(root)/real/t.json"
      let text = String(decoding: try Data(contentsOf: URL(filePath: meant)), as: UTF8.self)
      #expect(text.contains("sid"), "\(text)")
      for other in others { #expect(try folder.bytes(other) == Array("mine".utf8), "\(other)") }
    }
  }

  @Test(arguments: ["--session", "--har"]) func anEmptyPathNamesNoFile(_ option: String) async throws {
    try await withServer { server, folder in
      let outcome = try await Tool.run([option, "", server.url("/cookies")], in: folder)
      #expect(outcome.status == 1 && outcome.error.contains("an empty path names no file"), "\(outcome.error)")
      #expect(server.requestCount == 0)
      #expect(try FileManager.default.contentsOfDirectory(atPath: folder.root.path).isEmpty)
    }
  }

  @Test func cookiesOfAFailedRunAreKept() async throws {
    try await withServer { server, folder in
      let outcome = try await Tool.run(
        ["--session", "s.json", "--fail", server.url("/cookies/set?sid=1"), "--timeout", "20"], in: folder)
      #expect(outcome.status == 0)
      let failed = try await Tool.run(
        ["--session", "s.json", "--fail", server.url("/status?code=500")], in: folder)
      #expect(failed.status == 22)
      #expect(try await Tool.run(["--session", "s.json", server.url("/cookies")], in: folder).text == "sid=1")
    }
  }

  @Test func oneRunHasAJarForItsRedirects() async throws {
    let server = try LoopbackServer(routes: [
      ServerRoute(nil, "/login") { _, connection in
        try connection.respond(302, fields: ["Set-Cookie": "sid=s3cr3t; Path=/", "Location": "/"], text: "")
      },
      ServerRoute(nil, "/") { request, connection in
        try connection.respond(text: request.fields.first("Cookie") ?? "none")
      },
    ])
    defer { server.shutdown() }
    let outcome = try await Tool.run(["-v", "-F", server.url("/login")])
    #expect(outcome.text == "sid=s3cr3t")
    // Neither as received nor as sent.
    #expect(outcome.error.contains("< Set-Cookie: [hidden") && outcome.error.contains("> Cookie: [hidden"))
    #expect(!outcome.error.contains("s3cr3t"))
    #expect(try await Tool.run([server.url("/")]).text == "none")
  }

  // MARK: Batch

  private func bodies(_ lines: [String], in folder: Folder) async throws -> [String] {
    // One at a time, in order.
    let outcome = try await Tool.run(
      ["batch", "--concurrency", "1"], input: lines.map { $0 + "\n" }.joined(), in: folder)
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome.error)")
    return try outcome.lines.map { line in
      let result = try JSONReader.read(line)
      let body = result["bodyBase64"]?.string.flatMap { Base64.decode($0) } ?? []
      return result["error"]?["code"]?.string ?? String(decoding: body, as: UTF8.self)
    }
  }

  @Test func aBatchSharesOneJar() async throws {
    try await withServer { server, folder in
      func line(_ path: String, _ more: String = "") -> String { #"{"url":"\#(server.url(path))"\#(more)}"# }
      let bodies = try await bodies(
        [
          line("/cookies/set?a=1"), line("/cookies", #","cookies":true"#),
          line("/cookies/set?b=1", #","cookies":true"#), line("/cookies", #","cookies":true"#),
          line("/cookies", #","cookies":true,"insecure":true"#), line("/cookies"),
          line("/cookies", #","cookies":false"#),
          line("/cookies", #","cookies":1"#), line("/cookies", #","cookies":false,"cookieFile":"x""#),
        ], in: folder)
      #expect(bodies == ["", "", "", "b=1", "b=1", "", "", "badRequest", "badRequest"])
    }
  }

  @Test func namesOfOneFileAreOneJar() async throws {
    try await withServer { server, folder in
      try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: "c.txt")
      func line(_ path: String, _ file: String) -> String { #"{"url":"\#(server.url(path))","cookieFile":"\#(file)"}"# }
      let bodies = try await bodies(
        [
          line("/cookies/set?a=1", "c.txt"), line("/cookies/set?b=2", "./c.txt"), line("/cookies/set?c=3", "link"),
          line("/cookies", folder.path("c.txt")),
        ], in: folder)
      #expect(bodies == ["", "", "", "a=1; b=2; c=3"])
      let text = String(decoding: try folder.bytes("c.txt"), as: UTF8.self)
      #expect(
        text.hasSuffix("\ta\t1\n127.0.0.1\tFALSE\t/\tFALSE\t0\tb\t2\n127.0.0.1\tFALSE\t/\tFALSE\t0\tc\t3\n"), "\(text)")
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("link")) == "c.txt")
    }
  }

  /// A mark that a name begins with is one character with the slash before it.
  @Test func linksAreFollowedFromTheirOwnFolders() throws {
    let folder = try Folder()
    let link = folder.root.path + "/\u{301}link"
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "c.txt")
    let target = FileSystem.resolved(link)
    #expect(target == FileSystem.resolved(folder.path("c.txt")))
    #expect(!folder.exists("c.txt"))
    #expect(FileSystem.folder(of: link) == folder.root.path + "/" && FileSystem.folder(of: "\u{301}link") == "")
    #expect(FileSystem.name(of: link) == "\u{301}link" && FileSystem.name(of: "\u{301}link") == "\u{301}link")
  }

  /// Several links, of which the last leads to nothing yet; what nothing can be made of is left as it is.
  @Test func linksAreFollowedToWhereNothingIs() throws {
    let folder = try Folder()
    let root = folder.root.path
    try FileManager.default.createDirectory(atPath: "\(root)/real/sub", withIntermediateDirectories: true)
    for (name, target) in [("link", "real/sub"), ("a", "link/../b"), ("real/b", "c"), ("loop", "loop")] {
      try FileManager.default.createSymbolicLink(atPath: "\(root)/\(name)", withDestinationPath: target)
    }
    let target = FileSystem.resolved("\(root)/a")
    #expect(target.hasSuffix("/real/c") && target == FileSystem.resolved("\(root)/link/../c"))
    #expect(FileSystem.resolved("\(root)/link/..") == FileSystem.resolved("\(root)/real"))
    #expect(FileSystem.resolved("\(root)/loop").hasSuffix("/loop"))
    #expect(FileSystem.resolved("/nowhere.txt") == "/nowhere.txt")
    #expect(FileSystem.resolved("~/nowhere/x") == "~/nowhere/x")
  }

  /// As the system tells files apart: by bytes, also where Swift's strings are equal.
  @Test func twoSpellingsOfALetterAreTwoFiles() async throws {
    try await withServer { server, folder in
      let files = ["\u{E9}.txt", "e\u{301}.txt"]
      func line(_ path: String, _ file: String) -> String { #"{"url":"\#(server.url(path))","cookieFile":"\#(file)"}"# }
      let bodies = try await bodies(
        [
          line("/cookies/set?a=1", files[0]), line("/cookies", files[1]), line("/cookies/set?b=2", files[1]),
          line("/cookies", files[0]), line("/cookies", files[1]),
        ], in: folder)
      #expect(bodies == ["", "", "", "a=1", "b=2"])
      for (file, end) in zip(files, ["a\t1\n", "b\t2\n"]) {
        let text = String(decoding: try folder.bytes(file), as: UTF8.self)
        #expect(text.hasSuffix(end), "\(text)")
      }
    }
  }

  @Test func aBatchKeepsFilesOfCookies() async throws {
    try await withServer { server, folder in
      try folder.write("127.0.0.1\tFALSE\t/\tFALSE\t0\told\t1\n", to: "cookies.txt")
      func line(_ path: String, _ file: String) -> String { #"{"url":"\#(server.url(path))","cookieFile":"\#(file)"}"# }
      let bodies = try await bodies(
        [
          line("/cookies", "cookies.txt"), line("/cookies/set?new=2", "cookies.txt"), line("/cookies", "cookies.txt"),
          line("/cookies", "other.txt"), line("/cookies", "."),
        ], in: folder)
      #expect(bodies == ["old=1", "", "old=1; new=2", "", "fileFailed"])
      let text = String(decoding: try folder.bytes("cookies.txt"), as: UTF8.self)
      #expect(text.hasSuffix("127.0.0.1\tFALSE\t/\tFALSE\t0\told\t1\n127.0.0.1\tFALSE\t/\tFALSE\t0\tnew\t2\n"))
      #expect(folder.exists("other.txt"))
      // A file that cannot be written is told at the end.
      let request = #"{"url":"\#(server.url("/cookies"))","cookieFile":"/nonexistent/folder/c.txt"}"#
      let outcome = try await Tool.run(["batch"], input: request + "\n", in: folder)
      #expect(outcome.status == 1 && outcome.lines.count == 1 && outcome.error.contains("cannot write"))
    }
  }

  /// A link that the system does not follow is not followed by the batch either, nor taken for a missing file.
  @Test func aFileOfCookiesThatCannotBeLookedAtIsRefused() async throws {
    try await withServer { server, folder in
      try FileManager.default.createSymbolicLink(atPath: folder.path("c.txt"), withDestinationPath: "c.txt")
      let line = #"{"url":"\#(server.url("/cookies/set?a=1"))","cookieFile":"c.txt"}"#
      #expect(try await bodies([line], in: folder) == ["fileFailed"])
      #expect(try FileManager.default.destinationOfSymbolicLink(atPath: folder.path("c.txt")) == "c.txt")
      #expect(server.requestCount == 0)
    }
  }

  /// At the end only cookies would be in it.
  @Test func aFileOfSomethingElseStaysAsItIs() async throws {
    try await withServer { server, folder in
      let session = #"{"version": 1, "cookies": []}"# + "\n"
      let foreign = ["notes.txt": "# Notes\nimportant\n", "session.json": session, "bytes": "\u{0}\u{1}\n"]
      for (name, text) in foreign { try folder.write(text, to: name) }
      try folder.write("", to: "empty.txt")
      try folder.write("# Netscape HTTP Cookie File\nbroken\n", to: "titled.txt")
      let files = foreign.keys.sorted() + ["empty.txt", "titled.txt"]
      let lines = files.map { #"{"id":"\#($0)","url":"\#(server.url("/cookies/set?a=1"))","cookieFile":"\#($0)"}"# }
      let outcome = try await Tool.run(["batch"], input: lines.map { $0 + "\n" }.joined(), in: folder)
      #expect(outcome.status == 0)
      for line in outcome.lines {
        let result = try JSONReader.read(line)
        let name = try #require(result["id"]?.string)
        guard let text = foreign[name] else {
          let written = String(decoding: try folder.bytes(name), as: UTF8.self)
          #expect(result["error"] == .null && written.contains("\ta\t1"))
          continue
        }
        #expect(result["error"]?["code"] == .string("fileFailed"))
        #expect(result["error"]?["message"]?.string?.contains("\(name) is no cookies.txt") == true)
        #expect(String(decoding: try folder.bytes(name), as: UTF8.self) == text)
      }
      #expect(server.requestCount == 2)
    }
  }
}
