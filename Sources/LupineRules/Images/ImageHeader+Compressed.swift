/// PNG, JPEG and WebP: chunks and segments, each with its length.
extension ImageHeader {
  // MARK: PNG

  /// IHDR is the first chunk; acTL, if the file is animated, comes before IDAT and holds the number of frames.
  static func readPNG(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    guard try bytes.bigEndian32(at: 8) == 13, try bytes.bigEndian32(at: 12) == 0x4948_4452 else {
      throw ImageHeaderError(.malformed("IHDR"), 8)
    }
    let width = try bytes.bigEndian32(at: 16)
    let height = try bytes.bigEndian32(at: 20)
    try checkSize(width, height, at: 16)
    guard width <= 0x7fff_ffff, height <= 0x7fff_ffff else { throw ImageHeaderError(.malformed("IHDR"), 16) }
    return ImageHeader(
      .png, width: width, height: height, frameCount: try? framesOfPNG(bytes), orientation: orientationOfPNG(bytes))
  }

  private static func framesOfPNG(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> Int? {
    // Signature, IHDR's length and type, its 13 bytes and checksum.
    var offset = 8 + 8 + 13 + 4
    while true {
      let length = try bytes.bigEndian32(at: offset)
      switch try bytes.bigEndian32(at: offset + 4) {
      case 0x6163_544c:  // acTL
        let frames = try bytes.bigEndian32(at: offset + 8)
        return frames == 0 ? nil : Int(frames)
      case 0x4944_4154: return 1  // IDAT
      default: offset += 8 + Int(length) + 4
      }
    }
  }

  /// eXIf may stand before the pixels or behind them, and only once.
  private static func orientationOfPNG(_ bytes: Span<UInt8>) -> Int? {
    var offset = 8 + 8 + 13 + 4
    while let length = try? bytes.bigEndian32(at: offset), let type = try? bytes.bigEndian32(at: offset + 4),
      type != 0x4945_4e44  // IEND
    {
      let end = offset + 8 + Int(length)
      if type == 0x6558_4966 { return try? orientationOfChunk(bytes, start: offset + 8, end: end) }  // eXIf
      offset = end + 4
    }
    return nil
  }

  /// EXIF in a chunk of its own, all of which has to be there. Some encoders put before it what it begins with in a JPEG.
  private static func orientationOfChunk(_ bytes: Span<UInt8>, start: Int, end: Int) throws(ImageHeaderError) -> Int? {
    if let orientation = try? orientationOfEXIF(bytes, start: start, end: end) { return orientation }
    guard end <= bytes.count else { throw ImageHeaderError(.truncated(needed: end), bytes.count) }
    return try TIFFReader(bytes.extracting(start..<end)).directory(bytes.extracting(start..<end)).orientation
  }

  // MARK: JPEG

  /// Walks the segments up to the frame header (SOF), and reads the orientation from an EXIF segment on the way.
  static func readJPEG(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    var offset = 2
    var orientation: Int?
    while true {
      guard try bytes.byte(at: offset) == 0xff else { throw ImageHeaderError(.malformed("marker"), offset) }
      // Any number of 0xFF may fill the room before a marker (ITU-T T.81, B.1.1.2).
      while try bytes.byte(at: offset) == 0xff { offset += 1 }
      let marker = try bytes.byte(at: offset)
      let start = offset + 1
      switch marker {
      case 0x01: offset = start
      case 0xc0...0xc3, 0xc5...0xc7, 0xc9...0xcb, 0xcd...0xcf:
        let length = try bytes.bigEndian16(at: start)
        guard length >= 8 else { throw ImageHeaderError(.malformed("frame header"), start) }
        let height = UInt32(try bytes.bigEndian16(at: start + 3))
        let width = UInt32(try bytes.bigEndian16(at: start + 5))
        try checkSize(width, height, at: start + 3)
        return ImageHeader(.jpeg, width: width, height: height, frameCount: 1, orientation: orientation)
      case 0x00, 0xd0...0xda:
        // Stuffing, restart, a second image, its end or its pixels, and no frame header before them.
        throw ImageHeaderError(.malformed("marker"), offset)
      default:
        let length = Int(try bytes.bigEndian16(at: start))
        guard length >= 2 else { throw ImageHeaderError(.malformed("segment length"), start) }
        if marker == 0xe1, orientation == nil {
          orientation = try? orientationOfEXIF(bytes, start: start + 2, end: start + length)
        }
        offset = start + length
      }
    }
  }

  private static func orientationOfEXIF(_ bytes: Span<UInt8>, start: Int, end: Int) throws(ImageHeaderError) -> Int? {
    guard end <= bytes.count else { throw ImageHeaderError(.truncated(needed: end), bytes.count) }
    guard end - start > 6 else { return nil }
    try bytes.expect([0x45, 0x78, 0x69, 0x66, 0x00, 0x00], at: start)
    return try TIFFReader(bytes.extracting(start + 6..<end)).directory(bytes.extracting(start + 6..<end)).orientation
  }

  // MARK: WebP

  /// The first chunk says which of the three kinds it is. Frames are counted in an animated file only.
  static func readWebP(_ bytes: Span<UInt8>) throws(ImageHeaderError) -> ImageHeader {
    switch try bytes.bigEndian32(at: 12) {
    case 0x5650_3820:  // "VP8 "
      guard try bytes.byte(at: 20) & 1 == 0 else { throw ImageHeaderError(.malformed("VP8 frame tag"), 20) }
      guard try bytes.littleEndian24(at: 23) == 0x2a_019d else {
        throw ImageHeaderError(.malformed("VP8 start code"), 23)
      }
      // The two upper bits are a scale for display.
      let width = UInt32(try bytes.littleEndian16(at: 26) & 0x3fff)
      let height = UInt32(try bytes.littleEndian16(at: 28) & 0x3fff)
      try checkSize(width, height, at: 26)
      return ImageHeader(.webp, width: width, height: height, frameCount: 1)
    case 0x5650_384c:  // "VP8L"
      guard try bytes.byte(at: 20) == 0x2f else { throw ImageHeaderError(.malformed("VP8L signature"), 20) }
      let bits = try bytes.littleEndian32(at: 21)
      guard bits >> 29 == 0 else { throw ImageHeaderError(.malformed("VP8L version"), 24) }
      return ImageHeader(.webp, width: bits & 0x3fff + 1, height: bits >> 14 & 0x3fff + 1, frameCount: 1)
    case 0x5650_3858:  // "VP8X"
      let flags = try bytes.byte(at: 20)
      let width = try bytes.littleEndian24(at: 24) + 1
      let height = try bytes.littleEndian24(at: 27) + 1
      guard UInt64(width) * UInt64(height) <= UInt64(UInt32.max) else {
        throw ImageHeaderError(.malformed("VP8X canvas"), 24)
      }
      return ImageHeader(
        .webp, width: width, height: height, frameCount: flags & 0x02 == 0 ? 1 : countWebPFrames(bytes),
        orientation: flags & 0x08 == 0 ? nil : orientationOfWebP(bytes))
    default: throw ImageHeaderError(.malformed("first chunk"), 12)
    }
  }

  /// Nil unless the chunks are there up to the end that the file's header gives.
  private static func countWebPFrames(_ bytes: Span<UInt8>) -> Int? {
    guard let length = try? bytes.littleEndian32(at: 4), 8 + Int(length) <= bytes.count else { return nil }
    let end = 8 + Int(length)
    var offset = 12
    var frames = 0
    while end - offset >= 8, let type = try? bytes.bigEndian32(at: offset),
      let size = try? bytes.littleEndian32(at: offset + 4)
    {
      if type == 0x414e_4d46 { frames += 1 }  // "ANMF"
      // Chunks are padded to an even length.
      offset += 8 + Int(size) + Int(size & 1)
    }
    return frames == 0 ? nil : frames
  }

  /// The chunk stands behind the pixels, and within the length that the file's header gives.
  private static func orientationOfWebP(_ bytes: Span<UInt8>) -> Int? {
    guard let length = try? bytes.littleEndian32(at: 4) else { return nil }
    var offset = 12
    while let type = try? bytes.bigEndian32(at: offset), let size = try? bytes.littleEndian32(at: offset + 4) {
      let end = offset + 8 + Int(size)
      guard end <= 8 + Int(length) else { return nil }
      if type == 0x4558_4946 { return try? orientationOfChunk(bytes, start: offset + 8, end: end) }  // "EXIF"
      offset = end + Int(size & 1)
    }
    return nil
  }
}
