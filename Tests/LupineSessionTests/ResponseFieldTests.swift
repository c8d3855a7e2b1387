import LupineRules
import LupineSession
import LupineWire
import Testing

/// What a response says of its body.
@Suite struct ResponseFieldTests {
  @Test func textEncodingName() throws {
    let rows: [(contentType: String?, expected: String?)] = [
      (#"text/html; charset="UTF-8""#, "utf-8"), ("text/html; Charset=ISO-8859-1", "iso-8859-1"),
      ("text/html;charset=utf-8;x=y", "utf-8"), ("text/html", nil), ("text/html; boundary=charset", nil), (nil, nil),
    ]
    for row in rows {
      var fields: [(name: String, value: String)] = []
      if let contentType = row.contentType { fields.append((name: "Content-Type", value: contentType)) }
      let head = try ResponseHead(status: 200, fields: fields)
      let response = Response(head: head, url: try URLReader.read("http://a.example/"))
      #expect(response.textEncodingName == row.expected, "\(row)")
      let type: String? = row.contentType == nil ? nil : "text/html"
      #expect(response.mimeType == type, "\(row)")
    }
  }
}
