import LupineWire
import Testing

@Test func smoke() throws {
  var parser = ResponseParser()
  parser.begin()
  let bytes = Array(
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nSet-Cookie: a=b\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\nrest"
      .utf8)
  var offset = 0
  var log: [String] = []
  loop: while true {
    let event = try parser.next(bytes.span, &offset)
    log.append("\(event)")
    if event == .end || event == .needMore { break }
  }
  #expect(log.count == 4, "\(log)")
  #expect(offset == bytes.count - 4)
  #expect(parser.reuseVerdict == .reusable)
}
