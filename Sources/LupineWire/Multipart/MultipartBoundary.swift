internal import LupineBase

/// What separates the parts of a multipart body (RFC 2046 section 5.1.1). It must occur in no part; see ``occurs(in:)``.
public struct MultipartBoundary: Hashable, Sendable, CustomStringConvertible {
  /// Characters at most.
  public static let maximumLength = 70

  /// The boundary, without the hyphens of a delimiter.
  public let text: String

  /// Takes a boundary of the caller's: 1 to 70 of letters, digits, `'()+_,-./:=?` and space, the last one no space.
  ///
  /// - Throws: ``WireError`` with `invalidBoundary`; the offset is that of the first character that may not stand there.
  public init(_ text: String) throws(WireError) {
    let utf8 = text.utf8
    let bytes = utf8.span
    guard !bytes.isEmpty else { throw WireError(.invalidBoundary, at: 0) }
    guard bytes.count <= Self.maximumLength else { throw WireError(.invalidBoundary, at: Self.maximumLength) }
    for index in bytes.indices where !Self.mayContain(bytes[index]) { throw WireError(.invalidBoundary, at: index) }
    guard bytes[bytes.count - 1] != .space else { throw WireError(.invalidBoundary, at: bytes.count - 1) }
    self.text = text
  }

  /// The boundary of a number: `Boundary+` and 16 hexadecimal digits, as AFNetworking writes them.
  public init(number: UInt64) {
    let digits = String(number, radix: 16, uppercase: true)
    text = "Boundary+" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
  }

  /// One of 2⁶⁴ boundaries, by the system's generator.
  public static func random() -> MultipartBoundary { MultipartBoundary(number: .random(in: .min ... .max)) }

  /// As the value of the parameter `boundary` of a media type: in quotes where it is no token (RFC 2045 section 5.1).
  public var parameterValue: String {
    let utf8 = text.utf8
    let bytes = utf8.span
    for index in bytes.indices where !ByteClass.has(bytes[index], ByteClass.token) { return "\"\(text)\"" }
    return text
  }

  /// The text.
  public var description: String { text }

  /// Whether the boundary stands anywhere in `content`, delimiter or not: some readers look for no more. Then another one is needed.
  ///
  /// Boyer, Moore and Horspool's search: it looks at one byte in as many as the boundary has, mostly.
  public func occurs(in content: Span<UInt8>) -> Bool {
    let utf8 = text.utf8
    let pattern = utf8.span
    let last = pattern.count - 1
    var skips = [Int](repeating: pattern.count, count: 256)
    for index in 0..<last { skips[Int(pattern[index])] = last - index }
    var end = last
    while end < content.count {
      let byte = content[end]
      if byte == pattern[last] {
        var index = last - 1
        while index >= 0, content[end - last + index] == pattern[index] { index -= 1 }
        if index < 0 { return true }
      }
      end += skips[Int(byte)]
    }
    return false
  }

  /// The class `bchars` of RFC 2046.
  private static func mayContain(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    // ' ( ) + , - . / : = ? _ and space.
    case 0x27...0x29, 0x2B...0x2F, 0x3A, 0x3D, 0x3F, 0x5F, 0x20: true
    default: false
    }
  }
}
