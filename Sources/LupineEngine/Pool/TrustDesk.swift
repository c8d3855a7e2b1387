internal import LupineBase
internal import LupineIO
internal import LupineTLS

/// Passes the questions of a pool's connections on to its decider, and the answers back. Lives on the loop.
///
/// States of a case: open (asked, connections wait) → gone (answered). Invariants: one question at a time is open for the same place and
/// the same report, so that six connections to a new host do not ask six times; an answer reaches every connection that waits for it and
/// no other; a case whose connections are all gone is asked anew when it comes up again.
final class TrustDesk {
  /// What is asked. The pool key holds host, port, policy and trust domain.
  private enum Case: Hashable {
    /// With all that is said of the chain: roots and lists may have been read anew since another connection asked.
    case trust(PoolKey, TrustReport)
    case identity(PoolKey, authorities: [[UInt8]])

    /// By the place alone, of which few cases are open at a time: the standard library hashes an array byte by byte, and a chain is long.
    func hash(into hasher: inout Hasher) {
      switch self {
      case .trust(let key, _), .identity(let key, _): hasher.combine(key)
      }
    }
  }

  private struct Open {
    var number: UInt64
    var waiting: [Connection]
  }

  private let decider: any TrustDecider
  private let core: EngineCore
  private var cases: [Case: Open] = [:]
  private var asked: UInt64 = 0

  init(_ decider: any TrustDecider, core: EngineCore) {
    self.decider = decider
    self.core = core
  }

  /// What a new connection's handshake stops for.
  var stops: (trust: Bool, identity: Bool) { (decider.decidesTrust, decider.choosesIdentity) }

  func askTrust(for connection: Connection, _ report: TrustReport) {
    let key = connection.key
    let item = Case.trust(key, report)
    guard let number = join(item, connection) else { return }
    let question = TrustQuestion(host: key.identity.serverName, port: key.identity.port, report: report)
    let (desk, loop) = (LoopConfined(self), core.loop)
    let confined = LoopConfined(Box(item))
    decider.decideTrust(question) { answer in
      loop.submit {
        let decision: TrustDecision =
          switch answer {
          case .useDefault: report.verdict.map(TrustDecision.reject) ?? .accept
          case .accept: .accept
          case .reject(let reason, let cause): .reject(.rejected(TrustRejection(reason: reason, cause: cause)))
          }
        for connection in desk.onLoop.leave(confined.onLoop.item, number) { connection.trustDecided(decision) }
      }
    }
  }

  func askIdentity(for connection: Connection, authorities: [[UInt8]]) {
    let key = connection.key
    let item = Case.identity(key, authorities: authorities)
    guard let number = join(item, connection) else { return }
    let question = IdentityQuestion(
      host: key.identity.serverName, port: key.identity.port, acceptableAuthorities: authorities)
    let (desk, loop, files) = (LoopConfined(self), core.loop, core.files)
    let confined = LoopConfined(Box(item))
    let settle: @Sendable (Result<TLSIdentityChoice, TLSError>) -> Void = { choice in
      loop.submit {
        for connection in desk.onLoop.leave(confined.onLoop.item, number) { connection.identityChosen(choice) }
      }
    }
    decider.chooseIdentity(question) { answer in
      switch answer {
      case .useDefault: settle(.success(.policy))
      case .none: settle(.success(.none))
      case .reject(let reason, let cause):
        settle(.failure(.identityRefused(TrustRejection(reason: reason, cause: cause))))
      case .identity(let identity):
        Self.prepare(identity, otherwise: files) { settle($0.map { .identity($0) }) }
      }
    }
  }

  /// Identities that are being read. One for the process, as files that hang keep one of its threads for each of them, however many connections ask.
  private static let identityReads = SingleFlight<TLSIdentity, Result<TLSPreparedIdentity, TLSError>>()

  /// Reads an identity, which may be in files, where nobody's bodies and downloads are read. Any thread; `body` is called on one of those threads.
  private static func prepare(
    _ identity: TLSIdentity, otherwise files: FileThreads,
    _ body: @escaping @Sendable (Result<TLSPreparedIdentity, TLSError>) -> Void
  ) {
    let threads = (try? Engine.processSmallFiles.get()) ?? files
    identityReads.work(for: identity, on: threads, body) { () throws(TLSError) in try TLSPreparedIdentity(identity) }
  }

  /// A number if the question has to be asked; nil if it is open already.
  private func join(_ item: Case, _ connection: Connection) -> UInt64? {
    var open = cases[item] ?? Open(number: 0, waiting: [])
    open.waiting.removeAll { !$0.isHandshakeHeld || $0.state != .handshaking }
    let isOpen = !open.waiting.isEmpty
    open.waiting.append(connection)
    if !isOpen {
      asked += 1
      open.number = asked
    }
    cases[item] = open
    return isOpen ? nil : asked
  }

  /// Who waits for this answer; nobody if it is a second one or comes too late.
  private func leave(_ item: Case, _ number: UInt64) -> [Connection] {
    guard let open = cases[item], open.number == number else { return [] }
    cases[item] = nil
    return open.waiting
  }

  /// A connection that waited is gone.
  func forget(_ connection: Connection) {
    for (item, open) in cases where open.waiting.contains(where: { $0 === connection }) {
      let rest = open.waiting.filter { $0 !== connection }
      cases[item] = rest.isEmpty ? nil : Open(number: open.number, waiting: rest)
    }
  }

  private final class Box {
    let item: Case

    init(_ item: Case) { self.item = item }
  }
}
