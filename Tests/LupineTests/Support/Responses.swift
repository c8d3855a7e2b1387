import Foundation
import LupineRules
import LupineSession
import LupineWire

/// A response as it would come, without a network.
enum Responses {
  struct Failure: Error {}

  static func response(
    _ status: Int = 200, type: String? = nil, url: String = "http://localhost/test"
  ) throws -> Response {
    let field = type.map { "Content-Type: \($0)\r\n" } ?? ""
    var parser = ResponseParser()
    parser.begin()
    var offset = 0
    guard
      case .head(let head, _) = try parser.next(
        Array("HTTP/1.1 \(status) \r\n\(field)\r\n".utf8).span, &offset)
    else { throw Failure() }
    return Response(head: head, url: try URLReader.read(url))
  }
}

extension Request.Body {
  /// The bytes of a body in memory; nil for any other.
  var text: String? {
    if case .bytes(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
  }
}
