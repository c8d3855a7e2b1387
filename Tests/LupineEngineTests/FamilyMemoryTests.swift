import LupineBase
import LupineIO
import Testing

@testable import LupineEngine

@Suite struct FamilyMemoryTests {
  private let answer = ["::1", "127.0.0.1", "::2", "127.0.0.2"].compactMap { SocketAddress(literal: $0, port: 1) }
  private let start = Instant(nanoseconds: 1)

  /// The family that won is tried first, both in the resolver's order, at this host and port only.
  @Test func winnerComesFirst() {
    var memory = FamilyMemory()
    #expect(memory.sorted(answer, host: "h", port: 1, now: start) == answer)
    memory.note(answer[1], of: answer, host: "h", port: 1, now: start)
    let sorted = memory.sorted(answer, host: "h", port: 1, now: start)
    #expect(sorted == [answer[1], answer[3], answer[0], answer[2]])
    #expect(memory.sorted(answer, host: "h", port: 2, now: start) == answer)
    #expect(memory.sorted(answer, host: "i", port: 1, now: start) == answer)
    #expect(memory.sorted([answer[0]], host: "h", port: 1, now: start) == [answer[0]])
    #expect(memory.sorted([], host: "h", port: 1, now: start) == [])
  }

  /// Winning again does not make it last longer, so that the resolver's choice is tried from time to time.
  @Test func endsInTime() {
    var memory = FamilyMemory()
    memory.note(answer[1], of: answer, host: "h", port: 1, now: start)
    let last = start.advanced(byNanoseconds: FamilyMemory.nanoseconds - 1)
    memory.note(answer[3], of: answer, host: "h", port: 1, now: last)
    #expect(memory.sorted(answer, host: "h", port: 1, now: last) != answer)
    #expect(memory.sorted(answer, host: "h", port: 1, now: last.advanced(byNanoseconds: 1)) == answer)
    #expect(memory.count == 0)
  }

  /// Once the preferred family works again, nothing is remembered; and what is remembered has a bound.
  @Test func forgets() {
    var memory = FamilyMemory()
    memory.note(answer[1], of: answer, host: "h", port: 1, now: start)
    memory.note(answer[2], of: answer, host: "h", port: 1, now: start)
    #expect(memory.count == 0)
    for port in 0..<UInt16(3 * FamilyMemory.limit) {
      memory.note(answer[1], of: answer, host: "h", port: port, now: start)
      #expect(memory.count <= FamilyMemory.limit)
    }
  }
}
