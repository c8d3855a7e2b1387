import LupineTesting
import Testing

@testable import Lupine

/// The order of downloads and their places, without a network.
@Suite struct ImageDownloadMachineTests {
  private typealias Machine = ImageDownloadMachine<String>

  /// Four at a time; the rest in the order of the policy.
  @Test(arguments: [
    (ImageDownloadPrioritization.firstInFirstOut, [5, 6, 7] as [UInt64]), (.lastInFirstOut, [7, 6, 5]),
  ])
  func order(_ prioritization: ImageDownloadPrioritization, _ expected: [UInt64]) {
    var machine = Machine(maximum: 4, prioritization: prioritization)
    let begun = (1...7).filter { machine.add($0, key: "\($0)", receipt: $0, handler: "\($0)") }
    holds(begun == [1, 2, 3, 4] && machine.running == 4)
    holds((1...3).map { machine.finish($0).next } == expected && machine.running == 4)
    holds(machine.finish(4).next == nil && machine.running == 3)
  }

  /// One download for all who ask while it waits or runs; a new one afterwards.
  @Test func joining() {
    var machine = Machine(maximum: 1, prioritization: .firstInFirstOut)
    _ = machine.add(1, key: "a", receipt: 1, handler: "first")
    _ = machine.add(2, key: "b", receipt: 2, handler: "second")
    holds(machine.join("a", receipt: 3, handler: "third") == 1)
    holds(machine.join("b", receipt: 4, handler: "fourth") == 2)
    holds(machine.join("c", receipt: 5, handler: "no") == nil && machine.join(nil, receipt: 6, handler: "no") == nil)
    holds(machine.finish(1).handlers == ["first", "third"])
    holds(machine.join("a", receipt: 7, handler: "late") == nil)
    holds(machine.finish(2).handlers == ["second", "fourth"] && machine.running == 0)
  }

  /// A waiting download that is cancelled took no place and gives none back (#3469).
  @Test func cancellingWhatWaitsGivesNoPlaceBack() {
    var machine = Machine(maximum: 1, prioritization: .firstInFirstOut)
    _ = machine.add(1, key: "a", receipt: 1, handler: "a")
    _ = machine.add(2, key: "b", receipt: 2, handler: "b")
    _ = machine.add(3, key: "c", receipt: 3, handler: "c")
    let cancelled = machine.cancel(2, of: 2)
    holds(cancelled?.handler == "b" && cancelled?.isGivenUp == true)
    // Its task ends all the same, and nobody is told or begun.
    let late = machine.finish(2)
    holds(late.handlers.isEmpty && late.next == nil && machine.running == 1)
    holds(machine.finish(1).next == 3 && machine.running == 1)
  }

  /// A running download keeps its place until it has ended, but a new request for the same does not join it.
  @Test func cancellingWhatRunsKeepsThePlace() {
    var machine = Machine(maximum: 1, prioritization: .firstInFirstOut)
    _ = machine.add(1, key: "a", receipt: 1, handler: "old")
    holds(machine.cancel(1, of: 1)?.isGivenUp == true && !machine.isWanted(1) && machine.running == 1)
    holds(machine.join("a", receipt: 2, handler: "new") == nil)
    holds(!machine.add(2, key: "a", receipt: 2, handler: "new"))
    let ending = machine.finish(1)
    holds(ending.handlers.isEmpty && ending.next == 2 && machine.isWanted(2))
    holds(machine.join("a", receipt: 3, handler: "third") == 2)
  }

  @Test func cancellingOneOfTwo() {
    var machine = Machine(maximum: 1, prioritization: .firstInFirstOut)
    _ = machine.add(1, key: "a", receipt: 1, handler: "one")
    _ = machine.join("a", receipt: 2, handler: "two")
    let cancelled = machine.cancel(1, of: 1)
    holds(cancelled?.handler == "one" && cancelled?.isGivenUp == false)
    holds(machine.cancel(1, of: 1) == nil && machine.cancel(9, of: 9) == nil)
    holds(machine.finish(1).handlers == ["two"] && machine.cancel(2, of: 1) == nil)
  }

  @Test func closingTellsEverybody() {
    var machine = Machine(maximum: 1, prioritization: .lastInFirstOut)
    for number: UInt64 in 1...3 { _ = machine.add(number, key: "\(number)", receipt: number, handler: "\(number)") }
    holds(machine.close() == ["1", "2", "3"])
    holds(machine.finish(1).handlers.isEmpty && machine.running == 0)
  }

  /// Whatever happens, in any order: places are never more than allowed, and never lost; everybody is told once.
  @Test(arguments: 1...50) func randomWalk(_ seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var machine = Machine(maximum: 3, prioritization: seed % 2 == 0 ? .firstInFirstOut : .lastInFirstOut)
    var open: [UInt64: UInt64] = [:]
    var told: Set<String> = []
    var live: Set<UInt64> = []
    var begun: Set<UInt64> = []
    for receipt: UInt64 in 1...200 {
      switch random.next() % 3 {
      case 0:
        let key = "\(random.next() % 8)"
        if let number = machine.join(key, receipt: receipt, handler: "\(receipt)") {
          open[receipt] = number
        } else {
          open[receipt] = receipt
          live.insert(receipt)
          if machine.add(receipt, key: key, receipt: receipt, handler: "\(receipt)") { begun.insert(receipt) }
        }
      case 1:
        guard let receipt = open.keys.sorted().randomElement(using: &random), let number = open[receipt] else {
          continue
        }
        if let (handler, isGivenUp) = machine.cancel(receipt, of: number) {
          holds(told.insert(handler).inserted)
          if isGivenUp, !begun.contains(number) { live.remove(number) }
        }
        open[receipt] = nil
      default:
        guard let number = begun.sorted().randomElement(using: &random) else { continue }
        begun.remove(number)
        live.remove(number)
        let ending = machine.finish(number)
        for handler in ending.handlers { holds(told.insert(handler).inserted) }
        if let next = ending.next { holds(begun.insert(next).inserted) }
      }
      holds(machine.running == begun.count && begun.count <= 3)
      holds(begun.count == 3 || live.isSubset(of: begun), "a place is free, and somebody waits")
    }
  }
}
