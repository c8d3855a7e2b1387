import CAllocations
import Glibc
import LupineSession
import LupineTesting
import Synchronization

// Counts who asks for memory while requests are fetched over a kept connection. The wire and the pool must not: status 1 if they do.
//
// usage: allocations [REQUESTS]: 1,000, or a few more; there is room for 65,536 stacks, those of the server included

let requests = CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1_000
let server = try LoopbackServer { _, connection in try connection.respond(text: "Hello, world!") }
let session = try Session(.ephemeral)
let request = try Request(server.url())

/// Requests one after the other, each begun by the completion of the one before.
final class Chain: Sendable {
  private let left: Atomic<Int>
  private let whenDone: @Sendable () -> Void

  init(_ count: Int, whenDone: @escaping @Sendable () -> Void) {
    left = Atomic(count)
    self.whenDone = whenDone
  }

  func next() {
    guard left.subtract(1, ordering: .relaxed).newValue >= 0 else { return whenDone() }
    session.data(for: request) { result in
      guard case .success(let (body, response)) = result, response.statusCode == 200, body.count == 13 else {
        fatalError("the server did not answer as it should: \(result)")
      }
      self.next()
    }
  }
}

func fetch(_ count: Int) async {
  await withCheckedContinuation { continuation in
    let chain = Chain(count) { continuation.resume() }
    session.onEngine { chain.next() }
  }
}

/// The part of a stack that asked: the innermost function of ours, by its module; the pool apart from its engine.
func owner(_ allocation: Int) -> String {
  for frame in 0..<allocations_depth(allocation) {
    guard let name = unsafe allocations_symbol(allocation, frame).map({ unsafe String(cString: $0) }),
      let readable = unsafe allocations_readable_symbol(allocation, frame).map({ unsafe String(cString: $0) })
    else { continue }
    if ["PoolMachine", "EnginePool", "SlotList"].contains(where: { readable.contains($0) }) { return "pool" }
    // The first module of the linker's name is the one that the code was written in.
    let modules = ["Base", "Wire", "IO", "TLS", "Rules", "Engine", "Session", "Testing"].map { "Lupine\($0)" }
    if let first = modules.compactMap({ name.firstRange(of: $0)?.lowerBound }).min() {
      return modules.first { name[first...].hasPrefix($0) } ?? "other"
    }
  }
  return "other"
}

guard allocations_read_symbols() > 0 else {
  fatalError("the program has no symbols, so that nobody can be named: do not strip it")
}
await fetch(100)
allocations_note(true)
await fetch(requests)
allocations_note(false)

var counts = ["LupineWire": 0, "pool": 0]
for allocation in 0..<allocations_kept() { counts[owner(allocation), default: 0] += 1 }
for (name, count) in counts.sorted(by: { $0.value > $1.value }) {
  print("\(name): \(count) allocations, \(Double(count * 100 / requests) / 100) a request")
}
let isCounting = counts["LupineSession", default: 0] >= requests && allocations_count() == allocations_kept()
if !isCounting {
  print(
    "error: this is no count of \(requests) requests: \(allocations_count()) allocations, \(allocations_kept()) with a stack"
  )
}
let isFree = counts["LupineWire"] == 0 && counts["pool"] == 0
if !isFree { print("error: the wire and the pool allocate for a request") }
exit(isCounting && isFree ? 0 : 1)
