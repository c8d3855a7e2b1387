import LupineBase
import Testing

@Suite struct ByteQueueTests {
  @Test func bytesComeOutInTheOrderTheyWentIn() {
    var queue = ByteQueue()
    var expected: [UInt8] = []
    var read: [UInt8] = []
    for round in 0..<500 {
      let chunk = (0..<(round % 37)).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ round) }
      expected += chunk
      queue.append(chunk)
      let amount = min(queue.count, round % 23)
      for index in 0..<amount { read.append(queue.span[index]) }
      queue.consume(amount)
    }
    for index in 0..<queue.count { read.append(queue.span[index]) }
    queue.consume(queue.count)
    #expect(read == expected)
    let isEmpty = queue.isEmpty
    #expect(isEmpty)
  }

  @Test func partlyFilledTailCountsOnlyWhatWasWritten() {
    var queue = ByteQueue(capacity: 4)
    queue.append([1, 2])
    let written = queue.append(upTo: 10) { output in
      output.append(3)
      output.append(4)
      return output.count
    }
    #expect(written == 2)
    let count4 = queue.count
    #expect(count4 == 4)
    let last = queue.span[3]
    #expect(last == 4)
  }

  @Test func releaseFreesMemoryOnlyWhenEmpty() {
    var queue = ByteQueue(capacity: 64)
    queue.append([1])
    queue.releaseIfEmpty()
    let capacity64 = queue.capacity
    #expect(capacity64 == 64)
    queue.consume(1)
    queue.releaseIfEmpty()
    let capacity0 = queue.capacity
    #expect(capacity0 == 0)
    queue.append([9, 9])
    let count2 = queue.count
    #expect(count2 == 2)
  }
}

@Suite struct RingBufferTests {
  @Test func keepsOrderAcrossGrowthAndWrapping() {
    var ring = RingBuffer<Int>()
    var next = 0
    var expected = 0
    for round in 0..<300 {
      for _ in 0..<(round % 13) {
        ring.append(next)
        next += 1
      }
      for _ in 0..<min(ring.count, round % 11) {
        #expect(ring.popFirst() == expected)
        expected += 1
      }
    }
    while let value = ring.popFirst() {
      #expect(value == expected)
      expected += 1
    }
    #expect(expected == next)
    #expect(ring.popFirst() == nil)
  }

  @Test func changesTheLast() {
    var ring = RingBuffer<[Int]>()
    #expect(!ring.changeLast { _ in true })
    for number in 0..<20 {
      ring.append([number])
      if number % 3 > 0 { #expect(ring.popFirst() != nil) }
      let isChanged = ring.changeLast { last in
        last.append(-number)
        return number % 2 == 0
      }
      #expect(isChanged == (number % 2 == 0))
    }
    var last: [Int]?
    while let next = ring.popFirst() { last = next }
    #expect(last == [19, -19])
  }
}

@Suite struct InstantTests {
  @Test func arithmeticSaturates() {
    let late = Instant(nanoseconds: .max - 5)
    #expect(late.advanced(byNanoseconds: 10) == .distantFuture)
    #expect(Instant(nanoseconds: .min + 5).advanced(byNanoseconds: -10).nanoseconds == .min)
    #expect(Instant(nanoseconds: 7).nanoseconds(since: Instant(nanoseconds: 5)) == 2)
    #expect(Duration.seconds(Int64.max).saturatedNanoseconds == .max)
    #expect(Duration.milliseconds(1500).saturatedNanoseconds == 1_500_000_000)
  }

  /// Also of more seconds than `Int64` holds, of which there are no components.
  @Test func durationsSaturate() {
    let cases: [(duration: Duration, nanoseconds: Int64)] = [
      (Duration(attoseconds: .max), .max), (Duration(attoseconds: .min), .min), (.seconds(UInt64.max), .max),
      (.seconds(-1e19), .min), (.nanoseconds(Int64.max), .max), (.nanoseconds(Int64.max - 1), .max - 1),
      (.nanoseconds(Int64.min), .min), (.nanoseconds(Int64.min + 1), .min + 1), (.nanoseconds(-1), -1),
      (Duration(attoseconds: -999_999_999), 0), (Duration(attoseconds: 1_999_999_999), 1), (.zero, 0),
    ]
    for (duration, nanoseconds) in cases {
      #expect(duration.saturatedNanoseconds == nanoseconds)
      #expect(duration.saturated == .nanoseconds(nanoseconds))
    }
  }
}

@Suite struct LockedTests {
  @Test func concurrentIncrementsAreNotLost() async {
    let counter = Locked(0)
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<8 {
        group.addTask { for _ in 0..<1_000 { counter.withLock { $0 += 1 } } }
      }
    }
    #expect(counter.withLock { $0 } == 8_000)
  }
}

@Suite struct SpanLoadTests {
  @Test func loadsAndStoresAtAnyAlignment() {
    var array = [UInt8](0..<20)
    let (some, none): ([UInt8], [UInt8]) = ([9, 8], [])
    #expect((0...16).allSatisfy { UInt32(littleEndian: array.span.load(at: $0, as: UInt32.self)) & 0xFF == $0 })
    var span = array.mutableSpan
    span.store(UInt32(littleEndian: 0x0403_0201), at: 16)
    span.copy(some.span, at: 0)
    span.copy(none.span, at: 20)
    #expect(array == [9, 8] + Array(2..<16) + [1, 2, 3, 4])
  }

  @Test func everyAccessOutsideTraps() async {
    await #expect(processExitsWith: .failure) {
      let array: [UInt8] = [1, 2, 3]
      _ = array.span.load(at: 2, as: UInt16.self)
    }
    await #expect(processExitsWith: .failure) {
      let array: [UInt8] = [1, 2, 3]
      _ = array.span.load(at: -1, as: UInt16.self)
    }
    await #expect(processExitsWith: .failure) {
      let array: [UInt8] = [1]
      _ = array.span.load(at: .max, as: UInt16.self)
    }
    await #expect(processExitsWith: .failure) {
      let array: [UInt8] = [1]
      _ = array.span.load(at: .min, as: UInt16.self)
    }
    await #expect(processExitsWith: .failure) {
      let array: [UInt8] = [1, 2, 3]
      _ = array.span.load(at: 0, as: UInt8.self, room: 4)
    }
    await #expect(processExitsWith: .failure) {
      var array: [UInt8] = [1, 2, 3]
      var span = array.mutableSpan
      span.store(UInt16(0), at: 2)
    }
    await #expect(processExitsWith: .failure) {
      var array: [UInt8] = [1, 2, 3]
      let source = array
      var span = array.mutableSpan
      span.copy(source.span, at: 2)
    }
  }
}
