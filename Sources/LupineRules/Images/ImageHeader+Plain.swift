/// GIF, BMP, TIFF and ICO: tables at fixed places.
extension ImageHeader {
  // MARK: GIF

  /// The size is that of the logical screen; frames are counted if the file is there to its end.
  static func readGIF(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    let width = UInt32(try bytes.littleEndian16(at: 6))
    let height = UInt32(try bytes.littleEndian16(at: 8))
    try checkSize(width, height, at: 6)
    return ImageHeader(.gif, width: width, height: height, frameCount: try? countGIFFrames(bytes))
  }

  private static func countGIFFrames(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> Int? {
    var offset = 13 + colorTableLength(try bytes.byte(at: 10))
    var frames = 0
    while true {
      switch try bytes.byte(at: offset) {
      case 0x2c:  // an image: descriptor, color table, size of codes, sub-blocks
        frames += 1
        offset += 10 + colorTableLength(try bytes.byte(at: offset + 9)) + 1
      case 0x21: offset += 2  // an extension: label, sub-blocks
      case 0x3b: return frames == 0 ? nil : frames
      default: throw ImageHeaderError(.malformed("block"), offset)
      }
      while case let length = Int(try bytes.byte(at: offset)), length > 0 { offset += 1 + length }
      offset += 1
    }
  }

  private static func colorTableLength(_ flags: UInt8) -> Int {
    flags & 0x80 == 0 ? 0 : 3 << (Int(flags & 0x07) + 1)
  }

  // MARK: BMP

  /// The size of the second header tells its kind; a negative height stores the rows from the top.
  static func readBMP(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    let width: UInt32
    let height: UInt32
    switch try bytes.littleEndian32(at: 14) {
    case 12:
      width = UInt32(try bytes.littleEndian16(at: 18))
      height = UInt32(try bytes.littleEndian16(at: 20))
    case 16, 40, 52, 56, 64, 108, 124:
      width = try bytes.littleEndian32(at: 18)
      height = Int32(bitPattern: try bytes.littleEndian32(at: 22)).magnitude
      guard width <= 0x7fff_ffff, height <= 0x7fff_ffff else { throw ImageHeaderError(.malformed("size"), 18) }
    default: throw ImageHeaderError(.malformed("header length"), 14)
    }
    try checkSize(width, height, at: 18)
    return ImageHeader(.bmp, width: width, height: height, frameCount: 1)
  }

  // MARK: TIFF

  static func readTIFF(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    let reader = try TIFFReader(bytes)
    let first = try reader.directory(bytes)
    guard let width = first.width, let height = first.height else {
      throw ImageHeaderError(.malformed("directory without a size"), first.offset)
    }
    try checkSize(width, height, at: first.offset)
    return ImageHeader(
      .tiff, width: width, height: height, frameCount: reader.countDirectories(bytes), orientation: first.orientation)
  }

  // MARK: ICO

  /// The largest of the sizes; 0 stands for 256.
  static func readICO(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    let count = Int(try bytes.littleEndian16(at: 4))
    guard count > 0 else { throw ImageHeaderError(.malformed("directory"), 4) }
    var largest: (width: UInt32, height: UInt32) = (0, 0)
    for index in 0..<count {
      let width = UInt32(try bytes.byte(at: 6 + 16 * index))
      let height = UInt32(try bytes.byte(at: 7 + 16 * index))
      let size = (width: width == 0 ? 256 : width, height: height == 0 ? 256 : height)
      if size.width * size.height > largest.width * largest.height { largest = size }
      // Its last byte: an entry is there or it is not.
      _ = try bytes.byte(at: 6 + 16 * index + 15)
    }
    return ImageHeader(.ico, width: largest.width, height: largest.height, frameCount: count)
  }
}

/// The directories of a TIFF file, or of EXIF in a file of another format.
struct TIFFReader {
  /// No honest file has more pages, and a chain that runs in a circle ends.
  static let maximumDirectories = 4096
  /// Entries of a directory that are looked at; they are sorted by tag, and ours are among the first.
  static let maximumEntries = 512

  struct Directory {
    var offset: Int
    var width: UInt32?
    var height: UInt32?
    var orientation: Int?
  }

  let isBigEndian: Bool
  let first: Int

  init(_ bytes: Span<UInt8>) throws(ImageHeaderError) {
    let order = try bytes.bigEndian16(at: 0)
    guard order == 0x4949 || order == 0x4d4d else { throw ImageHeaderError(.malformed("byte order"), 0) }
    isBigEndian = order == 0x4d4d
    let magic = isBigEndian ? try bytes.bigEndian16(at: 2) : try bytes.littleEndian16(at: 2)
    guard magic == 42 else { throw ImageHeaderError(.malformed("magic number"), 2) }
    first = Int(isBigEndian ? try bytes.bigEndian32(at: 4) : try bytes.littleEndian32(at: 4))
    guard first >= 8 else { throw ImageHeaderError(.malformed("offset of the directory"), 4) }
  }

  func directory(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> Directory {
    var directory = Directory(offset: first)
    let count = Int(try word(bytes, first))
    for index in 0..<min(count, Self.maximumEntries) {
      let entry = first + 2 + 12 * index
      let tag = try word(bytes, entry)
      // ImageWidth, ImageLength, Orientation.
      guard tag == 256 || tag == 257 || tag == 274 else { continue }
      switch tag {
      case 256: directory.width = try value(bytes, entry)
      case 257: directory.height = try value(bytes, entry)
      default:
        // The size alone must be right: a strange orientation is none. Its entry has to be there all the same.
        _ = try bytes.byte(at: entry + 11)
        directory.orientation = (try? value(bytes, entry)).flatMap { (1...8).contains($0) ? Int($0) : nil }
      }
    }
    return directory
  }

  /// Nil unless the chain ends.
  func countDirectories(_ bytes: Span<UInt8>) -> Int? {
    var offset = first
    for count in 1...Self.maximumDirectories {
      guard let entries = try? word(bytes, offset), let next = try? long(bytes, offset + 2 + 12 * Int(entries)) else {
        return nil
      }
      if next == 0 { return count }
      offset = Int(next)
    }
    return nil
  }

  /// The one value of an entry: a short stands at the front of its four bytes in either order.
  private func value(_ bytes: Span<UInt8>, _ entry: Int) throws(ImageHeaderError) -> UInt32 {
    guard try long(bytes, entry + 4) == 1 else { throw ImageHeaderError(.malformed("entry"), entry) }
    switch try word(bytes, entry + 2) {
    case 3:
      let value = UInt32(try word(bytes, entry + 8))
      // The entry is whole or it is not there.
      _ = try bytes.byte(at: entry + 11)
      return value
    case 4: return try long(bytes, entry + 8)
    default: throw ImageHeaderError(.malformed("entry"), entry)
    }
  }

  private func word(_ bytes: Span<UInt8>, _ offset: Int) throws(ImageHeaderError) -> UInt16 {
    isBigEndian ? try bytes.bigEndian16(at: offset) : try bytes.littleEndian16(at: offset)
  }

  private func long(_ bytes: Span<UInt8>, _ offset: Int) throws(ImageHeaderError) -> UInt32 {
    isBigEndian ? try bytes.bigEndian32(at: offset) : try bytes.littleEndian32(at: offset)
  }
}
