public import Foundation
public import LupineSession
internal import LupineWire

/// A form with files, as `multipart/form-data` (RFC 7578), sent as it is read: files and streams are never held in memory.
///
/// A value: a copy that is changed leaves the other as it was. Any thread. Source: `AFMultipartFormData`.
///
/// Names and file names are written as the HTML standard says: UTF-8, with `"`, CR and LF as `%22`, `%0D` and `%0A`; NUL as `%00`. A media type
/// is written as it is, but for line ends and NUL, which are escaped in the same way; an empty one leaves Content-Type out.
public struct MultipartFormData: Sendable {
  /// Bytes of a packet that suit a slow mobile line. Source: `kAFUploadStream3GSuggestedPacketSize`.
  public static let suggestedPacketSize = 16_384
  /// The pause between such packets: 0.2 s. Source: `kAFUploadStream3GSuggestedDelay`.
  public static let suggestedDelay = Duration.milliseconds(200)

  struct Part: Sendable {
    var head: MultipartPartHead
    var content: Request.Body.Segment
  }

  struct Throttle: Sendable {
    var packetSize: Int
    var delay: Duration
  }

  private(set) var parts: [Part] = []
  private(set) var separator: MultipartBoundary
  private(set) var throttle: Throttle?

  /// An empty form, with a boundary of its own: `Boundary+` and 16 hexadecimal digits.
  public init() {
    separator = .random()
  }

  /// An empty form with a boundary of the caller's.
  ///
  /// - Parameter boundary: 1 to 70 of letters, digits, `'()+_,-./:=?` and space, the last one no space (RFC 2046 section 5.1.1); nil makes one.
  /// - Throws: `SerializationError` with `.invalidBoundary`.
  public init(boundary: String?) throws(SerializationError) {
    do throws(WireError) {
      separator = if let boundary { try MultipartBoundary(boundary) } else { .random() }
    } catch {
      throw SerializationError(
        .invalidBoundary,
        message: "no boundary of a multipart body (RFC 2046 5.1.1), at \(error.offset): \(boundary ?? "")",
        underlying: error)
    }
  }

  /// What separates the parts, as of now: when a part in memory that holds it is added, a boundary given by the caller included, another one
  /// takes its place.
  public var boundary: String { separator.text }

  /// Whether it has no part.
  public var isEmpty: Bool { parts.isEmpty }

  // MARK: Parts

  /// Adds a field: a part with no more than its name. Source: `appendPartWithFormData:name:`.
  public mutating func append(_ data: Data, name: String) {
    append(MultipartPartHead(name: name), .bytes([UInt8](data)))
  }

  /// Adds a file whose content is in memory. Source: `appendPartWithFileData:name:fileName:mimeType:`.
  public mutating func append(_ data: Data, name: String, fileName: String, mimeType: String) {
    append(MultipartPartHead(name: name, fileName: fileName, mediaType: mimeType), .bytes([UInt8](data)))
  }

  /// Adds a file whose content somebody else produces. Source: `appendPartWithInputStream:name:fileName:length:mimeType:`.
  ///
  /// - Parameters:
  ///   - makeStream: called once for each attempt to send the request, and for `write(to:)`.
  ///   - length: bytes of the content; a stream of another length fails the request (`SessionError.Code.requestBodyFailed`). Nil, or a negative
  ///     one: unknown, and the whole form is sent in chunks.
  ///   - isReplayable: whether `makeStream` may be called more than once. If not, the request can be neither repeated nor redirected with
  ///     its body.
  public mutating func append(
    stream makeStream: @escaping @Sendable () -> BodyStream, length: Int64?, isReplayable: Bool, name: String,
    fileName: String, mimeType: String
  ) {
    let length = length.flatMap { $0 < 0 ? nil : $0 }
    append(
      MultipartPartHead(name: name, fileName: fileName, mediaType: mimeType),
      .stream(length: length, isReplayable: isReplayable, makeStream: makeStream))
  }

  /// Adds a part with fields of the caller's, in their order and as they are. Source: `appendPartWithHeaders:body:`.
  ///
  /// - Throws: `SerializationError` with `.invalidPartHeader` for a name that is no token, or a value with control characters or with white
  ///   space at its ends; the form stays as it was.
  public mutating func append(headers: [(name: String, value: String)], body: Data) throws(SerializationError) {
    let head: MultipartPartHead
    do throws(WireError) {
      head = try MultipartPartHead(fields: headers)
    } catch {
      throw SerializationError(
        .invalidPartHeader, message: "a header of a part has a name or a value that cannot be sent: \(error.reason)",
        underlying: error)
    }
    append(head, .bytes([UInt8](body)))
  }

  mutating func append(_ head: MultipartPartHead, _ content: Request.Body.Segment) {
    let part = Part(head: head, content: content)
    parts.append(part)
    guard part.holds(separator) else { return }
    repeat { separator = .random() } while parts.contains { $0.holds(separator) }
  }

  /// Sends the form in packets of at most `packetSize` bytes, with a pause of `delay` after each, so that a slow line is left to others too.
  /// Source: `throttleBandwidthWithPacketSize:delay:`.
  ///
  /// - Parameters:
  ///   - packetSize: bytes, at least 1. See `suggestedPacketSize`.
  ///   - delay: see `suggestedDelay`. Zero or less: no pause.
  public mutating func throttleBandwidth(packetSize: Int, delay: Duration) {
    throttle = Throttle(packetSize: max(1, packetSize), delay: delay)
  }
}

extension MultipartFormData.Part {
  /// Whether the boundary is in what is known of the part: head, and content in memory.
  func holds(_ boundary: MultipartBoundary) -> Bool {
    if boundary.occurs(in: head.bytes.span) { return true }
    if case .bytes(let bytes) = content { return boundary.occurs(in: bytes.span) }
    return false
  }

  /// Nil: unknown.
  var contentLength: Int64? {
    switch content {
    case .bytes(let bytes): Int64(bytes.count)
    case .file(_, _, let length, _), .stream(let length, _, _): length
    }
  }
}
