/// Counts of values in buckets whose width grows with the value, as in HdrHistogram: any 64-bit value, at most 0.8 % off, constant time.
///
/// Values below 256 have a bucket each. Above, every power of two is divided into 128 buckets.
struct LatencyHistogram: Sendable, Equatable {
  private static let subBits = 7

  private var counts: [UInt64] = []
  private(set) var count: UInt64 = 0
  private(set) var minimum: UInt64 = .max
  private(set) var maximum: UInt64 = 0
  private var sum = 0.0
  private var sumOfSquares = 0.0

  /// The bucket of a value.
  static func index(of value: UInt64) -> Int {
    let highestBit = 63 - (value | 1).leadingZeroBitCount
    let shift = max(0, highestBit - subBits)
    return shift << subBits + Int(value >> UInt64(shift))
  }

  /// The highest value of a bucket.
  static func highestValue(at index: Int) -> UInt64 {
    let shift = max(0, (index >> subBits) - 1)
    let lowest = UInt64(index - shift << subBits) << UInt64(shift)
    return lowest + (1 << UInt64(shift) - 1)
  }

  mutating func record(_ value: UInt64) {
    let index = Self.index(of: value)
    if index >= counts.count { counts += repeatElement(0, count: index + 1 - counts.count) }
    counts[index] += 1
    count += 1
    minimum = min(minimum, value)
    maximum = max(maximum, value)
    sum += Double(value)
    sumOfSquares += Double(value) * Double(value)
  }

  mutating func add(_ other: LatencyHistogram) {
    if other.counts.count > counts.count { counts += repeatElement(0, count: other.counts.count - counts.count) }
    for (index, value) in other.counts.enumerated() { counts[index] += value }
    count += other.count
    minimum = min(minimum, other.minimum)
    maximum = max(maximum, other.maximum)
    sum += other.sum
    sumOfSquares += other.sumOfSquares
  }

  var mean: Double { count == 0 ? 0 : sum / Double(count) }

  var standardDeviation: Double {
    guard count > 0 else { return 0 }
    return max(0, sumOfSquares / Double(count) - mean * mean).squareRoot()
  }

  /// The value that `percentile` of 100 do not exceed; 0 without values.
  func value(atPercentile percentile: Double) -> UInt64 {
    guard count > 0 else { return 0 }
    let wanted = max(1, UInt64((min(100, max(0, percentile)) / 100 * Double(count)).rounded(.up)))
    var seen: UInt64 = 0
    for (index, count) in counts.enumerated() where count > 0 {
      seen += count
      if seen >= wanted { return max(minimum, min(maximum, Self.highestValue(at: index))) }
    }
    return maximum
  }

  /// Each bucket that has values, with the percentile that it completes.
  var steps: [(percentile: Double, value: UInt64)] {
    var seen: UInt64 = 0
    return counts.enumerated().compactMap { index, count in
      guard count > 0 else { return nil }
      seen += count
      return (Double(seen) / Double(self.count) * 100, max(minimum, min(maximum, Self.highestValue(at: index))))
    }
  }
}
