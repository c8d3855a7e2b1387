/// A format of image files that has a magic number: PNG (ISO/IEC 15948), JPEG (ITU-T T.81), GIF (87a and 89a), WebP (RFC 9649), bitmaps of Windows and OS/2,
/// TIFF (revision 6.0), icons of Windows.
package enum ImageFormat: Hashable, Sendable, CaseIterable {
  case png, jpeg, gif, webp, bmp, tiff, ico
}

/// What the first bytes of an image file say of it. No pixel is decoded.
package struct ImageHeader: Hashable, Sendable {
  /// The format, by its magic number.
  package var format: ImageFormat
  /// Pixels across, at least 1.
  package var width: UInt32
  /// Pixels down, at least 1.
  package var height: UInt32
  /// Images in the file: frames of an animation, pages of a TIFF, sizes of an icon. Nil when the bytes end before they are counted.
  package var frameCount: Int?
  /// The orientation of TIFF and EXIF, 1 to 8; nil if the file says none. `width` and `height` are those of the stored pixels.
  package var orientation: Int?

  init(_ format: ImageFormat, width: UInt32, height: UInt32, frameCount: Int?, orientation: Int? = nil) {
    self.format = format
    self.width = width
    self.height = height
    self.frameCount = frameCount
    self.orientation = orientation
  }

  /// Bytes of the pixels at four bytes each, whatever a decoder would really need; saturates.
  package var pixelBytes: UInt64 {
    let (bytes, overflow) = (UInt64(width) * UInt64(height)).multipliedReportingOverflow(by: 4)
    return overflow ? .max : bytes
  }

  /// Reads the header of an image file.
  ///
  /// The work grows with the number of blocks that lie before what is asked for, never with the pixels, and at most linearly with the bytes.
  /// More bytes change nothing of what fewer bytes gave, except that they can tell `frameCount` and `orientation`.
  package static func read(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    switch try format(of: bytes) {
    case .png: try readPNG(bytes)
    case .jpeg: try readJPEG(bytes)
    case .gif: try readGIF(bytes)
    case .webp: try readWebP(bytes)
    case .bmp: try readBMP(bytes)
    case .tiff: try readTIFF(bytes)
    case .ico: try readICO(bytes)
    }
  }

  /// The format by the magic number alone.
  package static func format(of bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageFormat {
    guard let first = bytes.isEmpty ? nil : bytes[0] else { throw ImageHeaderError(.empty, 0) }
    let magic: (format: ImageFormat, bytes: [UInt8])? =
      switch first {
      case 0x89: (.png, [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
      case 0xff: (.jpeg, [0xff, 0xd8, 0xff])
      case 0x47: (.gif, [0x47, 0x49, 0x46, 0x38])
      case 0x52: (.webp, [0x52, 0x49, 0x46, 0x46])
      case 0x42: (.bmp, [0x42, 0x4d])
      case 0x49: (.tiff, [0x49, 0x49, 0x2a, 0x00])
      case 0x4d: (.tiff, [0x4d, 0x4d, 0x00, 0x2a])
      case 0x00: (.ico, [0x00, 0x00, 0x01, 0x00])
      default: nil
      }
    guard let magic else { throw ImageHeaderError(.unknownFormat, 0) }
    try bytes.expect(magic.bytes, at: 0)
    switch magic.format {
    case .gif:
      let version = try bytes.byte(at: 4)
      guard version == 0x37 || version == 0x39 else { throw ImageHeaderError(.unknownFormat, 4) }
      try bytes.expect([0x61], at: 5)
    case .webp: try bytes.expect([0x57, 0x45, 0x42, 0x50], at: 8)
    default: break
    }
    return magic.format
  }

  /// Refuses an image of no pixels.
  static func checkSize(_ width: UInt32, _ height: UInt32, at offset: Int) throws(ImageHeaderError) {
    guard width > 0, height > 0 else { throw ImageHeaderError(.noPixels, offset) }
  }
}

/// Why bytes are not the beginning of an image file, and where.
package struct ImageHeaderError: Error, Equatable, Sendable {
  /// What is wrong.
  package enum Reason: Equatable, Sendable {
    /// There is not one byte.
    case empty
    /// No known format begins so.
    case unknownFormat
    /// The bytes end too early: at least so many are needed.
    case truncated(needed: Int)
    /// The width or the height is 0.
    case noPixels
    /// A block is not what the format has at this place.
    case malformed(String)
  }

  /// What is wrong.
  package var reason: Reason
  /// Bytes before the fault.
  package var offset: Int

  init(_ reason: Reason, _ offset: Int) {
    self.reason = reason
    self.offset = offset
  }
}

extension ImageHeaderError: CustomStringConvertible {
  /// A sentence with the offset.
  package var description: String {
    switch reason {
    case .empty: "no bytes"
    case .unknownFormat: "byte \(offset) is not that of a known image format"
    case .truncated(let needed): "the bytes end at \(offset), and \(needed) are needed"
    case .noPixels: "the image of byte \(offset) has no pixels"
    case .malformed(let block): "malformed \(block) at byte \(offset)"
    }
  }
}

/// Reads that check the end, of one to four bytes. `offset` is never negative: it only ever grows from 0 by what was read.
extension Span where Element == UInt8 {
  func byte(at offset: Int) throws(ImageHeaderError) -> UInt8 {
    guard offset < count else { throw ImageHeaderError(.truncated(needed: offset + 1), count) }
    return self[offset]
  }

  func bigEndian16(at offset: Int) throws(ImageHeaderError) -> UInt16 {
    guard offset < count - 1 else { throw ImageHeaderError(.truncated(needed: offset + 2), count) }
    return UInt16(self[offset]) << 8 | UInt16(self[offset + 1])
  }

  func littleEndian16(at offset: Int) throws(ImageHeaderError) -> UInt16 {
    try bigEndian16(at: offset).byteSwapped
  }

  func bigEndian32(at offset: Int) throws(ImageHeaderError) -> UInt32 {
    guard offset < count - 3 else { throw ImageHeaderError(.truncated(needed: offset + 4), count) }
    return UInt32(self[offset]) << 24 | UInt32(self[offset + 1]) << 16 | UInt32(self[offset + 2]) << 8
      | UInt32(self[offset + 3])
  }

  func littleEndian32(at offset: Int) throws(ImageHeaderError) -> UInt32 {
    try bigEndian32(at: offset).byteSwapped
  }

  func littleEndian24(at offset: Int) throws(ImageHeaderError) -> UInt32 {
    let low = try littleEndian16(at: offset)
    return UInt32(low) | UInt32(try byte(at: offset + 2)) << 16
  }

  /// Refuses other bytes than these: as another format where they differ, as truncated where they end.
  func expect(_ expected: [UInt8], at offset: Int) throws(ImageHeaderError) {
    for (index, byte) in expected.enumerated() {
      guard offset + index < count else {
        throw ImageHeaderError(.truncated(needed: offset + expected.count), count)
      }
      guard self[offset + index] == byte else { throw ImageHeaderError(.unknownFormat, offset + index) }
    }
  }
}
