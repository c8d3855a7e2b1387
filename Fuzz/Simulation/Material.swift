package import LupineBase

/// Numbers that follow from a seed (SplitMix64).
package struct SeededNumbers: RandomNumberGenerator {
  private var state: UInt64

  package init(seed: UInt64) { state = seed &* 0x2545_F491_4F6C_DD1D &+ 0x9E37_79B9 }

  package mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  package mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(max(1, limit))) }
  package mutating func within(_ range: ClosedRange<Int>) -> Int { range.lowerBound + below(range.count) }
  /// True so many times of a hundred.
  package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }
  /// Small numbers mostly, and `limit` at most.
  package mutating func mostlySmall(_ limit: Int) -> Int { below(1 + below(1 + below(limit + 1))) }
}

/// Bodies that tell whose they are: a byte in the wrong place, or of another request's body, is not the one expected there.
package enum Material {
  package enum Direction: Int { case request, response }

  package static func byte(_ number: Int, _ offset: Int, _ direction: Direction) -> UInt8 {
    let mixed = number &* 167 &+ offset &* 31 &+ (offset >> 8) &* 7 &+ (number >> 8) &* 59 &+ direction.rawValue &* 113
    return UInt8(truncatingIfNeeded: mixed)
  }

  package static func bytes(_ number: Int, _ range: Range<Int>, _ direction: Direction) -> [UInt8] {
    // What is not optimised takes several times as long for a closure.
    var bytes = [UInt8](repeating: 0, count: range.count)
    var index = 0
    while index < bytes.count {
      bytes[index] = byte(number, range.lowerBound + index, direction)
      index += 1
    }
    return bytes
  }

  /// gzip (RFC 1952) of stored blocks: nothing is compressed.
  package static func gzip(_ bytes: [UInt8]) -> [UInt8] {
    var output: [UInt8] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255]
    var start = 0
    repeat {
      let count = min(0xFFFF, bytes.count - start)
      output.append(start + count == bytes.count ? 1 : 0)
      for value in [count, ~count] {
        output.append(UInt8(truncatingIfNeeded: value))
        output.append(UInt8(truncatingIfNeeded: value >> 8))
      }
      output += bytes[start..<start + count]
      start += count
    } while start < bytes.count
    for value in [checksum(bytes), UInt32(truncatingIfNeeded: bytes.count)] {
      for shift in [UInt32(0), 8, 16, 24] { output.append(UInt8(truncatingIfNeeded: value >> shift)) }
    }
    return output
  }

  private static let checksums: [UInt32] = (0..<256).map { start in
    (0..<8).reduce(UInt32(start)) { value, _ in value & 1 == 0 ? value >> 1 : 0xEDB8_8320 ^ (value >> 1) }
  }

  private static func checksum(_ bytes: [UInt8]) -> UInt32 {
    ~bytes.reduce(~UInt32(0)) { checksums[Int(UInt8(truncatingIfNeeded: $0) ^ $1)] ^ ($0 >> 8) }
  }
}

/// What is to happen when, in the order of time, and among equals in the order of planning.
package struct Agenda {
  private struct Entry {
    let at: Int64
    let order: Int
    let action: () -> Void
  }

  private var heap: [Entry] = []
  private var order = 0

  package init() {}

  package var next: Instant? { heap.first.map { Instant(nanoseconds: $0.at) } }

  package mutating func plan(at instant: Instant, _ action: @escaping () -> Void) {
    heap.append(Entry(at: instant.nanoseconds, order: order, action: action))
    order += 1
    var place = heap.count - 1
    while place > 0, precedes(place, (place - 1) / 2) {
      heap.swapAt(place, (place - 1) / 2)
      place = (place - 1) / 2
    }
  }

  /// Takes out the next action if it is due.
  package mutating func popDue(_ now: Instant) -> (() -> Void)? {
    guard let first = heap.first, first.at <= now.nanoseconds else { return nil }
    heap.swapAt(0, heap.count - 1)
    heap.removeLast()
    var place = 0
    while true {
      var least = place
      for child in [2 * place + 1, 2 * place + 2] where child < heap.count && precedes(child, least) { least = child }
      guard least != place else { return first.action }
      heap.swapAt(place, least)
      place = least
    }
  }

  private func precedes(_ left: Int, _ right: Int) -> Bool {
    (heap[left].at, heap[left].order) < (heap[right].at, heap[right].order)
  }
}
