/// Writes chunked bodies (RFC 9112 section 7.1). The data itself is the caller's to write, so that it need not be copied:
/// ``header(_:into:)``, the data, ``lineEnd``, and so on, at last ``end(trailers:into:)``.
public enum ChunkEncoder {
  /// What follows the data of every chunk.
  public static let lineEnd: [UInt8] = [0x0D, 0x0A]

  /// Appends the line before the data of a chunk.
  ///
  /// - Parameter size: bytes of data, at least 1: a chunk of 0 bytes would end the body.
  /// - Throws: ``WireError`` with `lengthMismatch`.
  public static func header(_ size: Int, into output: inout [UInt8]) throws(WireError) {
    guard size > 0 else { throw WireError(.lengthMismatch, at: 0) }
    RequestEncoder.append(String(size, radix: 16), &output)
    output.append(contentsOf: lineEnd)
  }

  /// Appends the last chunk, the trailers and the empty line that ends the body. Appends nothing if it throws.
  ///
  /// - Throws: ``WireError`` with `invalidTrailerField` for a name in ``ForbiddenTrailers``, `invalidFieldName` or
  ///   `invalidFieldValue`.
  public static func end(
    trailers: some Sequence<(name: String, value: String)> = [], into output: inout [UInt8]
  ) throws(WireError) {
    let start = output.count
    do throws(WireError) {
      RequestEncoder.append("0\r\n", &output)
      for (name, value) in trailers {
        let lowercase = name.lowercased()
        if ForbiddenTrailers.refused.contains(lowercase) || ForbiddenTrailers.dropped.contains(lowercase) {
          throw WireError(.invalidTrailerField, at: 0)
        }
        try RequestEncoder.field(name, value, &output)
      }
      output.append(contentsOf: lineEnd)
    } catch {
      output.removeSubrange(start...)
      throw error
    }
  }
}
