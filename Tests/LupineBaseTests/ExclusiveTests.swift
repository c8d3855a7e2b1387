import LupineBase
import Testing

@Suite struct ExclusiveTests {
  private final class Owner {
    let numbers = Exclusive([1, 2])
    let bytes = Exclusive(ByteQueue())
    let released = Exclusive<Released?>(nil)
  }

  private final class Released {
    let tell: () -> Void

    init(_ tell: @escaping () -> Void) { self.tell = tell }

    deinit { tell() }
  }

  private func modify(_ owner: Owner, _ change: (inout [Int]) -> Void) {
    change(&owner.numbers.value)
  }

  @Test func readsAndModifies() {
    let owner = Owner()
    owner.numbers.value.append(3)
    modify(owner) { $0.removeFirst() }
    #expect(owner.numbers.value == [2, 3])
    #expect(owner.numbers.update { $0.removeLast() } == 3)
    #expect(owner.numbers.value == [2])
    owner.bytes.value.append([1, 2, 3])
    #expect(owner.bytes.value.count == 3)
    #expect(owner.bytes.withValue { $0.span[1] } == 2)
  }

  @Test func readsMayOverlap() {
    let owner = Owner()
    let sum = owner.numbers.withValue { outer in outer[0] + owner.numbers.value[1] }
    #expect(sum == 3)
  }

  /// An access ends with what it throws, too.
  @Test func anAccessEndsWithAnError() {
    struct Failure: Error {}
    let owner = Owner()
    func fail(_ numbers: inout [Int]) throws { throw Failure() }
    #expect(throws: Failure.self) { try fail(&owner.numbers.value) }
    owner.numbers.value.append(3)
    #expect(owner.numbers.value.count == 3)
  }

  @Test func theValueEndsWithItsOwner() {
    var count = 0
    do {
      let owner = Owner()
      owner.released.value = Released { count += 1 }
      #expect(count == 0)
    }
    #expect(count == 1)
  }

  @Test func aReadingDuringAModificationTraps() async {
    await #expect(processExitsWith: .failure) {
      let owner = Owner()
      ExclusiveTests().modify(owner) { numbers in numbers.append(owner.numbers.value.count) }
    }
  }

  @Test func aModificationDuringAReadingTraps() async {
    await #expect(processExitsWith: .failure) {
      let owner = Owner()
      owner.numbers.withValue { _ in owner.numbers.value.append(1) }
    }
  }

  @Test func modificationsThatOverlapTrap() async {
    await #expect(processExitsWith: .failure) {
      let owner = Owner()
      ExclusiveTests().modify(owner) { _ in owner.numbers.value.append(1) }
    }
  }
}
