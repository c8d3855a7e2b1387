import Foundation
import LupineRules
import LupineSession
import LupineWire

/// A response as it would come, without a network.
func xmlResponse(_ status: Int = 200, type: String = "application/xml") throws -> Response {
  struct Failure: Error {}
  var parser = ResponseParser()
  parser.begin()
  var offset = 0
  let bytes = Array("HTTP/1.1 \(status) \r\nContent-Type: \(type)\r\n\r\n".utf8)
  guard case .head(let head, _) = try parser.next(bytes.span, &offset) else { throw Failure() }
  return Response(head: head, url: try URLReader.read("http://localhost/test"))
}
