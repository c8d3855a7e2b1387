import Testing

@testable import Lupine

/// The states of an operation, without a network.
@Suite struct OperationMachineTests {
  private typealias Machine = OperationMachine

  @Test func life() {
    var machine = Machine()
    holds(machine.isReady && machine.start() == .begin(1) && machine.start() == .ignore)
    holds(machine.pause() == .executing && machine.pause() == nil && machine.isReady)
    holds(!machine.finish(1) && machine.start() == .ignore)
    holds(machine.resume() && !machine.resume() && machine.start() == .begin(2))
    holds(!machine.finish(1), "an earlier exchange is not heard")
    holds(machine.restart(1) == nil && machine.restart(2) == 3 && machine.finish(3) && machine.state == .finished)
    holds(machine.start() == .ignore && machine.pause() == nil && !machine.resume() && machine.cancel() == .ignore)
  }

  @Test func pauseBeforeTheStartKeepsAQueueFromIt() {
    var machine = Machine()
    holds(machine.pause() == .ready && !machine.isReady && machine.resume() && machine.isReady && !machine.hasBegun)
  }

  /// Its queue comes to start it once, and finds it paused: then whoever resumes it starts it.
  @Test func pauseBehindTheQueuesBack() {
    var machine = Machine()
    holds(machine.pause() == .ready && machine.start() == .ignore && machine.hasBegun && machine.isReady)
    holds(machine.resume() && machine.start() == .begin(1))
    var cancelled = Machine()
    _ = cancelled.pause()
    holds(cancelled.start() == .ignore && cancelled.cancel() == .finish && cancelled.state == .finished)
  }

  @Test func cancelling() {
    var ready = Machine()
    holds(ready.cancel() == .wait(becameReady: false) && ready.pause() == nil && ready.start() == .finishCancelled)
    var running = Machine()
    _ = running.start()
    holds(running.cancel() == .stop && running.cancel() == .ignore && running.pause() == nil && running.finish(1))
    var paused = Machine()
    _ = paused.start()
    _ = paused.pause()
    holds(paused.cancel() == .finish && paused.state == .finished && !paused.resume())
    var early = Machine()
    _ = early.pause()
    holds(early.cancel() == .wait(becameReady: true) && early.isReady && early.start() == .finishCancelled)
  }
}
