import Foundation
import LupineFuzzBodies

/// Runs files through the body of a target, once and as they are: `FuzzReplay TARGET FILE...`. What coverage by the corpora is measured with.
@main struct Replay {
  static let bodies: [String: @Sendable ([UInt8]) -> Void] = [
    "Addresses": { AddressesFuzz.run(bytes: $0) },
    "Archive": { ArchiveFuzz.run(bytes: $0) },
    "BatchLines": { BatchLinesFuzz.run(bytes: $0) },
    "CacheEntry": { CacheEntryFuzz.run(bytes: $0) },
    "Certificates": { CertificatesFuzz.run(bytes: $0) },
    "ChunkedDecoder": { ChunkedDecoderFuzz.run(bytes: $0) },
    "ClientConnection": { ClientConnectionFuzz.run(bytes: $0) },
    "ContentDecoder": { ContentDecoderFuzz.run(bytes: $0) },
    "Cookies": { CookiesFuzz.run(bytes: $0) },
    "Digest": { DigestFuzz.run(bytes: $0) },
    "FieldValues": { FieldValuesFuzz.run(bytes: $0) },
    "ImageHeader": { ImageHeaderFuzz.run(bytes: $0) },
    "JSONText": { JSONTextFuzz.run(bytes: $0) },
    "Multipart": { MultipartFuzz.run(bytes: $0) },
    "Netlink": { NetlinkFuzz.run(bytes: $0) },
    "PoolWalk": { PoolWalk.run(bytes: $0) },
    "ProxyHandshake": { ProxyHandshakeFuzz.run(bytes: $0) },
    "QueryString": { QueryStringFuzz.run(bytes: $0) },
    "Redirect": { RedirectFuzz.run(bytes: $0) },
    "RequestEncoder": { RequestEncoderFuzz.run(bytes: $0) },
    "ResponseParser": { ResponseParserFuzz.run(bytes: $0) },
    "ResumeData": { ResumeDataFuzz.run(bytes: $0) },
    "EventStream": { EventStreamFuzz.run(bytes: $0) },
    "ShellQuoting": { ShellQuotingFuzz.run(bytes: $0) },
    "StoredFiles": { StoredFilesFuzz.run(bytes: $0) },
    "StructuredText": { StructuredTextFuzz.run(bytes: $0) },
    "TLSEngine": { TLSEngineFuzz.run(bytes: $0) },
    "TerminalText": { TerminalTextFuzz.run(bytes: $0) },
    "URLReader": { URLReaderFuzz.run(bytes: $0) },
    "WWWAuthenticate": { WWWAuthenticateFuzz.run(bytes: $0) },
  ]

  static func main() throws {
    let arguments = CommandLine.arguments
    guard arguments.count > 2, let body = bodies[arguments[1]] else {
      print("usage: FuzzReplay TARGET FILE...; targets: \(bodies.keys.sorted().joined(separator: " "))")
      exit(2)
    }
    for path in arguments.dropFirst(2) { body(Array(try Data(contentsOf: URL(filePath: path)))) }
    print("\(arguments.count - 2) files")
  }
}
