import Foundation
import LupineTestSupport
import LupineTesting
import LupineRules
import Testing

@testable import lupine

@Suite(.timeLimit(.minutes(3))) struct BenchAndDemoTests {
  @Test func demoIsGreen() async throws {
    var outcome = try await Tool.run(["demo", "--seconds", "0.3"])
    // On a busy machine the time may be over before anybody is answered: then there is more of it.
    for seconds in ["3", "30"] where outcome.text.contains("0 of 0 requests failed") {
      outcome = try await Tool.run(["demo", "--seconds", seconds])
    }
    #expect(outcome.status == 0, "\(outcome.text) \(outcome.error)")
    #expect(outcome.lines.count { $0.hasPrefix("✓") } == 13 && !outcome.text.contains("✗"))
  }

  @Test func figuresAddUp() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    let outcome = try await Tool.run(["bench", server.url("/hello"), "-c", "4", "-n", "200", "--json"])
    #expect(outcome.status == 0)
    let json = try JSONReader.read([UInt8](outcome.output))
    #expect(json["requests"] == .number("200") && json["failed"] == .number("0") && json["reuse"] == .boolean(true))
    #expect(json["bytesReceived"] == .number("2600") && json["statuses"]?["200"] == .number("200"))
    let opened = try #require(json["connectionsOpened"]?.number)
    // A connection that was being opened may come too late to serve anything, and is accepted when the server's thread comes to it.
    #expect(await eventually { server.connectionCount >= Int(opened) })
    #expect(opened <= 4 && Int(opened) == server.connectionCount)
    #expect(try #require(json["connectionsReused"]?.number) >= 200 - opened)
    #expect(server.requestCount == 200)
    for name in ["seconds", "requestsPerSecond", "cpuMicrosecondsPerRequest"] {
      #expect(try #require(json[name]?.number) > 0)
    }
    let latency = try #require(json["latencyMicroseconds"])
    let values = try ["min", "p50", "p75", "p90", "p99", "p99.9", "p99.99", "max"].map {
      try #require(latency[$0]?.number)
    }
    #expect(values == values.sorted() && values[0] > 0)
  }

  /// The limit of connections holds for all engines together.
  @Test func connectionsMayBeSpreadOverEngines() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    let arguments = ["bench", server.url("/hello"), "-c", "3", "-n", "60", "--json", "--engines"]
    let outcome = try await Tool.run(arguments + ["2"])
    #expect(outcome.status == 0, "\(outcome.error)")
    let json = try JSONReader.read([UInt8](outcome.output))
    #expect(json["requests"] == .number("60") && json["failed"] == .number("0"))
    let opened = try #require(json["connectionsOpened"]?.number)
    #expect(opened >= 2 && opened <= 3)
    let refused = try await Tool.run(arguments + ["65"])
    #expect(refused.status == 2)
  }

  @Test func comparesReuseWithNone() async throws {
    let authority = try CertificateAuthority()
    let root = try authority.writeRoot()
    defer { root.remove() }
    let server = try LoopbackServer(
      routes: ServerRoute.standard(), tls: try ServerTLS.minted(by: authority), recording: .none)
    defer { server.shutdown() }
    let folder = try Folder()
    let arguments = ["-c", "2", "-n", "40", "--cacert", root.certificatePath, "--json", "--compare", "--plot", "p.svg"]
    let outcome = try await Tool.run(["bench", server.url("/hello", host: "127.0.0.1")] + arguments, in: folder)
    #expect(outcome.status == 0, "\(outcome.error)")
    let json = try JSONReader.read([UInt8](outcome.output))
    let (reuse, noReuse) = (try #require(json["reuse"]), try #require(json["noReuse"]))
    #expect(try #require(reuse["connectionsOpened"]?.number) <= 2)
    #expect(noReuse["connectionsOpened"] == .number("40") && noReuse["connectionsReused"] == .number("0"))
    let handshakes = try ["handshakesFull", "handshakesResumed"].map { try #require(noReuse[$0]?.number) }
    #expect(handshakes[0] + handshakes[1] == 40 && handshakes[1] > 0)
    #expect(try #require(json["ratio"]?["requestsPerSecond"]?.number) > 0)
    let picture = String(decoding: try folder.bytes("p.svg"), as: UTF8.self)
    #expect(picture.hasPrefix("<svg ") && picture.contains("</svg>") && picture.count(of: "<path ") == 4)
    #expect(!picture.contains("inf") && !picture.contains("nan"))
  }

  @Test func durationEndsARun() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    let outcome = try await Tool.run([
      "bench", server.url("/hello"), "-c", "2", "--duration", "0.3", "--json", "--no-reuse",
    ])
    let json = try JSONReader.read([UInt8](outcome.output))
    #expect(try #require(json["seconds"]?.number) >= 0.3)
    let opened = try #require(json["connectionsOpened"]?.number)
    let answered = try #require(json["requests"]?.number)
    // Two may have been cut short.
    #expect(opened >= answered && opened <= answered + 2 && json["failed"] == .number("0"))
  }

  /// What is under way then has neither been answered nor failed.
  @Test func durationEndsARunThatNobodyAnswers() async throws {
    let server = try LoopbackServer(recording: .none) { _, connection in _ = try connection.stall(until: nil) }
    defer { server.shutdown() }
    let outcome = try await Tool.run(["bench", server.url(), "-c", "2", "--duration", "0.3", "--json"])
    #expect(outcome.status == 6 && outcome.error.contains("no request was answered"), "\(outcome.error)")
    let json = try JSONReader.read([UInt8](outcome.output))
    #expect(json["requests"] == .number("0") && json["failed"] == .number("0"))
  }

  @Test func figuresAreThereWithoutTheirPicture() async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    let arguments = ["bench", server.url("/hello"), "-c", "2", "-n", "10", "--json", "--plot", "missing/p.svg"]
    let outcome = try await Tool.run(arguments)
    #expect(outcome.status == 1 && outcome.error.contains("missing/p.svg"), "\(outcome.error)")
    #expect(try JSONReader.read([UInt8](outcome.output))["requests"] == .number("10"))
  }

  /// What is measured is passed on.
  @Test(arguments: [[], ["--json"]]) func secretsOfTheURLAreHidden(_ options: [String]) async throws {
    let server = try LoopbackServer(routes: ServerRoute.standard(), recording: .none)
    defer { server.shutdown() }
    let folder = try Folder()
    let arguments = [server.url("/hello?a=1&access_token=s3cret"), "-c", "1", "-n", "5", "--plot", "p.svg"]
    let outcome = try await Tool.run(["bench"] + arguments + options, in: folder)
    let picture = String(decoding: try folder.bytes("p.svg"), as: UTF8.self)
    #expect(outcome.status == 0, "\(outcome.error)")
    for text in [outcome.text, picture] {
      #expect(text.contains("access_token=REDACTED") && !text.contains("s3cret"), "\(text)")
    }
  }

  @Test func nobodyThereIsThree() async throws {
    let outcome = try await Tool.run(["bench", "http://127.0.0.1:1/", "-c", "2"])
    #expect(outcome.status == 3 && outcome.error.contains("requests failed"))
  }
}

extension String {
  func count(of text: String) -> Int { components(separatedBy: text).count - 1 }
}
