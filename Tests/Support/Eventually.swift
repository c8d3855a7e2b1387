import Glibc

/// Waits, letting others run, until `condition` holds; says whether it came to that.
package func eventually(seconds: Double = 60, _ condition: () async throws -> Bool) async rethrows -> Bool {
  let deadline = ContinuousClock.now + .seconds(seconds)
  while true {
    if try await condition() { return true }
    if ContinuousClock.now > deadline { return false }
    await Task.yield()
    // Other threads are let run too: what is waited for is done by one of them, or by another process.
    sched_yield()
  }
}
