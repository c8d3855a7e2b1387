/// What a request is for: how routers are asked to treat its packets, by the DSCP in their headers (RFC 2474), which is set on the socket before it
/// connects.
///
/// Requests of different kinds do not share a connection. A network may ignore the mark, or clear it; nothing here depends on it. The values are those that
/// RFC 4594 and RFC 8622 recommend. Through a Unix-domain socket there is nothing to mark. Source: `NSURLRequest.NetworkServiceType`.
public enum NetworkServiceType: String, Sendable, Hashable, Codable, CaseIterable {
  /// What is not marked: best effort, DSCP 0.
  case `default`
  /// Setting up calls: CS5, 40.
  case callSignaling
  /// Calls (voice over IP): EF, 46.
  case voip
  /// Voice: EF, 46.
  case voice
  /// Video that somebody takes part in: AF41, 34.
  case video
  /// The same with sound: CS4, 32.
  case responsiveAV
  /// Video and sound that somebody watches: AF31, 26.
  case avStreaming
  /// Data that somebody waits for: AF21, 18.
  case responsiveData
  /// What may wait for everything else: LE, 1.
  case background

  /// The code point, 0 to 63.
  public var codePoint: UInt8 {
    switch self {
    case .default: 0
    case .callSignaling: 40
    case .voip, .voice: 46
    case .video: 34
    case .responsiveAV: 32
    case .avStreaming: 26
    case .responsiveData: 18
    case .background: 1
    }
  }
}
