/// Deviations from RFC 9112 that the response parser can be told to tolerate, one switch each. None is on by default.
///
/// Each switch says what it tolerates and why somebody may need it. None of them tolerates NUL, a bare CR, a name that is not a
/// token, or a malformed or contradictory Content-Length: no peer worth talking to needs those, and each has been used to make two
/// readers disagree about where a message ends.
///
/// What a switch tolerates may end elsewhere for another reader: a proxy that reads so hands us bytes of one server as the answer of the next.
/// After a response that needed such a switch the connection is not reused (``CloseReason/ambiguousFraming``); one that did not need it leaves
/// the connection as it is. So do ``controlBytesInValues``, ``statusCodesAbove599`` and ``whitespaceAfterChunkSize``: whoever accepts what
/// they tolerate finds the same end.
public struct WireLeniency: OptionSet, Sendable, Hashable {
  /// One bit a switch.
  public var rawValue: UInt32

  /// The switches whose bits are set.
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// LF alone ends a line of the head or of the trailers; the connection is not reused. RFC 9112 section 2.2 lets a recipient do so; small
  /// embedded servers and old CGI scripts need it.
  public static let bareLineFeed = WireLeniency(rawValue: 1 << 0)

  /// LF alone ends a chunk line and chunk data; the connection is not reused. Kept apart from ``bareLineFeed`` because RFC 9112 allows it
  /// for heads only and because readers that differ here were exploited (CVE-2025-22871).
  public static let bareLineFeedInChunks = WireLeniency(rawValue: 1 << 1)

  /// A field line may continue on the next one that starts with white space (RFC 9112 section 5.2); the line end becomes two
  /// spaces, and the connection is not reused. Old mail gateways and some application servers still fold long values.
  public static let obsoleteLineFolding = WireLeniency(rawValue: 1 << 2)

  /// White space between field name and colon is dropped, as RFC 9112 section 5.1 tells a proxy to do with responses; the connection is
  /// not reused.
  public static let spaceBeforeColon = WireLeniency(rawValue: 1 << 3)

  /// Control bytes other than NUL, CR and LF may stand in field values and in the reason phrase. Servers that copy user data into
  /// fields unencoded need it.
  public static let controlBytesInValues = WireLeniency(rawValue: 1 << 4)

  /// Empty lines before the status line are skipped; they count towards the status line's limit, and the connection is not reused. Servers
  /// that end the previous body with a line end too many need it.
  public static let leadingEmptyLines = WireLeniency(rawValue: 1 << 5)

  /// Status codes 600 to 999 are accepted. RFC 9110 section 15 calls them invalid; a few sites send 999 to robots.
  public static let statusCodesAbove599 = WireLeniency(rawValue: 1 << 6)

  /// White space may follow the chunk size where no extension follows it. Apache 1.3 padded its sizes with spaces.
  public static let whitespaceAfterChunkSize = WireLeniency(rawValue: 1 << 7)

  /// Transfer-Encoding wins over a Content-Length in the same head, as RFC 9112 section 6.3 allows; the connection is not reused.
  public static let contentLengthWithTransferEncoding = WireLeniency(rawValue: 1 << 8)

  /// Transfer-Encoding is honoured in an HTTP/1.0 response; the connection is not reused.
  public static let transferEncodingOnHTTP10 = WireLeniency(rawValue: 1 << 9)
}
