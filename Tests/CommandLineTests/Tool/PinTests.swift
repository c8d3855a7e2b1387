import Foundation
import LupineCommandLine
import LupineRules
import LupineSession
import LupineTesting
import Testing

@testable import lupine

/// `--pin` and `pins`.
@Suite(.timeLimit(.minutes(2))) struct PinTests {
  private let wrong = "sha256/" + String(repeating: "A", count: 43) + "="

  private func withServer(
    _ body: (LoopbackServer, _ caFile: String, _ pins: (leaf: String, root: String)) async throws -> Void
  ) async throws {
    let authority = try CertificateAuthority()
    let leaf = try authority.issue()
    let files = try authority.writeRoot()
    defer { files.remove() }
    let server = try LoopbackServer(routes: ServerRoute.standard(), tls: ServerTLS(leaf))
    defer { server.shutdown() }
    let pins = (
      leaf: "sha256/" + Base64.encode(try leaf.publicKeySHA256()),
      root: "sha256/" + Base64.encode(try authority.identity.publicKeySHA256())
    )
    try await body(server, files.certificatePath, pins)
  }

  @Test func acceptsAndRefuses() async throws {
    try await withServer { server, caFile, pins in
      let url = server.url("/hello")
      for pin in [[pins.leaf], [pins.root], [wrong, pins.leaf]] {
        let outcome = try await Tool.run([url, "--cacert", caFile, "-b"] + pin.flatMap { ["--pin", $0] })
        #expect(outcome.status == 0 && outcome.text == "Hello, world!", "\(outcome.error)")
      }
      let refused = try await Tool.run([url, "--cacert", caFile, "--pin", wrong])
      #expect(refused.status == ExitStatus.tls.rawValue && refused.text == "")
      // What could have been pinned.
      #expect(refused.error.contains("it has \(pins.leaf), \(pins.root)"), "\(refused.error)")
      #expect(server.requestCount == 3)
    }
  }

  /// Nothing else is checked, but the key of the server itself has to be the one.
  @Test func pinsAnInsecureServer() async throws {
    try await withServer { server, _, pins in
      let url = server.url("/hello")
      #expect(try await Tool.run([url, "-k", "-b", "--pin", pins.leaf]).text == "Hello, world!")
      let refused = try await Tool.run([url, "-k", "--pin", pins.root])
      #expect(refused.status == ExitStatus.tls.rawValue && refused.error.contains("it has \(pins.leaf)"))
    }
  }

  @Test func malformedPinsAreMisuse() async throws {
    for pin in ["", "sha256/", "sha256/AAAA", "md5/" + wrong.dropFirst(7)] {
      let outcome = try await Tool.run(["https://localhost:1/", "--pin", pin])
      #expect(outcome.status == ExitStatus.misuse.rawValue && outcome.error.contains("a pin is \"sha256/\""))
    }
  }

  @Test func batch() async throws {
    try await withServer { server, caFile, pins in
      func line(_ id: Int, _ pins: String) -> String {
        #"{"id":\#(id),"url":"\#(server.url("/hello"))","caFile":"\#(caFile)","pins":\#(pins)}"# + "\n"
      }
      let outcome = try await Tool.run(
        ["batch"],
        input: line(1, #"["\#(wrong)","\#(pins.leaf)"]"#) + line(2, #"["\#(wrong)"]"#) + line(3, #"["x"]"#)
          + line(4, "[7]") + line(5, "[]"))
      #expect(outcome.status == 0)
      var results: [String: JSONValue] = [:]
      for text in outcome.lines {
        let result = try JSONReader.read(text)
        results[String(decoding: JSONWriter.line(result["id"] ?? .null), as: UTF8.self)] = result
      }
      for id in ["1", "5"] { #expect(results[id]?["status"] == .number("200")) }
      let refused = results["2"]?["error"]
      #expect(refused?["code"] == .string("serverCertificateUntrusted"))
      #expect(refused?["message"]?.string?.contains(pins.leaf) == true)
      for id in ["3", "4"] { #expect(results[id]?["error"]?["code"] == .string("badRequest")) }
    }
  }
}
