internal import LupineBase
internal import LupineEngine
internal import LupineIO
internal import LupineSimulation
internal import LupineWire

/// Oracle: whatever a server says, however it is split, delayed or cut off: every request completes exactly once, at the latest when its
/// deadlines have passed; what it is given is what `ResponseParser` reads in the bytes that were sent after it, and nothing of what was
/// sent before; a connection is used again only if its last response ended cleanly, with not a byte after it; nothing but an idempotent
/// request is sent twice; no descriptor, timer or buffer is left.
///
/// The first byte chooses how many requests there are, the limits and the deadlines; then comes a byte for each request, and then what the
/// server does: it sends the bytes as they are, but for those from 0xF0 on, which are `Verb`s.
package enum ClientConnectionFuzz {
  /// What the server does besides sending.
  enum Verb: UInt8 {
    /// What was written so far goes out, and the client looks at it.
    case flush = 0xF0
    /// The same, and 20 ms, 1 s or 61 s pass.
    case shortWait, wait, longWait
    case halfClose
    /// With bytes unread this is a reset.
    case close
    case stopReading, goOnReading
    /// The following goes to the newest connection, or to the next one.
    case newest, next
    case cancel, resume, pause
    /// 64 bytes of `x`, so many times as the next byte says.
    case filler
    case refuse
    /// The next byte is sent, whatever it is.
    case literal
  }

  /// One engine for all runs: what one leaves behind would be seen in the next, and is looked for at the end of each.
  private static let shared = Locked<LoopConfined<Bench>?>(nil)

  package static func run(bytes: [UInt8]) {
    shared.withLock { shared in
      let bench = shared ?? LoopConfined(Bench())
      shared = bench
      bench.onLoop.run(bytes)
    }
  }

  /// The engine, and what connects its requests to the servers of the run.
  final class Bench {
    private(set) var run: ConnectionRun?

    private lazy var engine: DrivenEngine = {
      let world = DrivenWorld { [unowned self] _ throws(IOError) in
        guard let run else { throw .refused }
        return try run.connect()
      }
      do throws(IOError) {
        return try DrivenEngine(world: world, resolver: LoopbackOnly())
      } catch {
        preconditionFailure("no engine: \(error)")
      }
    }()

    func run(_ bytes: [UInt8]) {
      guard let options = bytes.first else { return }
      let count = 1 + Int(options & 3)
      guard bytes.count > count else { return }
      engine.adoptCurrentThread()
      let run = ConnectionRun(engine, options: options, requests: bytes[1...count])
      self.run = run
      run.play(bytes[(count + 1)...])
      self.run = nil
    }
  }

  private struct LoopbackOnly: HostResolver {
    func immediateAnswer(host: String, port: UInt16) -> Result<[SocketAddress], ResolveError>? {
      .success([.v4(.loopback, port: port)])
    }

    func resolve(
      host: String, port: UInt16, completion: @escaping @Sendable (Result<[SocketAddress], ResolveError>) -> Void
    ) -> ResolveToken {
      preconditionFailure("every answer is immediate")
    }
  }
}
