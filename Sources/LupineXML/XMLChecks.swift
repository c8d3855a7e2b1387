internal import Foundation
internal import Lupine
internal import LupineRules

/// What is checked before Foundation's parsers see a body.
enum XMLChecks {
  /// The bytes in an encoding that writes ASCII as it is.
  ///
  /// - Throws: also for more than `CombiningMarks.limit` combining marks in a row, anywhere: names of attributes become keys.
  static func scannable(_ data: Data) throws(SerializationError) -> [UInt8] {
    let bytes = try asciiCompatible(data)
    if let offset = CombiningMarks.excess(in: bytes.span, .xml) {
      throw SerializationError(
        .cannotParseResponse,
        message: "The data has more than \(CombiningMarks.limit) combining marks in a row at byte \(offset).")
    }
    return bytes
  }

  private static func asciiCompatible(_ data: Data) throws(SerializationError) -> [UInt8] {
    let bytes = [UInt8](data)
    let text: String?
    let encoding = XMLEncoding(of: bytes)
    switch encoding {
    case .asciiCompatible: return bytes
    case .utf16BigEndian: text = String(data: data, encoding: .utf16BigEndian)
    case .utf16LittleEndian: text = String(data: data, encoding: .utf16LittleEndian)
    case .unsupported: text = nil
    }
    guard let text, encoding.isConsistent(with: text.utf8) else {
      throw SerializationError(.cannotParseResponse, message: "The data is no XML in an encoding that is read.")
    }
    // The byte order mark is white space to nobody.
    return Array(text.utf8)
  }

  static func checkDocument(_ data: Data) throws(SerializationError) {
    let bytes = try scannable(data)
    do throws(XMLShapeError) {
      try XMLShape.check(bytes)
    } catch {
      throw refusal(error)
    }
  }

  static func checkDeclarations(_ data: Data) throws(SerializationError) {
    let bytes = try scannable(data)
    do throws(XMLShapeError) {
      try XMLShape.checkDeclarations(bytes)
    } catch {
      throw refusal(error)
    }
  }

  private static func refusal(_ error: XMLShapeError) -> SerializationError {
    SerializationError(.cannotParseResponse, message: "The data is no XML: \(error).")
  }
}
