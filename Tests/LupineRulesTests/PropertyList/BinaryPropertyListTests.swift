import Foundation
import LupineRules
import Testing

@Suite struct BinaryPropertyListTests {
  /// Writes a list of objects, each given with its references of two bytes.
  private static func list(_ objects: [[UInt8]], top: Int = 0) -> [UInt8] {
    var bytes = Array("bplist00".utf8)
    var offsets: [Int] = []
    for object in objects {
      offsets.append(bytes.count)
      bytes += object
    }
    let table = bytes.count
    for offset in offsets { bytes += [UInt8(offset >> 16 & 255), UInt8(offset >> 8 & 255), UInt8(offset & 255)] }
    bytes += [0, 0, 0, 0, 0, 0, 3, 2]
    for number in [objects.count, top, table] { bytes += (0..<8).map { UInt8(number >> (56 - 8 * $0) & 255) } }
    return bytes
  }

  private func read(_ objects: [[UInt8]]) throws -> PropertyListContent {
    try BinaryPropertyListReader.read(Self.list(objects), depthLimit: 128)
  }

  static let values: [([UInt8], PropertyListContent)] = [
    ([0x08], .boolean(false)), ([0x09], .boolean(true)), ([0x10, 0xFF], .integer(255)),
    ([0x13] + [UInt8](repeating: 0xFF, count: 8), .integer(-1)),
    ([0x14] + [UInt8](repeating: 0, count: 8) + [UInt8](repeating: 0xFF, count: 8), .unsigned(.max)),
    ([0x22, 0x3F, 0x80, 0, 0], .real(1)), ([0x23, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0], .real(1)),
    ([0x33, 0x3F, 0xF0, 0, 0, 0, 0, 0, 0], .date(1)), ([0x42, 1, 2], .data([1, 2])), ([0x51, 0x61], .string("a")),
    ([0x61, 0x00, 0xE9], .string("é")), ([0x62, 0xD8, 0x3D, 0xDE, 0x00], .string("😀")), ([0xA0], .array([])),
    ([0xD0], .dictionary([])), ([0x5F, 0x10, 0x01, 0x61], .string("a")),
  ]

  @Test(arguments: values.indices) func objects(_ index: Int) throws {
    #expect(try read([Self.values[index].0]) == Self.values[index].1)
  }

  @Test func containers() throws {
    let value = try read([[0xD1, 0, 1, 0, 2], [0x51, 0x6B], [0xA2, 0, 1, 0, 3], [0x09]])
    #expect(value == .dictionary([.init(name: "k", value: .array([.string("k"), .boolean(true)]))]))
  }

  static let refusals: [([[UInt8]], BinaryPropertyListError)] = [
    ([[0xA1, 0, 0]], .tooDeep(limit: 128)), ([[0xA1, 0, 7]], .badObject(7)), ([[0xA2, 0, 0]], .badObject(0)),
    ([[0xD1, 0, 1, 0, 1], [0x09]], .keyIsNoString), ([[0x00]], .unsupported(marker: 0)),
    ([[0x80, 1]], .unsupported(marker: 0x80)), ([[0xC0]], .unsupported(marker: 0xC0)), ([[0x51]], .badObject(0)),
    ([[0x51, 0xFF]], .badObject(0)), ([[0x61, 0xD8, 0]], .badObject(0)), ([[0x15, 0]], .badObject(0)),
    ([[0x4F, 0x13] + [UInt8](repeating: 0xFF, count: 8)], .badObject(0)), ([[0x4F, 0x51, 0x61]], .badObject(0)),
    ([[0xAF, 0x13, 0x1F] + [UInt8](repeating: 0xFF, count: 7)], .badObject(0)),
  ]

  @Test(arguments: refusals.indices) func faults(_ index: Int) {
    #expect(throws: Self.refusals[index].1) { try read(Self.refusals[index].0) }
  }

  /// Sixty levels of two references each to the next: a million million million values.
  @Test func sharingIsLimited() {
    let levels = (0..<60).map { [0xA2, 0, UInt8($0 + 1), 0, UInt8($0 + 1)] }
    #expect(throws: BinaryPropertyListError.tooManyValues) { try read(levels + [[0x09]]) }
  }

  /// References to one string or one data again and again, as values and as keys: they stand for no more bytes than the limit says.
  @Test(arguments: [[0x4F], [0x5F], [0x6F], nil] as [[UInt8]?])
  func sharedLeavesStandForALimitedNumberOfBytes(marker: [UInt8]?) throws {
    func list(_ count: Int) -> [UInt8] {
      let number = [0x11, UInt8(count >> 8), UInt8(count & 255)]
      let references = [UInt8](repeating: 1, count: count * 2).enumerated().map { $0.offset % 2 == 0 ? 0 : $0.element }
      // In UTF-16 a unit takes two bytes.
      let leaf = (marker ?? [0x5F]) + [0x11, 0x07, 0xD0] + [UInt8](repeating: 0x61, count: 4000)
      let container: [UInt8] = marker == nil ? [0xDF] + number + references + references : [0xAF] + number + references
      return Self.list([container, leaf])
    }
    _ = try BinaryPropertyListReader.read(list(50), depthLimit: 128)
    let limit = BinaryPropertyListReader.contentLimit(list(600).count)
    #expect(limit == 1 << 20)
    #expect(throws: BinaryPropertyListError.tooManyBytes(limit: limit)) {
      try BinaryPropertyListReader.read(list(600), depthLimit: 128)
    }
  }

  /// A list whose writer shares containers: thirty times the same dictionary, as Python's plistlib writes it.
  @Test func sharedContainersAreRead() throws {
    let elements = Array(repeating: [0, 1] as [UInt8], count: 30).flatMap { $0 }
    let value = try read([
      [0xAF, 0x10, 30] + elements, [0xD2, 0, 2, 0, 3, 0, 4, 0, 5], [0x51, 0x61], [0x51, 0x62], [0x10, 1], [0x10, 2],
    ])
    let member = PropertyListContent.dictionary([
      .init(name: "a", value: .integer(1)), .init(name: "b", value: .integer(2)),
    ])
    #expect(value == .array(Array(repeating: member, count: 30)))
  }

  /// Containers that lie in one another are counted when they are opened, not when they are left.
  @Test func overlappingContainersAreCountedAtOnce() {
    // Each begins with a reference to the next, and takes the rest of all for its own.
    let levels: [[UInt8]] = (0..<60).map { level in
      let length = (60 - level) * 6 - 4 + 1200
      return [0xAF, 0x11, UInt8(length >> 8), UInt8(length & 255), 0, UInt8(level + 1)]
    }
    let rest = [UInt8](repeating: 0, count: 360 + 2 * 1200)
    #expect(throws: BinaryPropertyListError.tooManyValues) { try read(levels + [[0x08] + rest]) }
  }

  /// Whatever is cut off or flipped in a good list is read or refused, without a trap.
  @Test func damageIsSurvived() {
    let good = Self.list([[0xD1, 0, 1, 0, 2], [0x51, 0x6B], [0xA2, 0, 1, 0, 3], [0x5F, 0x10, 0x01, 0x61]])
    for end in good.indices { _ = try? BinaryPropertyListReader.read(Array(good[..<end]), depthLimit: 8) }
    var refused = 0
    for index in good.indices {
      for bit in 0..<8 {
        var bytes = good
        bytes[index] ^= 1 << bit
        do { _ = try BinaryPropertyListReader.read(bytes, depthLimit: 8) } catch { refused += 1 }
      }
    }
    #expect(refused > good.count)
  }
}
