import LupineTesting
import Testing

@testable import lupine

@Suite struct HistogramTests {
  /// Buckets follow each other without gaps, and no value is further than 1/128 from its bucket's end.
  @Test func bucketsAreContiguousAndNarrow() {
    var values: [UInt64] = Array(0...5_000)
    for bit in 8..<63 { values += [1 << bit - 1, 1 << bit, 1 << bit + 1, 3 << (bit - 1)] }
    values.append(.max)
    for value in values {
      let index = LatencyHistogram.index(of: value)
      let highest = LatencyHistogram.highestValue(at: index)
      #expect(highest >= value)
      #expect(Double(highest - value) <= Double(value) / 128)
      #expect(LatencyHistogram.index(of: highest) == index)
      if highest < .max { #expect(LatencyHistogram.index(of: highest + 1) == index + 1) }
    }
  }

  @Test(arguments: [0, 0.1, 50, 90, 99, 99.9, 100]) func percentilesMatchSorting(_ percentile: Double) {
    var generator = SeededGenerator(seed: 7)
    let values = (0..<10_000).map { _ in UInt64.random(in: 1_000...50_000_000, using: &generator) }
    var histogram = LatencyHistogram()
    for value in values { histogram.record(value) }
    let rank = max(1, Int((percentile / 100 * 10_000).rounded(.up)))
    let exact = values.sorted()[rank - 1]
    let found = histogram.value(atPercentile: percentile)
    #expect(found >= exact && Double(found - exact) <= Double(exact) / 128)
  }

  @Test func mergingIsRecordingTogether() {
    var first = LatencyHistogram()
    var second = LatencyHistogram()
    var both = LatencyHistogram()
    for value in UInt64(1)...1_000 {
      if value % 3 == 0 { first.record(value * 999) } else { second.record(value * 7) }
      both.record(value % 3 == 0 ? value * 999 : value * 7)
    }
    first.add(second)
    #expect(first.count == both.count && first.minimum == both.minimum && first.maximum == both.maximum)
    #expect(first.steps.map(\.value) == both.steps.map(\.value))
    #expect(abs(first.mean - both.mean) < 1e-6 * both.mean)
    #expect(first.steps.last?.percentile == 100)
  }

  @Test func emptyAndSingle() {
    var histogram = LatencyHistogram()
    #expect(histogram.value(atPercentile: 99) == 0 && histogram.mean == 0 && histogram.standardDeviation == 0)
    histogram.record(12_345)
    #expect(histogram.value(atPercentile: 0) == 12_345 && histogram.value(atPercentile: 100) == 12_345)
  }
}
