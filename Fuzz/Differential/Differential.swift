import Foundation
import LupineEngine
import LupineRules
import LupineTLS
import LupineWire

/// What our readers and writers make of inputs, for `.ci/differential`, which asks others the same.
///
/// On standard input: a letter, a length in four bytes, the lower first, and so many bytes. A line for each on standard output:
///
///     r  a response to GET; h  to HEAD: verdict, heads, trailers and body
///     g  a gzip body; d  a deflate body: verdict, length and SHA-256 of what it says
///     m  parts of a form, each of three strings and a content with lengths in four bytes: the boundary, and the body in hexadecimal
@main struct Differential {
  static func main() throws {
    let input = Array(FileHandle.standardInput.readDataToEndOfFile())
    var rest = input[...]
    while rest.count >= 5, let kind = rest.first {
      rest = rest.dropFirst()
      let bytes = take(&rest)
      switch kind {
      case UInt8(ascii: "r"), UInt8(ascii: "h"): print(response(bytes, isHead: kind == UInt8(ascii: "h")))
      case UInt8(ascii: "g"): print(decoded(bytes, .gzip))
      case UInt8(ascii: "d"): print(decoded(bytes, .deflate))
      default: print(multipart(bytes))
      }
    }
  }

  private static func take(_ rest: inout ArraySlice<UInt8>) -> [UInt8] {
    let count = rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
    defer { rest = rest.dropFirst(4 + count) }
    return Array(rest.dropFirst(4).prefix(count))
  }

  private static func hexadecimal(_ bytes: [UInt8]) -> String {
    String(decoding: AuthenticationText.hexadecimal(bytes), as: UTF8.self)
  }

  // MARK: Responses

  private static func response(_ bytes: [UInt8], isHead: Bool) -> String {
    var parser = ResponseParser()
    parser.begin(RequestContext(isHead: isHead))
    var offset = 0
    var heads: [String] = []
    var body: [UInt8] = []
    do throws(WireError) {
      while true {
        switch try parser.next(bytes.span, &offset) {
        case .needMore:
          _ = try parser.finish()
          return "accept \(heads.joined(separator: ";")) | \(hexadecimal(body))"
        case .informational(let head), .head(let head, _): heads.append("\(head.status) \(words(head.fields))")
        case .body(let range): body += bytes[range]
        case .trailers(let section): heads.append("trailers \(words(section))")
        case .end: return "accept \(heads.joined(separator: ";")) | \(hexadecimal(body))"
        }
      }
    } catch {
      let reason = "\(error.reason)".prefix { $0 != "(" }
      return "refuse \(reason)"
    }
  }

  private static func words(_ fields: FieldSection) -> String {
    (0..<fields.count).map { index in
      "\(hexadecimal(array(fields.nameBytes(at: index)))):\(hexadecimal(array(fields.valueBytes(at: index))))"
    }.joined(separator: ",")
  }

  private static func array(_ bytes: Span<UInt8>) -> [UInt8] { bytes.indices.map { bytes[$0] } }

  // MARK: Bodies

  private static func decoded(_ bytes: [UInt8], _ coding: ContentCoding) -> String {
    var output: [UInt8] = []
    do {
      var decoder = try ContentDecoder(
        codings: [coding], limits: DecodeLimits(maximumOutput: 1 << 26, maximumRatio: nil, ratioFloor: 1 << 20))
      try decoder.decode(bytes.span) { bytes in output += array(bytes) }
      try decoder.finish()
    } catch let error as DecodeError {
      return "refuse \("\(error)".prefix { $0 != "(" })"
    } catch {
      return "refuse \(error)"
    }
    return "accept \(output.count) \(hexadecimal(MessageDigest.hash(.sha256, output) ?? []))"
  }

  private static func multipart(_ bytes: [UInt8]) -> String {
    var rest = bytes[...]
    var parts: [(head: MultipartPartHead, content: [UInt8])] = []
    while !rest.isEmpty {
      let (name, fileName, type) = (take(&rest), take(&rest), take(&rest))
      parts.append(
        (
          MultipartPartHead(
            name: String(decoding: name, as: UTF8.self), fileName: text(fileName), mediaType: text(type)),
          take(&rest)
        ))
    }
    var number: UInt64 = 0
    var boundary = MultipartBoundary(number: number)
    while parts.contains(where: { boundary.occurs(in: $0.content.span) || boundary.occurs(in: $0.head.bytes.span) }) {
      number += 1
      boundary = MultipartBoundary(number: number)
    }
    var body: [UInt8] = []
    for (index, part) in parts.enumerated() {
      MultipartEncoder.opening(of: part.head, isFirst: index == 0, boundary: boundary, into: &body)
      body += part.content
    }
    MultipartEncoder.end(boundary: boundary, into: &body)
    return "\(boundary.parameterValue) \(hexadecimal(body))"
  }

  private static func text(_ bytes: [UInt8]) -> String? { bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self) }
}
