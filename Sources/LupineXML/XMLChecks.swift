internal import Foundation
internal import Lupine
internal import LupineRules

/// What is checked before Foundation's parsers see a body.
enum XMLChecks {
  /// A document whose shape is right, for a parser: in UTF-8.
  static func document(_ data: Data) throws(SerializationError) -> Data { try checked(data, by: XMLShape.check) }

  /// What declares nothing, for a parser: in UTF-8.
  static func withoutDeclarations(_ data: Data) throws(SerializationError) -> Data {
    try checked(data, by: XMLShape.checkDeclarations)
  }

  private static func checked(
    _ data: Data, by check: (_ bytes: [UInt8]) throws(XMLShapeError) -> Void
  ) throws(SerializationError) -> Data {
    let text = try text(data)
    do throws(XMLShapeError) {
      try check(text.bytes)
    } catch {
      throw SerializationError(.cannotParseResponse, message: "The data is no XML: \(error).")
    }
    return text.data
  }

  /// Text in UTF-8 that declares this encoding or none. Foundation's parser ends the process where a name, a comment or an instruction is no UTF-8, and two
  /// readers of one text in another encoding need not see the same.
  ///
  /// - Throws: also for more than `CombiningMarks.limit` combining marks in a row, anywhere: names of attributes become keys.
  private static func text(_ data: Data) throws(SerializationError) -> (bytes: [UInt8], data: Data) {
    let bytes = [UInt8](data)
    guard let text = utf8(bytes, data) else {
      throw SerializationError(.cannotParseResponse, message: "The data is no XML in an encoding that is read.")
    }
    if let offset = CombiningMarks.excess(in: text.span, .xml) {
      throw SerializationError(
        .cannotParseResponse,
        message: "The data has more than \(CombiningMarks.limit) combining marks in a row at byte \(offset).")
    }
    return (text, text == bytes ? data : Data(text))
  }

  private static func utf8(_ bytes: [UInt8], _ data: Data) -> [UInt8]? {
    let encoding = XMLEncoding(of: bytes)
    switch encoding {
    case .asciiCompatible:
      guard let name = XMLEncoding.declaredOfBytes(bytes) else {
        return String(validating: bytes, as: UTF8.self) == nil ? nil : XMLEncoding.declaringUTF8(bytes)
      }
      return TextConversion.utf8(bytes, from: name).flatMap { XMLEncoding.declaringUTF8($0) }
    case .utf16BigEndian, .utf16LittleEndian:
      let isBigEndian = encoding == .utf16BigEndian
      guard let text = String(data: data, encoding: isBigEndian ? .utf16BigEndian : .utf16LittleEndian),
        encoding.isConsistent(with: text.utf8)
      else { return nil }
      return XMLEncoding.declaringUTF8(Array(text.utf8))
    case .unsupported: return nil
    }
  }
}
