import LupineWire

// Parses one response with nothing but LupineWire: must link no Foundation.

var parser = ResponseParser()
parser.begin()
let response = Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
var offset = 0
var status = 0
var body = 0
reading: while true {
  switch try parser.next(response.span, &offset) {
  case .head(let head, _): status = head.status
  case .body(let range): body += range.count
  case .end, .needMore: break reading
  default: continue
  }
}
print("\(status) \(body)")
