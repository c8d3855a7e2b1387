internal import HTTPTypes
internal import LupineEngine
internal import LupineRules

extension Request {
  /// A content coding that a body can be sent in (RFC 9110 section 8.4.1).
  public enum ContentCoding: String, Sendable, Hashable, CaseIterable {
    /// RFC 1952. What servers that take a coded body at all are most likely to know.
    case gzip
    /// The zlib format, RFC 1950.
    case deflate
  }

  /// Compresses the body, and says so in `Content-Encoding`, behind the codings that are named there already. Not every server takes such a body; one that
  /// does not may answer 415 (RFC 9110 section 15.5.16).
  ///
  /// The request keeps the compressed bytes: their number is its `Content-Length`, and redirects and challenges have the same sent again. Nothing is held
  /// against its size, so that small bodies may grow. Call it once, when the body is made, and before anything that hashes or signs it; called again it
  /// compresses again, and whoever gives the request another body takes `Content-Encoding` off. Takes about 30 ms for each MiB (zlib, level 6), on the thread that calls. Without a body, or with an empty one, it does nothing.
  ///
  /// - Throws: `SessionError` `.badRequest` for a body that is not in memory: a file, a stream, the segments of a form. The request is as it was then.
  ///   `.system` if there is no memory.
  ///
  /// Source: Alamofire's `DeflateRequestCompressor`.
  public mutating func compressBody(_ coding: ContentCoding = .gzip) throws(SessionError) {
    let bytes: [UInt8]
    switch body {
    case .none: return
    case .bytes(let plain): bytes = plain
    case .file, .stream, .segments:
      throw SessionError(
        .badRequest, phase: .prepare, message: "only a body of bytes in memory can be compressed", failingURL: urlString
      )
    }
    guard !bytes.isEmpty else { return }
    guard let encoded = Deflater.encode(bytes.span, coding == .gzip ? .gzip : .deflate) else {
      throw SessionError(
        .system, phase: .prepare, message: "there is no memory to compress the body", failingURL: urlString)
    }
    body = .bytes(encoded)
    // As it was for the plain body it would break the message's framing; without one it is made from the body.
    fields[.contentLength] = nil
    let before = fields[.contentEncoding].map { "\($0), " } ?? ""
    fields[.contentEncoding] = before + coding.rawValue
  }
}
