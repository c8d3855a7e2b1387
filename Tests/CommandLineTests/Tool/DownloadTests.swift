import Foundation
import LupineTesting
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct DownloadTests {
  @Test func savesUnderItsNameAndOverwritesNothing() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    for name in ["hello", "hello-1"] {
      let outcome = try await Tool.run(["--download", server.url("/hello")], in: folder)
      #expect(outcome.status == 0 && outcome.text == "" && outcome.error.contains("✓ \(name)  13 B"))
      #expect(try folder.bytes(name) == Array("Hello, world!".utf8))
    }
    #expect(!folder.exists("hello.part"))
  }

  @Test func goesOnWhereItBrokeOff() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let broken = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=300000&cut=100000")], in: folder)
    #expect(broken.status == 5 && broken.error.contains("--continue goes on from there"))
    #expect(try folder.bytes("f.part") == PatternBody.bytes(100_000) && !folder.exists("f"))
    let whole = try await Tool.run(["-d", "--continue", "-o", "f", server.url("/bytes?n=300000")], in: folder)
    #expect(whole.status == 0)
    #expect(try folder.bytes("f") == PatternBody.bytes(300_000))
    #expect(!folder.exists("f.part") && !folder.exists("f.part.validator"))
    let request = try #require(server.recordedRequests.last)
    #expect(request.fields.first("Range") == "bytes=100000-")
    #expect(request.fields.first("If-Range") == "\"pattern-300000\"")
  }

  @Test func startsOverWhenTheFileChanged() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    _ = try await Tool.run(["-d", "-o", "f", server.url("/bytes?n=9000&cut=5000&etag=old")], in: folder)
    let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=9000&etag=new")], in: folder)
    #expect(outcome.status == 0 && server.recordedRequests.last?.fields.first("If-Range") == "\"old\"")
    #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
  }

  /// A file that another program began, and one that is complete already.
  @Test func continuesForeignFiles() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    try Data(PatternBody.bytes(4_000)).write(to: folder.url("f"))
    for note in ["continued", "complete already"] {
      let outcome = try await Tool.run(["-dc", "-o", "f", server.url("/bytes?n=9000")], in: folder)
      #expect(outcome.status == 0 && outcome.error.contains(note))
      #expect(try folder.bytes("f") == PatternBody.bytes(9_000))
    }
  }

  @Test func errorPageMakesNoFile() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let outcome = try await Tool.run(["-d", "-o", "f", server.url("/status?code=404")], in: folder)
    #expect(outcome.status == 22 && !folder.exists("f") && !folder.exists("f.part"))
  }
}
