import FoundationEssentials
import LupineRules
import LupineWire
import Testing

@testable import LupineSession

/// What is held while somebody decides: it is worked off once, in order, by whoever has the latest decision.
@Suite struct GateTests {
  /// Asks for a decision, and has pieces of a body and the end behind them arrive before it; gives its number.
  private func hold(_ bodies: [UInt8], in gate: inout Gate) -> Int {
    let number = gate.wait()
    var verdicts: [Gate.Verdict] = []
    for byte in bodies { verdicts.append(gate.arrive(.body([byte]))) }
    verdicts.append(gate.arrive(.end(nil), isEnd: true))
    #expect(verdicts.allSatisfy { $0 == .held })
    return number
  }

  /// What comes next for whoever has this number, in words.
  private func next(_ number: Int, of gate: inout Gate) -> String {
    switch gate.next(number) {
    case .informational: "informational"
    case .body(let bytes): "body \(bytes)"
    case .trailers: "trailers"
    case .proposal: "proposal"
    case .end(let failure): failure.map { "end \($0.code)" } ?? "end"
    case nil: "nothing"
    }
  }

  /// A decision asks for the next one, and that comes before the first has looked at what is held.
  @Test func theLatestDecisionWorksOffWhatIsHeld() {
    var gate = Gate()
    let first = hold([7], in: &gate)
    let isFirstTaken = gate.decide(first)
    let second = gate.wait()
    let isFirstTakenAgain = gate.decide(first)
    let isSecondTaken = gate.decide(second)
    #expect(isFirstTaken && !isFirstTakenAgain && isSecondTaken)
    let heard = [first, second, second, second].map { next($0, of: &gate) }
    #expect(heard == ["nothing", "body [7]", "end", "nothing"])
    #expect(gate.state == .open && !gate.isClosed)
  }

  /// Whoever has an end may begin the next exchange with it, of which nothing is held.
  @Test func anEndOpensTheGate() {
    var gate = Gate()
    let number = hold([7], in: &gate)
    let isTaken = gate.decide(number)
    let heard = [number, number].map { next($0, of: &gate) }
    #expect(isTaken && heard == ["body [7]", "end"])
    #expect(gate.state == .open && !gate.holdsEnd)
    let verdict = gate.arrive(.body([8]))
    let rest = next(number, of: &gate)
    #expect(verdict == .pass && rest == "nothing")
  }

  /// The decision that was waited for is void, and whoever gave up works off what is held in its place.
  @Test func abandonedWhileItWaits() throws {
    var gate = Gate()
    let void = hold([7], in: &gate)
    let abandoned = gate.abandon()
    let number = try #require(abandoned)
    #expect(number != void)
    let isTaken = gate.decide(void)
    #expect(!isTaken)
    // The body is nobody's any more, the end is the task's.
    let heard = [void, number, number].map { next($0, of: &gate) }
    #expect(heard == ["nothing", "end", "nothing"])
    #expect(gate.state == .open && gate.isDropping)
  }

  /// What is to be stored is asked about before the end, whatever becomes of the body.
  @Test(arguments: [false, true]) func aProposalComesThrough(_ isDropped: Bool) throws {
    var gate = Gate()
    let data = CachedResponse(response: try response(), data: Data())
    let proposal = StorageProposal(response: data, answer: { _ in }, giveUp: {})
    let verdict = gate.arrive(proposal: proposal)
    #expect(verdict == .pass)
    let number = gate.wait()
    let verdicts = [
      gate.arrive(.body([7])), gate.arrive(proposal: proposal), gate.arrive(.end(nil), isEnd: true),
    ]
    let isTaken = gate.decide(number)
    #expect(verdicts == [.held, .held, .held] && isTaken)
    if isDropped { gate.drop() }
    let heard = (0..<(isDropped ? 3 : 4)).map { _ in next(number, of: &gate) }
    #expect(heard == (isDropped ? [] : ["body [7]"]) + ["proposal", "end", "nothing"])
    #expect(!gate.isAbandoned)
  }

  private func response() throws -> Response {
    Response(head: try ResponseHead(status: 200, fields: []), url: try Request("http://a.example/").parsedURL)
  }

  /// Somebody is at it already, who goes on to the end.
  @Test func abandonedWhileItIsWorkedOff() {
    var gate = Gate()
    let number = hold([7, 8], in: &gate)
    let isTaken = gate.decide(number)
    let before = next(number, of: &gate)
    let abandoned = gate.abandon()
    #expect(isTaken && abandoned == nil)
    let after = [number, number].map { next($0, of: &gate) }
    #expect([before] + after == ["body [7]", "end", "nothing"])
    #expect(gate.state == .open && gate.isDropping)
  }
}
