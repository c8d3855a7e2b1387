internal import LupineRules

/// Oracle: in no chain does a stripped field come back, a change of origin keep secrets, https lead to http, a method appear that was not asked
/// for, or the limit be passed; a referrer never has userinfo or fragment.
///
/// The first line of the input is a URL; each line after it is a byte for status, method and body, and a `Location`.
package enum RedirectFuzz {
  package static func run(bytes: [UInt8]) {
    let lines = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
    guard let first = lines.first, var current = try? URLReader.read(first.span) else { return }
    let statuses = [301, 302, 303, 307, 308, 304, 200, 300]
    var method = "POST"
    var chain = RedirectChain()
    for line in lines.dropFirst() {
      guard let choice = line.first else { continue }
      if chain.count == 0 { method = ["GET", "POST", "HEAD", "PUT"][Int(choice >> 3 & 3)] }
      let isReplayable = choice & 0x20 != 0
      let decision = RedirectRule.decide(
        status: statuses[Int(choice & 7)], method: method, locations: [Array(line.dropFirst())], current: current,
        chain: chain, isBodyReplayable: isReplayable)
      guard case .follow(let step) = decision else { continue }
      check(step, from: current, method, chain, isReplayable: isReplayable)
      (current, method, chain) = (step.url, step.method, step.chain)
    }
  }

  private static func check(
    _ step: RedirectStep, from current: ParsedURL, _ method: String, _ chain: RedirectChain, isReplayable: Bool
  ) {
    URLReaderFuzz.check(step.url)
    precondition(step.chain.count == chain.count + 1 && step.chain.count <= 20, "the limit does not hold")
    precondition(step.chain.strip.isSuperset(of: chain.strip), "a stripped field comes back")
    let isSame =
      current.scheme == step.url.scheme && current.host == step.url.host && current.port == step.url.port
    precondition(step.crossesOrigin != isSame, "a change of origin was not noticed")
    precondition(isSame || OriginRule.strips("authorization", step.chain.strip), "a secret crosses origins")
    precondition(current.scheme == .http || step.url.scheme == .https, "https leads to http")
    precondition(step.method == method || step.method == "GET", "a method appeared")
    precondition(method != "HEAD" || step.method == "HEAD")
    precondition(step.dropsBody == (step.method != method), "the body and the method disagree")
    precondition(!step.dropsBody || OriginRule.strips("content-type", step.chain.strip), "the body's fields stay")
    precondition(step.dropsBody || isReplayable, "a body that is gone is sent again")
    guard let referrer = OriginRule.referrer(leaving: current, entering: step.url) else { return }
    precondition(!referrer.contains("#"), "a referrer has a fragment")
    guard let read = try? URLReader.read(referrer) else {
      precondition(referrer.utf8.count > URLReader.maximumLength)
      return
    }
    precondition(read.userinfo == nil && read.authority == current.authority, "a referrer has userinfo")
    precondition(isSame || read.target == "/", "a referrer tells another origin too much")
  }
}
