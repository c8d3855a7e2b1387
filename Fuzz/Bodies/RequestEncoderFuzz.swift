internal import LupineWire

/// Oracle: a head that the encoder lets out is exactly the parts it was given, line by line, read by a splitter that knows nothing of
/// HTTP; whatever it refuses leaves the output as it was; fields that were prepared before give the same head, or the same refusal, and are
/// refused where they frame the body.
///
/// The first byte chooses the framing; 0xFF separates method, target, names and values.
package enum RequestEncoderFuzz {
  package static func run(bytes: [UInt8]) {
    guard let choice = bytes.first else { return }
    let parts = bytes.dropFirst().split(separator: 0xFF, omittingEmptySubsequences: false).map {
      String(decoding: $0, as: UTF8.self)
    }
    let method = parts.first ?? ""
    let target = parts.count > 1 ? parts[1] : ""
    var fields: [(name: String, value: String)] = [("Host", "h")]
    var index = 2
    while index + 1 < parts.count {
      fields.append((parts[index], parts[index + 1]))
      index += 2
    }
    var framing: RequestFraming =
      switch choice & 3 {
      case 0: .none
      case 1: .length(Int64(choice >> 2))
      case 2: .length(Int64(choice >> 2) - 32)
      default: .chunked
      }
    var output: [UInt8] = [0x21]
    do {
      try RequestEncoder.head(method: method, target: target, fields: fields, framing: framing, into: &output)
    } catch {
      precondition(output == [0x21], "a refusal wrote")
      if framing == .none { precondition(prepared(method, target, fields) == nil, "taken when prepared") }
      return
    }
    if framing == .none {
      let lengthOfNothing = fields.contains { $0.name.lowercased() == "content-length" }
      let expected = lengthOfNothing ? nil : Array(output.dropFirst())
      precondition(prepared(method, target, fields) == expected, "prepared, another")
      if lengthOfNothing { framing = .length(0) }
    }
    check(Array(output.dropFirst()), method, target, fields, framing)
  }

  private static func prepared(
    _ method: String, _ target: String, _ fields: [(name: String, value: String)]
  ) -> [UInt8]? {
    guard let prepared = try? PreparedFields(fields.dropFirst()) else { return nil }
    let head = try? RequestEncoder.head(method: method, target: target, host: "h", fields: prepared)
    precondition((try? RequestEncoder.head(method: method, target: target, host: "h\r", fields: prepared)) == nil)
    precondition((try? built(method, target, prepared)) == head, "a head that was built differs")
    return head
  }

  private static func built(_ method: String, _ target: String, _ fields: PreparedFields) throws(WireError) -> [UInt8] {
    var builder = try RequestHeadBuilder(method: method, target: target, framing: .none)
    try builder.append("Host", "h")
    builder.append(fields)
    return try builder.finish()
  }

  private static func check(
    _ head: [UInt8], _ method: String, _ target: String, _ fields: [(name: String, value: String)],
    _ framing: RequestFraming
  ) {
    precondition(!head.contains(0), "NUL")
    var lines: [[UInt8]] = [[]]
    var position = 0
    while position < head.count {
      if head[position] == 0x0D {
        precondition(position + 1 < head.count && head[position + 1] == 0x0A, "CR without LF")
        lines.append([])
        position += 2
      } else {
        precondition(head[position] != 0x0A, "LF without CR")
        lines[lines.count - 1].append(head[position])
        position += 1
      }
    }
    var expected = ["\(method) \(target) HTTP/1.1"]
    for field in fields where !["content-length", "transfer-encoding"].contains(field.name.lowercased()) {
      expected.append("\(field.name): \(field.value)")
    }
    switch framing {
    case .none: break
    case .length(let length): expected.append("Content-Length: \(length)")
    case .chunked: expected.append("Transfer-Encoding: chunked")
    }
    expected += ["", ""]
    precondition(lines == expected.map { Array($0.utf8) }, "other lines than were asked for")
    precondition(lines[0].filter { $0 == 0x20 }.count == 2, "another request line")
  }
}
