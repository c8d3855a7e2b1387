internal import LupineBase
internal import LupineIO

/// Probes of connections on which nothing moves (RFC 9293 3.8.4), by the kernel: for responses that take long to begin, behind a router or
/// firewall that forgets silent connections, and to notice a peer that is gone without a word.
///
/// A connection whose probes remain unanswered breaks, and its request fails with a system error or is repeated, as after any other break. Times are
/// rounded up to seconds, from 1 to 32,767, and probes are 1 to 127: what Linux takes. A proxy answers for itself. Unix-domain sockets have none.
public struct TCPKeepAlive: Hashable, Sendable {
  /// Silence until the first probe. Default 60 s.
  public var idleTime: Duration
  /// Between probes. Default 15 s.
  public var interval: Duration
  /// Probes in a row without an answer until the connection breaks. Default 4.
  public var probes: Int

  /// As given, or the defaults.
  public init(idleTime: Duration = .seconds(60), interval: Duration = .seconds(15), probes: Int = 4) {
    self.idleTime = idleTime
    self.interval = interval
    self.probes = probes
  }

  /// What is set on sockets.
  var options: SocketOptions.KeepAlive {
    SocketOptions.KeepAlive(
      idleSeconds: Self.seconds(idleTime), intervalSeconds: Self.seconds(interval),
      probes: Int32(min(max(probes, 1), 127)))
  }

  private static func seconds(_ duration: Duration) -> Int32 {
    let nanoseconds = duration.saturatedNanoseconds
    return Int32(min(max(nanoseconds / 1_000_000_000 + (nanoseconds % 1_000_000_000 > 0 ? 1 : 0), 1), 32_767))
  }
}
