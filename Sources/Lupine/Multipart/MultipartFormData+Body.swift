internal import Foundation
public import LupineSession
internal import LupineWire

extension MultipartFormData {
  /// The media type with the boundary, as of now.
  public var contentType: String { "multipart/form-data; boundary=\(separator.parameterValue)" }

  /// Bytes of the whole form, delimiters included; 0 of an empty one. Nil if the length of a stream is unknown, or the sum above 2⁶³ - 1.
  public var contentLength: Int64? {
    var sizes: [(head: MultipartPartHead, contentLength: Int64)] = []
    sizes.reserveCapacity(parts.count)
    for part in parts {
      guard let length = part.contentLength else { return nil }
      sizes.append((part.head, length))
    }
    return try? MultipartEncoder.length(of: sizes, boundary: separator)
  }

  /// The form as the body of a request. Its length is announced if `contentLength` is known; it can be replayed, after a redirect or a
  /// challenge, if every part can. A file that has not the size any more that it had when it was added fails the request with
  /// `SessionError.Code.fileChanged` before it is complete. An empty form has no bytes.
  public var body: Request.Body {
    let segments = segments
    let body: Request.Body
    if segments.isEmpty {
      body = .bytes([])
    } else if segments.count == 1, case .bytes(let bytes) = segments[0] {
      body = .bytes(bytes)
    } else {
      body = .segments(segments)
    }
    guard let throttle else { return body }
    return .stream(length: contentLength, isReplayable: body.isReplayable) {
      body.makeStream().paced(packetSize: throttle.packetSize, delay: throttle.delay)
    }
  }

  /// Makes the form the body of a request, with its Content-Type; the length is announced when the request is sent. `Content-Length`, `Content-Encoding`
  /// and `Transfer-Encoding` of the body before go. The method stays: it is GET unless another one was set. An empty form leaves the request as it is, as in
  /// AFNetworking.
  public func apply(to request: inout Request) {
    guard !isEmpty else { return }
    request.fields[.contentType] = contentType
    request.fields[.contentLength] = nil
    request.fields[.contentEncoding] = nil
    request.fields[.transferEncoding] = nil
    request.body = body
  }

  /// Writes the form into a new file, to be sent from there as often as needed (`Request.Body.file` with the Content-Type of this form); the
  /// pauses of `throttleBandwidth` are left out. Source: `requestWithMultipartFormRequest:writingStreamContentsToFile:completionHandler:`.
  ///
  /// - Parameter path: must not exist; the file can be read by its owner only (0600). It is removed again if the form cannot be written in full.
  /// - Throws: `SessionError`: `.fileFailed`, `.fileChanged`, or `.requestBodyFailed` when a stream throws or has another length than announced.
  public func write(to path: String) async throws {
    try await Request.Body.segments(segments).write(to: path)
  }

  /// Content in memory up to this size goes into one piece with the delimiters around it.
  private static let joinedSize = 64 * 1024

  private var segments: [Request.Body.Segment] {
    guard !isEmpty else { return [] }
    var segments: [Request.Body.Segment] = []
    var pending: [UInt8] = []
    for (index, part) in parts.enumerated() {
      MultipartEncoder.opening(of: part.head, isFirst: index == 0, boundary: separator, into: &pending)
      if case .bytes(let bytes) = part.content, bytes.count <= Self.joinedSize {
        pending += bytes
      } else {
        segments.append(.bytes(pending))
        segments.append(part.content)
        pending = []
      }
    }
    MultipartEncoder.end(boundary: separator, into: &pending)
    segments.append(.bytes(pending))
    return segments
  }
}
