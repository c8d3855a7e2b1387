import Foundation
import LupineFuzzBodies
import Testing

/// Replays what is kept of fuzzing: the seeds, and every input that once broke an oracle. A broken oracle ends the process.
@Suite struct RulesReplayTests {
  static let bodies: [(String, @Sendable ([UInt8]) -> Void)] = [
    ("Addresses", { AddressesFuzz.run(bytes: $0) }),
    ("BatchLines", { BatchLinesFuzz.run(bytes: $0) }),
    ("StoredFiles", { StoredFilesFuzz.run(bytes: $0) }),
    ("URLReader", { URLReaderFuzz.run(bytes: $0) }),
    ("Redirect", { RedirectFuzz.run(bytes: $0) }),
    ("ContentDecoder", { ContentDecoderFuzz.run(bytes: $0) }),
    ("Cookies", { CookiesFuzz.run(bytes: $0) }),
    ("ImageHeader", { ImageHeaderFuzz.run(bytes: $0) }),
    ("ResumeData", { ResumeDataFuzz.run(bytes: $0) }),
    ("Archive", { ArchiveFuzz.run(bytes: $0) }),
    ("FieldValues", { FieldValuesFuzz.run(bytes: $0) }),
    ("TLSEngine", { TLSEngineFuzz.run(bytes: $0) }),
    ("QueryString", { QueryStringFuzz.run(bytes: $0) }),
    ("StructuredText", { StructuredTextFuzz.run(bytes: $0) }),
    ("CacheEntry", { CacheEntryFuzz.run(bytes: $0) }),
    ("Netlink", { NetlinkFuzz.run(bytes: $0) }),
    ("Digest", { DigestFuzz.run(bytes: $0) }),
    ("Certificates", { CertificatesFuzz.run(bytes: $0) }),
    ("JSONText", { JSONTextFuzz.run(bytes: $0) }),
    ("EventStream", { EventStreamFuzz.run(bytes: $0) }),
    ("ShellQuoting", { ShellQuotingFuzz.run(bytes: $0) }),
    ("ProxyHandshake", { ProxyHandshakeFuzz.run(bytes: $0) }),
    ("WWWAuthenticate", { WWWAuthenticateFuzz.run(bytes: $0) }),
    ("TerminalText", { TerminalTextFuzz.run(bytes: $0) }),
    ("ClientConnection", { ClientConnectionFuzz.run(bytes: $0) }),
  ]

  @Test func everyCorpusIsReplayed() throws {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fuzz/Corpora")
    let names = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { !$0.hasPrefix(".") }
    #expect(Set(names) == Set(Self.bodies.map(\.0) + WireReplayTests.bodies.map(\.0) + ["PoolWalk"]))
  }

  @Test(arguments: bodies.map(\.0)) func replays(_ name: String) throws {
    let body = try #require(Self.bodies.first { $0.0 == name }).1
    let inputs = try Self.corpus(name)
    #expect(inputs.count >= 5)
    for input in inputs {
      body(input)
      // Cut and bent, every seed is many: what libFuzzer does first.
      for length in stride(from: 0, to: input.count, by: max(1, input.count / 6)) {
        body(Array(input.prefix(length)))
        var bent = input
        bent[length] ^= 0x20
        body(bent)
      }
    }
  }

  private static func corpus(_ name: String) throws -> [[UInt8]] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fuzz/Corpora/\(name)")
    return try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
      .sorted { $0.path < $1.path }
      .map { Array(try Data(contentsOf: $0)) }
  }
}
