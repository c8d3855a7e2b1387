/// A `multipart/form-data` body (RFC 7578) whose files are read while it is sent, and whose length is known before.
struct MultipartForm: Sendable {
  let boundary: String
  private(set) var segments: [SegmentedBody.Segment] = []
  private(set) var length: Int64 = 0

  /// - Parameter boundary: for tests; by default 128 random bits, which occur in no content.
  init(_ items: [RequestItem], boundary: String? = nil) throws {
    let random = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 36) }.joined()
    self.boundary = boundary ?? "lupine-\(random)"
    for item in items {
      if case .file(let name, let path, let type) = item {
        try add(name: name, path: path, type: type)
      } else if let pair = item.formPair {
        add(text: "--\(self.boundary)\r\nContent-Disposition: form-data; name=\"\(Self.escaped(pair.name))\"\r\n\r\n")
        add(text: pair.value + "\r\n")
      }
    }
    add(text: "--\(self.boundary)--\r\n")
  }

  private mutating func add(name: String, path: String, type: String?) throws {
    let file = try InputFile(path)
    guard let size = file.size else { throw CommandFailure.misuse("\(path) is no regular file") }
    let fileName = path.split(separator: "/").last.map { String($0) } ?? path
    let type = type ?? MediaTypes.type(of: path)
    guard !type.contains(where: { $0.isNewline }) else { throw CommandFailure.misuse("a media type has no line ends") }
    add(
      text: "--\(boundary)\r\nContent-Disposition: form-data; name=\"\(Self.escaped(name))\"; "
        + "filename=\"\(Self.escaped(fileName))\"\r\nContent-Type: \(type)\r\n\r\n")
    segments.append(.file(path: path, size: size))
    length += size
    add(text: "\r\n")
  }

  private mutating func add(text: String) {
    let bytes = Array(text.utf8)
    length += Int64(bytes.count)
    if case .bytes(let last) = segments.last {
      segments[segments.count - 1] = .bytes(last + bytes)
    } else {
      segments.append(.bytes(bytes))
    }
  }

  /// As the HTML standard says: these three characters, nothing else.
  private static func escaped(_ text: String) -> String {
    var result = ""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"": result += "%22"
      case "\r": result += "%0D"
      case "\n": result += "%0A"
      default: result.unicodeScalars.append(scalar)
      }
    }
    return result
  }
}
