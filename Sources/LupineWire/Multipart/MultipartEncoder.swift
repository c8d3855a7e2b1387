/// Writes what stands around the contents of a multipart body (RFC 2046 section 5.1.1): no preamble, no epilogue.
///
/// A body is, for each part, ``opening(of:isFirst:boundary:into:)`` and the part's content, and at last ``end(boundary:into:)``. The contents
/// are the caller's to write, so that they need not be copied; that the boundary occurs in none of them is the caller's to see to.
public enum MultipartEncoder {
  /// Appends the delimiter before a part, and its head.
  public static func opening(
    of head: MultipartPartHead, isFirst: Bool, boundary: MultipartBoundary, into output: inout [UInt8]
  ) {
    RequestEncoder.append(isFirst ? "--" : "\r\n--", &output)
    RequestEncoder.append(boundary.text, &output)
    RequestEncoder.append("\r\n", &output)
    output.append(contentsOf: head.bytes)
  }

  /// Appends the delimiter after the last part.
  public static func end(boundary: MultipartBoundary, into output: inout [UInt8]) {
    RequestEncoder.append("\r\n--", &output)
    RequestEncoder.append(boundary.text, &output)
    RequestEncoder.append("--\r\n", &output)
  }

  /// The length of a body without writing it; 0 of one without parts, which is no multipart body.
  ///
  /// - Parameter parts: the head and the length of the content of each part.
  /// - Throws: ``WireError`` with `lengthMismatch` for a negative length, `lengthTooLarge` for a sum above 2⁶³ - 1; the offset is the number of
  ///   parts before.
  public static func length(
    of parts: some Sequence<(head: MultipartPartHead, contentLength: Int64)>, boundary: MultipartBoundary
  ) throws(WireError) -> Int64 {
    var total: Int64 = 0
    var count = 0
    // "--" and CR LF; later ones have a CR LF before.
    let delimiter = boundary.text.utf8.count + 4
    for (head, contentLength) in parts {
      guard contentLength >= 0 else { throw WireError(.lengthMismatch, at: count) }
      try add(Int64(delimiter + (count == 0 ? 0 : 2) + head.bytes.count), to: &total, count)
      try add(contentLength, to: &total, count)
      count += 1
    }
    if count > 0 { try add(Int64(delimiter + 4), to: &total, count) }
    return total
  }

  private static func add(_ length: Int64, to total: inout Int64, _ part: Int) throws(WireError) {
    let (sum, isTooLarge) = total.addingReportingOverflow(length)
    guard !isTooLarge else { throw WireError(.lengthTooLarge, at: part) }
    total = sum
  }
}
