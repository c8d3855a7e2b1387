internal import LupineEngine

/// What one seed is like: how much there is to do, how the network behaves, and what the pool may do.
struct SimulationSettings {
  /// Hosts, each with the number of its addresses.
  var hosts: [Int]
  var users: Int
  var requests: Int
  /// How often something goes wrong, in percent. With 0, every request succeeds.
  var faults: Int
  var longestBody: Int
  /// Of one way over the network, in milliseconds.
  var latency: Int
  var limits: PoolLimits

  init(_ numbers: inout SeededNumbers) {
    hosts = (0..<numbers.within(1...4)).map { _ in 1 }
    for host in hosts.indices { hosts[host] = numbers.within(1...3) }
    users = numbers.within(4...40)
    requests = numbers.within(64...200)
    faults = [0, 0, 4, 10, 25, 50][numbers.below(6)]
    longestBody = [200, 4000, 60_000][numbers.below(3)]
    latency = [0, 3, 40, 300][numbers.below(4)]
    limits = PoolLimits()
    limits.perHost = numbers.within(1...6)
    limits.total = numbers.within(2...16)
    limits.idleNanoseconds = Int64(numbers.within(200...20_000)) * 1_000_000
    if numbers.chance(25) { limits.lifetimeNanoseconds = Int64(numbers.within(100...5000)) * 1_000_000 }
    if numbers.chance(25) { limits.uses = numbers.within(1...9) }
    if faults > 0, numbers.chance(15) { limits.waiters = numbers.within(1...20) }
  }
}

/// What a request asks for, and how its caller behaves.
struct SimulatedCaller {
  enum Kind: Int, CaseIterable { case get, head, delete, post, keyedPost, stream, chunks, segments, expecting }

  var kind = Kind.get
  var host = 0
  var bodyLength = 0
  var priority = TransferPriority.default
  var deadlines = Deadlines()
  var discards = false
  var decodes = true
  /// Percent of the pieces of a body after which the reader pauses.
  var pauses = 0
  /// Nanoseconds after the start.
  var cancelsAfter: Int64?
  /// Nanoseconds between the end of the request before and the start of this one; 0 is at once, from within that end.
  var pause: Int64 = 0
  /// The caller fails to produce the body.
  var producerFails = false

  init(_ numbers: inout SeededNumbers, _ settings: SimulationSettings) {
    kind = numbers.chance(45) ? .get : Kind.allCases[numbers.below(Kind.allCases.count)]
    host = numbers.below(settings.hosts.count)
    switch kind {
    case .get, .head, .delete: bodyLength = 0
    default: bodyLength = numbers.within(1...max(2, settings.longestBody))
    }
    priority = [.low, .default, .default, .default, .high][numbers.below(5)]
    discards = numbers.chance(6)
    decodes = numbers.chance(80)
    pauses = numbers.chance(15) ? numbers.within(5...60) : 0
    if numbers.chance(40) { pause = Int64(numbers.mostlySmall(3000)) * 1_000_000 }
    guard settings.faults > 0 else { return }
    if numbers.chance(max(2, settings.faults / 3)) {
      cancelsAfter = Int64(numbers.mostlySmall(2500)) * 1_000_000
    }
    if numbers.chance(30) { deadlines.total = Int64(numbers.within(500...30_000)) * 1_000_000 }
    if numbers.chance(30) { deadlines.idle = Int64(numbers.within(100...5000)) * 1_000_000 }
    if numbers.chance(10) { deadlines.firstByte = Int64(numbers.within(10...2000)) * 1_000_000 }
    if numbers.chance(10) { deadlines.send = Int64(numbers.within(10...2000)) * 1_000_000 }
    if numbers.chance(10) { deadlines.poolWait = Int64(numbers.within(10...3000)) * 1_000_000 }
    producerFails = numbers.chance(3)
  }

  var method: String {
    switch kind {
    case .get: "GET"
    case .head: "HEAD"
    case .delete: "DELETE"
    case .stream: "PUT"
    case .post, .keyedPost, .chunks, .segments, .expecting: "POST"
    }
  }

  /// Whether it may be sent again after it was sent.
  var isRepeatable: Bool {
    switch kind {
    case .get, .head, .delete, .keyedPost, .stream: true
    case .post, .chunks, .segments, .expecting: false
    }
  }
}
