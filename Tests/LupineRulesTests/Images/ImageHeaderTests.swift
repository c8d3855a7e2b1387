import Foundation
import LupineRules
import Testing

/// The files are those of the fuzz corpus; most were written by Pillow, an encoder that shares no code with this one.
@Suite struct ImageHeaderTests {
  static let images: [(String, ImageFormat, frames: Int?, orientation: Int?)] = [
    ("png", .png, 1, nil), ("png-animated", .png, 3, nil), ("png-orientation", .png, 1, 6),
    ("png-orientation-behind", .png, 1, 3), ("jpeg", .jpeg, 1, nil),
    ("jpeg-progressive", .jpeg, 1, nil), ("jpeg-orientation", .jpeg, 1, 6), ("jpeg-fill", .jpeg, 1, nil),
    ("gif", .gif, 1, nil), ("gif-animated", .gif, 3, nil), ("webp-lossy", .webp, 1, nil),
    ("webp-lossless", .webp, 1, nil), ("webp-extended", .webp, 1, 6), ("webp-animated", .webp, 3, nil),
    ("webp-orientation-marked", .webp, 3, 5),
    ("bmp", .bmp, 1, nil), ("bmp-core", .bmp, 1, nil), ("bmp-from-the-top", .bmp, 1, nil), ("tiff", .tiff, 1, nil),
    ("tiff-pages", .tiff, 3, nil), ("tiff-big-endian", .tiff, 1, 8), ("tiff-circle", .tiff, nil, 8),
  ]

  @Test(arguments: images) func reads(
    _ name: String, _ format: ImageFormat, _ frames: Int?, _ orientation: Int?
  ) throws {
    let header = try Self.read(Self.file(name))
    #expect(header.format == format && header.width == 3 && header.height == 2 && header.pixelBytes == 24)
    #expect(header.frameCount == frames)
    #expect(header.orientation == orientation)
  }

  @Test func theLargestSizeOfAnIconIsIts() throws {
    let icon = try Self.read(Self.file("ico"))
    #expect(icon.format == .ico && icon.width == 32 && icon.height == 32 && icon.frameCount == 2)
    let large = try Self.read(Self.file("ico-256"))
    #expect(large.width == 256 && large.height == 256 && large.frameCount == 1)
  }

  /// A number that is none says nothing; nor does a chunk behind the end of the file, or one that the file does not announce.
  @Test func orientationIsThatOfTheFile() throws {
    var file = try Self.file("webp-extended")
    file[20] &= ~0x08
    #expect(try Self.read(file).orientation == nil)
    file = try Self.file("webp-extended")
    file[4] -= 2
    #expect(try Self.read(file).orientation == nil)
    file = try Self.file("png-orientation-behind")
    let place = try #require(file.indices.first { file[$0...].starts(with: Array("eXIf".utf8)) })
    for (number, orientation) in [(0, nil), (9, nil), (8, 8)] as [(UInt8, Int?)] {
      file[place + 4 + 18] = number
      #expect(try Self.read(file).orientation == orientation)
    }
    file.insert(contentsOf: [0, 0, 0, 0] + Array("IEND".utf8) + [0, 0, 0, 0], at: place - 4)
    #expect(try Self.read(file).orientation == nil)
  }

  /// Every beginning of every file: too short, or the same image with its frames uncounted and its orientation unknown. Never another fault,
  /// never another size.
  @Test(arguments: images.map(\.0) + ["ico", "ico-256"]) func everyTruncation(_ name: String) throws {
    let file = try Self.file(name)
    let whole = try Self.read(file)
    var isComplete = false
    for length in 0..<file.count {
      do throws(ImageHeaderError) {
        var part = try Self.read(Array(file.prefix(length)))
        isComplete = true
        #expect(part.frameCount == nil || part.frameCount == whole.frameCount)
        #expect(part.orientation == nil || part.orientation == whole.orientation)
        part.frameCount = whole.frameCount
        part.orientation = whole.orientation
        #expect(part == whole, "of \(length) bytes")
      } catch {
        #expect(!isComplete, "\(length) bytes are fewer than enough")
        if length == 0 {
          #expect(error.reason == .empty)
        } else if case .truncated(let needed) = error.reason {
          #expect(error.offset == length && needed > length)
        } else {
          Issue.record("of \(length) bytes: \(error)")
        }
      }
    }
  }

  static let refused: [([UInt8], ImageHeaderError.Reason, Int)] = [
    ([], .empty, 0), (Array("<html>".utf8), .unknownFormat, 0), (Array("GIF88a".utf8), .unknownFormat, 4),
    (Array("RIFF0000WAVE".utf8), .unknownFormat, 9), ([0x89, 0x50, 0x4e, 0x48], .unknownFormat, 3),
    (Array("GIF89a".utf8) + [0, 0, 2, 0], .noPixels, 6), ([0xff, 0xd8, 0xff, 0xd9], .malformed("marker"), 3),
    ([0xff, 0xd8, 0xff, 0xfe, 0, 1], .malformed("segment length"), 4),
    ([0xff, 0xd8, 0xff, 0xc0, 0, 11, 8, 0, 0, 0, 3], .noPixels, 7),
    ([0, 0, 1, 0, 0, 0], .malformed("directory"), 4),
    (Array("MM".utf8) + [0, 42, 0, 0, 0, 7], .malformed("offset of the directory"), 4),
    (Array("MM".utf8) + [0, 42, 0, 0, 0, 8, 0, 0], .malformed("directory without a size"), 8),
    (Array("BM".utf8) + [UInt8](repeating: 0, count: 16), .malformed("header length"), 14),
  ]

  @Test(arguments: refused) func refuses(_ bytes: [UInt8], _ reason: ImageHeaderError.Reason, _ offset: Int) {
    let error = #expect(throws: ImageHeaderError.self) { try Self.read(bytes) }
    #expect(error?.reason == reason && error?.offset == offset)
  }

  /// A chain of many segments is walked once; a chain of directories that never ends is given up.
  @Test func theWorkIsBounded() throws {
    var segments: [UInt8] = [0xff, 0xd8]
    for _ in 0..<100_000 { segments += [0xff, 0xfe, 0, 2] }
    let error = #expect(throws: ImageHeaderError.self) { try Self.read(segments) }
    #expect(error?.reason == .truncated(needed: segments.count + 1))
    #expect(try Self.read(Self.file("tiff-circle")).frameCount == nil)
  }

  private static func read(_ bytes: [UInt8]) throws(ImageHeaderError) -> ImageHeader {
    try ImageHeader.read(bytes.span)
  }

  static func file(_ name: String) throws -> [UInt8] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent()
    return Array(try Data(contentsOf: folder.appending(path: "../../../Fuzz/Corpora/ImageHeader/\(name)")))
  }

  @Test(arguments: [12, 16, 40, 52, 56, 64, 108, 124] as [UInt8]) func bitmapsOfEveryKind(_ length: UInt8) throws {
    let size: [UInt8] = length == 12 ? [3, 0, 2, 0] : [3, 0, 0, 0, 2, 0, 0, 0]
    let start = Array("BM".utf8) + [UInt8](repeating: 0, count: 12)
    let header = try Self.read(start + [length, 0, 0, 0] + size)
    #expect(header.format == .bmp && header.width == 3 && header.height == 2)
  }

  /// ITU-T T.81, table B.1: of these sixteen markers three begin no frame.
  @Test(arguments: UInt8(0xc0)...0xcf) func framesOfEveryKind(_ marker: UInt8) throws {
    let file: [UInt8] = [0xff, 0xd8, 0xff, marker, 0, 11, 8, 0, 2, 0, 3, 1, 1, 0x11, 0]
    guard [0xc4, 0xc8, 0xcc].contains(marker) else {
      let header = try Self.read(file)
      #expect(header.width == 3 && header.height == 2)
      return
    }
    let error = #expect(throws: ImageHeaderError.self) { try Self.read(file) }
    #expect(error?.reason == .truncated(needed: file.count + 1))
  }

  @Test func pixelsBeyondAllBoundsCostAllThereIs() throws {
    func entry(_ tag: UInt8) -> [UInt8] { [1, tag, 0, 4, 0, 0, 0, 1, 0x80, 0, 0, 0] }
    let start = Array("MM".utf8) + [0, 42, 0, 0, 0, 8, 0, 2] as [UInt8]
    let header = try Self.read(start + entry(0) + entry(1) + [0, 0, 0, 0])
    #expect(header.width == 1 << 31 && header.height == 1 << 31 && header.pixelBytes == .max)
  }

  @Test func theLargestSizeMayComeFirst() throws {
    func entry(_ side: UInt8) -> [UInt8] { [side, side] + [UInt8](repeating: 0, count: 14) }
    let start: [UInt8] = [0, 0, 1, 0, 3, 0]
    let icon = try Self.read(start + entry(16) + entry(32) + entry(8))
    #expect(icon.width == 32 && icon.height == 32 && icon.frameCount == 3)
    #expect(try Self.read(start + entry(32) + entry(0) + entry(16)).width == 256)
  }

  @Test func framesBehindAnOddChunkAreCounted() throws {
    var file = try Self.file("webp-animated")
    // Behind RIFF's 12 bytes and VP8X's 18.
    file.insert(contentsOf: Array("ICCP".utf8) + [3, 0, 0, 0, 1, 2, 3, 0], at: 30)
    file[4] += 12
    #expect(try Self.read(file).frameCount == 3)
  }

  @Test func theScaleIsNoSize() throws {
    var file = try Self.file("webp-lossy")
    file[27] |= 0x40
    file[29] |= 0x80
    let header = try Self.read(file)
    #expect(header.width == 3 && header.height == 2)
  }
}
