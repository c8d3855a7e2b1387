/// An IPv4 or IPv6 address as the kernel writes it: network byte order, left-aligned, so that prefixes compare alike in both families.
package struct InternetAddress: Hashable, Sendable {
  package enum Family: UInt8, Hashable, Sendable {
    /// `AF_INET`.
    case v4 = 2
    /// `AF_INET6`.
    case v6 = 10

    /// The length of an address in bits.
    var width: Int { self == .v4 ? 32 : 128 }
  }

  package let family: Family
  let high: UInt64
  let low: UInt64

  /// Takes 4 bytes of a v4 address or 16 of a v6 address; nil for another count.
  package init?(_ bytes: some Collection<UInt8>, family: Family) {
    guard bytes.count == family.width / 8 else { return nil }
    var (high, low) = (UInt64(0), UInt64(0))
    for (index, byte) in bytes.enumerated() {
      if index < 8 {
        high |= UInt64(byte) << UInt64(56 - 8 * index)
      } else {
        low |= UInt64(byte) << UInt64(56 - 8 * (index - 8))
      }
    }
    self.init(family: family, high: high, low: low)
  }

  /// Takes an IPv4 address as a number, 127.0.0.1 as 0x7F00_0001.
  package init(v4 bits: UInt32) {
    self.init(family: .v4, high: UInt64(bits) << 32, low: 0)
  }

  /// Takes the halves of an IPv6 address as numbers; one that stands for an IPv4 address (RFC 4291 section 2.5.5.2) becomes that.
  package init(v6 high: UInt64, _ low: UInt64) {
    if high == 0, low >> 32 == 0xFFFF {
      self.init(v4: UInt32(truncatingIfNeeded: low))
    } else {
      self.init(family: .v6, high: high, low: low)
    }
  }

  private init(family: Family, high: UInt64, low: UInt64) {
    self.family = family
    self.high = high
    self.low = low
  }

  /// 4 or 16 bytes.
  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    for index in 0..<family.width / 8 {
      let half = index < 8 ? high : low
      bytes.append(UInt8(truncatingIfNeeded: half >> UInt64(56 - 8 * (index % 8))))
    }
    return bytes
  }

  /// `0.0.0.0` or `::`.
  static func zero(_ family: Family) -> InternetAddress { InternetAddress(family: family, high: 0, low: 0) }

  /// Whether the first `length` bits are those of `prefix`.
  func hasPrefix(_ prefix: InternetAddress, length: Int) -> Bool {
    guard family == prefix.family else { return false }
    let (first, second) = (min(length, 64), max(0, length - 64))
    return Self.agree(high, prefix.high, first) && Self.agree(low, prefix.low, second)
  }

  private static func agree(_ left: UInt64, _ right: UInt64, _ bits: Int) -> Bool {
    // A shift by the full width gives zero: no bit has to agree.
    (left ^ right) >> UInt64(64 - bits) == 0
  }

  /// 169.254.0.0/16 and fe80::/10: meaningful on one link only.
  var isLinkLocal: Bool {
    family == .v4 ? high >> 48 == 0xA9FE : high >> 54 == 0xFE80 >> 6
  }
}
