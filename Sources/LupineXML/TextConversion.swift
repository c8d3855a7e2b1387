internal import Foundation

/// Text in other encodings, by iconv(3), which is what libxml2 converts with.
enum TextConversion {
  /// Bytes in UTF-8; nil if the encoding is not known here, or has no character for one of them.
  ///
  /// - Parameter encoding: one in which each byte is a character.
  static func utf8(_ bytes: [UInt8], from encoding: String) -> [UInt8]? {
    // The converters of all others are files, which a small image may lack.
    if encoding == "iso-8859-1" {
      return Array(String(decoding: bytes.map { UInt16($0) }, as: UTF16.self).utf8)
    }
    guard let converter = unsafe iconv_open("UTF-8", encoding), Int(bitPattern: converter) != -1 else {
      return nil
    }
    defer { unsafe iconv_close(converter) }
    var input = bytes
    // No character of such an encoding is beyond U+FFFF.
    var output = [UInt8](repeating: 0, count: 3 * bytes.count)
    let count = unsafe input.withUnsafeMutableBytes { input in
      unsafe output.withUnsafeMutableBytes { output -> Int? in
        var source = unsafe input.baseAddress?.assumingMemoryBound(to: CChar.self)
        var target = unsafe output.baseAddress?.assumingMemoryBound(to: CChar.self)
        var (sourceLeft, targetLeft) = (input.count, output.count)
        guard unsafe iconv(converter, &source, &sourceLeft, &target, &targetLeft) != -1, sourceLeft == 0,
          // A character that may be joined by the next one is kept until then.
          unsafe iconv(converter, nil, nil, &target, &targetLeft) != -1
        else { return nil }
        return output.count - targetLeft
      }
    }
    guard let count else { return nil }
    output.removeLast(output.count - count)
    return output
  }
}
