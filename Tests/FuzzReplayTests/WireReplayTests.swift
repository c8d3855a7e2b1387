import Foundation
import LupineFuzzBodies
import Testing

/// Replays the seeds of the wire's fuzz bodies, and every input that once broke an oracle. A broken oracle ends the process.
@Suite struct WireReplayTests {
  static let bodies: [(String, @Sendable ([UInt8]) -> Void)] = [
    ("ResponseParser", { ResponseParserFuzz.run(bytes: $0) }),
    ("ChunkedDecoder", { ChunkedDecoderFuzz.run(bytes: $0) }),
    ("RequestEncoder", { RequestEncoderFuzz.run(bytes: $0) }),
    ("Multipart", { MultipartFuzz.run(bytes: $0) }),
  ]

  @Test(arguments: bodies.map(\.0)) func replays(_ name: String) throws {
    let body = try #require(Self.bodies.first { $0.0 == name }).1
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../Fuzz/Corpora/\(name)")
    let files = try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil)
    #expect(files.count >= 8)
    for file in files.sorted(by: { $0.path < $1.path }) {
      let input = Array(try Data(contentsOf: file))
      body(input)
      // Cut, bent and doubled, every seed is many; fuzzing, which is optimised, makes the rest of them.
      for (number, position) in stride(from: 0, to: input.count, by: 1 + input.count / 48).enumerated() {
        body(Array(input[..<position]))
        var bent = input
        bent[position] ^= [0x01, 0x20, 0x80][number % 3]
        body(bent)
      }
      body(input + input.dropFirst(2))
    }
  }

  /// Each byte that is no UTF-8 becomes three on its way through a string: encoded again, trailers have more bytes than limits let in.
  @Test func trailersThatGrow() {
    var input: [UInt8] = [0]
    input += "0\r\nx: ".utf8
    input += [UInt8](repeating: 0xFF, count: 5_500)
    input += "\r\n\r\n".utf8
    ChunkedDecoderFuzz.run(bytes: input)
  }
}
