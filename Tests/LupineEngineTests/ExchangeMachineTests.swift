import LupineBase
import Testing

@testable import LupineEngine

@Suite struct ExchangeMachineTests {
  @Test func requestWithoutBodyIsDoneWithItsHead() {
    var machine = ExchangeMachine(hasBody: false, expectsContinue: true)
    let sent = machine.headSent()
    #expect(sent == .none)
    #expect(machine.sending == .done)
    let head = machine.finalHead(status: 200)
    let end = machine.responseEnded()
    #expect(head == .none && end == .none)
    #expect(machine.leavesConnectionClean)
  }

  @Test func continueStartsTheBodyOnce() {
    var machine = ExchangeMachine(hasBody: true, expectsContinue: true)
    let sent = machine.headSent()
    let processing = machine.informational(status: 102)
    let first = machine.informational(status: 100)
    let second = machine.informational(status: 100)
    let late = machine.continueTimedOut()
    #expect([sent, processing, first, second, late] == [.awaitContinue, .none, .startBody, .none, .none])
  }

  @Test func timerStartsTheBodyWithoutAContinue() {
    var machine = ExchangeMachine(hasBody: true, expectsContinue: true)
    _ = machine.headSent()
    let step = machine.continueTimedOut()
    #expect(step == .startBody)
    #expect(machine.sending == .body)
  }

  @Test(
    "Go CVE-2024-24791: an unfinished 100-continue never leaves a connection for reuse",
    arguments: [200, 302, 417, 500])
  func finalResponseInsteadOfContinue(status: Int) {
    var machine = ExchangeMachine(hasBody: true, expectsContinue: true)
    _ = machine.headSent()
    let step = machine.finalHead(status: status)
    #expect(step == .stopBody)
    _ = machine.responseEnded()
    #expect(!machine.leavesConnectionClean)
  }

  @Test(arguments: [
    (200, ExchangeMachine.SendingStep.none), (299, .none), (300, .stopBody), (413, .stopBody), (500, .stopBody),
  ])
  func earlyResponse(status: Int, step: ExchangeMachine.SendingStep) {
    var machine = ExchangeMachine(hasBody: true, expectsContinue: false)
    let start = machine.headSent()
    #expect(start == .startBody)
    let actual = machine.finalHead(status: status)
    #expect(actual == step)
    let end = machine.responseEnded()
    #expect(end == (step == .none ? .stopBody : .none))
    #expect(!machine.leavesConnectionClean)
  }

  @Test func completeUploadLeavesTheConnectionClean() {
    var machine = ExchangeMachine(hasBody: true, expectsContinue: false)
    _ = machine.headSent()
    machine.bodySent()
    _ = machine.finalHead(status: 500)
    _ = machine.responseEnded()
    #expect(machine.leavesConnectionClean)
  }
}

@Suite struct DeadlineClockTests {
  private func clock(_ change: (inout Deadlines) -> Void) -> DeadlineClock {
    var limits = Deadlines()
    limits.total = 1_000
    limits.idle = 100
    limits.awaitContinue = 10
    change(&limits)
    return DeadlineClock(limits: limits, now: Instant(nanoseconds: 0))
  }

  @Test func idleMovesWithActivityAndStopsWhilePaused() {
    var clock = clock { _ in }
    #expect(clock.next.at == Instant(nanoseconds: 100))
    #expect(clock.next.phase == .receive)
    clock.lastActivityAt = Instant(nanoseconds: 50)
    #expect(clock.next.at == Instant(nanoseconds: 150))
    clock.isPaused = true
    #expect(clock.next.at == Instant(nanoseconds: 1_000))
    #expect(clock.next.phase == .total)
  }

  @Test func sendAndFirstByteFollowEachOther() {
    var clock = clock {
      $0.idle = nil
      $0.send = 30
      $0.firstByte = 20
    }
    clock.sendStartedAt = Instant(nanoseconds: 5)
    #expect(clock.next.at == Instant(nanoseconds: 35))
    #expect(clock.next.phase == .send)
    clock.sendEndedAt = Instant(nanoseconds: 10)
    #expect(clock.next.at == Instant(nanoseconds: 30))
    #expect(clock.next.phase == .firstByte)
    // A reader that does not want the answer yet waits for nobody, and gives the peer its time anew when it goes on.
    clock.isPaused = true
    #expect(clock.next.phase == .total)
    clock.isPaused = false
    clock.lastActivityAt = Instant(nanoseconds: 50)
    #expect(clock.next.at == Instant(nanoseconds: 70))
    clock.firstByteAt = Instant(nanoseconds: 12)
    #expect(clock.next.phase == .total)
  }

  /// Ciphertext moves what is idle, and says nothing of the first byte.
  @Test func ciphertextIsActivityAndNoFirstByte() {
    var clock = clock { $0.firstByte = 60 }
    clock.sendEndedAt = Instant(nanoseconds: 0)
    clock.lastCiphertextAt = Instant(nanoseconds: 50)
    #expect(clock.next.at == Instant(nanoseconds: 60))
    #expect(clock.next.phase == .firstByte)
    clock.firstByteAt = Instant(nanoseconds: 55)
    #expect(clock.next.at == Instant(nanoseconds: 150))
    #expect(clock.next.phase == .receive)
    clock.lastActivityAt = Instant(nanoseconds: 60)
    #expect(clock.next.at == Instant(nanoseconds: 160))
    // That of an exchange before counts for nothing.
    clock.lastCiphertextAt = Instant(nanoseconds: -10)
    #expect(clock.next.at == Instant(nanoseconds: 160))
  }

  @Test func continueIsTheFirstToPass() {
    var clock = clock { _ in }
    clock.awaitingContinueSince = Instant(nanoseconds: 3)
    #expect(clock.next.at == Instant(nanoseconds: 13))
    #expect(clock.next.phase == .awaitContinue)
    clock.limits.send = 12
    clock.sendStartedAt = Instant(nanoseconds: 3)
    clock.isPaused = true
    // Nobody reads what is said about the body, which is held back.
    #expect(clock.next.phase == .total)
    clock.isPaused = false
    clock.readOn(at: Instant(nanoseconds: 20))
    #expect(clock.next.at == Instant(nanoseconds: 30))
    #expect(clock.next.phase == .awaitContinue)
  }
}
