internal import LupineBase

/// The fields of one part of a multipart body, checked, with the empty line that ends them.
public struct MultipartPartHead: Hashable, Sendable {
  /// As they go into the body.
  public let bytes: [UInt8]

  /// A part of a form (RFC 7578 section 4): Content-Disposition, then Content-Type.
  ///
  /// Names are written as the HTML standard says ("multipart/form-data encoding algorithm"): in UTF-8, with `"`, CR and LF as `%22`, `%0D`
  /// and `%0A`, and nothing else changed; NUL, of which the standard says nothing, as `%00`.
  ///
  /// - Parameters:
  ///   - name: the name of the field.
  ///   - fileName: nil of a part that is no file.
  ///   - mediaType: the value of Content-Type, its line ends and NUL written as in names; nil or empty: no such field.
  public init(name: String, fileName: String? = nil, mediaType: String? = nil) {
    var bytes: [UInt8] = []
    RequestEncoder.append("Content-Disposition: form-data; name=\"", &bytes)
    Self.appendEscaped(name, isQuoted: true, &bytes)
    bytes.append(Self.quote)
    if let fileName {
      RequestEncoder.append("; filename=\"", &bytes)
      Self.appendEscaped(fileName, isQuoted: true, &bytes)
      bytes.append(Self.quote)
    }
    if let mediaType, !mediaType.isEmpty {
      RequestEncoder.append("\r\nContent-Type: ", &bytes)
      Self.appendEscaped(mediaType, isQuoted: false, &bytes)
    }
    RequestEncoder.append("\r\n\r\n", &bytes)
    self.bytes = bytes
  }

  /// A part with fields of the caller's, in their order; none is as good.
  ///
  /// - Throws: ``WireError`` with `invalidFieldName` or `invalidFieldValue`, by the rules of the fields of a request; the offset counts inside
  ///   the name or the value.
  public init(fields: some Sequence<(name: String, value: String)>) throws(WireError) {
    var bytes: [UInt8] = []
    for (name, value) in fields { try RequestEncoder.field(name, value, &bytes) }
    RequestEncoder.append("\r\n", &bytes)
    self.bytes = bytes
  }

  private static let quote: UInt8 = 0x22

  private static func appendEscaped(_ text: String, isQuoted: Bool, _ output: inout [UInt8]) {
    let utf8 = text.utf8
    let bytes = utf8.span
    for index in bytes.indices {
      switch bytes[index] {
      case Self.quote where isQuoted: RequestEncoder.append("%22", &output)
      case .carriageReturn: RequestEncoder.append("%0D", &output)
      case .lineFeed: RequestEncoder.append("%0A", &output)
      case 0: RequestEncoder.append("%00", &output)
      case let byte: output.append(byte)
      }
    }
  }
}
