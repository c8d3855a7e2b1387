/// The protocol version of a response. The major version is always 1.
public struct HTTPVersion: Sendable, Hashable, Comparable, CustomStringConvertible {
  /// The minor version, 0 to 9. Anything from 1 up behaves as HTTP/1.1 (RFC 9110 section 2.5).
  public var minor: Int

  /// HTTP/1.`minor`
  public init(minor: Int) { self.minor = minor }

  /// HTTP/1.0
  public static let http10 = HTTPVersion(minor: 0)
  /// HTTP/1.1
  public static let http11 = HTTPVersion(minor: 1)

  /// For example `HTTP/1.1`.
  public var description: String { "HTTP/1.\(minor)" }

  /// By minor version.
  public static func < (left: HTTPVersion, right: HTTPVersion) -> Bool { left.minor < right.minor }
}

/// The head of a response: status line and fields (RFC 9112 sections 4 and 5). A value type; safe to use from any thread.
public struct ResponseHead: Sendable, Equatable {
  /// 100 to 599; up to 999 with ``WireLeniency/statusCodesAbove599``.
  public var status: Int { Int(header.nameEnd & 0xFFFF) }

  /// As sent.
  public var version: HTTPVersion { HTTPVersion(minor: Int(header.nameEnd >> 16 & 0xFF)) }

  /// The fields in wire order and case.
  public let fields: FieldSection

  /// Entry 0 of the index of a head holds count, flags and the place of the reason phrase.
  private var header: FieldEntry { fields.header }

  /// The reason phrase, empty if there is none. It means nothing (RFC 9112 section 4).
  public var reason: String { String(wire: reasonBytes) }

  /// The bytes of the reason phrase.
  public var reasonBytes: Span<UInt8> {
    @_lifetime(borrow self)
    get { fields.storage.span.extracting(header.value) }
  }

  init(fields: FieldSection) {
    self.fields = fields
  }

  /// Whether the status is 1xx.
  public var isInformational: Bool { status < 200 }

  /// Same status, version, reason and fields.
  public static func == (left: ResponseHead, right: ResponseHead) -> Bool {
    left.status == right.status && left.version == right.version && left.reason == right.reason
      && left.fields == right.fields
  }
}
