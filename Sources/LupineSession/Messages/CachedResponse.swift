public import FoundationEssentials
internal import HTTPTypes
internal import LupineRules
internal import LupineWire

/// A complete response with its body, as it is kept to be used again.
public struct CachedResponse: Sendable {
  /// Status, fields and where it came from.
  public var response: Response
  /// The body, decoded.
  public var data: Data

  /// Makes one.
  public init(response: Response, data: Data) {
    self.response = response
    self.data = data
  }

  /// Larger bodies are not offered for storing: 16 MiB.
  public static let maximumSize = 16 << 20

  /// Whether a private cache may store it at all (RFC 9111 3): a complete answer to GET whose neither side says `no-store`, and that is not
  /// part of something larger.
  static func mayBeStored(_ response: Response, to request: Request) -> Bool {
    guard request.method == .get, response.statusCode == 200 else { return false }
    return !CacheDirectives(request.fields[values: .cacheControl]).noStore
      && !CacheDirectives(response.head.fields.values(named: "cache-control")).noStore
  }
}

/// Where complete responses are kept; see `SessionConfiguration.responseStore`.
public protocol ResponseStore: Sendable {
  /// Keeps a response to a request. Called on the session's delegate queue; must not wait.
  func store(_ response: CachedResponse, for request: Request)
}
