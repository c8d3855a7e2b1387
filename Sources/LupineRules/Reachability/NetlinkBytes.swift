/// A stretch of a datagram, read with every bound checked.
struct NetlinkBytes {
  let bytes: ArraySlice<UInt8>

  init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

  var count: Int { bytes.count }
  var isEmpty: Bool { bytes.isEmpty }

  /// NLMSG_ALIGN, RTA_ALIGN and RTNH_ALIGN: to four bytes.
  static func aligned(_ length: Int) -> Int { (length + 3) & ~3 }

  func uint8(at offset: Int) -> UInt8? {
    offset < count ? bytes[bytes.startIndex + offset] : nil
  }

  func uint16(at offset: Int) -> UInt16? {
    number(at: offset, size: 2).map { UInt16(truncatingIfNeeded: $0) }
  }

  func uint32(at offset: Int) -> UInt32? { number(at: offset, size: 4) }

  func int32(at offset: Int) -> Int32? { uint32(at: offset).map { Int32(bitPattern: $0) } }

  /// In the byte order of the machine.
  private func number(at offset: Int, size: Int) -> UInt32? {
    guard offset + size <= count else { return nil }
    var value: UInt32 = 0
    for index in 0..<size {
      let byte = UInt32(bytes[bytes.startIndex + offset + index])
      #if _endian(little)
      value |= byte << UInt32(8 * index)
      #else
      value = value << 8 | byte
      #endif
    }
    return value
  }

  /// The first `length` bytes; nil if there are fewer.
  func prefix(_ length: Int) -> NetlinkBytes? {
    length <= count ? NetlinkBytes(bytes.prefix(length)) : nil
  }

  /// What follows `length` bytes; nothing if there are fewer.
  func dropping(_ length: Int) -> NetlinkBytes { NetlinkBytes(bytes.dropFirst(length)) }

  /// Up to the first NUL.
  var text: String { String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self) }
}

/// rtattr after rtattr: length, type, value. Ends at the first one that cannot be.
struct NetlinkAttributes: Sequence, IteratorProtocol {
  struct Attribute {
    let type: UInt16
    let value: NetlinkBytes
  }

  private var rest: NetlinkBytes

  init(_ bytes: NetlinkBytes) { rest = bytes }

  mutating func next() -> Attribute? {
    guard let length = rest.uint16(at: 0), length >= 4, let all = rest.prefix(Int(length)),
      let type = all.uint16(at: 2)
    else { return nil }
    rest = rest.dropping(NetlinkBytes.aligned(Int(length)))
    // NLA_F_NESTED and NLA_F_NET_BYTEORDER are flags, not part of the type.
    return Attribute(type: type & 0x3FFF, value: all.dropping(4))
  }
}
