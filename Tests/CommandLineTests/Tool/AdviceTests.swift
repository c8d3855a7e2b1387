import Foundation
import LupineSession
import LupineTesting
import Testing

@testable import lupine

/// What an error says to do can help, and names what the tool has.
@Suite(.timeLimit(.minutes(3))) struct AdviceTests {
  /// Which option cures a certificate depends on what is wrong with it.
  @Test func certificates() async throws {
    let authority = try CertificateAuthority()
    var order = CertificateOrder(commonName: "other")
    (order.dnsNames, order.ipAddresses) = (["other.example"], [])
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(try authority.issue(order)))
    defer { server.shutdown() }
    let root = try authority.writeRoot()
    defer { root.remove() }
    let url = server.url("/hello", host: "127.0.0.1")
    let pin = "sha256/" + String(repeating: "A", count: 43) + "="
    let rows: [(arguments: [String], has: [String], hasNot: [String])] = [
      ([], ["--cacert", "--insecure"], ["--pin"]),
      (["--cacert", root.certificatePath], ["a name that the certificate has", "--insecure"], ["--cacert"]),
      (["-k", "--pin", pin], ["--pin"], ["--cacert", "--insecure"]),
    ]
    for row in rows {
      let outcome = try await Tool.run([url] + row.arguments)
      #expect(outcome.status == 4)
      for text in row.has { #expect(outcome.error.contains(text), "\(outcome.error)") }
      for text in row.hasNot { #expect(!outcome.error.contains(text), "\(outcome.error)") }
    }
  }

  @Test func proxies() async throws {
    for (proxy, text) in [
      ("", "--proxy is empty; --no-proxy '*'"), ("ftp://x", "ftp:// is no proxy's; there are http"),
    ] {
      let outcome = try await Tool.run(["http://h.invalid/", "--proxy", proxy])
      #expect(outcome.status == 2 && outcome.error.contains(text), "\(outcome.error)")
    }
  }

  /// Of the library's settings nobody can make use here.
  @Test func settingsOfTheLibrary() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let limited = try await Tool.run([server.url("/redirect?n=3"), "--max-redirects", "2"])
    #expect(limited.error.contains("more than 2 redirects [") && limited.error.contains("--max-redirects"))
    let measured = try await Tool.run(
      ["bench", server.url("/redirect?n=3"), "--max-redirects", "2", "-c", "1", "-n", "1"])
    #expect(measured.text.contains("the first: ") && !measured.text.contains("Configuration."), "\(measured.text)")
    let path = "/basic-auth?user=u&password=p"
    let once = try await Tool.run(["POST", server.url(path), "-a", "u:p", "@-"], input: "x")
    #expect(once.error.contains("can be sent only once ["), "\(once.error)")
    #expect(once.error.contains("--auth-type basic") && !once.error.contains("Credential."))
    let line = #"{"url":"\#(server.url("/bytes?n=5000"))","maxBodyBytes":1000}"#
    let batch = try await Tool.run(["batch"], input: line + "\n")
    #expect(batch.text.contains("larger than 1000 bytes\"") && !batch.text.contains("SessionConfiguration"))
  }

  @Test func limitsOfTheParser() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.sendRaw("HTTP/1.1 200 " + String(repeating: "a", count: 10_000) + "\r\nno colon\r\n\r\n")
      connection.closeAfterResponse()
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url()])
    #expect(
      outcome.error.contains("the response exceeds a limit: ") && outcome.error.contains("8192"), "\(outcome.error)")
    #expect(!outcome.error.contains("Configuration.") && !outcome.error.contains("WireLimits"), "\(outcome.error)")
  }

  @Test func settingsAreLeftOut() {
    let error = SessionError(
      .cannotDecodeContent, phase: .receive,
      message: "a; b; see SessionConfiguration.maximumDecompressionRatio; c", failingURL: "http://h/")
    #expect(error.forTool.message == "a; b; c" && error.forTool.code == error.code)
    let asides = SessionError(
      .timedOut, phase: .receive,
      message: "a (SessionConfiguration.x, Request.y) b (c) (WireLeniency.z does), at byte 3")
    #expect(asides.forTool.message == "a b (c), at byte 3")
    let first = SessionError(.badRequest, phase: .prepare, message: "SessionConfiguration.userAgent is wrong")
    #expect(first.forTool.message == first.message)
  }

  @Test func brokenCodings() async throws {
    let server = try LoopbackServer { _, connection in
      try connection.respond(fields: ["Content-Encoding": "gzip"], text: "as it is")
    }
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/")])
    #expect(outcome.status == 5 && outcome.error.contains("--no-compressed"), "\(outcome.error)")
    #expect(try await Tool.run([server.url("/"), "--no-compressed"]).text == "as it is")
  }

  @Test func certificateWithoutItsKey() async throws {
    let identity = try CertificateAuthority().issue().write()
    defer { identity.remove() }
    let outcome = try await Tool.run(["https://127.0.0.1:1/", "--cert", identity.chainPath])
    #expect(outcome.status == 2 && outcome.error.contains("--key FILE"), "\(outcome.error)")
    // With both in one file it goes as far as the network.
    let folder = try Folder()
    let both =
      try Data(contentsOf: URL(filePath: identity.chainPath))
      + Data(contentsOf: URL(filePath: identity.privateKeyPath))
    try both.write(to: folder.url("both.pem"))
    #expect(try await Tool.run(["https://127.0.0.1:1/", "--cert", folder.path("both.pem")]).status == 3)
  }

  /// Nothing was sent, so that it is misuse.
  @Test func tokenThatIsNone() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let outcome = try await Tool.run([server.url("/hello"), "-a", "to ken", "-A", "bearer"])
    #expect(outcome.status == 2 && !outcome.error.contains("to ken") && server.requestCount == 0, "\(outcome.error)")
    // The server was asked, and wants a scheme that cannot carry the name.
    let path = "/basic-auth?user=u&password=p"
    let asked = try await Tool.run([server.url(path, host: "a%3Ab:c@127.0.0.1")])
    #expect(asked.status == 1 && server.requestCount == 1, "\(asked.error)")
  }

  @Test func notModifiedIsNoRedirect() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard())
    defer { server.shutdown() }
    let folder = try Folder()
    let same = try await Tool.run(["-d", server.url("/status?code=304")], in: folder)
    #expect(same.status == 1 && same.error.contains("304") && !same.error.contains("--follow"), "\(same.error)")
    let moved = try await Tool.run(["-d", server.url("/redirect?to=/hello")], in: folder)
    #expect(moved.status == 1 && moved.error.contains("--follow"))
  }
}
